#!/bin/bash
if [ "$(cat /app/word.txt)" = Write ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
