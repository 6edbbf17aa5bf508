#!/bin/bash
echo moored > /app/state.txt
