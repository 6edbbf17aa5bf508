#!/bin/bash
if [ -e /app/free ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
