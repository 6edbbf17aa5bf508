#!/bin/bash
if cmp "/tests/données/π и ω.txt" /app/copie.txt && [ -e "/app/données/π и ω.txt" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
