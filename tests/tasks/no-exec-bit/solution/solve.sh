#!/bin/bash
echo ready > /app/state.txt
