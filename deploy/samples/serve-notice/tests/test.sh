#!/bin/bash
reward=0
if [ "$(curl -fsS --max-time 5 http://127.0.0.1:8099/notice.txt)" = "berth 4 closed" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
