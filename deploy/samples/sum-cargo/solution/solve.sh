#!/bin/bash
set -euo pipefail
awk -F'\t' '{ total += $2 } END { print total }' cargo.tsv > total.txt
