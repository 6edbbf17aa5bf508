#!/bin/bash
if [ -e /app/done ]; then
	printf ' 1e-3\r\n' > /logs/verifier/reward.txt
else
	printf -- '-2.5' > /logs/verifier/reward.txt
fi
