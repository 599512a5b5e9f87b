#!/bin/sh
# qengine: many requests at the same time, each answered as if alone; clients
# that cancel, stall, disconnect or send garbage affect no other client.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qengine" "no jq"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# engine [options]: of the requests on stdin, within a minute
engine() {
	timeout 60 qengine -q "$@"
}

# tokens FILE ID: what was generated
tokens() {
	jq -r --arg id "$2" 'select(.id == $id and has("token")) | .token' "$1" |
	    xargs
}

# ask ID MORE [SEED]: a request, of 30 tokens of a text that begins with others
ask() {
	printf '{"id":"%s","tokens":[%s]%s}\n' "$1" \
	    "$(ids 20 1 4000 | paste -sd, -),$(ids 10 "${3-7}" 4000 | paste -sd, -)" "$2"
}

# alone SEED OPTIONS...: what the pipeline makes of that text
alone() {
	{ ids 20 1 4000; ids 10 "$1" 4000; } | qprefill -q -o S >/dev/null
	shift
	qdecode -q -s S -f json "$@" </dev/null |
	    jq -r '.tokens[]?' | xargs
}

# -- the same as the pipeline, and as qbatch
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
	ask g$i ',"max":12,"ending":[]' $i
	ask s$i ",\"max\":12,\"ending\":[],\"sampling\":\"temp=0.9 seed=$i\"" $i
done >many
engine <many >out
is "$?, $(jq -r '.why // empty' out | sort | uniq -c | xargs)" "0, 24 length" \
    "24 requests in one pipe"
bad=
for i in 1 5 12; do
	[ "$(tokens out g$i)" = "$(alone $i -n 12 --ignore-eos)" ] || bad="$bad g$i"
	[ "$(tokens out s$i)" = "$(alone $i -n 12 --ignore-eos --temp 0.9 --seed $i)" ] ||
	    bad="$bad s$i"
done
is "$bad" "" "the tokens are those of qprefill | qdecode"
engine --max-sequences 2 --pause 1 --batch 7 -t 1 --keep 0 <many >out2
is "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do tokens out2 g$i; tokens out2 s$i; done)" \
    "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do tokens out g$i; tokens out s$i; done)" \
    "two at a time, in small parts: the same"
printf '{"prompt":"And God said, Let there","max_tokens":9,"temperature":0.8,"seed":5}' |
    qbatch --sampling none | jq -j .text >want
t=$(printf 'And God said, Let there' | qtok -f json | jq -sc 'map(.tokens // []) | add')
printf '{"id":"a","tokens":%s,"max":9,"sampling":"temp=0.8 seed=5"}' "$t" |
    engine >one
tokens one a | qtok -d >got
is "$(cat got)" "$(cat want)" "and those of qbatch: $(tr '\n' ' ' <want)"
ask p ',"score":1,"logprobs":3' | engine >one
{ ids 20 1 4000; ids 10 7 4000; } | qscore -q --tokens --each -f json >score
is "$(jq -s '[.[] | select(has("score")).score] | add * 1e6 | round' one), $(jq -r \
    'select(.top_ids) | .top_ids | length' one | uniq -c | xargs)" \
    "$(jq '[.tokens[].logprob] | add * 1e6 | round' score), 29 3" \
    "scores add up to those of qscore"
ask h ',"hidden":28' | engine | jq -c 'select(has("hidden")) |
    [.at, (.hidden | length)]' | xargs >got
is "$(cat got)" "[28,256] [29,256]" "hidden states of the last two tokens"

ask h ',"hidden":29,"logits":[5,0,7]' | engine | jq -c '.hidden // empty' >got
{ ids 20 1 4000; ids 10 7 4000; } | qprefill -q --logits last -f json -o S |
    jq -c '.logits // empty | [.[5], .[0], .[7]]' >want
# there activations are rounded
is "$(jq -sc 'transpose | map(.[0] - .[1] | fabs < 0.1)' got want)" \
    "[true,true,true]" "or logits of some: $(cat got)"
ask h ',"hidden":29,"logits":[]' | engine | jq -r '.error // empty' >got
is "$(cat got)" invalid_request "classes, of a model that has none"

# -- CBOR: the same request, and events
printf '\242dqwen\001dkindhrequests\243bidaaftokens\330\116\104\005\000\000\000cmax\002' >in.cbor
engine <in.cbor >out.cbor
is "$?, $(tr -d '\0' <out.cbor | grep -ao 'dkindfevents\|etoken\|cwhyflength' | xargs)" \
    "0, dkindfevents etoken etoken cwhyflength" "a request and its events in CBOR"
tail -c +22 in.cbor | engine | grep -aq 'bad_stream.*do not begin with a header'
ok $? "without a header there is none"
head -c 40 in.cbor | engine >out.cbor 2>err
is "$?, $(cat err)" "1, qengine: stdin: the requests end inside a record" \
    "one that is torn"

# -- what is asked for
ask a ',"max":9,"grammar":"root ::= \"yes\" | \"no\""' | engine >one
case $(tokens one a | qtok -d) in
yes | no) ok 0 "a grammar is kept to" ;;
*) ok 1 "a grammar is kept to: $(tokens one a | qtok -d)" ;;
esac
first=$(tokens out g1 | cut -d' ' -f1)
ask a ",\"max\":9,\"ending\":[$first]" 1 | engine >one
is "$(tokens one a), $(jq -r '.why // empty' one)" "$first, ending" "a token that ends"
ask a ",\"max\":1,\"mask\":[$first]" 1 | engine >one
[ "$(tokens one a)" != "$first" ]
ok $? "a token that is never chosen"
ask a ',"max":1,"bias_ids":[77],"bias":[1000]' 1 | engine >one
is "$(tokens one a)" 77 "a token that is made likely"

# -- what is wrong with one is wrong with that one
{
	ask a ',"max":2,"colour":1'
	echo nonsense
	ask b ',"max":0'
	ask c ',"max":2,"sampling":"heat=3"'
	ask d ',"max":2,"grammar":"root ::= ("'
	printf '{"id":"e","tokens":[4096],"max":1}\n{"id":"f","tokens":[],"max":1}\n'
	ask g ',"max":2,"priority":3'
	ask g ',"max":2'
	printf '{"cancel":"nobody"}\n[]\n\n{"tokens":[1],"max":1}\n'
} >bad
engine <bad >one
is "$?, $(jq -r 'select(.why) | .end + " " + .why' one | sort | paste -sd, -)" \
    "0, a refused,b refused,c refused,d refused,e refused,f refused,g length" \
    "bad requests end, and no other"
is "$(jq -r 'select(.end == "c" or .end == "d") | .n_prompt' one | xargs)" \
    "$(jq -r 'select(.end == "g") | .n_prompt | "\(.) \(.)"' one)" \
    "how long the prompt was of one that is refused"
is "$(jq -r 'select(.end == null) | .error // empty' one | sort | uniq -c | xargs)" \
    "1 duplicate_id 3 invalid_request" "what has no id of its own is an error"
head -c 2000 "$QWEN_MODEL" | engine >one 2>err
is "$?, $(cat err)" "1, qengine: stdin: this is a GGUF model file, not requests" \
    "what is no stream of requests"
printf '\277bidaac' | engine >one 2>err
is "$? $(grep -c 'this is text' err)" "1 0" "a map without a length is no text: $(cat err)"
refused 2 "no such option" qengine --port 80
refused 1 "a folder for a socket" qengine --socket "$PWD"
refused 2 "a socket without a path" timeout 20 qengine --socket ""

# -- cancel, deadlines, a queue that is full
long=',"max":4000,"ending":[]'
{ ask a "$long"; ask b ',"max":3,"ending":[]' 2; echo '{"cancel":"a"}'; } |
    engine >one
is "$(jq -r 'select(.why) | .end + " " + .why' one | sort | xargs)" \
    "a cancelled b length" "a request is cancelled, the other is not"
ask a "$long,\"deadline_ms\":300" | engine >one
is "$(jq -r '.why // empty' one), $(jq -r 'select(.why) | .n_tokens > 0' one)" \
    "deadline, true" "a deadline"
engine --max-waiting 1 --max-sequences 1 <many >one
is "$(jq -r '.why // empty' one | sort | uniq -c | xargs)" "24 length" \
    "a pipe waits until there is room in the queue"

# -- readers of the pipe
engine --max-unread 64k <many | { sleep 1; cat; } >one
is "$(jq -s -c 'map(select(.token)) | length' one)" 288 "a slow reader gets all"
for i in 1 2 3 4; do ask l$i ",\"max\":2000,\"ending\":[],\"logprobs\":20" $i; done >long
{ engine -v --max-unread 64k <long 2>err; echo $? >status; } |
    { sleep 3; head -n 1 >/dev/null; }
is "$(cat status)" 1 "a reader that leaves ends it"
if [ -r /proc/self/fdinfo/0 ]; then
	yes '{"stats":"x"}' | head -n 20000 >flood
	mkfifo slow
	engine --max-unread 64k <flood >slow &
	exec 3<slow
	sleep 3
	at=$(for p in /proc/[0-9]*; do
		[ "$(readlink "$p/fd/0" 2>/dev/null)" = "$PWD/flood" ] &&
		    sed -n 's/^pos:[^0-9]*//p' "$p/fdinfo/0"
	done | sort -n | tail -n 1)
	n=$(wc -l <&3)
	exec 3<&-
	is "$((${at:-9999999} < 100000)), $n" "1, 20000" \
	    "where nobody reads, no more is taken: $at bytes"
fi
refused 1 "a full device" sh -c 'timeout 20 qengine <many >/dev/full'

# -- conversations
ask a ',"max":8,"ending":[]' >first
{ cat first; sleep 2; } | engine --store store >one
t=$(tokens one a | tr ' ' ,)
printf '{"id":"a","tokens":[%s,%s,5,6,7],"max":2}\n' \
    "$(jq -r '.tokens | @csv' first)" "$t" >second
engine --store store <second >one
is "$(jq -r 'select(.started) | .n_prompt, .n_cached' one | xargs)" "41 37" \
    "the next turn reads what is new, also after a restart"
printf '{"id":"c","cached":[%s,%s,1]}\n' "$(jq -r '.tokens | @csv' first)" "$t" |
    engine --store store | jq -c 'select(.cached) | [.n_cached, .n_stored]' >one
is "$(cat one)" "[0,37]" "how much is there can be asked"

# -- how far reading is
printf '{"id":"p","tokens":[%s],"max":1,"progress":1}\n' "$(ids 900 3 4000 | paste -sd, -)" |
    engine --no-store --batch 200 >one
is "$(jq -sc 'map(select(.progress == "p")) | [(map(.n_prompt) | unique), (map(.n_read) | . == sort), .[-1].n_read, length > 3]' one)" \
    "[[900],true,900,true]" "how far reading is, for who asks"
is "$(jq -sc 'map(keys_unsorted[0]) | [.[0], .[-2], .[-1]]' one)" '["started","id","end"]' "between start and token"
is "$(printf '{"qwen":1,"kind":"requests"}' | engine | jq -r .features)" progress "an engine says that it can"

# -- texts of sampling: bytes are written %xx, and none is 0
for v in %00 5% %zz; do
	printf '{"id":"a","tokens":[1],"max":1,"sampling":"stop=%s"}\n' $v
done | engine >out 2>err
is "$? $(jq -r .message out | sort -u)" \
    "0 sampling: sampling option stop: % must be followed by a byte, 01 to ff" "a % that stands for no byte"

# -- what was freed goes back to the system, when there is nothing more to do
if [ -z "$QPIPE_SAN" ] && [ -e /proc/self/smaps_rollup ] &&
    getconf GNU_LIBC_VERSION >libc 2>&1; then
	mkfifo work
	qengine -q --keep 0 <work >done 2>err &
	pid=$!
	exec 3>work
	cat many >&3
	until [ "$(grep -c '"why"' done)" = 24 ] || ! kill -0 $pid; do sleep 0.05; done
	taken() { awk '$1 == "Anonymous:" { print $2 }' /proc/$pid/smaps_rollup; }
	busy=$(taken)
	i=0
	until [ "$(taken)" -lt "$busy" ] || [ $i -gt 100 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	[ "$(taken)" -lt "$busy" ]
	ok $? "memory: $busy KiB, and at rest $(taken)"
	exec 3>&-
	wait $pid
	is "$? $(cat err)" "0 " "and it ends"
else
	skip "memory at rest" "a sanitizer, or no glibc, or no /proc"
fi

# -- a socket
if ! command -v python3 >/dev/null 2>&1; then
	skip "sockets" "no python3"
	done_testing
fi
# client FILE [how]: send a file of requests, and print what comes
cat >client.py <<'EOP'
import os, signal, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.settimeout(50)
s.connect(sys.argv[1])
how = sys.argv[3] if len(sys.argv) > 3 else ''
try:
    s.sendall(open(sys.argv[2], 'rb').read())
except BrokenPipeError:
    how = 'open'
if how == 'vanish':
    s.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)
if how == 'stall':
    time.sleep(6)
elif how != 'open':
    s.shutdown(socket.SHUT_WR)
while True:
    b = s.recv(65536)
    if not b:
        break
    sys.stdout.buffer.write(b)
    sys.stdout.buffer.flush()
    if how == 'open' and b'"end"' in b:
        break
EOP
client() {
	timeout 60 python3 client.py sock "$@"
}
start() {
	qengine -q --socket sock "$@" 2>err &
	pid=$!
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		[ -S sock ] && return
		sleep 0.2
	done
}
start --max-unread 64k --stall 2
is "$(ls -l sock | cut -c1-10)" "srw-------" "a socket for its user alone"
refused 1 "another one there" qengine --socket sock
client many >one &
one=$!
client many >two
wait $one
is "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do tokens one g$i; tokens two s$i; done)" \
    "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do tokens out2 g$i; tokens out2 s$i; done)" \
    "two clients at the same time, with the same ids: each gets its own"
echo '{"stats":"x"}' >stats
# running NAME: what a number of the engine is
number() {
	client stats | jq ".$1 // empty"
}
client long vanish 2>/dev/null
i=0
while [ "$(number running)" != 0 ] && [ $i -lt 30 ]; do
	sleep 0.1
	i=$((i + 1))
done
is "$(number running), $(number waiting)" "0, 0" "a client that vanishes leaves nothing"
for i in 1 2 3 4 5 6 7 8; do ask t$i ",\"max\":3000,\"ending\":[],\"logprobs\":64" $i; done >heavy
client heavy stall >three &
three=$!
client many >one
is "$(jq -r '.why // empty' one | sort | uniq -c | xargs)" "24 length" \
    "beside one who does not read, others get theirs"
wait $three
is "$(number dropped), $(jq -r '.why // empty' three 2>/dev/null | wc -l)" "1, 0" \
    "who does not read is dropped"
head -c 3000 "$QWEN_MODEL" >nonsense
client nonsense >one
is "$(jq -r .error one)" bad_stream "nonsense is told, and its client is done with"
awk 'BEGIN { while (i++ < 400000) print "no request" }' >nonsense
client nonsense >one 2>client.err
is "$(jq -r .error one) $(wc -l <client.err)" "bad_stream 0" \
    "so it is where more comes than is read"
client first >one
is "$(jq -r '.why // empty' one)" length "and the engine goes on"
# it ends what it has, and takes no more
ask l ',"max":400,"ending":[]' >middle
rm one
client middle open >one &
one=$!
i=0
while ! grep -qs token one && [ $i -lt 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
kill -TERM $pid
wait $pid
is "$?, $([ -e sock ] && echo there)" "0, " "SIGTERM: it ends, and the socket is gone"
wait $one
is "$(jq -r 'select(.why) | .why, .n_tokens' one | xargs)" "length 400" \
    "after what was under way is done"
# one that was killed leaves its socket
start --draft none
rm one
client long open >one &
one=$!
i=0
while ! grep -qs token one && [ $i -lt 200 ]; do
	sleep 0.02
	i=$((i + 1))
done
kill -9 $pid
wait $pid 2>/dev/null
wait $one
is "$([ -S sock ] && echo there), $(jq -r '.why // empty' one)" "there, " \
    "kill -9: clients see the end of the stream"
rm -f before; mv sock before; mv before sock
qengine -q --socket sock 2>err &
pid=$!
i=0
while ! client first >one 2>/dev/null && [ $i -lt 50 ]; do
	sleep 0.2
	i=$((i + 1))
done
is "$(jq -r '.why // empty' one)" length "and the next one takes its place"
kill $pid
wait $pid
ok $? "it ends"
done_testing
