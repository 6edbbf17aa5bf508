#!/bin/bash
if [ "$PWD" = /srv/deep/hold ] && [ "$(cat here.txt)" = /srv/deep/hold ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
