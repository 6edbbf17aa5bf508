#!/bin/bash
if [ "$(sha256sum < /app/values.bin)" = 'e0901ddc1816c6142e5b3de98f2796e771f55a4e813c2bdffc415416c0ef04fb  -' ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
