#!/bin/bash
if [ -e /app/stuck ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
