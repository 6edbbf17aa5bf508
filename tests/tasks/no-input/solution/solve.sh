#!/bin/bash
wc -c > /app/size.txt
