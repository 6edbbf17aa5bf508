#!/bin/bash
set -euo pipefail
nohup python3 -m http.server 8099 --bind 127.0.0.1 --directory board > /tmp/server.log 2>&1 &
for _ in $(seq 50); do
	curl -fsS -o /dev/null http://127.0.0.1:8099/notice.txt && exit 0
	sleep 0.1
done
exit 1
