#!/bin/bash
if [ -e /run/open ]; then echo open; else echo shut; fi > /app/state.txt
