#!/bin/sh
# --kv: KV caches in q8_0, q4_0 and f32 have the same bits however they were
# computed, and states of different types are never mixed.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
ids 300 7 400 | tr '\n' ' ' >ids
head -c 400 ids | sed 's/ [0-9]*$//' >some
qprefill -o f16.cbor <ids >ready.f16
qprefill --kv f16 -o same.cbor <ids >/dev/null
cmp -s f16.cbor same.cbor
ok $? "f16 is the default"

# --- the bits
for kv in q8_0 q4_0 f32; do
	qprefill --kv $kv -o $kv.cbor <ids >ready.$kv
	is "$?" 0 "$kv"
	for t in 1 3; do
		for cpu in scalar avx2 avxvnni avx512 neon; do
			QWEN_CPU=$cpu qprefill -q --kv $kv --batch $((t * 17)) \
			    -t "$t" -o got.cbor <ids >/dev/null 2>&1 &&
			    cmp -s got.cbor $kv.cbor
			ok $? "the same bits, $kv, $cpu, $t threads"
		done
	done
	qprefill --kv $kv -o some.cbor <some >/dev/null
	tr ' ' '\n' <ids | sed '/^$/d' |
	    sed "1,$(wc -w <some | tr -d ' ')d" >rest
	qprefill --kv $kv -s some.cbor -o whole.cbor <rest >/dev/null
	qstate diff whole.cbor $kv.cbor >out
	is "$?$(cat out)" 0 "$kv goes on in a state"
	qdecode --kv $kv -s $kv.cbor -n 40 -f text </dev/null >a
	for how in none lookup lookup:3; do
		qdecode --kv $kv -s $kv.cbor -n 40 --draft $how -o end.cbor \
		    -f text </dev/null >b
		is "$(wc -l <b | tr -d ' ')$(cmp a b)" 40 "decoded with --draft $how"
		[ $how = none ] && mv end.cbor plain.cbor
	done
	qstate diff plain.cbor end.cbor >out
	is "$?$(cat out)" 0 "and what wrong guesses left in the state is nothing"
	qdecode --kv $kv -s $kv.cbor -n 15 -o mid.cbor -f text </dev/null >b
	qdecode --kv $kv -s mid.cbor -n 25 -f text </dev/null >>b
	is "$(cmp a b)" "" "in two runs"
	qprefill --kv $kv --no-compress -o raw.cbor <ids >/dev/null
	qdecode --kv $kv -s raw.cbor -n 40 -f text </dev/null >b
	is "$(cmp a b)" "" "from a mapped file"
	qstate verify $kv.cbor && qstate verify raw.cbor
	ok $? "whole"
done
qprefill --kv-k q8_0 --kv-v q4_0 -o mixed.cbor <ids >/dev/null
is "$(qstate show mixed.cbor | grep -E '^(keys|values) ' | xargs)" \
    "keys q8_0 values q4_0" "one for keys, another for values"
is "$(qstate show f16.cbor | grep -cE '^(keys|values) ')" 0 "f16 says nothing"
is "$(for f in f32 f16 q8_0 mixed q4_0; do
	qstate show -v $f.cbor >/dev/null || echo fail
	qstate show --json $f.cbor | jq .raw
done | sort -rnu | wc -l | tr -d ' ')" 5 "each is smaller than the one before"
qstate diff q8_0.cbor f16.cbor >out
is "$? $(grep -cE '^(keys|values)' out)" "1 2" "diff tells"

# --- never mixed
refused 1 "q8_0 by f16" qdecode -s q8_0.cbor -n 1 </dev/null
is "$(grep -c 'q8_0.cbor.*q8_0 keys and q8_0 values, this run uses f16 and f16; see --kv' err)" \
    1 "both are named"
refused 1 "f16 by q8_0" qdecode --kv q8_0 -s f16.cbor -n 1 </dev/null
refused 1 "f32 by f16" qdecode -s f32.cbor -n 1 </dev/null
refused 1 "q4_0 by q8_0" qdecode --kv q8_0 -s q4_0.cbor -n 1 </dev/null
refused 1 "keys alone" qdecode --kv-k q8_0 -s q8_0.cbor -n 1 </dev/null
refused 1 "after a ready record" sh -c 'qdecode -s q8_0.cbor -n 1 <ready.q8_0'
refused 1 "in-band" sh -c 'qdecode -n 1 <q8_0.cbor'
refused 1 "--reuse" sh -c 'qprefill --reuse q8_0.cbor -o new.cbor <ids'
is "$(ls -A | grep -c 'new.cbor')" 0 "no file is left"

# --- a store
for kv in f16 q8_0 q4_0 f32; do
	qprefill --kv $kv --store S -v -o warm.cbor <ids >/dev/null 2>err
	is "$?$(grep -c '^qprefill: 0 tokens from store' err)" 01 \
	    "$kv finds nothing of another in a store"
	qprefill --kv $kv --store S -v -o warm.cbor <ids >/dev/null 2>err
	is "$?$(grep -c '^qprefill: 300 tokens from store' err)" 01 "then its own"
	cmp -s warm.cbor $kv.cbor
	ok $? "with its bits"
done
qstate verify --store S
ok $? "all of it is whole"
is "$(qstate ls --store S | sed -n 's/^model.*numerics [0-9]*//p' | sort | xargs)" \
    "keys f32 values f32 keys q4_0 values q4_0 keys q8_0 values q8_0" "ls tells of which each file is"
is "$(qstate ls --store S | grep -c ^model) $(qstate du --store S | grep -c ^model)" "4 4" "f16 as well"
is "$(qstate du --store S | sed -n 's/^model.*numerics [0-9]*//p' | sort | xargs)" \
    "keys f32 values f32 keys q4_0 values q4_0 keys q8_0 values q8_0" "and du"
for c in ls du; do
	is "$(qstate $c --json --store S | jq -r 'select(.model) | "\(.keys) \(.values)"' | sort -u | xargs)" \
	    "f32 f32 null null q4_0 q4_0 q8_0 q8_0" "$c --json"
done
qprefill --kv-v q4_0 --trace '*' --trace-out t.cbor <some >/dev/null
is "$(qstate show t.cbor | grep -E '^(keys|values) ' | xargs) $(qstate show --json t.cbor |
    jq -r '[.keys, .values, (.stages | length > 0)] | map(tostring) | join(" ")')" \
    "keys f16 values q4_0 f16 q4_0 true" "a trace, too"

# --- qstate needs no --kv
qstate slice -n 250 -o slice.cbor q8_0.cbor 2>err
is "$?$(cat err)" 0 "a slice"
tr ' ' '\n' <ids | head -n 250 | qprefill --kv q8_0 -o cut.cbor >/dev/null
qdecode --kv q8_0 -s cut.cbor -n 5 -f text </dev/null >a
qdecode --kv q8_0 -s slice.cbor -n 5 -f text </dev/null >b
is "$(wc -l <a | tr -d ' ')$(cmp a b)" 5 "goes on as if it had never been longer"

# --- a kept state, made smaller
lost() { # FILE: what of the keys and values, in percent
	sed -n 's/.* loses \([0-9.]*\) % of their size$/\1/p' "$1" | xargs
}
qstate pack --kv q8_0 -o conv.q8_0 f16.cbor 2>err
is "$?$(lost err | awk '{ print NF, ($1 > 0.2 && $1 < 1), ($2 > 0.2 && $2 < 1) }')" \
    "02 1 1" "packed as q8_0: what is lost is told: $(lost err)"
qstate pack --kv q4_0 -o conv.q4_0 f16.cbor 2>err
is "$?$(lost err | awk '{ print NF, ($1 > 3 && $1 < 15), ($2 > 3 && $2 < 15) }')" \
    "02 1 1" "as q4_0: $(lost err)"
qstate pack --kv-v q4_0 -o conv.mixed q8_0.cbor 2>err
is "$?$(lost err | wc -w | tr -d ' ') $(qstate show conv.mixed | grep -E '^(keys|values|converted) ' | xargs)" \
    "01 keys q8_0 values q4_0 converted from finer keys and values" "values alone"
qstate pack --kv f16 -o conv.f16 f32.cbor 2>err
is "$?$(lost err | awk '{ print NF, ($1 > 0.01 && $1 < 0.05), ($2 > 0.01 && $2 < 0.05) }')" \
    "02 1 1" "f32 as f16: $(lost err)"
for kv in q8_0 q4_0 f16; do
	qstate verify conv.$kv
	is "$?$(qstate show --json conv.$kv | jq -c '[.raw, .converted]')" \
	    "0[$(qstate show --json $kv.cbor | jq .raw),true]" "$kv is whole, and as large as what was read so"
	qstate diff conv.$kv $kv.cbor >out
	is "$?$(grep -c '^keys\|^values' out)" 10 "and not the same"
	qdecode --kv $kv -s conv.$kv -n 20 -o on.cbor -f text </dev/null >a
	is "$?$(wc -l <a | tr -d ' ')$(qstate show on.cbor | grep -c '^converted')" "0201" \
	    "it is gone on from, which is known as well"
	from=f16
	[ $kv = f16 ] && from=f32
	qstate pack --no-compress --kv $kv $from.cbor 2>/dev/null >conv.raw
	qdecode --kv $kv -s conv.raw -n 20 -f text </dev/null >b
	is "$(qstate verify conv.raw; echo $?)$(cmp a b)" 0 "the mapped form likewise"
done
qstate pack --kv f16 -o again.cbor f16.cbor 2>err && cmp again.cbor f16.cbor
is "$?$(cat err)" 0 "what it has already changes nothing"
qprefill --kv q8_0 -s conv.q8_0 --store S2 -o warm.cbor <rest >/dev/null
is "$?$(qstate ls --store S2 --json | jq -s length)" 00 "a store takes nothing that goes on from it"
refused 1 "what is lost does not come back" qstate pack --kv f16 q8_0.cbor
is "$(grep -c 'q8_0.cbor: .* cannot become f16 and f16: .* cannot be restored' err)" 1 "and says why"
refused 1 "nor from f16" qstate pack --kv f32 f16.cbor
is "$(grep -c 'f16.cbor: .* cannot become f32 and f32' err)" 1 "and says it"
refused 1 "by the other kind" qdecode --kv q4_0 -s conv.q8_0 -n 1 </dev/null
refused 2 "slice converts nothing" qstate slice --kv q8_0 -n 10 f16.cbor
qprefill -m "$TOP/demo/demo.gguf" --draft auto -o demo.cbor <some >/dev/null
qstate pack --kv q8_0 -o demo8.cbor demo.cbor 2>/dev/null &&
    qdecode -m "$TOP/demo/demo.gguf" --kv q8_0 --draft mtp -s demo8.cbor -n 30 \
    --ignore-eos -f text </dev/null >a
is "$?$(wc -l <a | tr -d ' ')" 030 "with what the block that predicts has"
qdecode -m "$TOP/demo/demo.gguf" --kv q8_0 --draft none -s demo8.cbor -n 30 \
    --ignore-eos -f text </dev/null >b
is "$(cmp a b)" "" "whose guesses change nothing"

# --- what is said
is "$(qprefill --kv q8_0 --logits=last -f json <ids | head -n 1 | jq -r .keys,.values | xargs)" \
    "q8_0 q8_0" "the header of logits"
qprefill --kv-v q4_0 -v <ids 2>&1 >/dev/null | grep -q 'numerics 1, keys f16, values q4_0$'
ok $? "-v"
is "$(for kv in f32 f16 q8_0 q4_0; do
	gguf-inspect --plan -c 500 --kv $kv "$MODEL" |
	    sed -n 's/^memory  kv-cache *\([0-9]*\) .*/\1/p'
done | sort -rnu | wc -l | tr -d ' ')" 4 "the plan counts it"
refused 2 "no such kind" qprefill --kv q5_0 </dev/null
refused 2 "nor of keys" qprefill --kv-k q5_0 </dev/null

# --- f32 of itself, where the weights of keys are F32
model qwen35moe-f32
QWEN_MODEL=$MODEL
qprefill -o own.cbor <ids >/dev/null
is "$?$(qstate show own.cbor | grep -E '^(keys|values) ' | xargs)" \
    "0keys f32 values f32" "a file of F32"
qprefill --kv f32 -o same.cbor <ids >/dev/null
cmp -s own.cbor same.cbor
ok $? "as with --kv f32"
qprefill --kv-v f16 -o half.cbor <ids >/dev/null
is "$?$(qstate show half.cbor | grep -E '^(keys|values) ' | xargs)" \
    "0keys f32 values f16" "values alone otherwise"
qprefill --kv f16 -o half.cbor <ids >/dev/null
refused 1 "a state of f16 by it" qdecode -s half.cbor -n 1 </dev/null
is "$(qdecode --kv f16 -s half.cbor -n 3 -f text </dev/null 2>err | wc -l | tr -d ' ')" 3 \
    "unless it is told"
echo '*.attn_k.weight F16' >types
gguf-quantize -q --type F32 --types types -o k16.gguf "$MODEL"
qprefill -m k16.gguf --logits last -f json <ids 2>err | head -n 1 >out
is "$(jq -r '.keys // "f16"' out)" f16 "but not where they are F16"
model qwen2
refused 1 "heads of 16" sh -c 'qprefill -m "$1" --kv q8_0 <ids' sh "$MODEL"
is "$(grep -c 'head size 16 is not' err)" 1 "say so"
done_testing
