#!/bin/sh
# Whole models, and the tools, on a card or on the fake driver of tests/cuda: the
# bits of the CPU, wherever layers are; one line where a card cannot be used.
. "$TOP/tests/cli/tap.sh"
CPU="--device cpu" CUDA="--device cuda:0"

# -- golden models
(cd "$TOP" && "$B/tests/golden/bits" cuda:0 cuda:0@1 moving-cuda) >bits 2>bits.err
ok $? "$(grep -c '^ok' bits) logits and states of golden models"
grep -v '^ok' bits >&2
cat bits.err >&2

# -- the pipeline: prompts, states written on one side and continued on the other
ids 40 7 400 >ids
head -n 23 ids >some
tail -n +24 ids >rest
qprefill -q $CPU --logits all -f raw <ids >cpu.logits
qprefill -q $CPU -o cpu.cbor <ids >/dev/null
qdecode -q $CPU -n 8 -s cpu.cbor -o cpu.end -f text </dev/null >cpu.text
is "$(wc -l <cpu.text)" 8 "the CPU generates 8 tokens"
for device in cuda:0 cuda:0@3-5 cuda:0@0-2,cuda:1@3-8 cuda:0,cpu:4,plain:5; do
	qprefill -q --device $device --logits all -f raw <ids | cmp -s - cpu.logits
	ok $? "logits, $device"
	qprefill -q --device $device <ids 2>err |
	    qdecode -q --device $device -n 8 -f text 2>>err | cmp -s - cpu.text
	is "$?$(cat err)" 0 "qprefill | qdecode, $device"
done
qprefill -q $CUDA -o got.cbor <ids >/dev/null
cmp -s got.cbor cpu.cbor
ok $? "a state's bytes"
QWEN_DEVICE=cuda qprefill -q -o got.cbor <ids >/dev/null
cmp -s got.cbor cpu.cbor
ok $? "QWEN_DEVICE=cuda"
for way in "$CUDA:$CPU" "$CPU:$CUDA"; do
	qprefill -q ${way%:--*} -o some.cbor <some >/dev/null
	qprefill -q --${way#*:--} -s some.cbor -o got.cbor <rest >/dev/null
	qstate diff got.cbor cpu.cbor >out
	is "$?$(cat out)" 0 "a state of ${way%:--*}, continued by --${way#*:--}"
done
for how in none lookup:3 mtp:3; do
	qdecode -q $CUDA -n 8 -s cpu.cbor --draft $how -o end.cbor -f text \
	    </dev/null >text
	cmp -s text cpu.text
	ok $? "decoded with --draft $how"
	qstate diff end.cbor cpu.end >out
	is "$?$(cat out)" 0 "and the state"
done
qdecode -v $CUDA -n 1 -s cpu.cbor --draft mtp:3 -f text </dev/null 2>err >text
grep -q '^qdecode: cuda:0 .*: layers 0-7, MTP block, head, .* GB$' err
ok $? "the MTP block is on the card: $(grep 'cuda:0' err)"
for kv in q8_0 q4_0 f32; do
	qprefill -q $CPU --kv $kv --logits all -f raw <some >want
	qprefill -q $CUDA --kv $kv --logits all -f raw <some | cmp -s - want
	ok $? "--kv $kv"
done
for numerics in 3 4; do
	qprefill -q $CPU --numerics $numerics --logits all -f raw <some >want
	qprefill -q $CUDA --numerics $numerics --logits all -f raw <some |
	    cmp -s - want
	ok $? "--numerics $numerics"
done
gguf-synth -q --lora "$QWEN_MODEL" --rank 4 -o a.lora
qprefill -q $CPU --lora a.lora --logits all -f raw <some >want
qprefill -q $CUDA --lora a.lora --logits all -f raw <some | cmp -s - want
is "$? $(cmp -s want cpu.logits; echo $?)" "0 1" "--lora"
qprefill -q $CPU --trace 'blk.1.*' --trace-at 20-22 <some >want
qprefill -q $CUDA --trace 'blk.1.*' --trace-at 20-22 <some | cmp -s - want
ok $? "--trace"

# -- many texts at the same time
for i in 1 2 3 4 5; do
	printf '{"id":"%s","tokens":[%s],"max":6,"ending":[]}\n' $i \
	    "$(ids $((5 * i)) $i 400 | paste -sd, -)"
done >many
for i in 1 2 3 4 5; do
	printf '{"id":"%s","prompt":"%s","max_tokens":6}\n' $i \
	    "$(echo 'And God said unto Moses, Speak' | cut -d' ' -f1-$i)"
done >prompts
qbatch -q $CPU <prompts 2>err | sort >want
qbatch -q $CUDA <prompts 2>>err | sort | cmp -s - want
is "$?$(cat err) $(grep -c '"completion_tokens":6' want)" "0 5" "qbatch"
qengine -q $CPU <many 2>err | sort >want
qengine -q $CUDA <many 2>>err | sort | cmp -s - want
is "$?$(cat err)" 0 "qengine"
[ "$(wc -l <want)" -ge 30 ]
ok $? "which generated what it was asked for"

# -- what is where, planned and said
gguf-inspect --plan --json -c 100 $CUDA=200M >plan 2>err
is "$?$(cat err) $(jq -r '.devices[] | "\(.device)=\(.what)"' plan | xargs)" \
    "0 cpu=nothing cuda:0=layers 0-7, head" "a plan for a card of 200M"
for key in weights kv state; do
	is "$(jq "[.devices[].$key] | add > 0" plan)" true "its $key"
done
is "$(jq '([.devices[].weights] | add) <= .memory.weights' plan)" true \
    "no more than all weights"
is "$(jq '.devices[1].read' plan)" "$(jq '.parts[-1].read - (.parts[] |
    select(.part == "embedding") | .read)' plan)" "the bytes of a token"
gguf-inspect --plan --json -c 100 $CUDA=32M >some.plan
is "$(jq -c '[.devices[].weights] | add' some.plan)" \
    "$(jq -c '[.devices[].weights] | add' plan)" "a smaller card: $(jq -r \
    '.devices[] | "\(.device): \(.what)"' some.plan | paste -sd '#' -)"
gguf-inspect --plan -c 100 $CUDA=21M,plain:0 | grep '^device' >text
is "$(awk '{ print $2 }' text | xargs)" "name cpu cuda:0 plain" "as text"
qprefill -v $CUDA@2-4 -o got.cbor <some 2>err >/dev/null
grep -q '^qprefill: cuda:0 .*: layers 2-4, .* GB$' err
ok $? "-v: $(grep 'cuda:0' err)"
refused 1 "a plan of no device" gguf-inspect --plan --device gpu
is "$(jq '.devices[1].memory' plan)" 209715200 "the memory that it may take"
is "$(jq '.devices | map(.scratch >= 0 and .read_gb_s > 0 and .int8_gmac_s > 0)
    | all' plan) $(jq '.speed.decode > 0 and .speed.prefill > 0' plan)" \
    "true true" "speeds of both sides, and together"
gguf-inspect --plan -c 500 $CUDA=1M >/dev/null 2>err
is "$?$(cat err)" 0 "what fits is planned without a note"

# -- all cards that are there
qprefill -v --device auto -o got.cbor <ids 2>err >/dev/null
cmp -s got.cbor cpu.cbor
is "$? $(grep -c 'qprefill: cuda:.*layers 0-7, MTP block, head' err)" "0 1" \
    "--device auto: $(grep 'qprefill: cuda' err)"
QWEN_DEVICE=auto,cpu:2 qprefill -v -o got.cbor <ids 2>err >/dev/null
cmp -s got.cbor cpu.cbor
is "$? $(grep -c 'cuda:.*layers 0-1 and 3-7, MTP block, head' err)" "0 1" \
    "QWEN_DEVICE=auto,cpu:2"
gguf-inspect --plan --json --device auto >auto.plan
is "$(jq -r '.devices[1].what' auto.plan)" "layers 0-7, head" "a plan of them"

# -- how fast it is
qbench --machine --device cuda:0 --json >out 2>err
is "$?$(cat err) $(jq -c '[.peak_gb_s, .memory_gb_s, .put_gb_s, .get_gb_s,
    .put_pageable_gb_s, .get_pageable_gb_s, .launch_us, .graph_launch_us,
    .int8_gmac_s] | map(. > 0) | unique' out)" "0 [true]" \
    "qbench --machine: $(cut -c1-60 out)"
qbench --machine --device cuda:0 --csv >out
is "$(awk -F , '{ print NF }' out | xargs)" "11 11" "as CSV"

# -- what cannot be
for device in cuda:64 cuda:x cuda: cuda:0= cuda:0=x cuda:0=0 \
    cuda:0=99999999999999999999 cuda:0=99999999999G cuda:0@ cuda:0@5-3 \
    cuda:0@99 cuda:0@1=2G cuda:0:1 gpu cuda:0, auto=8G auto:0 ''; do
	refused 1 "--device '$device'" qprefill -q --device "$device" -o no.cbor <ids
	grep -q '^qprefill: --device' err && [ ! -e no.cbor ]
	ok $? "which the message begins with: $(cut -c1-60 err)"
done

# -- without a driver, and faults of the fake one
if [ -n "$CARD" ]; then
	skip "faults of the fake driver" "this is a real card"
	done_testing
fi
refused 1 "two cards" qprefill -q --device cuda:2 <ids
grep -q 'no card 2, but cuda:0 (emulated card), cuda:1 (emulated card)$' err
ok $? "which the message lists: $(cat err)"
for bytes in 1 100000 1000000 3000000 8000000; do
	QWEN_FAKE_MEMORY=$bytes qprefill -q --device auto -o got.cbor <ids \
	    >/dev/null 2>err
	cmp -s got.cbor cpu.cbor
	is "$?$(cat err)" 0 "--device auto, cards of $bytes bytes"
	QWEN_FAKE_MEMORY=$bytes qprefill -q $CUDA -o got.cbor <ids >/dev/null 2>err
	cmp -s got.cbor cpu.cbor
	is "$?$(cat err)" 0 "a card of $bytes bytes"
	qprefill -q $CUDA=$bytes -o got.cbor <ids >/dev/null 2>err
	cmp -s got.cbor cpu.cbor
	is "$?$(cat err)" 0 "$CUDA=$bytes"
done
unset LD_LIBRARY_PATH
if [ -z "$(ldconfig -p 2>/dev/null | grep libcuda.so.1)" ]; then
	refused 1 "no driver" qprefill -q $CUDA <ids
	grep -q 'no libcuda.so.1' err
	ok $? "which the message says"
	qprefill -v --device auto -o got.cbor <ids 2>err >/dev/null
	cmp -s got.cbor cpu.cbor
	is "$? $(grep -c 'device auto: no libcuda.so.1' err)" "0 1" \
	    "--device auto computes on the CPU"
	refused 1 "no card to measure" qbench --machine --device cuda:0
fi
done_testing
