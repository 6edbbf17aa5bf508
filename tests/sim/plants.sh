#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/sim/plants.sh [--seeds N] [PLANT...]
# Builds the simulation with each planted bug (tests/sim/plants/*.patch) and tells the first seed of 1 to N (2,000) that
# finds it, as a row of the table in docs/SIMULATION.md. Ends with N passed, N failed: found and not found.
# BAZEL may name another command, such as "bazel --output_base=DIR".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

seeds=2000 plants=()
while [ $# -gt 0 ]; do
	case $1 in
	--seeds) seeds=$2; shift ;;
	-h | --help) sed -n '3,7s/^# //p' "$0"; exit 0 ;;
	*) plants+=("$1") ;;
	esac
	shift
done
[ ${#plants[@]} -gt 0 ] || mapfile -t plants < <(basename -s .patch tests/sim/plants/*.patch)

mapfile -t targets < <(printf '//tests/sim:plant_%s\n' "${plants[@]}")
${BAZEL:-bazel} build --keep_going --color=no --curses=no --noshow_progress "${targets[@]}" || exit 1
found=0 missed=0
for plant in "${plants[@]}"; do
	broken=$("out/bin/tests/sim/plant_$plant" --seeds "1..$seeds" --first 2> /dev/null | grep -a -m1 '^seed ')
	if [ -n "$broken" ]; then
		found=$((found + 1))
		printf '| `%s` | %s | %s | %s |\n' "$plant" "$(head -n1 "tests/sim/plants/$plant.patch")" \
			"$(sed 's/^seed \([0-9]*\) .*/\1/' <<< "$broken")" "$(sed 's/^seed [0-9]* breaks //' <<< "$broken" | cut -c1-100)"
	else
		missed=$((missed + 1))
		printf '| `%s` | %s | not in %s | |\n' "$plant" "$(head -n1 "tests/sim/plants/$plant.patch")" "$seeds"
	fi
done
echo "$found passed, $missed failed"
[ "$missed" = 0 ] && [ "$found" -gt 0 ]
