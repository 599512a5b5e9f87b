#!/bin/sh
# --lora: the same bits however they were computed; states are never mixed with
# those of the plain model or of another adapter.
. "$TOP/tests/cli/tap.sh"
LEVELS="scalar avx2 avxvnni avx512 vbmi bf16 amx neon dotprod i8mm"

for name in qwen2 qwen3moe qwen3next qwen35moe-ud qwen35-tied qwen3; do
	model "$name"
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	vocab=$(gguf-inspect --json | jq '.tensors[] |
	    select(.name == "token_embd.weight") | .shape[1]')
	ids 90 5 "$vocab" >ids
	rm -f ./*.cbor
	gguf-synth --lora "$MODEL" --rank 4 -o a.lora &&
	    gguf-synth --lora "$MODEL" --rank 9 --seed 2 --recipe F16 -o b.lora
	is "$?" 0 "adapters for $name"
	versions="1 4"
	[ "$name" = qwen3 ] && versions=3	# weights of 16 bits
	for numerics in $versions; do
		set -- --numerics $numerics --lora a.lora --lora b.lora=-0.5
		qprefill "$@" --logits all -f raw <ids >want
		is "$? $(wc -c <want | tr -d ' ')" "0 $((90 * vocab * 4))" \
		    "$name, numerics $numerics: logits"
		qprefill --numerics $numerics --logits all -f raw <ids >alone
		! cmp -s want alone
		ok $? "which are not those of the model alone"
		t=0
		for cpu in $LEVELS; do
			t=$((t % 3 + 1))
			QWEN_CPU=$cpu qprefill -q "$@" --logits all -f raw \
			    --batch $((t * 17)) -t $t <ids >got 2>/dev/null &&
			    cmp -s got want
			ok $? "the same bits, $cpu, $t threads, passes of $((t * 17))"
		done
		qprefill "$@" -o whole.cbor <ids >/dev/null
		head -n 41 ids | qprefill "$@" -o part.cbor >/dev/null
		sed 1,41d ids | qprefill "$@" -s part.cbor -o end.cbor >/dev/null
		qstate diff whole.cbor end.cbor >out
		is "$?$(cat out)" 0 "a state, and on from a state"
	done
	qprefill --lora a.lora=0 --logits all -f raw <ids >got
	qprefill --logits all -f raw <ids >alone
	cmp -s got alone
	ok $? "scale 0 is the model alone"
done

# --- order is part of it, as with all sums
qprefill --lora b.lora=-0.5 --lora a.lora --logits last -f raw <ids >got
is "$? $(wc -c <got | tr -d ' ')" "0 $((vocab * 4))" "the other way round"

# --- decoding, with guesses or without, alone or with others
qprefill --lora a.lora -o a.cbor <ids >ready
qdecode --lora a.lora -s a.cbor -n 30 -f text </dev/null >want
for how in lookup:3 none; do
	qdecode --lora a.lora -s a.cbor -n 30 --draft $how -o end.cbor \
	    -f text </dev/null >got
	is "$(wc -l <got | tr -d ' ')$(cmp got want)" 30 "decoded, --draft $how"
done
qdecode --lora a.lora=1.0 -s a.cbor -n 30 -f text </dev/null >got
is "$(cmp got want)" "" "scale 1 is no other"

# --- never mixed
qprefill -o none.cbor <ids >/dev/null
refused 1 "with an adapter, by none" qdecode -s a.cbor -n 1 </dev/null
is "$(grep -c 'a.cbor: .*made with an adapter, this run has none; see --lora' err)" \
    1 "which says so"
refused 1 "without, by one" qdecode --lora a.lora -s none.cbor -n 1 </dev/null
is "$(grep -c 'made without an adapter, this run has one; see --lora' err)" 1 \
    "which says so"
refused 1 "another scale" qdecode --lora a.lora=0.5 -s a.cbor -n 1 </dev/null
refused 1 "another adapter" qdecode --lora b.lora -s a.cbor -n 1 </dev/null
refused 1 "after a ready record" sh -c 'qdecode -s a.cbor -n 1 <ready'
refused 1 "in-band" sh -c 'qdecode -n 1 <a.cbor'
refused 1 "--reuse" sh -c 'qprefill --reuse a.cbor -o new.cbor <ids'
is "$(grep -c 'see --lora' err) $(ls -A | grep -c new.cbor)" "1 0" \
    "and no file is left"
for o in none.cbor a.cbor; do
	qstate show --json $o | jq -r '.model, .base'
done >shown
is "$(sort shown | uniq -c | awk '{ print $1 }' | sort | xargs)" "1 1 2" \
    "qstate shows of which model it is"
qprefill --logits last --lora a.lora -f json <ids | head -n 1 >head
is "$(jq -r .base head)" "$(qstate show --json none.cbor | jq -r .model)" \
    "the header of logits names the model alone"

# --- a store
for o in "" "--lora a.lora" "--lora a.lora=2"; do
	# shellcheck disable=SC2086 # an option and its argument
	qprefill $o --store S -v -o warm.cbor <ids >/dev/null 2>err
	is "$?$(grep -c '^qprefill: 0 tokens from store' err)" 01 \
	    "nothing of another in a store: '$o'"
	# shellcheck disable=SC2086
	qprefill $o --store S -v -o warm.cbor <ids >/dev/null 2>err
	is "$?$(grep -c '^qprefill: 90 tokens from store' err)" 01 "then its own"
done
qstate verify --store S
ok $? "all of it is whole"

# --- what is said
qprefill --lora a.lora --lora b.lora=-0.5 -v --logits last <ids 2>err >/dev/null
is "$(grep -c '^qprefill: adapter a.lora, scale 1, [0-9]* matrices of rank 4$' err)" \
    1 "-v"
is "$(grep -c '^qprefill: adapter b.lora, scale -0.5, [0-9]* matrices of rank 9$' err)" \
    1 "of each"
grep -q '^qprefill: lora ' err
ok $? "and what time they take"
cp a.lora 'n=1.lora'
qprefill --lora 'n=1.lora' --logits last -f raw <ids >got
qprefill --lora 'n=1.lora=1' --logits last -f raw <ids >want
is "$(wc -c <got | tr -d ' ')$(cmp got want)" $((vocab * 4)) "= in a name"
is "$(for o in "" "--lora a.lora" "--lora a.lora --lora b.lora"; do
	# shellcheck disable=SC2086
	gguf-inspect --plan $o -c 500 | sed -n 's/^memory  total *\([0-9]*\) .*/\1/p'
done | sort -nu | wc -l | tr -d ' ')" 3 "the plan counts them"

# --- what is none (unit/lora has more)
refused 1 "no file" qprefill --lora nowhere=2 </dev/null
is "$(cat err)" "qprefill: $MODEL: adapter nowhere: cannot open: No such file or directory" \
    "named"
refused 1 "a model" qprefill --lora "$MODEL" </dev/null
refused 1 "for -m" qprefill -m a.lora </dev/null
refused 1 "of another model" qprefill -m "$TOP/demo/demo.gguf" --lora a.lora </dev/null
refused 1 "a text" qprefill --lora ids </dev/null
refused 2 "no number" qprefill --lora nowhere=much </dev/null
refused 2 "no scale" qprefill --lora nowhere= </dev/null
refused 2 "not finite" qprefill --lora nowhere=nan </dev/null
refused 2 "no file's name" qprefill --lora =2 </dev/null
refused 2 "an adapter of a shape" gguf-synth --lora "$MODEL" qwen3-0.6b
refused 2 "in small numbers" gguf-synth --lora "$MODEL" --recipe Q4_K_M
gguf-synth --lora "$MODEL" >/dev/full 2>err
is "$? $(grep -c . err)" "1 1" "an adapter on a full disk"

# --- each tool, on the demo model
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
gguf-synth --lora "$QWEN_MODEL" --rank 2 -o d.lora
set -- --lora d.lora
printf 'In the beginning' >text
qtok text | qdecode "$@" -n 12 | qtok -d >want
[ -s want ]
ok $? "qdecode"
qtok text | qdecode "$@" --draft mtp:2 -v -n 12 2>err | qtok -d >got
cmp -s got want && grep -q 'tokens from the MTP block, [1-9][0-9]* of them right' err
ok $? "the same with drafts of its own block"
jq -nc '{prompt: "In the beginning"}' | qbatch "$@" -n 12 --temp 0 2>/dev/null |
    jq -j .text >got
is "$(cat got)" "$(cat want)" "qbatch says the same"
for tool in qscore qembed; do
	$tool -q <text >alone && $tool -q "$@" <text >got
	[ -s got ] && ! cmp -s alone got
	ok $? "$tool"
done
qbench "$@" -p 4 -n 2 -r 1 -t 1 --json 2>/dev/null | jq -e . >/dev/null
ok $? "qbench"
qchat -q "$@" -n 3 --template qwen3 <text >got
[ -s got ]
ok $? "qchat"
qprefill "$@" -o d.cbor <ids >/dev/null
refused 1 "qstate, without it" qstate slice -n 40 -o slice.cbor d.cbor
qstate slice "$@" -n 40 -o slice.cbor d.cbor
head -n 40 ids | qprefill "$@" -o short.cbor >/dev/null
is "$(qstate diff short.cbor slice.cbor)" "" "qstate slice"
if command -v curl >/dev/null 2>&1; then
	. "$TOP/tests/cli/qserve.sh"
	serve "$@"
	post /v1/completions '{"prompt":"In the beginning","max_tokens":12,"temperature":0}' |
	    jq -j '.choices[0].text' >got
	is "$(cat got)" "$(cat want)" "qserve says the same"
	end_server
	qserve --listen 127.0.0.1:0 "$@" --engine \
	    "qengine -q -m '$QWEN_MODEL' --lora d.lora=0.5" 2>log &
	pid=$!
	i=0
	until grep -q 'for another model' log || [ $i -ge 200 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	grep -q 'the requests are for another model' log
	ok $? "an engine with another scale is another model's"
	kill -9 $pid
	wait $pid 2>/dev/null
	pid=
else
	skip "qserve" "no curl"
fi
done_testing
