#!/bin/bash
if [ "$(cat /app/sum.txt)" = 370e71541036b862ee4e7b985e292366250c586b00bc0f2eb98f880677bafc3c ] && [ "${#CARGO}" = 20000 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
