#!/bin/bash
printf %s "$CARGO" | sha256sum | cut -d' ' -f1 > /app/sum.txt
