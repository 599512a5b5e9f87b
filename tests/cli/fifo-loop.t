#!/bin/sh
# The decode loop over a FIFO: qdecode computes, qsample chooses, and the tokens
# are those of qdecode alone.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
cp "$TOP/tests/golden/models/qwen35moe-ud/tokens-n65.txt" ids
qprefill -o s.cbor <ids >/dev/null

for how in "" "--temp 0.7 --seed 1" \
    "--temp 1.2 --top-k 30 --top-p 0.9 --min-p 0.02 --seed 5" \
    "--temp 0.8 --repeat-penalty 1.2 --seed 2"; do
	what=${how:-greedy}
	# shellcheck disable=SC2086
	qdecode -s s.cbor -n 20 $how -o want.cbor </dev/null >want
	rm -f loop; mkfifo loop
	# shellcheck disable=SC2086
	qdecode --logits -s s.cbor -n 20 -o got.cbor <loop |
	    qsample -n 20 $how | tee loop >got
	cmp -s got want
	ok $? "$what: the loop gives qdecode's tokens"
	# shellcheck disable=SC2086
	qdecode --logits -s s.cbor -o got2.cbor <loop |
	    qsample -n 20 $how | tee loop >got
	cmp -s got want
	ok $? "$what: also where only qsample counts"
	cmp -s got.cbor got2.cbor
	ok $? "$what: with the same state after it"
	# shellcheck disable=SC2086
	qdecode --logits -s s.cbor -n 20 <loop | qsample $how |
	    tee loop >got
	cmp -s got want
	ok $? "$what: and where only qdecode counts"
	# shellcheck disable=SC2086
	qprefill -s want.cbor --logits=last -f raw </dev/null >a.f32
	qprefill -s got.cbor --logits=last -f raw </dev/null >b.f32
	cmp -s a.f32 b.f32
	ok $? "$what: which goes on alike"
done

# rows cut to the best: greedy needs one
qdecode -s s.cbor -n 20 </dev/null >want
qdecode --logits --top 1 -s s.cbor <loop | qsample -n 20 | tee loop >got
cmp -s got want
ok $? "rows of the best token alone"
qdecode -s s.cbor -n 20 --temp 0.9 --top-k 40 --seed 4 </dev/null >want
qdecode --logits --top 40 -s s.cbor <loop |
    qsample -n 20 --temp 0.9 --top-k 40 --seed 4 | tee loop >got
cmp -s got want
ok $? "rows of the forty best, for --top-k 40"

# the end of generation stops all of them
qdecode -s s.cbor --temp 100 --seed 1 </dev/null >want
qdecode --logits -s s.cbor <loop | qsample --temp 100 --seed 1 |
    tee loop >got
cmp -s got want
ok $? "the end-of-generation token ends the loop"
qdecode -s s.cbor --temp 100 --seed 1 --ignore-eos -n 300 </dev/null >want
qdecode --logits -s s.cbor --ignore-eos <loop |
    qsample --temp 100 --seed 1 --ignore-eos -n 300 | tee loop >got
cmp -s got want
ok $? "--ignore-eos in both goes on"

# penalties that look at the prompt need it
how="--repeat-penalty 1.5 --penalty-prompt --penalty-last-n -1"
# shellcheck disable=SC2086
{
qdecode -s s.cbor -n 20 $how </dev/null >want
qdecode --logits -s s.cbor <loop | qsample -s s.cbor -n 20 $how |
    tee loop >got
}
cmp -s got want
ok $? "penalties that look at the prompt"

# plain ids as feedback
qdecode -s s.cbor -n 9 -f text </dev/null >want
qdecode --logits -s s.cbor <loop | qsample -n 9 -f text | tee loop >got
cmp -s got want
ok $? "plain ids as feedback"
refused 1 "an id outside the vocabulary as feedback" sh -c \
    'echo 623 | qdecode --logits -s s.cbor -f text >row'
done_testing
