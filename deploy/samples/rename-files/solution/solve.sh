#!/bin/bash
set -euo pipefail
cd inbox
for file in *.TXT; do
	mv "$file" "${file,,}"
done
