#!/bin/bash
mkdir -p /app/out/deep /app/out/tmp
cd /app/out
echo a.txt > a.txt
echo b.txt > deep/b.txt
touch a.o deep/b.o tmp/c.txt
