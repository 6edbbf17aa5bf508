#!/bin/bash
reward=0
if [ "$(cat /app/found.txt)" = logbook/1912/march.txt ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
