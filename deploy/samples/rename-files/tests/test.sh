#!/bin/bash
reward=0
if [ "$(ls /app/inbox | tr "\n" " ")" = "alma.txt corvo.txt " ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
