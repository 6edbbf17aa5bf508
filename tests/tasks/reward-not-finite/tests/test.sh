#!/bin/bash
if [ -e /app/done ]; then
	echo nan > /logs/verifier/reward.txt
else
	echo '{"reward": Infinity}' > /logs/verifier/reward.json
fi
