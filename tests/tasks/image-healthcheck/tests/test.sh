#!/bin/bash
if [ "$(cat /app/state.txt)" = open ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
