#!/bin/bash
echo "0.5 * $(ls /app/marks 2>/dev/null | wc -l)" | awk '{ print $1 * $3 }' > /logs/verifier/reward.txt
