#!/bin/sh
# --numerics: a state of one version is refused by another, with a message.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 4 5 6 7 8 9 10 >ids
qprefill -o one.cbor <ids >ready.one
qprefill --numerics 1 -o same.cbor <ids >/dev/null
cmp -s one.cbor same.cbor
ok $? "version 1 is the default"
qprefill --numerics 4 -o four.cbor <ids >ready.four
is "$?" 0 "version 4"
cmp -s one.cbor four.cbor
is "$?" 1 "is another"
for t in 1 3; do
	for cpu in scalar avx2 avxvnni avx512 vbmi bf16 amx neon; do
		QWEN_CPU=$cpu qprefill -q --numerics 4 --batch "$t" -t "$t" <ids 2>/dev/null |
		    cmp -s - four.cbor
		ok $? "the same bits, $cpu, $t threads"
	done
done

# --- across versions, with a state
refused 1 "1 by qdecode of 4" qdecode --numerics 4 -s one.cbor -n 1 </dev/null
is "$(grep -c 'one.cbor.*numerics version 1, this run uses 4' err)" 1 "both are named"
refused 1 "4 by qdecode of 1" qdecode -s four.cbor -n 1 </dev/null
is "$(grep -c 'four.cbor.*numerics version 4, this run uses 1' err)" 1 "both are named"
refused 1 "4 by qdecode of 1 after a ready record" sh -c \
    'qdecode -s four.cbor -n 1 <ready.four'
refused 1 "1 by qdecode --logits of 4" sh -c \
    ': | qdecode --logits --numerics 4 -s one.cbor -n 1'
refused 1 "1 in-band" sh -c 'qdecode --numerics 4 -n 1 <one.cbor'
refused 1 "4 in-band" sh -c 'qdecode -n 1 <four.cbor'
refused 1 "--resume" qdecode --numerics 4 --resume -s one.cbor -n 1 </dev/null

# both COMMAND OPTION: neither way, and no file is left
both() {
	refused 1 "1 by $1 of 4" sh -c "$1 --numerics 4 $2 one.cbor -o new.cbor <ids"
	is "$(grep -c 'one.cbor.*numerics version 1, this run uses 4' err)" 1 "both are named"
	refused 1 "4 by $1 of 1" sh -c "$1 $2 four.cbor -o new.cbor <ids"
	is "$(grep -c 'four.cbor.*numerics version 4, this run uses 1' err)" 1 "both are named"
	is "$(ls -A | grep -c 'new.cbor')" 0 "no file is left"
}
both qprefill -s
both qprefill --reuse
both "qdecode -n 2" -s
both "qdecode -n 2 --save-every 60" -s

# --- a run that can be killed
for v in 1 4; do
	qdecode --numerics $v -n 6 --save-every 60 -o run$v.cbor -f text <ids >run$v
	qdecode --numerics $v -n 6 --save-every 60 -o run$v.cbor -f text -v <ids 2>err |
	    cmp -s - run$v
	is "$?$(grep -c 'found its finished run' err)" 01 "a run of version $v is found again"
done
cp run1.cbor kept.cbor
refused 1 "in place" qdecode --numerics 4 -n 6 --save-every 60 -s run1.cbor \
    -o run1.cbor </dev/null
cmp -s run1.cbor kept.cbor
ok $? "what is there stays"
qdecode --numerics 4 -n 6 --save-every 60 -o run1.cbor -f text <ids >got 2>err
is "$?$(wc -l <err | tr -d ' ')$(grep -c 'numerics version 1, this run uses 4; see --numerics; starting anew' err)" \
    011 "elsewhere: begun anew, and said so"
cmp -s got run4 && cmp -s run1.cbor run4.cbor
ok $? "as if nothing had been there"

# --- a store
seq 1 90 >long
for v in 1 4; do
	qprefill --numerics $v --no-store -o cold$v.cbor <long >/dev/null
	qprefill --numerics $v --store S -v -o warm.cbor <long >/dev/null 2>err
	is "$?$(grep -c '^qprefill: 0 tokens from store' err)" 01 \
	    "version $v finds nothing of another in a store"
	cmp -s warm.cbor cold$v.cbor
	ok $? "and has its own bits"
done
for v in 1 4; do
	qprefill --numerics $v --store S -v -o warm.cbor <long >/dev/null 2>err
	is "$?$(grep -c '^qprefill: 90 tokens from store' err)" 01 "then version $v finds its own"
	cmp -s warm.cbor cold$v.cbor
	ok $? "with its bits"
done
qstate verify --store S
ok $? "all of it is whole"
is "$(qstate du --store S | sed -n 's/^model .*numerics //p' | sort | xargs)" "1 4" \
    "du tells them apart"

# --- qstate needs no --numerics
is "$(for f in one four; do qstate show $f.cbor; done |
    sed -n 's/^numerics //p' | xargs)" "1 4" "show"
qstate diff one.cbor four.cbor >out
is "$? $(grep -c '^numerics' out)" "1 1" "diff"
for v in 1 4; do
	head -n 70 long | qprefill --numerics $v -o cut.cbor >/dev/null
	qstate slice -n 70 -o slice.cbor cold$v.cbor 2>err
	is "$?$(cat err)" 0 "a slice of version $v"
	qdecode --numerics $v -s cut.cbor -n 5 -f text </dev/null >a
	qdecode --numerics $v -s slice.cbor -n 5 -f text </dev/null >b
	is "$(wc -l <a | tr -d ' ')$(cmp a b)" 5 "goes on as if it had never been longer"
	refused 1 "and not in the other" qdecode --numerics $((5 - v)) \
	    -s slice.cbor -n 1 </dev/null
done

# --- within one
qprefill --numerics 4 -s four.cbor -o more.cbor <ids >/dev/null
cat ids ids | qprefill --numerics 4 -o all.cbor >/dev/null
qstate diff all.cbor more.cbor
ok $? "a state of version 4 goes on in it"
qdecode --numerics 4 -s four.cbor -n 8 -f text </dev/null >a
qprefill --numerics 4 <ids | qdecode --numerics 4 -n 8 -f text >b
is "$(wc -l <a | tr -d ' ')$(cmp a b)" 8 "qdecode goes on from it"
qdecode --numerics 4 -s four.cbor -n 3 -o mid.cbor -f text </dev/null >c
qdecode --numerics 4 -s mid.cbor -n 5 -f text </dev/null >>c
is "$(cmp a c)" "" "in two runs"
is "$(qprefill --numerics 4 --logits=last -f json <ids | head -n 1 | jq .numerics)" 4 \
    "the header of logits says 4"
is "$(qprefill --logits=last -f json <ids | head -n 1 | jq .numerics)" 1 "or 1"
is "$(qbench -m "$MODEL" --numerics 4 -p 4 -n 2 -r 1 -t 1 --json | jq -r '.setting.numerics,
    ([.kernels[] | select(.name | test("Q"))] | length > 0 and all(.peak == "int8"))' | xargs)" \
    "4 true" "qbench"

# --- what does not depend on it
echo hi | qtok | qprefill --numerics 4 | qdecode --numerics 4 -n 4 | qtok -d >out 2>err
is "$?$(cat err)" 0 "tokens are tokens"
is "$(qdecode --numerics 4 -s four.cbor -n 1 -f json </dev/null | head -n 1 |
    jq 'has("numerics")')" false "and say nothing of it"
qprefill --numerics 4 --logits=last -o new.cbor <ids | qsample -f text >out 2>err
is "$?$(wc -l <out | tr -d ' ')$(cat err)" 01 "logits of it are sampled"
qprefill --numerics 4 -v <ids 2>&1 >/dev/null | grep -q 'numerics 4$'
ok $? "-v tells"

# --- version 3 differs from 1 where there are weights in 16 bits
qprefill --numerics 3 --logits all -f raw <ids >three.rows
qprefill --logits all -f raw <ids >one.rows
cmp -s one.rows three.rows
ok $? "without any, 3 gives what 1 gives"
qprefill --numerics 3 -o three.cbor <ids >/dev/null
refused 1 "but states are apart" qdecode -s three.cbor -n 1 </dev/null
is "$(grep -c 'three.cbor.*numerics version 3, this run uses 1' err)" 1 "both are named"
model qwen3
QWEN_MODEL=$MODEL; export QWEN_MODEL
qprefill --numerics 3 --logits all -f raw <ids >three.rows
qprefill --logits all -f raw <ids >one.rows
cmp -s one.rows three.rows
is "$?" 1 "with some it does not"
for cpu in scalar avx2 avxvnni avx512 vbmi bf16 amx neon; do
	QWEN_CPU=$cpu qprefill -q --numerics 3 --logits all -f raw --batch 3 <ids 2>/dev/null >rows ||
		continue
	cmp -s rows three.rows
	ok $? "the same bits, $cpu, in batches of 3"
done
echo 1 2 3 4 5 6 7 | qprefill --numerics 3 -o cut.cbor >/dev/null
echo 8 9 10 | qprefill --numerics 3 -s cut.cbor --logits all -f raw >rest.rows
tail -c "$(wc -c <rest.rows)" three.rows | cmp -s - rest.rows
ok $? "and goes on from a state"

# --- a state of version 2, which is gone
cp "$TOP/tests/files/state/qwen3.numerics2.state" gone.cbor
QWEN_MODEL=$TOP/tests/files/state/qwen3.gguf
for run in 'qprefill -s gone.cbor <ids' 'qdecode -s gone.cbor -n 1 </dev/null' \
    'qstate slice -n 2 -o none.cbor gone.cbor'; do
	refused 1 "${run%% *}" sh -c "$run"
	is "$(grep -c 'gone.cbor: .*made by numerics version 2' err)" 1 "and says why"
done
is "$(ls -A | grep -c 'none.cbor')" 0 "no file is left"
is "$(qstate show gone.cbor | grep '^numerics')" "numerics 2" "it is shown"
qstate verify gone.cbor
ok $? "and is whole"

# --- the command line
for tool in qprefill qdecode qbench; do
	for v in 0 2 5 -1 x 11 ''; do
		refused 2 "$tool --numerics '$v'" sh -c \
		    "$tool --numerics '$v' </dev/null"
	done
done
is "$(qprefill --numerics 2 </dev/null 2>&1 | grep -c "'2' is not one of 1, 3 and 4; version 2 was removed, use 4;")" 1 \
    "what became of 2"
done_testing
