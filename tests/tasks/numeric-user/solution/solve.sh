#!/bin/bash
echo "$(id -u):$(id -g)" > /app/out/me.txt
