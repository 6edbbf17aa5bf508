#!/bin/bash
set -euo pipefail
python3 -c 'import csv, json; print(json.dumps({name: int(tonnes) for name, tonnes in csv.reader(open("ships.csv"))}))' > ships.json
