#!/bin/bash
if [ "$(cat /app/out/deep/b.txt)" = b.txt ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
