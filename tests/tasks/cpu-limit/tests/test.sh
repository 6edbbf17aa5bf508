#!/bin/bash
limit=$(cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2>/dev/null | tr '\n' ' ' | awk '{ print $1 / $2 }')
echo "limit: $limit"
reached=0 answered=0
[ "$limit" = 1 ] && reached=1
[ -e /app/done ] && answered=1
printf '{"reward": %d, "limit": %d}\n' "$((reached && answered))" "$reached" > /logs/verifier/reward.json
