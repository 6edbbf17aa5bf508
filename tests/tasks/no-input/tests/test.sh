#!/bin/bash
typed=$(wc -c)
if [ "$(cat /app/size.txt)" = 0 ] && [ "$typed" = 0 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
