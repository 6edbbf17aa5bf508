#!/bin/bash
if [ -e /app/draft ]; then
	echo '{"reward": 1, "style": 0}'
else
	echo '{"reward": 0, "style": 1}'
fi > /logs/verifier/reward.json
