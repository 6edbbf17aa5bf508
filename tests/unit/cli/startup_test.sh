#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A command starts without what it does not need: libraries that only some subcommands call are loaded by those.
set -eu
berth=$1
loaded=$(LD_TRACE_LOADED_OBJECTS=1 "$berth")
failed=0
echo "$loaded" | grep -q libcrypto || { echo "the list of libraries is none: $loaded"; failed=1; }
for library in libgrpc libssl libabsl librocksdb libarchive libxml2 libicu; do
	if echo "$loaded" | grep "$library"; then
		echo "every command loads $library"
		failed=1
	fi
done
"$berth" version | grep -q "^berth " || failed=1
echo "$((1 - failed)) passed, $failed failed, 0 skipped"
exit $failed
