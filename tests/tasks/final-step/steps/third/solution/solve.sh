#!/bin/bash
mkdir -p /app/marks
touch /app/marks/third
