#!/bin/bash
set -euo pipefail
echo 'Hello, harbor!' > /app/hello.txt
