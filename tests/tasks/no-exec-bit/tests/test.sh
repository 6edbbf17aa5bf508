#!/bin/bash
if [ "$(cat /app/state.txt)" = ready ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
