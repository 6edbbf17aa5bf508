#!/bin/bash
reward=0
if [ "$(cat /app/hello.txt)" = 'Hello, harbor!' ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
