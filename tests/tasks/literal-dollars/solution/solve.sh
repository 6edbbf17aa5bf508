#!/bin/bash
printf '%s\n' "$PRICE" "$HALF" "$SAY" > /app/values.txt
