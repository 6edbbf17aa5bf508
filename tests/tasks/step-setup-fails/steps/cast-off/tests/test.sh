#!/bin/bash
if [ -e /app/off ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
