#!/bin/bash
set -euo pipefail
sed -i 's/ech /echo /' tide.sh
