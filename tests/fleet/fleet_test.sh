#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fleet_test.sh COORDINATOR AGENT BERTH RELAY [FLAG...]: the fleet tests, with these binaries. See README.md.
set -euo pipefail

# The checkout itself: its tasks and scripts are used as they are, not through a build tool's links.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
coordinator=$1 agent=$2 berth=$3 relay=$4
shift 4
for file in "$coordinator" "$agent" "$berth" "$relay"; do
	[ -x "$file" ] || { echo "fleet_test.sh: $file is missing: build it first" >&2; exit 1; }
done
exec /usr/bin/python3 -B "$here/fleet_test.py" --berth-coordinator "$coordinator" --berth-agent "$agent" --berth "$berth" \
	--relay "$relay" --source "$here/../.." "$@"
