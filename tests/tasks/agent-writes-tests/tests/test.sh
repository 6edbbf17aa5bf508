#!/bin/bash
if [ -e /tests/extra.txt ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
