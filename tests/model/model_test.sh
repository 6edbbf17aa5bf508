#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
for program in spin gcc python3; do
	if ! command -v "$program" > /dev/null; then
		echo "skipped: $program is not installed (deploy/install-packages.sh test)"
		echo '0 passed, 0 failed, 1 skipped'
		exit 0
	fi
done
exec python3 "$(dirname "$0")/model.py" "$1"
