#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Arguments: the server, the Echo set, the health set. Installs the locked client into a folder of its own.
set -eu
skip() {
    echo "$1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not on PATH"
here=tests/integration/rpc
folder=${TEST_TMPDIR:-$(mktemp -d)}/node
mkdir -p "$folder"
cp "$here/package.json" "$here/package-lock.json" "$here/interop.js" "$folder"
export HOME="${HOME:-$folder}"
if ! (cd "$folder" && npm ci --prefer-offline --omit=dev --ignore-scripts --no-audit --no-fund) >"$folder/npm.log" 2>&1; then
    tail -n 5 "$folder/npm.log"
    skip "npm could not install @grpc/grpc-js: is a registry to be reached?"
fi
exec node "$folder/interop.js" "$@"
