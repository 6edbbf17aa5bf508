reward=0
[ "$(cat /app/state.txt)" = moored ] && reward=1
echo "$reward" > /logs/verifier/reward.txt
