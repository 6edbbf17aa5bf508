#!/bin/bash
printf '%s\n' "$QUAY" "$BERTH_JUDGE" > /app/values.txt
