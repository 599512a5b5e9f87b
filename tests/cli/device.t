#!/bin/sh
# QWEN_DEVICE: layers on another device have the same bits: logits, states, drafts,
# resumed and cut runs.
. "$TOP/tests/cli/tap.sh"
ids 90 7 400 >ids
head -n 50 ids >some
tail -n +51 ids >rest

# -- on the CPU alone
qprefill -q --logits all -f raw <ids >cpu.logits
qprefill -q -o cpu.cbor <ids >/dev/null
qdecode -q -n 24 -s cpu.cbor -f text </dev/null >cpu.text

for device in plain plain:0 plain:1,plain:5-8; do
	QWEN_DEVICE=$device; export QWEN_DEVICE
	qprefill -q --logits all -f raw <ids | cmp -s - cpu.logits
	ok $? "logits, $device"
	qprefill -q -o got.cbor <ids >/dev/null
	cmp -s got.cbor cpu.cbor
	ok $? "state, $device"
	qprefill -q -o some.cbor <some >/dev/null
	(unset QWEN_DEVICE; qprefill -q -s some.cbor -o got.cbor <rest >/dev/null)
	qstate diff got.cbor cpu.cbor >out
	is "$?$(cat out)" 0 "begun on $device, ended on the CPU"
	for how in none lookup:3 mtp:3; do
		qdecode -q -n 24 -s cpu.cbor --draft $how -o end.cbor -f text \
		    </dev/null >text
		cmp -s text cpu.text
		ok $? "decoded with --draft $how, $device"
		[ $how = none ] && mv end.cbor none.cbor
	done
	qstate diff none.cbor end.cbor >out
	is "$?$(cat out)" 0 "drafts leave nothing in the state, $device"
	unset QWEN_DEVICE
done

# -- a pass that is traced runs on the CPU, between passes that are not
qprefill -q --trace 'blk.1.*' --trace-at 60-70 --batch 16 -o a.cbor <ids >a
is "$?" 0 "traced on the CPU"
QWEN_DEVICE=plain qprefill -q --trace 'blk.1.*' --trace-at 60-70 --batch 16 \
    -o b.cbor <ids >b
cmp -s a b && cmp -s a.cbor b.cbor
ok $? "the same trace and state with all layers on plain"

# -- what names no device
for device in none plain: plain:9-1 plain:1- plain:99 , cuda:0=8T \
    cuda:0=17179869185G; do
	QWEN_DEVICE=$device; export QWEN_DEVICE
	refused 1 "QWEN_DEVICE=$device" qprefill -q <ids
	grep -q '^qprefill: QWEN_DEVICE: ' err
	ok $? "which the message begins with: $(cat err)"
done
done_testing
