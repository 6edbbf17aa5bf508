#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/run.sh [--config asan|tsan] [--no-docker] [--no-fuzz] [--fuzz-seconds N] [TARGET...]
# Builds and runs every test (or the given Bazel targets) and ends in one line: N passed, N failed, N skipped.
# It installs what is missing, and starts an Engine of its own for the Docker tests and stops it again.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

config= docker=1 fuzz=1 fuzz_seconds=180
targets=()
while [ $# -gt 0 ]; do
	case $1 in
	--config) config=$2; shift ;;
	--no-docker) docker=0 ;;
	--no-fuzz) fuzz=0 ;;
	--fuzz-seconds) fuzz_seconds=$2; shift ;;
	-h | --help) sed -n '3,5s/^# //p' "$0"; exit 0 ;;
	-*) echo "run.sh: unknown flag $1 (see --help)" >&2; exit 2 ;;
	*) targets+=("$1") ;;
	esac
	shift
done
[ ${#targets[@]} -gt 0 ] && fuzz=0 || targets=(//tests/...)

passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/berth-tests-XXXXXX")
engine=$work/engine
finish() {
	[ "$docker" = 1 ] && deploy/test-engine.sh stop "$engine" > /dev/null 2>&1
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n== %s\n' "$*"; }
give_up() {
	echo "run.sh: $*" >&2
	echo "$passed passed, $((failed + 1)) failed, $skipped skipped"
	exit 1
}

say 'packages'
deploy/install-packages.sh build run test || give_up 'packages could not be installed'

bazel=(bazel)
flags=(--color=no --curses=no --noshow_progress)
[ -n "$config" ] && flags+=("--config=$config")

say 'build'
SECONDS=0
"${bazel[@]}" build "${flags[@]}" //... || give_up 'the build failed'
echo "built in $SECONDS s"

if [ "$docker" = 1 ]; then
	say 'Engine'
	SECONDS=0
	if deploy/test-engine.sh start "$engine" > "$work/engine.log" 2>&1 &&
		DOCKER_HOST=unix://$engine/docker.sock deploy/base-image.sh debian:bookworm-slim berth-sample-base; then
		flags+=("--test_env=BERTH_TEST_DOCKER_HOST=unix://$engine/docker.sock")
		echo "Engine and base image in $SECONDS s"
	else
		cat "$work/engine.log"
		[ "${CI:-}" = true ] && give_up 'no Engine could be started, and in CI its tests are not skipped'
		echo 'no Engine could be started: its tests are skipped by name'
	fi
fi

# Counts of one test log: cmocka's closing lines (each group has its own) and the plain closing line of other runners.
count_log() {
	awk '
	/^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += $4 }
	/^\[  FAILED  \] [0-9]+ test\(s\)/ { failed += $4 }
	/^\[  SKIPPED \] [0-9]+ test\(s\)/ { skipped += $4 }
	/^([a-z-]+: )?[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {
		sub(/^[a-z-]+: /, ""); gsub(/,/, ""); passed += $1; failed += $3; skipped += $5
	}
	END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

count_target() { # target, status
	local label=${1#//} log p f s
	log=out/testlogs/${label/://}/test.log
	read -r p f s < <([ -r "$log" ] && count_log "$log" || echo 0 0 0)
	# A target that failed without a failed test (a crash, a leak, a time-out) counts as one, and so does one that ran none.
	if [ "$2" != 0 ] && [ "$f" = 0 ]; then f=1; fi
	if [ "$2" = 0 ] && [ $((p + f + s)) = 0 ]; then f=1; echo "$1 ran no test"; fi
	printf '%-60s %4d passed %4d failed %4d skipped\n' "$1" "$p" "$f" "$s"
	[ "$s" = 0 ] || grep -E '^\[  SKIPPED \] [^0-9]|^skipped: ' "$log" | sort -u | sed 's/^/    /'
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

say 'tests'
SECONDS=0
query="tests(set(${targets[*]}))"
[ "$docker" = 1 ] || query="$query except attr(tags, docker, set(${targets[*]}))"
mapfile -t tests < <("${bazel[@]}" query "$query" 2> "$work/query.log" | sort)
[ ${#tests[@]} -gt 0 ] || { cat "$work/query.log"; give_up 'no test was found'; }
"${bazel[@]}" test "${flags[@]}" --keep_going --nocache_test_results "${tests[@]}" > "$work/test.log" 2>&1
status=$?
# 3: tests failed; 0: all passed; anything else is no test result.
if [ $status != 0 ] && [ $status != 3 ]; then
	cat "$work/test.log"
	give_up "bazel test ended with $status"
fi
for test in "${tests[@]}"; do
	if grep -qE "^$test +.*PASSED in " "$work/test.log"; then
		count_target "$test" 0
	else
		count_target "$test" 1
		grep -E "^$test +" "$work/test.log"
		tail -n 60 "out/testlogs/$(sed 's|^//||; s|:|/|' <<< "$test")/test.log" 2> /dev/null
	fi
done
echo "tests in $SECONDS s"

if [ "$fuzz" = 1 ] && [ -z "$config" ]; then
	say 'fuzz targets'
	mapfile -t fuzzers < <("${bazel[@]}" query 'attr(tags, fuzz, //tests/...)' 2> /dev/null | sort)
	if [ ${#fuzzers[@]} -gt 0 ]; then
		each=$((fuzz_seconds / ${#fuzzers[@]}))
		[ $each -gt 20 ] && each=20
		[ $each -lt 1 ] && each=1
		# The linker of clang's sanitizers warns by the thousand; what it says is shown when it fails.
		if "${bazel[@]}" build --color=no --curses=no --noshow_progress --config=fuzz "${fuzzers[@]}" > "$work/build.log" 2>&1; then
			binaries=$("${bazel[@]}" info --config=fuzz bazel-bin 2> /dev/null)
			for fuzzer in "${fuzzers[@]}"; do
				path=${fuzzer#//}
				binary=$binaries/${path/://}
				corpus=tests/${path#tests/}
				name=${path##*:}
				corpus=${corpus%%:*}/corpus/${name%_fuzz}
				mkdir -p "$work/corpus/${path##*:}"
				seeds=()
				[ -d "$corpus" ] && seeds=("$PWD/$corpus") # a target may change its folder
				if "$binary" -max_total_time=$each -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
					-artifact_prefix="$work/" "$work/corpus/${path##*:}" "${seeds[@]}" > "$work/fuzz.log" 2>&1; then
					passed=$((passed + 1))
					runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/fuzz.log")
					echo "$fuzzer: ${runs:-?} runs in $each s"
				else
					failed=$((failed + 1))
					echo "$fuzzer: FAILED"
					tail -n 40 "$work/fuzz.log"
				fi
			done
		else
			failed=$((failed + 1))
			grep -v 'warning: Cannot export local symbol' "$work/build.log" | tail -n 40
		fi
	fi
fi

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
