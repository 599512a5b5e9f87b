#!/bin/sh
# Documents in qchat: inserted before the next message, removable, read once.
. "$TOP/tests/cli/tap.sh"
unset QWEN_STORE
yes 'And God said, Let there be light.' | head -n 40 >doc
echo 'And Moses went up.' >doc2

# said FILE: what the user said, as a list
said() {
	jq -c '[.messages[] | select(.role == "user") | .content]' "$1"
}

# list TEXT...: such a list of these
list() {
	jq -nc '$ARGS.positional' --args "$@"
}

# read FILE: of each prompt, what was read before, by the notes of -v
before() {
	sed -n 's/.* to read, \([0-9]*\) were read before/\1/p' "$1" | xargs
}

# --- taken back, dropped, told, kept
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
printf '%s\n' '/data doc' /undo '/data doc' /reset /tokens '/save a.json' hi '/save b.json' |
    qchat -n 4 >out 2>err
is "$? $(said a.json) $(said b.json) $(grep -c '^0 of ' err)" '0 [] ["hi"] 1' \
    "/undo and /reset drop a document"
is "$(grep -c '^qchat: doc is dropped$' err)" 1 "/undo says so"
printf '%s\n' '/data doc' '/system S' '/data doc2' /data hi '/save a.json' |
    qchat -q -n 2 >out 2>err
is "$? $(said a.json)" '0 ["hi"]' "so do /system, and /data alone"
printf '%s\n' /data |
    qchat -q -n 2 >out 2>err
is "$? $(cat err)" '1 qchat: /data: no file given' "/data alone without one"
printf '%s\n' '/data doc' '/data doc2' /show /tokens '/save a.json' hi '/save b.json' /undo '/save c.json' \
    /undo '/save d.json' ho '/save e.json' |
    qchat -n 2 >out 2>err
is "$? $(said a.json)" "0 $(list "$(cat doc; echo; echo; cat doc2; echo x)" | sed 's/x"\]$/"]/')" \
    "two documents, which /save keeps"
is "$(said b.json)" "$(list "$(cat doc; echo; echo; cat doc2; echo; echo; echo hi)")" \
    "are the beginning of what is said"
is "$(said c.json) $(said d.json) $(said e.json)" "$(said a.json) $(
    list "$(cat doc; echo x)" | sed 's/x"\]$/"]/') $(list "$(cat doc; echo; echo; echo ho)")" \
    "/undo takes back the message, then a document"
is "$(grep -c '^document: doc2\{0,1\}, [0-9]* bytes, ' err) $(grep -c '^[1-9][0-9]* of 4096 tokens, with the documents ' err)" \
    "2 1" "/show and /tokens tell of them"
printf '%s\n' '/load a.json' hi '/save f.json' | qchat -q -n 2 >out
is "$? $(said f.json)" "0 $(said b.json)" "what was saved without an answer goes on"
printf '%s\n' '/load f.json' /undo '/load a.json' /retry '/save g.json' | qchat -q -n 2 >out
is "$? $(said g.json) $(jq '.messages | length' g.json)" "0 $(said a.json) 2" "and /retry answers it"

# --- by option
printf '%s\n' hi '/save a.json' | qchat -q -n 3 --data doc --data doc2 >got
is "$? $(said a.json)" "0 $(said b.json)" "--data, twice"
printf '%s\n' '/data doc' '/data doc2' hi | qchat -q -n 3 | cmp -s - got
ok $? "is as /data"
qchat -q -n 3 --data doc --data doc2 hi </dev/null | cmp -s - got
ok $? "and goes with a question"
qchat -q -n 3 --data doc hi <doc2 | cmp -s - got
ok $? "before the document on stdin"
refused 1 "a document that is not there" qchat --data none hi
printf '\377' >bad
refused 1 "or no UTF-8" qchat --data bad hi

# --- read once
lines=$(qtok -c doc)
for m in demo qwen35moe-ud qwen3; do
	set -- --template qwen3 -n 4
	if [ $m = demo ]; then
		set -- -n 4
	else
		model $m
		QWEN_MODEL=$MODEL
	fi
	printf '%s\n' '/data doc' 'Who said that?' /reset '/data doc' 'And when?' |
	    qchat -v "$@" >out 2>err
	doc=$(before err | cut -d ' ' -f 2)
	[ "$doc" -ge $((lines * 9 / 10)) ]
	ok $? "$m: after /reset the document is not read again: $doc tokens"
	for i in 1 2 3; do
		qchat -v "$@" --store "st $m" --data doc "Who, number $i?" </dev/null >got.$i 2>err.$i
		qchat -q "$@" --data doc "Who, number $i?" </dev/null | cmp -s - got.$i
		ok $? "$m: answer $i with a store is that without"
	done
	is "$(before err.1) $(($(before err.2) >= doc)) $(($(before err.3) >= doc))" "0 1 1" \
	    "$m: qchat --store reads a document once: $(before err.2) tokens"
	is "$(grep -c "tokens from store st $m in" err.2)" 1 "$m: and says where it is from"
done
QWEN_STORE="st qwen3" qchat -v "$@" --data doc "Why?" </dev/null >got 2>err
is "$? $(($(before err) >= doc))" "0 1" "QWEN_STORE"
QWEN_STORE="st qwen3" qchat -v --no-store "$@" --data doc "Why?" </dev/null >want 2>err
is "$? $(before err) $(cmp got want)" "0 0 " "--no-store"
qchat "$@" --store /dev/null/x --data doc "Why?" </dev/null >got 2>err
is "$? $(cmp got want) $(grep -c '^qchat: store .*: not used: ' err)" "0  1" "a store that cannot be is a note"
# what the store has is of use to whoever has such a prompt
jq -n --rawfile d doc '{messages: [{role: "user", content: ($d + "\n\nWhose?")}]}' >ask.json
qtok --chat --template qwen3 ask.json | qprefill -v --store "st qwen3" -o s.cbor >/dev/null 2>err
[ "$(sed -n 's/.*: \([0-9]*\) tokens from store.*/\1/p' err)" -ge "$doc" ]
ok $? "qprefill --store finds it"
refused 2 "--store-max without a store" qchat --store-max 1G hi

# --- a conversation that is saved is not read again
QWEN_MODEL=$TOP/demo/demo.gguf
printf '%s\n' 'In the beginning' 'And then?' '/save talk.json' | qchat -q --store st -n 12 >out
printf '%s\n' '/load talk.json' 'What else?' | qchat -v --store st -n 2 >out 2>err
[ "$(before err)" -gt 30 ]
ok $? "/save keeps in the store what was read: $(before err) tokens"

# --- slow enough to be told of, and to be interrupted
QWEN_CPU=scalar; export QWEN_CPU
cat doc doc >long
mkfifo to
qchat -v -t 1 -n 1 --store "st slow" <to >out 2>err &
pid=$!
exec 3>to
printf '/data long\nhi\n' >&3
i=0
while ! grep -q 'takes about' err && [ $i -lt 1200 ]; do
	sleep 0.05
	i=$((i + 1))
done
kill -INT $pid
printf '/tokens\n/save i.json\n/data long\nhi\n/save j.json\n/quit\n' >&3
exec 3>&-
wait $pid
is "$? $(said i.json) $(said j.json)" "0 [] $(list "$(cat long; echo; echo; echo hi)")" \
    "Ctrl-C while a document is read takes it back"
n=$(grep -c 'reading [0-9]* tokens takes about [0-9]*:[0-9][0-9]; Ctrl-C takes the message and its document back' err)
is "$n $((n > 0))" "$(grep -c 'takes about' err) 1" "the time is told before: $(grep 'takes about' err | head -n 1)"
is "$(grep -c '^qchat: the message is taken back, and its document, of which [0-9]* tokens are read; ' err) $(
    grep -c '^0 of ' err)" "1 1" "what was taken back is told"
[ "$(before err | cut -d ' ' -f 2)" -ge 64 ]
ok $? "given again it is read from there: $(before err)"
done_testing
