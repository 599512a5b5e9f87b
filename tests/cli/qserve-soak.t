#!/bin/sh
# qserve among clients of all kinds: each client that waits gets the answer that
# the pipeline gives, while others disconnect, stall and send invalid requests,
# and while engines are killed.  Afterwards the server is as large as before.
#   SOAK_REQUESTS=N sh tests/run.sh qserve-soak     N requests; by default 400,
#                                                   in make check-long 10000
. "$TOP/tests/cli/tap.sh"
if [ ! -e "$B/tests/faults/soak" ] || ! command -v jq >/dev/null 2>&1; then
	skip "soak" "no jq, or no clients"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
N=${SOAK_REQUESTS:-${QPIPE_LONG:+10000}}
N=${N:-400}
IDLE=500
files=$(ulimit -n)
[ "$files" = unlimited ] || [ "$files" -gt 700 ] || ulimit -n 1100 2>/dev/null ||
    IDLE=100
unset QSERVE_API_KEY

# -- what is known: by the pipeline, of completions and of chats
i=0
for p in 'And God said' 'In the beginning' 'The king of' 'And Moses' \
    'Blessed are' 'He that hath' 'The sons of Israel' 'Now the'; do
	for k in 0 1 2; do
		i=$((i + 1))
		n=$((i * 5 % 23 + 2))
		set -- -n $n --temp 0.$((k * 4)) --seed $i
		more='{"max_tokens":'$n',"temperature":0.'$((k * 4))',"seed":'$i'}'
		printf %s "$p" | qtok | qdecode "$@" | qtok -d |
		    jq -Rsc --arg p "$p" --argjson more "$more" \
		    '["/v1/completions", ({prompt: $p} + $more | tojson), .]'
		m=$(jq -cn --arg p "$p" '{messages: [{role: "user", content: $p}]}')
		printf %s "$m" | qtok --chat | qdecode "$@" | qtok -d |
		    qtok --parse | jq -c --argjson m "$m" --argjson more "$more" \
		    '["/v1/chat/completions", ($m + $more | tojson), .content]'
	done
done >cases
is "$(jq -s -c '[length, (map(select(.[2] | length > 4)) | length > 40), (map(.[1]) | unique | length)]' cases)" \
    "[48,true,48]" "answers that are known"

# -- a server, and connections that ask nothing
qserve --listen 127.0.0.1:0 --idle 100000 --keep 8 2>log &
server=$!
until port=$(sed -n 's|.*listening at http://127\.0\.0\.1:\([0-9]*\).*|\1|p' log) &&
    [ -n "$port" ] || ! kill -0 $server 2>/dev/null; do
	sleep 0.1
done
mkfifo hold
"$B/tests/faults/soak" "$port" idle $IDLE <hold >idle &
idle=$!
exec 4>hold
until [ -s idle ]; do sleep 0.1; done

# soak N OPTION...: its counts in told; what was wrong in err
run=0
soak() {
	run=$((run + 1))
	timeout 3000 "$B/tests/faults/soak" -s "$SEED$run" "$@" >told 2>err
	is "$? $(sed 's/.*failed, \([0-9]* wrong\).*/\1/' told) $(cat err)" "0 0 wrong " "$(cat told)"
}
# KiB that a process and its children take, a line each
sizes() {
	for s in /proc/"$server"/status $(grep -l "^PPid:	$server\$" /proc/[0-9]*/status 2>/dev/null); do
		sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "$s"
	done
}
# those, once all has rested for a while
rested() {
	sleep 3
	sizes
}
settled() {	# WHAT BEFORE AFTER PERCENT: that it may have grown
	[ -n "$2" ] && [ $(($3 * 100)) -le $(($2 * (100 + $4))) ]
	ok $? "$1: $2 KiB, then $3"
}

soak "$port" cases $((N / 2))
[ ! -e /proc/self/status ] || rested >before
soak "$port" cases $((N / 4))
if [ -e /proc/self/status ]; then
	rested >after
	settled "the server's memory" "$(sed -n 1p before)" "$(sed -n 1p after)" 2
	# an engine takes some when it guesses for the first time, or reads
	# many texts at once: that comes within the first thousands
	settled "the engine's memory" "$(sed -n 2p before)" "$(sed -n 2p after)" \
	    $((N < 8000 ? 30 : 2))
	soak -k $server "$port" cases $((N / 4))
	ok $(($(sed 's/.*wrong, \([0-9]*\) killed.*/\1/' told) == 0)) "engines were killed"
	settled "the server's memory, once they have died" \
	    "$(sed -n 1p before)" "$(rested | sed -n 1p)" 2
else
	skip "memory, and engines that die" "no /proc"
fi
soak "$port" cases 20

# -- nobody was forgotten, and it ends
exec 4>&-
wait $idle
is "$? $(xargs <idle)" "0 $IDLE held 0 gone" "connections held all the time"
kill $server
wait $server
is "$? $(grep -v -e 'model: ' -e listening -e sampling: -e engine -e 'ending' log)" "0 " "it ends when it is told to"
done_testing
