#!/bin/bash
if [ "$(cat /app/out/me.txt)" = 4321:0 ] && [ "$(stat -c %u /app/out/me.txt)" = 4321 ] && [ "$(id -u)" = 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
