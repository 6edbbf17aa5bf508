#!/bin/bash
limit=$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null | head -n 1)
echo "limit: $limit"
reached=0 answered=0
[ "$limit" = 201326592 ] && reached=1
[ -e /app/done ] && answered=1
printf '{"reward": %d, "limit": %d}\n' "$((reached && answered))" "$reached" > /logs/verifier/reward.json
