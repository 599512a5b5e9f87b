#!/bin/sh
# cuda-lost.t - a card that is lost on the way, by the fake driver of tests/cuda: one
# line says so, and what was written before is right.
. "$TOP/tests/cli/tap.sh"
[ -z "$CARD" ] || { skip "lost cards" "only the fake driver loses one"; done_testing; }
ids 12 7 200 >ids
qprefill -q --batch 4 --logits all -f raw <ids >all
all=$(wc -c <all)
lost=0 right=0 some=0
for at in 0 1 40 120 140 200 300 320; do
	QWEN_FAKE_LOSE=$at qprefill -q --device cuda:0 --batch 4 --logits all \
	    -f raw <ids >got 2>err
	[ $? = 1 ] && [ "$(wc -l <err)" = 1 ] &&
	    grep -q 'the card was lost' err && lost=$((lost + 1))
	n=$(wc -c <got)
	head -c "$n" all | cmp -s - got && right=$((right + 1))
	[ "$n" -gt 0 ] && [ "$n" -lt "$all" ] && some=$((some + 1))
done
is "$lost" 8 "one line, and status 1"
is "$right" 8 "no row of a pass that was lost is written"
[ "$some" -gt 0 ]
ok $? "rows of passes before are"
done_testing
