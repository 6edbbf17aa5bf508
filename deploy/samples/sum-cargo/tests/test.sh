#!/bin/bash
reward=0
if [ "$(cat /app/total.txt)" = 470 ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
