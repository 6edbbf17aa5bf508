#!/bin/bash
cp /app/données/* /app/copie.txt
