#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every test that docs/ACCEPTANCE.md and docs/SIMULATION.md name is there and runs; every hazard and every fault has a
# row, and every test that is named after a hazard is in one.
set -uo pipefail
root=$(dirname "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")")
page=$root/docs/ACCEPTANCE.md
simulation=$root/docs/SIMULATION.md
wrong=0
complain() {
	echo "docs: $*"
	wrong=$((wrong + 1))
}

named=0
while IFS=: read -r file test; do
	named=$((named + 1))
	source=$root/tests/$file.c
	if [ ! -f "$source" ]; then
		complain "$file:$test: there is no tests/$file.c"
	elif [ -z "$test" ]; then
		continue # the whole file
	elif ! grep -q "^static void $test(void \*\*state)" "$source"; then
		complain "$file:$test: tests/$file.c has no such test"
	elif [ "$(grep -cw "$test" "$source")" -lt 2 ]; then
		complain "$file:$test: it is in no list of tests, so it never runs"
	fi
done < <(grep -ohE '`[a-z0-9_/]+/[a-z0-9_]+_test(:[a-z0-9_]+)?`' "$page" "$simulation" | tr -d '`' | sort -u)

for hazard in X{1..12} H{1..18}; do
	grep -q "^| $hazard |" "$page" || complain "hazard $hazard has no row"
done

for fault in F{1..34}; do
	grep -Eq "^\| (F[0-9]+, )*$fault[,: ]" "$simulation" || complain "fault $fault has no row"
done

while read -r test; do
	grep -q ":$test\`" "$page" || complain "$test is named after a hazard and in no row"
done < <(grep -rhoE '^static void [xhw][0-9]+_[a-z0-9_]+\(void \*\*state' "$root/tests" --include='*_test.c' | sed 's/.* //; s/(.*//')

echo "$named tests are named"
echo "$named passed, $wrong failed, 0 skipped"
[ "$wrong" = 0 ] && [ "$named" -ge 80 ]
