#!/bin/bash
if [ "$(cat /logs/artifacts/report.txt)" = "fair wind" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
