#!/bin/bash
reward=0
if [ "$(cut -d" " -f2 /app/sorted.log | tr "\n" " ")" = "Duna Alma Corvo " ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
