#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# crash.sh COORDINATOR AGENT BERTH PILOT PRELOAD VERB [FLAG...]: the crash tests, with these binaries.
#   points | faults | random-kills | random-agents   a campaign, which goes on where the results end (see --help of each)
#   table                                            what the results say, into docs/CRASH.md
#   test                                             a sample of everything, as CI runs it
set -uo pipefail

# The checkout itself: results are kept there, not behind a build tool's links.
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
programs=()
for program in coordinator agent berth pilot preload; do
	[ -r "$1" ] || { echo "crash.sh: $1 is missing: build it first" >&2; exit 1; }
	programs+=("--$program" "$(readlink -f "$1")")
	shift
done
verb=${1:-}
shift || true

campaign() { # SCRIPT [FLAG...]
	/usr/bin/python3 -B "$here/$1.py" "${programs[@]}" "${@:2}"
}

passed=0 failed=0 skipped=0
expect() { # SCRIPT [FLAG...]
	echo "== $*"
	if campaign "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

sample() {
	local results engine=${BERTH_TEST_DOCKER_HOST:-}
	# A sanitizer wants to be the first library of a process, and so does ours.
	if grep -q -a -E '__(asan|tsan)_init' "${programs[1]}"; then
		echo 'skipped: nothing is preloaded below a program with a sanitizer'
		echo '0 passed, 0 failed, 1 skipped'
		return
	fi
	results=$(mktemp -d "${TEST_TMPDIR:-/tmp}/crash-XXXXXX")
	expect points --results "$results" --sample 10 --jobs 2 --seed "${BERTH_CRASH_SEED:-$RANDOM}"
	expect random_kills --results "$results/random-kills.tsv" --kills 40 --seconds 60
	expect faults --results "$results" --every 15
	if [ "$(id -u)" = 0 ]; then expect full_disk; else skipped=$((skipped + 1)) && echo 'skipped: full_disk needs root'; fi
	if [ -n "$engine" ]; then
		expect points --results "$results" --scenario agent-start --scenario agent-recovery --sample 2 --docker "$engine"
	else
		skipped=$((skipped + 1)) && echo 'skipped: no Engine was started for agents'
	fi
	rm -rf "$results"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}

case $verb in
	points | faults) campaign "$verb" --results "$here/results" "$@" ;;
	random-kills) campaign random_kills --results "$here/results/random-kills.tsv" "$@" ;;
	random-agents) campaign random_agents --results "$here/results/random-kills.tsv" "$@" ;;
	table) /usr/bin/python3 -B "$here/table.py" "$here/results" "$here/../../docs/CRASH.md" ;;
	test) sample ;;
	*) sed -n '3,6s/^# //p' "$here/crash.sh" >&2; exit 2 ;;
esac
