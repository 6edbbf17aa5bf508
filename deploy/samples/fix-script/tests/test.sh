#!/bin/bash
reward=0
if [ "$(bash /app/tide.sh)" = "high water 06:12" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
