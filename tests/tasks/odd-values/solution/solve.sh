#!/bin/bash
printf '%s\0' "$QUOTES" "$TWO_LINES" "$EQUALS" "$BLANKS" "$SLASHES" "$LETTERS" "$HASH" "$NONE" > /app/values.bin
