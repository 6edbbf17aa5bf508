#!/bin/bash
set -euo pipefail
tar czf papers.tar.gz papers
