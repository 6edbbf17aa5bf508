#!/bin/bash
if [ -e /app/done ] && [ "$(cat /tests/baked.txt)" = baked ] && [ "$(cat /tests/both.txt)" = uploaded ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
