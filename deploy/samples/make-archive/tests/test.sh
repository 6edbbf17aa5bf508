#!/bin/bash
reward=0
if [ "$(tar xzOf /app/papers.tar.gz papers/manifest.txt)" = "12 crates" ]; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
