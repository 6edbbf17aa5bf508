#!/bin/bash
set -euo pipefail
grep -rl anchor logbook > found.txt
