#!/bin/sh
# cuda-lost.t - a card that is lost while a tool computes, by the fake driver of
# tests/cuda: one line says so, and the CPU gives what the card would have given.
. "$TOP/tests/cli/tap.sh"
[ -z "$CARD" ] || { skip "lost cards" "only the fake driver loses one"; done_testing; }
ids 12 7 200 >ids
qprefill -q --batch 4 --logits all -f raw <ids >all
qprefill -q -o cpu.cbor <ids >/dev/null
qdecode -q -n 20 -s cpu.cbor -o cpu.end -f text </dev/null >text
for i in 1 2 3; do
	printf '{"id":"%s","tokens":[%s],"max":4,"ending":[]}\n' $i \
	    "$(ids $((5 * i)) $i 400 | paste -sd, -)"
	printf '{"id":"%s","prompt":"And God said, %s","max_tokens":4}\n' $i \
	    "$i" >&3
done >many 3>prompts
qengine -q --device cpu <many | sort >events
qbatch -q --device cpu <prompts | sort >answers

# told N: the one line of err says that the CPU continues
told() {
	[ "$(wc -l <err)" = 1 ] && grep -q 'the card was lost.*the CPU continues' err
}

right=0 lines=0 n=0
for at in 30 40 120 140 200 300; do
	QWEN_FAKE_LOSE=$at; export QWEN_FAKE_LOSE
	qprefill --device cuda:0 --batch 4 --logits all -f raw <ids >got 2>err &&
	    cmp -s got all && right=$((right + 1))
	told && lines=$((lines + 1))
	qdecode --device cuda:0 -n 20 -s cpu.cbor -o got.end -f text </dev/null \
	    >got 2>err && cmp -s got text && cmp -s got.end cpu.end &&
	    right=$((right + 1))
	told && lines=$((lines + 1))
	n=$((n + 2))
done
is "$right $lines" "$n $n" "qprefill and qdecode: all right, one line each"
QWEN_FAKE_LOSE=150
qdecode --device cuda:0 -n 20 -s cpu.cbor -f text --draft mtp:3 </dev/null \
    >got 2>err
cmp -s got text && told
ok $? "with drafts: $(cat err)"
qengine --device cuda:0 <many 2>err | sort | cmp -s - events && told
ok $? "qengine: $(cat err)"
qbatch --device cuda:0 <prompts 2>err | sort | cmp -s - answers &&
    grep -q 'the card was lost.*the CPU continues' err
ok $? "qbatch: $(grep lost err)"
qprefill -q --device cuda:0 <ids 2>err >/dev/null
is "$(cat err)" "" "-q says nothing"
unset QWEN_FAKE_LOSE
for at in 3 5 8 12; do
	QWEN_FAKE_LOSE_COPY=$at qprefill --device cuda:0 -o got.cbor <ids \
	    >/dev/null 2>err
	cmp -s got.cbor cpu.cbor && told
	ok $? "while a state is saved: $(cat err)"
	rm got.cbor
done
QWEN_FAKE_LOSE=0; export QWEN_FAKE_LOSE
refused 1 "a card that is lost when it is opened" \
    qprefill -q --device cuda:0 -o no.cbor <ids
[ ! -e no.cbor ]
ok $? "no state is written"
done_testing
