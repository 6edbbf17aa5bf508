#!/bin/bash
set -euo pipefail
wc -w < fog.txt | tr -d ' ' > count.txt
