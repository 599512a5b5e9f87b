#!/bin/sh
# --draft changes only the speed.  Whatever the drafts are and however many are
# right, tokens, logits and states are those of --draft none.  In make
# check-long for all models and numbers of drafts.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_LONG" ]; then
	models="qwen35moe-ud qwen3 mtp qwen3next qwen3moe qwen2 demo"
	numbers="1 2 3 4 5 6 7 8 16"
else
	models="qwen35moe-ud qwen3 mtp"
	numbers="1 3 8"
fi

# -- a model, and 65 ids
open() {
	case $1 in
	mtp)
		d=$TOP/tests/golden/drafts/qwen35moe-spec
		MODEL=$PWD/mtp.gguf
		zstd -dqf "$d/model.gguf.zst" -o "$MODEL" ;;
	demo)
		d=$TOP/tests/golden/models/qwen35moe-ud
		MODEL=$TOP/demo/demo.gguf ;;
	*)
		d=$TOP/tests/golden/models/$1
		model "$1" ;;
	esac
	QWEN_MODEL=$MODEL
	export QWEN_MODEL
	cp "$d/tokens-n65.txt" ids
	qprefill -o p.cbor <ids >/dev/null
}

# The ids that come, one a line, each n-th another one.
wrong() {
	awk -v n="$2" 'NR % n == 0 { $1 = ($1 + 1) % 50 } { print $1 }' "$1" |
	    cat ids - >"$3"
}

# What qdecode writes and leaves is that of want and want.cbor.
same() {
	name=$1
	shift
	qdecode -v -s p.cbor -n 40 --ignore-eos -f text -o got.cbor "$@" \
	    </dev/null >got 2>err &&
	    cmp -s want got && qstate diff want.cbor got.cbor >diff
	ok $? "$name: $(sed -n 's/.* tokens \(.*right\).*/\1/p' err | tr '\n' ' ')"
}

for m in $models; do
	open "$m"
	for how in "--temp 0.5 --repeat-penalty 1.2 --penalty-last-n 8 --seed 9" \
	    "--temp 1.2 --top-k 30 --seed 3" ""; do
		# shellcheck disable=SC2086
		{
		qdecode -s p.cbor -n 40 --ignore-eos -f text -o want.cbor \
		    --draft none $how </dev/null >want
		is "$(wc -l <want)" 40 "$m: 40 tokens ${how:-greedy}"
		wrong want 999 right
		wrong want 3 third
		same "$m: auto" $how
		for n in $numbers; do
			same "$m: lookup:$n" --draft "lookup:$n" $how
			same "$m: all right, $n" --draft "lookup:$n" \
			    --draft-text right $how
			same "$m: a third wrong, $n" --draft "lookup:$n" \
			    --draft-text third $how
			[ "$m" != mtp ] || same "$m: mtp:$n" --draft "mtp:$n" $how
		done
		}
	done
	# wherever the first wrong one is
	for n in 2 4 5 6 7 9; do
		wrong want $n some
		same "$m: each one in $n wrong" --draft auto:8 --draft-text some
	done
done

# -- it does get faster by them: passes, as they are counted
open qwen35moe-ud
qdecode -s p.cbor -n 40 -f text --draft none -o want.cbor </dev/null >want
wrong want 999 right
qdecode -v -s p.cbor -n 40 -f text --draft lookup:8 --draft-text right \
    </dev/null 2>err >got
[ "$(sed -n 's/.*drafts: \([0-9]*\)\.[0-9]* tokens per pass/\1/p' err)" -ge 6 ]
ok $? "all right, 8 of them: $(sed -n 's/.*drafts: \(.* per pass\)/\1/p' err)"
# -- ids may come from a pipe, which is read once
mkfifo pipe
cat right >pipe &
qdecode -v -s p.cbor -n 40 -f text --draft lookup:8 --draft-text pipe \
    </dev/null 2>two >got
wait $!
is "$(sed -n 's/.*drafts: //p' two)" "$(sed -n 's/.*drafts: //p' err)" \
    "the text from a pipe"

# -- and without guesses
qdecode -v -s p.cbor -n 40 -f text --draft none </dev/null 2>err >got
is "$(grep -c draft err)" 0 "none: nothing is told of them"

# -- endings, budgets, grammars
for how in "-n 7" "-n 1" "-n 0" "--stop a" "--think-max 5" "--grammar g"; do
	case $how in
	*grammar*) printf 'root ::= [a-z ]+\n' >g; n="-n 20" ;;
	-n*) n= ;;
	*) n="-n 40" ;;
	esac
	# shellcheck disable=SC2086
	{
	qdecode -s p.cbor -f text -o a.cbor --draft none $how $n </dev/null >a 2>/dev/null
	one=$?
	qdecode -s p.cbor -f text -o b.cbor --draft lookup:8 --draft-text right \
	    $how $n </dev/null >b 2>/dev/null
	is "$? $(cmp a b && qstate diff a.cbor b.cbor >/dev/null && echo same)" \
	    "$one same" "$how"
	}
done

# -- slices, and a run that goes on in another way
qdecode -s p.cbor -n 11 -f text --draft lookup:8 --draft-text right -o s.cbor \
    </dev/null >got
qdecode -s s.cbor -n 1 -f text --draft lookup:2 -o s.cbor </dev/null >>got
qdecode -s s.cbor -n 28 -f text --draft lookup:5 --draft-text right -o s.cbor \
    </dev/null >>got
cmp -s want got && qstate diff want.cbor s.cbor >/dev/null
ok $? "in three slices"

# -- others choose: rows of logits
for d in lookup:8 lookup:3 auto; do
	qdecode --logits -s p.cbor -o a.cbor --draft none <want >a
	qdecode --logits -s p.cbor -o b.cbor --draft $d --draft-text right \
	    <want >b
	cmp -s a b && qstate diff a.cbor b.cbor >/dev/null
	ok $? "--logits, $d: the same bytes"
done

# -- killed, and gone on with
qdecode -s p.cbor -n 300 -f text --ignore-eos --draft none -o want.cbor \
    </dev/null >want
wrong want 7 some
for d in lookup:8 auto; do
	rm -f k.cbor
	qdecode -s p.cbor -n 300 -f text --ignore-eos --draft $d \
	    --draft-text some --save-every 0.001 -o k.cbor </dev/null >part &
	pid=$!
	i=0
	while [ ! -e k.cbor ] && [ $i -lt 200 ]; do
		sleep 0.02
		i=$((i + 1))
	done
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	qdecode -s p.cbor -n 300 -f text --ignore-eos --draft $d \
	    --draft-text some --save-every 100 -o k.cbor </dev/null >got
	cmp -s want got && qstate diff want.cbor k.cbor >/dev/null
	ok $? "$d: killed, and the run of --draft none"
done

# -- many texts
QWEN_MODEL=$TOP/demo/demo.gguf
awk 'BEGIN { for (i = 1; i <= 12; i++)
	printf "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"one two one two %d one two\",\"max_tokens\":%d,\"temperature\":%s}}\n",
	    i, i % 5, 5 + 3 * i, i % 2 ? "0" : "0.8" }' >requests
qbatch --draft none requests >want
is "$(wc -l <want)" 12 "qbatch: 12 results"
for how in "" "--draft lookup:8" "--draft mtp:4" "--draft mtp:1 --batch 8" "--draft lookup:3 --max-sequences 1" \
    "--draft auto --max-sequences 2 --draft-text requests" \
    "--draft lookup:16 --max-sequences 5 --batch 8"; do
	# shellcheck disable=SC2086
	qbatch -v $how requests >got 2>err
	jq -c 'del(.response.body.created, .id, .response.request_id)' got >a
	jq -c 'del(.response.body.created, .id, .response.request_id)' want >b
	cmp -s a b
	ok $? "qbatch ${how:-by default}: $(sed -n 's/.*drafts: \(.* per pass\)/\1/p' err)"
done

# -- a chat, back and again
printf '%s\n' 'a b a b' '/retry' 'c d' /undo 'a b' >talk
qchat -q -n 24 --template qwen3 --draft none <talk >want
for d in auto mtp:3 lookup:8 lookup:1; do
	text="--draft-text ids"
	[ $d = mtp:3 ] && text=
	# shellcheck disable=SC2086
	qchat -q -n 24 --template qwen3 --draft $d $text <talk >got
	cmp -s want got
	ok $? "qchat, $d"
done

# -- what a state keeps for them
printf 'In the beginning' | qtok | qprefill -o with.cbor >/dev/null
printf 'In the beginning' | qtok | qprefill --draft none -o without.cbor >/dev/null
is "$(qstate show --json -v with.cbor | jq -c '[.blocks[].kind | select(test("mtp|hidden"))] | unique')" \
    '["hidden","mtp","mtp-kv"]' "qprefill keeps what drafts need"
is "$(qstate show --json -v without.cbor | jq -c '[.blocks[].kind | select(test("mtp|hidden"))]')" \
    '[]' "not with --draft none"
for s in with without; do
	qdecode -v --draft mtp:4 -n 40 -s $s.cbor -o $s.end -f text </dev/null >$s.txt 2>err
	sed -n 's/.* right (\(.*\))/\1/p' err >$s.right
done
cmp -s with.txt without.txt && qstate diff with.end without.end >/dev/null
ok $? "the same tokens and state"
awk "BEGIN { exit !($(cat with.right) > 0.6 && $(cat without.right) > 0.3) }"
ok $? "the demo model's block is right: $(cat with.right), $(cat without.right)"
refused 2 "nothing is kept for it" qprefill --draft lookup

# -- the block in a file of its own
small="-q --layers 4 --experts 2 --vocab-size 4096 --vocab $TOP/demo/demo.gguf"
# shellcheck disable=SC2086
gguf-synth --no-mtp $small -o trunk.gguf qwen3.6 &&
    gguf-synth --mtp-only $small -o side.gguf qwen3.6
ok $? "a model without the block, and the block"
side() {	# NAME OPTION...: the same as want, with guesses
	name=$1
	shift
	qprefill -m trunk.gguf "$@" -o p.cbor <ids >/dev/null 2>err &&
	    qdecode -v -m trunk.gguf "$@" -s p.cbor -n 20 -f text \
	    --ignore-eos -o got.cbor </dev/null >got 2>err &&
	    cmp -s want got && qstate diff want.cbor got.cbor >/dev/null
	ok $? "--draft FILE, $name: $(sed -n "s/.*drafts: \(.*\) from the MTP block.*/\1/p" err)"
}
qprefill -m trunk.gguf --draft none -o p.cbor <ids >/dev/null
qdecode -m trunk.gguf --draft none -s p.cbor -n 20 -f text --ignore-eos \
    -o want.cbor </dev/null >want
side "auto" --draft ./side.gguf
side "three of them" --draft mtp:3 --draft side.gguf
is "$(sed -n "s/.*drafts: \([0-9]*\) tokens from the MTP block.*/\1/p" err)" 54 \
    "as many guesses as by a block within"
refused 1 "the block of another model" qdecode --draft side.gguf -s p.cbor
refused 1 "a model as a block" qdecode -m trunk.gguf --draft trunk.gguf -s p.cbor
refused 1 "no such file" qdecode -m trunk.gguf --draft none.gguf -s p.cbor
refused 1 "no block, and none beside it" qdecode -m trunk.gguf --draft mtp -s p.cbor
rm -f trunk.gguf side.gguf
open qwen35moe-ud

# -- what cannot be
refused 2 "no such way" qdecode --draft fast ids
refused 2 "none of none" qdecode --draft none:3
refused 2 "no guess" qdecode --draft lookup:0
refused 2 "too many" qdecode --draft auto:17
refused 2 "a text for nothing" qdecode --draft none --draft-text ids
refused 1 "no block" qdecode --draft mtp -s p.cbor
refused 1 "no text" qdecode --draft-text nowhere -s p.cbor
echo 999999 >far
refused 1 "ids of another vocabulary" qdecode --draft-text far -s p.cbor
refused 1 "a model as a text" qdecode --draft-text "$MODEL" -s p.cbor
done_testing
