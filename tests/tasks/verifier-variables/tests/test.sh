#!/bin/bash
if [ "$(cat /app/values.txt)" = south ] && [ "$QUAY" = north ] && [ "$BERTH_JUDGE" = yes ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
