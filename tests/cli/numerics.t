#!/bin/sh
# --numerics: one version never goes on with what another began, and says so.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 4 5 6 7 8 9 10 >ids
qprefill -o one.cbor <ids >ready.one
qprefill --numerics 1 -o same.cbor <ids >/dev/null
cmp -s one.cbor same.cbor
ok $? "version 1 is the default"
qprefill --numerics 2 -o two.cbor <ids >ready.two
is "$?" 0 "version 2"
cmp -s one.cbor two.cbor
is "$?" 1 "is another"
for t in 1 3; do
	for cpu in scalar avx2 avx512; do
		QWEN_CPU=$cpu qprefill -q --numerics 2 --batch "$t" -t "$t" <ids 2>/dev/null |
		    cmp -s - two.cbor
		ok $? "the same bits, $cpu, $t threads"
	done
done

# --- across versions
refused 1 "1 by qdecode of 2" qdecode --numerics 2 -s one.cbor -n 1 </dev/null
is "$(grep -c 'one.cbor.*numerics version 1, this run of 2' err)" 1 "both are named"
refused 1 "2 by qdecode of 1" qdecode -s two.cbor -n 1 </dev/null
is "$(grep -c 'two.cbor.*numerics version 2, this run of 1' err)" 1 "both are named"
refused 1 "2 by qdecode of 1 behind a ready record" sh -c \
    'qdecode -s two.cbor -n 1 <ready.two'
refused 1 "in-band" sh -c 'qdecode --numerics 2 -n 1 <one.cbor'
refused 1 "1 by qprefill of 2" sh -c \
    'qprefill --numerics 2 -s one.cbor -o new.cbor <ids'
[ ! -e new.cbor ]
ok $? "no file is left"
refused 1 "--resume" qdecode --numerics 2 --resume -s one.cbor -n 1 </dev/null

# --- states to reuse, a store, a slice
refused 1 "--reuse" sh -c 'qprefill --numerics 2 --reuse one.cbor -o new.cbor <ids'
is "$(grep -c 'numerics version 1, this run of 2' err)" 1 "both are named"
seq 1 90 >long
qprefill --numerics 2 -o whole.cbor <long >/dev/null
head -n 70 long | qprefill --numerics 2 -o cut.cbor >/dev/null
qstate slice -n 70 -o slice.cbor whole.cbor 2>err
is "$?$(cat err)" 0 "a slice of version 2"
qdecode --numerics 2 -s cut.cbor -n 5 -f text </dev/null >a
qdecode --numerics 2 -s slice.cbor -n 5 -f text </dev/null >b
is "$(wc -l <a | tr -d ' ')$(cmp a b)" 5 "goes on as if it had never been longer"

# --- within one
qprefill --numerics 2 -s two.cbor -o more.cbor <ids >/dev/null
cat ids ids | qprefill --numerics 2 | cmp -s - more.cbor
ok $? "a state of version 2 goes on in it"
qdecode --numerics 2 -s two.cbor -n 8 -f text </dev/null >a
qprefill --numerics 2 <ids | qdecode --numerics 2 -n 8 -f text >b
is "$(wc -l <a | tr -d ' ')$(cmp a b)" 8 "qdecode goes on from it"
qdecode --numerics 2 -s two.cbor -n 3 -o mid.cbor -f text </dev/null >c
qdecode --numerics 2 -s mid.cbor -n 5 -f text </dev/null >>c
is "$(cmp a c)" "" "in two runs"
is "$(qprefill --numerics 2 --logits=last -f json <ids | head -n 1 | jq .numerics)" 2 \
    "the header of logits says 2"
is "$(qprefill --logits=last -f json <ids | head -n 1 | jq .numerics)" 1 "or 1"
is "$(qbench -m "$MODEL" --numerics 2 -p 4 -n 2 -r 1 -t 1 --json |
    jq -r '.setting.numerics, ([.kernels[] | select(.name | test("Q")).peak] | unique | .[])' | xargs)" \
    "2 f32" "qbench"

# --- the command line
for tool in qprefill qdecode qbench; do
	for v in 0 3 -1 x ''; do
		refused 2 "$tool --numerics '$v'" sh -c \
		    "$tool --numerics '$v' </dev/null"
	done
done
done_testing
