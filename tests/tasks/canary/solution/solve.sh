#!/bin/bash
echo Write > /app/word.txt
