#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planted_test.sh PLANTED: what a sanitizer is for, it still reports in our own code, as this build and its settings are.
set -uo pipefail
planted=$1
passed=0 failed=0

verdict() { # sentence, status
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
		echo "passed: $1"
	else
		failed=$((failed + 1))
		echo "failed: $1"
	fi
}

reports() { # fault, words of the report, exit code or "" for any but 0
	local out status
	out=$("$planted" "$1" 2>&1)
	status=$?
	grep -q -e "$2" <<< "$out" && [ "$status" != 0 ] && [ "$status" = "${3:-$status}" ]
	local seen=$?
	[ $seen = 0 ] || printf 'exit code %s\n%s\n' "$status" "$out"
	verdict "a planted $1 is reported" $seen
}

if grep -q __tsan_init "$planted"; then
	reports race 'WARNING: ThreadSanitizer: data race' 66
elif grep -q __asan_init "$planted"; then
	reports heap 'ERROR: AddressSanitizer: heap-use-after-free'
	reports overflow 'runtime error: signed integer overflow'
	reports leak 'ERROR: LeakSanitizer: detected memory leaks'
else
	! ldd "$planted" | grep -q -e libasan -e libtsan
	verdict 'a plain build carries no sanitizer' $?
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
