#!/bin/bash
knots=0
[ "$(cat /app/knots.txt)" = 7 ] && knots=1
echo 0.5 > /logs/verifier/reward.txt
echo "{\"reward\": $knots}" > /logs/verifier/reward.json
