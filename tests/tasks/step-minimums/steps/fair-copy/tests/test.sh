#!/bin/bash
if [ -e /app/fair-copy ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
