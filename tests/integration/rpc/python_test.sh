#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Arguments: the server, the Echo set, the health set. Debian's grpc module loads in Debian's python only.
set -eu
if ! /usr/bin/python3 -c 'import grpc, google.protobuf' 2>/dev/null; then
    echo "python3-grpcio is not installed: apt-get install python3-grpcio python3-protobuf"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
exec /usr/bin/python3 tests/integration/rpc/interop.py "$@"
