#!/bin/bash
if [ -e /app/done ]; then
	echo 1_0 > /logs/verifier/reward.txt
else
	printf '\302\240\331\243.5\302\240' > /logs/verifier/reward.txt
fi
