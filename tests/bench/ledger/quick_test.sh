#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quick_test.sh: under the load of the benchmark a kill loses nothing that was acknowledged, and nothing is leased twice.
exec python3 -B tests/bench/ledger/run.py --quick --seconds 1 --bin .
