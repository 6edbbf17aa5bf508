#!/bin/bash
set -euo pipefail
LC_ALL=C sort -k1,1 arrivals.log > sorted.log
