#!/bin/bash
reward=0
if python3 -c 'import json; assert json.load(open("/app/ships.json")) == {"Alma": 120, "Corvo": 310}'; then reward=1; fi
echo "$reward" > /logs/verifier/reward.txt
