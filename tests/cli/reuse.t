#!/bin/sh
# qprefill --reuse and checkpoints: text read before is not read again, and the
# bits are the same.
. "$TOP/tests/cli/tap.sh"
DEMO=$TOP/demo/demo.gguf

# same A B NAME
same() {
	qstate diff "$1" "$2" >diff
	is "$?$(cat diff)" 0 "$3"
	qprefill -s "$1" --logits=last -f raw </dev/null >l1
	qprefill -s "$2" --logits=last -f raw </dev/null >l2
	[ -s l1 ] && cmp -s l1 l2
	ok $? "$3: the logits of the next token are the same bytes"
}

# taken FILE: how many tokens -v says came from it
taken() {
	sed -n "s/^qprefill: \([0-9]*\) tokens from $1, .*/\1/p" err
}

# cuts at random: some here, many in check-long
cuts=${QPIPE_LONG:+40}

# --- cold, restored and reused, at random cuts, on every architecture
for name in qwen3 qwen3moe qwen35-tied qwen35moe-ud qwen35moe-f32; do
	model "$name"
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	vocab=$(gguf-inspect --json | jq '.tensors[] |
	    select(.name == "token_embd.weight") | .shape[1]')
	ids 180 2 "$vocab" >old
	qprefill --checkpoint-every 32 -o old.cbor <old >/dev/null
	for cut in 0 $(ids "${cuts:-3}" "$SEED" 179 | awk '{ print $1 + 1 }') 180; do
		{ head -n "$cut" old; ids 40 "$cut" "$vocab"; } >new
		qprefill -v --reuse old.cbor -o new.cbor <new 2>err >/dev/null
		qprefill -o cold.cbor <new >/dev/null
		n=$(taken old.cbor)
		same new.cbor cold.cbor "$name: $cut in common, ${n:-0} reused"
	done
	head -n 70 old | qprefill --reuse old.cbor -o new.cbor >/dev/null
	head -n 70 old | qprefill -o cold.cbor >/dev/null
	same new.cbor cold.cbor "$name: a prompt that the state contains"
	rm -f "$MODEL"
done

# --- which positions serve
QWEN_MODEL=$DEMO; export QWEN_MODEL
ids 100 3 500 >ids
qprefill --checkpoint-every 0 --checkpoint-at 20,60 -o a.cbor <ids >/dev/null
is "$(qstate show a.cbor | awk '/^checkpoint/ { print $2 }' | xargs)" "20 60" "--checkpoint-at"
reused() {
	qprefill -v --reuse a.cbor -o b.cbor <"$1" 2>err >/dev/null
	taken a.cbor
}
{ head -n 59 ids; echo 1; echo 2; echo 3; } >new
is "$(reused new)" 20 "59 in common: the checkpoint at 20"
{ head -n 60 ids; echo 1; echo 2; } >new
is "$(reused new)" 60 "60 in common: that at 60"
head -n 60 ids >new
is "$(reused new)" 60 "60 and no more: it has the logits"
is "$(reused ids)" 100 "all of it: nothing to read"
cmp -s a.cbor b.cbor
ok $? "and the state is the same to the byte"
{ cat ids; echo 5; } >new
is "$(reused new)" 100 "one more"
is "$(qstate show b.cbor | awk '/^checkpoint/ { print $2 }' | xargs)" "20 60 100" \
    "what was the end is a checkpoint now"
{ echo 499; tail -n +2 ids; } >new
is "$(reused new)" "" "nothing in common"
qprefill --logits=all --checkpoint-every 30 -f raw -o c.cbor <ids >/dev/null
is "$(qstate show c.cbor | awk '/^checkpoint/ { print $2 }' | xargs)" "30 60 90" "--checkpoint-every"
# the best of several
head -n 30 ids | qprefill -o p30.cbor >/dev/null
head -n 80 ids | qprefill -o p80.cbor >/dev/null
{ head -n 90 ids; echo 1; } >new
qprefill -v --reuse p30.cbor --reuse p80.cbor --reuse a.cbor -o b.cbor <new 2>err >/dev/null
is "$(taken p80.cbor)" 80 "of several states the one of most use"
is "$(grep -c 'tokens agree' err)" 3 "-v tells of each"
# in place, in band, with rows
cp a.cbor x.cbor
{ head -n 60 ids; echo 9; } >new
qprefill --reuse x.cbor -o x.cbor <new >/dev/null
qprefill -o cold.cbor <new >/dev/null
same x.cbor cold.cbor "--reuse and -o of one file"
qprefill --reuse a.cbor <new | qstate diff - cold.cbor
ok $? "to stdout"
qprefill --logits=last -f raw <new >l1
qprefill --reuse a.cbor --logits=last -f raw <new >l2
cmp -s l1 l2
ok $? "--logits=last"
qprefill --reuse a.cbor --logits=last -f raw <ids >l1
qprefill -s a.cbor --logits=last -f raw </dev/null >l2
cmp -s l1 l2
ok $? "--logits=last where nothing is read"
qstate pack --no-compress -o map.cbor a.cbor
qprefill --reuse map.cbor -o x.cbor <new >/dev/null
same x.cbor cold.cbor "of a mapped state"
qdecode -s a.cbor -n 10 --ignore-eos -o gen.cbor </dev/null >/dev/null
qstate show --tokens gen.cbor >new
echo 4 >>new
qprefill -v --reuse gen.cbor -o x.cbor <new 2>err >/dev/null
is "$(taken gen.cbor) $(qstate show x.cbor | grep '^generated')" "110 generated 100 10" \
    "which tokens were generated is kept"

# --- marks
{ printf 'In the beginning' | qtok --mark one; printf ' God created' | qtok --mark two
    printf ' the heaven' | qtok; } >marked
a=$(printf 'In the beginning' | qtok -c)
b=$((a + $(printf ' God created' | qtok -c)))
qprefill --checkpoint-every 0 -o m.cbor <marked >/dev/null
is "$(qstate show --json m.cbor | jq -c '[.checkpoints[] | [.at, .named]]')" \
    "[[$a,true],[$b,true]]" "a checkpoint at each mark"
{ head -n 5 ids | qprefill; cat marked; } | qprefill --checkpoint-every 0 |
    qstate show - | awk '/^checkpoint/ { print $2 }' | xargs >got
is "$(cat got)" "$((5 + a)) $((5 + b))" "after a state too, counted from its beginning"
{ printf 'In the beginning' | qtok --mark one; printf ' was the Word' | qtok; } >other
qprefill -v --reuse m.cbor -o o.cbor <other 2>err >/dev/null
is "$(taken m.cbor)" "$a" "the second prompt goes on from the mark"
qprefill -o cold.cbor <other >/dev/null
same o.cbor cold.cbor "with the bits of one that was read whole"
is "$(qstate show --json o.cbor | jq -c '[.checkpoints[] | [.at, .named]]')" "[[$a,true]]" \
    "and keeps its checkpoint"
qprefill --checkpoint-at 5,5,3,1000 -o n.cbor <ids >/dev/null 2>err
is "$? $(qstate show n.cbor | awk '/^checkpoint/ { print $2 }' | xargs) $(cat err)" \
    "0 3 5 qprefill: no checkpoint at 1000: there are only 100 tokens" \
    "positions in any order, some twice, one after the end"

# --- what cannot be used
model qwen35moe-ud
echo 1 2 3 | qprefill -m "$MODEL" -o alien.cbor >/dev/null
refused 1 "a state of another model" qprefill --reuse alien.cbor -o none.cbor <ids
refused 1 "a state that is not there" qprefill --reuse nosuch.cbor -o none.cbor <ids
refused 1 "one that is no state" qprefill --reuse ids -o none.cbor <ids
size=$(wc -c <a.cbor)
head -c $((size - 20)) a.cbor >cut.cbor
refused 1 "one that is cut off" qprefill --reuse cut.cbor -o none.cbor <ids
refused 1 "no tokens" qprefill --reuse a.cbor -o none.cbor </dev/null
[ ! -e none.cbor ] && [ ! -e .none.cbor.qpipe-tmp ]
ok $? "none of them leaves a file"

# --- the command line
refused 2 "-s and --reuse" qprefill -s a.cbor --reuse a.cbor <ids
refused 2 "a state on stdin and --reuse" qprefill --reuse a.cbor <a.cbor
refused 2 "--logits=all and --reuse" qprefill --logits=all --reuse a.cbor -f raw <ids
refused 2 "--checkpoint-at 0" qprefill --checkpoint-at 0 <ids
refused 2 "--checkpoint-at 1,,2" qprefill --checkpoint-at 1,,2 <ids
refused 2 "--checkpoint-at 1,x" qprefill --checkpoint-at 1,x <ids
refused 2 "--checkpoint-at 123456789012345678901234" qprefill \
    --checkpoint-at 123456789012345678901234 <ids
refused 2 "--checkpoint-every -1" qprefill --checkpoint-every -1 <ids
done_testing
