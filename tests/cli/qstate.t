#!/bin/sh
# qstate: the contents of a state, whether it is complete, a slice of it, and
# where two states begin to differ.
. "$TOP/tests/cli/tap.sh"
DEMO=$TOP/demo/demo.gguf

# equal A B NAME: diff says so, and both go on with the same bits
equal() {
	qstate diff "$1" "$2" >diff
	is "$?$(cat diff)" 0 "$3"
	qprefill -s "$1" --logits=last -f raw </dev/null >l1
	qprefill -s "$2" --logits=last -f raw </dev/null >l2
	[ -s l1 ] && cmp -s l1 l2
	ok $? "$3: the logits of the next token are the same bytes"
}

# cuts at random: some here, many in check-long
cuts=${QPIPE_LONG:+40}

# --- slices are what reading less gives, on every architecture
for name in qwen3 qwen3moe qwen35-tied qwen35moe-ud qwen35moe-f32; do
	model "$name"
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	vocab=$(gguf-inspect --json | jq '.tensors[] |
	    select(.name == "token_embd.weight") | .shape[1]')
	ids 200 1 "$vocab" >ids
	qprefill --checkpoint-every 48 --checkpoint-at 17 -o whole.cbor <ids >/dev/null
	for n in 1 17 48 $(ids "${cuts:-2}" "$SEED" 199 | awk '{ print $1 + 1 }') 200; do
		qstate slice -n "$n" -o part.cbor whole.cbor
		head -n "$n" ids | qprefill -o cold.cbor >/dev/null
		equal part.cbor cold.cbor "$name: the first $n"
	done
	qstate verify whole.cbor part.cbor
	ok $? "$name: all of them are whole"
	rm -f "$MODEL"
done
QWEN_MODEL=$DEMO; export QWEN_MODEL
printf 'In the beginning God created the heaven and the earth.' | qtok -f text >ids
total=$(wc -l <ids)
qprefill --checkpoint-at 3,5 -o whole.cbor <ids >/dev/null
for n in 3 4 $((total - 1)); do
	qstate slice -n "$n" -o part.cbor whole.cbor
	head -n "$n" ids | qprefill -o cold.cbor >/dev/null
	equal part.cbor cold.cbor "demo model: the first $n"
done
# where there is a checkpoint nothing is computed
QWEN_MODEL=none.gguf qstate slice -n 5 -o part.cbor whole.cbor
is "$?$(qstate show part.cbor | grep -e '^tokens' -e '^checkpoint' | cut -d ' ' -f 1,2 | xargs)" \
    "0tokens 5 checkpoint 3" "a cut at a checkpoint needs no model"
refused 1 "one between two of them does" env QWEN_MODEL=none.gguf \
    qstate slice -n 4 -o none.cbor whole.cbor
cp whole.cbor self.cbor
qstate slice -n 5 -o self.cbor self.cbor && cmp -s self.cbor part.cbor
ok $? "a state cut in place"
qstate slice -n 5 whole.cbor | cmp -s - part.cbor
ok $? "to stdout, the same bytes"
qstate slice -n 5 - <whole.cbor | cmp -s - part.cbor
ok $? "from stdin too"
qstate slice -n 4 --no-checkpoints whole.cbor | qstate show - | grep -q '^checkpoint'
is $? 1 "--no-checkpoints"

# --- both forms
qstate pack --no-compress -o map.cbor whole.cbor
is "$(qstate show map.cbor | grep form)" "form mapped" "pack --no-compress"
equal map.cbor whole.cbor "the mapped form"
qstate pack map.cbor | cmp -s - whole.cbor
ok $? "and back, byte for byte"
qstate pack whole.cbor | cmp -s - whole.cbor
ok $? "what is packed stays as it is"
qprefill --no-compress --checkpoint-at 3,5 <ids | cmp -s - map.cbor
ok $? "the mapped form of qprefill is the same"
qstate pack --no-checkpoints whole.cbor >bare.cbor
is "$(qstate show bare.cbor | grep -c '^checkpoint')" 0 "pack --no-checkpoints"
equal bare.cbor whole.cbor "without checkpoints"
qstate cat whole.cbor | cmp -s - whole.cbor
ok $? "cat"
qstate cat - <whole.cbor | cmp -s - whole.cbor
ok $? "cat of stdin"

# --- show
is "$(qstate show --tokens whole.cbor | qtok -d)" \
    "In the beginning God created the heaven and the earth." "--tokens, for qtok -d"
is "$(qstate show --json whole.cbor |
    jq -c '[.n_tokens, .logits, .mapped, [.checkpoints[] | [.at, .named]]]')" \
    "[$total,true,false,[[3,true],[5,true]]]" "--json"
qstate show -v --json whole.cbor | jq -e --argjson size "$(wc -c <whole.cbor)" '
    (.blocks | length) == .n_blocks and
    ([.kinds[].blocks] | add) == .n_blocks and
    ([.kinds[].raw] | add) == .raw and .stored == $size and
    ([.blocks[].bytes] | add) + .blocks[0].offset == $size and
    ([.blocks[].len] | add) == .raw' >/dev/null
ok $? "its sums are those of the blocks and of the file"
is "$(qstate show --json --tokens whole.cbor | jq -c '.tokens')" \
    "[$(xargs <ids | tr ' ' ,)]" "tokens in JSON"
is "$(qstate show whole.cbor map.cbor | grep -c '^state')" 2 "several states"
name=$(printf 'odd\302\233 \342\200\256\033[31m\377.cbor')
cp whole.cbor "$name"
is "$(qstate show "$name" | head -n 1)" \
    'state odd\xc2\x9b \xe2\x80\xae\x1b[31m\xff.cbor' \
    "a name that would steer the terminal"
rm -f "$name"
is "$(qstate show -v whole.cbor | grep -c '^block')" \
    "$(qstate show whole.cbor | awk '/^total/ { print $3 }')" "-v: every block"
qdecode -s whole.cbor -n 3 --temp 0.7 -o gen.cbor </dev/null >/dev/null
is "$(qstate show gen.cbor | grep -e '^generated' -e '^sampler' | xargs)" \
    "generated $total 3 sampler temp=0.7" "what was generated, and how"

# --- diff
qstate diff whole.cbor part.cbor >diff
is "$? $(cat diff)" "1 token 5 $(sed -n 6p ids) -" "diff: one is the beginning of the other"
sed '4s/.*/7/' ids | qprefill -o other.cbor >/dev/null
qstate diff whole.cbor other.cbor >diff
is "$? $(cat diff)" "1 token 3 $(sed -n 4p ids) 7" "diff: another token"
is "$(qstate diff --json whole.cbor other.cbor | jq -c '[.equal, .differences]')" \
    "[false,[{\"what\":\"token\",\"position\":3,\"a\":$(sed -n 4p ids),\"b\":7}]]" "the same as JSON"
qstate diff -q whole.cbor other.cbor >diff
is "$?$(cat diff)" 1 "diff -q says nothing"
qstate diff whole.cbor whole.cbor
is $? 0 "a state is equal to itself"
is "$(qstate diff --json whole.cbor map.cbor | jq -c '[.equal, .differences]')" "[true,[]]" \
    "equal as JSON"
is "$(qstate diff --all whole.cbor bare.cbor | xargs)" \
    "only a checkpoint -1 3 only a checkpoint -1 5" "diff --all: checkpoints"
qstate diff --all gen.cbor whole.cbor | sed -n '/^token/d; s/ .*//p' | xargs >diff
is "$(cat diff)" "only generated sampler" "diff --all: how the text was made"
is "$(qstate diff --all --json gen.cbor whole.cbor |
    jq -c '.differences[] | select(.what == "generated") | [.a, .b]')" \
    "[[[$total,3]],[]]" "the same as JSON"
qstate diff -q gen.cbor whole.cbor
is $? 1 "more tokens"
qstate slice -n "$total" gen.cbor >back.cbor
qstate diff back.cbor whole.cbor
is $? 0 "taken back"
# numbers of a state that is not what its tokens say: the mapped form's first
# number of the KV cache, with checks that are right, from another model
model qwen35moe-ud
QWEN_MODEL=$MODEL qprefill -o alien.cbor <<'EOF' >/dev/null
1 2 3
EOF
is "$(qstate diff whole.cbor alien.cbor | cut -d ' ' -f 1 | xargs)" "model vocabulary layers" \
    "diff: another model"

# --- what is wrong is told
size=$(wc -c <whole.cbor)
head -c $((size - 7)) whole.cbor >cut.cbor
{ head -c $((size / 2)) whole.cbor; printf '\377\376\375'
    tail -c +$((size / 2 + 4)) whole.cbor; } >flip.cbor
: >empty.cbor
head -c 5000 /dev/urandom >garbage.cbor
for bad in cut flip empty garbage; do
	refused 1 "verify, $bad" qstate verify $bad.cbor
	refused 1 "cat, $bad" qstate cat $bad.cbor
	refused 1 "slice, $bad" qstate slice -n 5 -o none.cbor $bad.cbor
	refused 1 "pack, $bad" qstate pack -o none.cbor $bad.cbor
done
for bad in cut empty garbage none; do
	refused 1 "show, $bad" qstate show $bad.cbor
	refused 1 "diff, $bad" qstate diff whole.cbor $bad.cbor
done
[ ! -e none.cbor ] && [ ! -e .none.cbor.qpipe-tmp ]
ok $? "none of them leaves a file"
qstate verify cut.cbor whole.cbor flip.cbor 2>err
is "$? $(wc -l <err)" "1 2" "verify looks at all files"
# one of several megabytes, which threads share; bad in two places
ids 3000 1 500 | qprefill -m "$DEMO" -o large.cbor >/dev/null
at=$(qstate show --json -v large.cbor | jq '.blocks | map(select(.kind == "kv")) |
    .[1].offset + 400, .[-1].offset + 400')
qstate verify -t 4 large.cbor 2>err
is "$? $(wc -c <large.cbor | cut -c1)$(cat err)" "0 5" "whole, by 4 threads"
for how in --no-compress '--kv q8_0' '--kv-k q8_0 --kv-v q4_0'; do
	for t in 1 2 4; do
		# shellcheck disable=SC2086
		qstate pack $how -t $t -o packed.$t large.cbor 2>loss.$t
		is "$? $(cmp packed.1 packed.$t) $(cmp loss.1 loss.$t)" "0  " \
		    "pack $how, by $t threads"
	done
done
qdecode -m "$DEMO" -s large.cbor -n 9 -o far.file </dev/null >/dev/null
qstate pack --no-compress large.cbor >mapped
for t in 1 2 4; do
	for f in large.cbor mapped; do
		# shellcheck disable=SC2002
		cat $f | qdecode -m "$DEMO" -t $t -n 9 -o far.pipe >/dev/null
		is "$? $(cmp far.file far.pipe)" "0 " "from a pipe, by $t threads"
		head -c 1500000 $f | qdecode -m "$DEMO" -t $t -n 9 2>$f.$t
		is "$? $(wc -l <$f.$t | tr -d ' ') $(cmp $f.1 $f.$t)" "1 1 " \
		    "cut off in a pipe: $(cat $f.$t)"
	done
done
for n in $at; do
	printf '\252\125' | dd of=large.cbor bs=1 seek="$n" conv=notrunc 2>dd
done
for t in 1 2 4; do
	qstate verify -t $t large.cbor 2>&1
done | uniq >err
is "$(wc -l <err) $(grep -c "block [0-9]* (kv .*) at byte $(qstate show --json -v \
    large.cbor | jq '.blocks | map(select(.kind == "kv"))[1].offset')" err)" \
    "1 1" "verify names the first bad block, whatever the threads: $(cat err)"
mv err named
for t in 1 2 4 4 4; do
	# shellcheck disable=SC2002
	cat large.cbor | qdecode -m "$DEMO" -t $t -n 9 2>&1
done | uniq | sed 's/^qdecode: stdin/qstate: large.cbor/' >err
is "$(cat err)" "$(cat named)" "so does reading it from a pipe"
qstate verify --json cut.cbor whole.cbor 2>/dev/null | jq -s -e '
    [.[].ok] == [false, true] and (.[0].error | length) > 0' >/dev/null
ok $? "verify --json"
refused 1 "more tokens than there are" qstate slice -n $((total + 1)) whole.cbor
refused 1 "a folder" qstate show .
for c in 'show' 'show --tokens' 'show --json' 'cat' 'pack' 'slice -n 5' 'slice -n 4'; do
	# shellcheck disable=SC2086
	qstate $c whole.cbor >/dev/full 2>err
	is "$? $(grep -c . err)" "1 1" "$c: a full disk: $(cat err)"
done
qstate pack -o /dev/full whole.cbor 2>err
is "$? $(grep -c . err)" "1 1" "pack -o: a full disk"
qstate pack whole.cbor 2>err | head -c 10 >/dev/null
is "$(cat err)" "" "a reader that goes away is no news"

# --- the command line
refused 2 "no command" qstate
refused 2 "an unknown command" qstate look whole.cbor
refused 2 "show without a state" qstate show
refused 2 "diff of one" qstate diff whole.cbor
refused 2 "diff of three" qstate diff whole.cbor whole.cbor whole.cbor
refused 2 "slice without -n" qstate slice whole.cbor
refused 2 "slice -n 0" qstate slice -n 0 whole.cbor
refused 2 "slice -n x" qstate slice -n x whole.cbor
refused 2 "an option of another command" qstate show -n 3 whole.cbor
refused 2 "--json of slice" qstate slice --json -n 3 whole.cbor
refused 2 "two states for pack" qstate pack whole.cbor whole.cbor
done_testing
