#!/bin/sh
# qscore --base: a model compared with another model, with the logits of one,
# and with a state.
. "$TOP/tests/cli/tap.sh"
for c in python3 jq; do
	command -v $c >/dev/null 2>&1 && continue
	skip "qscore --base" "no $c"
	done_testing
done
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
cp "$QWEN_MODEL" other.gguf
chmod u+w other.gguf
# every second number of a norm is a fifth higher
at=$(gguf-inspect other.gguf | awk '$2 == "output_norm.weight" { print $6 }')
python3 - "$at" <<'END'
import struct, sys
with open("other.gguf", "r+b") as f:
    f.seek(int(sys.argv[1]))
    x = list(struct.unpack("<256f", f.read(1024)))
    x[::2] = [1.2 * v for v in x[::2]]
    f.seek(int(sys.argv[1]))
    f.write(struct.pack("<256f", *x))
END
for i in 1 2 3 4 5 6 7 8; do
	echo 'In the beginning God created the heaven and the earth.' \
	    "And there went $i out of the city with a strong hand."
done >text
qtok text >ids.cbor
qtok -f text text >ids
n=$(wc -l <ids)
rows() { # MODEL FORMAT
	qprefill -q -m "$1" --logits all -f "$2" <ids.cbor
}
rows "$QWEN_MODEL" raw >base.f32
rows "$QWEN_MODEL" cbor >base.cbor
rows other.gguf raw >own.f32
v=$(($(wc -c <base.f32) / 4 / n))

# -- against the definitions
qscore -q -m other.gguf --base "$QWEN_MODEL" -f json text >got 2>err
is "$? $(cat err)" "0 " "two models"
is "$(python3 "$TOP/tests/cli/qscore-base.py" base.f32 own.f32 ids "$v" 1 got)" \
    "40 of 40" "the figures are those of the definitions, in double"
is "$(jq -c '[.tokens_scored, .kl.n]' got)" "[$((n - 1)),$((n - 1))]" \
    "of all tokens but the first"
qscore -q -m other.gguf --base base.cbor -f json text | cmp -s - got
ok $? "the same bytes from the logits of the base"
rows "$QWEN_MODEL" cbor | qscore -q -m other.gguf --base - -f json text |
    cmp -s - got
ok $? "and from a pipe"
qscore -q -t 1 --batch 7 -m other.gguf --base "$QWEN_MODEL" -f json text |
    cmp -s - got
ok $? "whatever the threads and the batch"
near=$(qscore -f json -m other.gguf text | jq .perplexity)
is "$(jq --argjson p "$near" '(.perplexity / $p - 1 | fabs) < 1e-12' got)" true \
    "the perplexity is the one without --base"

if [ -d /proc/self/task ]; then
	mkfifo feed
	qscore -q -t 4 -m other.gguf --base "$QWEN_MODEL" feed >out 2>err &
	p=$!
	exec 7>feed
	i=0
	until grep -q "$QWEN_MODEL" /proc/$p/maps || [ $i -ge 400 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	sleep 0.5
	is "$(ls /proc/$p/task | wc -l)" 4 "both compute on the same four threads"
	cat text >&7
	exec 7>&-
	wait $p
	is "$? $(cat err)" "0 " "which ends well"
	qscore -q -m other.gguf --base "$QWEN_MODEL" text | sed 's/text$/feed/' >want
	cmp -s out want
	ok $? "and gives the same"
fi

# -- a model beside itself
qscore -q --base "$QWEN_MODEL" -f json text >same
is "$(jq -c '[.kl.mean, .kl.max, .p_difference.rms, .same_top,
    .perplexity_ratio]' same)" "[0,0,0,1,1]" "a model does not differ from itself"

# -- what adapters change
gguf-synth -q --lora "$QWEN_MODEL" --rank 4 -o adapter.gguf
qscore -q --lora adapter.gguf --base base.cbor -f json text >got
qscore -q --lora adapter.gguf --base "$QWEN_MODEL" -f json text >own
is "$(jq '.kl.mean > 0' own)" true "a model with an adapter is not its base"
cmp -s own got
ok $? "which has none: the same bytes as from its logits"

# -- windows
qscore -q --context 32 --stride 9 -m other.gguf --base "$QWEN_MODEL" \
    -f json text >got
is "$(jq .tokens_scored got)" "$((n - 1))" "windows score each token once"
p=$(qscore --context 32 --stride 9 -f json -m other.gguf text | jq .perplexity)
is "$(jq --argjson p "$p" '(.perplexity / $p - 1 | fabs) < 1e-12' got)" true \
    "as without --base"

# -- several texts, their rows one after another
cat base.cbor base.cbor >both
qscore -q -m other.gguf --base both -f json text text | jq .tokens_scored >got
is "$(cat got)" "$((2 * n - 2))" "two texts, and the rows of both"

# -- each token, and the report
qscore -q --each -m other.gguf --base base.cbor text >each
is "$(awk -F '\t' 'NF != 7 || $1 != NR { bad = 1 } END { print bad + 0, NR }' each)" \
    "0 $((n - 1))" "a line for each token"
tail -n +2 ids >want
cut -f 2 each | cmp -s - want
ok $? "of that token"
is "$(cut -f 1-3 each | head -n 3)" \
    "$(qscore --each -m other.gguf text | cut -f 1-3 | head -n 3)" \
    "with the logarithm that it has without --base"
is "$(qscore -q --each -f json -m other.gguf --base base.cbor text |
    jq -s 'length, (.[:-1] | (map(.kl) | add) / length) - .[-1].kl.mean |
    fabs < 1e-9 or . == '"$n" | tr '\n' ' ')" "true true " \
    "in JSON likewise, then the figures"
qscore -q -m other.gguf --base base.cbor text >report
for w in '^tokens scored ' '^perplexity ' '^ratio ' '^KL divergence, mean ' \
    '^same best token ' '^  99.9 %  ' '^tokens by divergence$' ' #'; do
	grep -q "$w" report
	ok $? "the report has '$w'"
done
is "$(awk '/^tokens by/ { on = 1; next } on { n += $3 } END { print n }' report)" \
    "$((n - 1))" "the plot has all tokens"

# -- after a state: what the rows of the whole say of the same tokens
echo 'And he said unto them, Go.' >more
qtok more >more.cbor
cat ids.cbor more.cbor >whole.cbor
k=$(qtok -f text more | wc -l)
after() { # STATE ROWS OPTIONS...
	st=$1 with=$2; shift 2
	qscore -q "$@" --tokens --each --base "$with" whole.cbor | tail -n "$k" |
	    cut -f 2- >want
	qscore -q "$@" --tokens --each --base "$st" more.cbor | cut -f 2- >got
	[ "$(awk '$4 > 0' want | wc -l)" -gt 0 ] && cmp -s want got
}
qprefill -q --numerics 4 -o four.state <ids.cbor >/dev/null
qprefill -q --numerics 4 --logits all <whole.cbor >four.rows
after four.state four.rows
ok $? "after a state, of another arithmetic"
qprefill -q --kv q4_0 -o q4.state <ids.cbor >/dev/null
qprefill -q --kv q4_0 --logits all <whole.cbor >q4.rows
after q4.state q4.rows
ok $? "of other keys and values"
qprefill -q -o plain.state <ids.cbor >/dev/null
qprefill -q --logits all <whole.cbor >plain.rows
after plain.state plain.rows --lora adapter.gguf
ok $? "of the model without adapters"
qprefill -q --save-every 0 -o saved.state <ids.cbor >/dev/null
qscore -q --base saved.state --tokens -f json more.cbor >got
is "$(jq -c '[.tokens_scored, .kl.max]' got)" "[$k,0]" \
    "a state beside its own model: all tokens, no difference"
qscore -q --base - --tokens -f json more.cbor <plain.state | cmp -s - got
ok $? "also from a pipe"
qscore -q --base four.state --each more text more >got
is "$(head -n "$k" got)" "$(tail -n "$k" got)" "each text comes after the state"
qstate pack -q --kv q4_0 -o packed.state plain.state
is "$(qscore -q --base packed.state -f json more |
    jq -c '[.kl.n, .kl.mean > 1e-6, .kl.mean < 0.1]')" "[$k,true,true]" \
    "what a packed state has lost"

# -- what does not fit
bad() { # WHAT WANTED ARGUMENTS...
	what=$1 want=$2; shift 2
	qscore -q "$@" >out 2>err </dev/null
	is "$? $(wc -l <err) $(wc -c <out)" "1 1 0" "$what: one line"
	grep -q -e "$want" err
	ok $? "it says: $want"
}
head -c 60000 base.cbor >cut
bad "rows that are cut" "base\|cut: " --base cut text
bad "no file" "nothing: No such file" --base nothing text
bad "a text" "text: " --base text text
bad "a folder" "\.: " --base . text
bad "another model's state" "made with another model" -m other.gguf \
    --base plain.state text
head -c 20000 plain.state >less
bad "a state that is cut" "less: " --base less text
bad "a state without tokens to follow" "nothing to score" --base plain.state \
    /dev/null
bad "a state and more than the context" "after a state of $n: more than" \
    --context "$((n + 3))" --base plain.state text
bad "a state of more than the context" "more than the context of 16" \
    --context 16 --base plain.state text
qscore -q --bos --base plain.state text >out 2>err </dev/null
is "$? $(wc -l <err)" "2 1" "not with --bos"
qprefill -q --logits all --top 5 <ids.cbor >top
bad "the best of rows alone" "whole rows are" --base top text
qprefill -q --logits last <ids.cbor >last
bad "the last row alone" "has the row after token" --base last text
head -c 300 text >less
bad "rows of a longer text" "has rows after the end" --base base.cbor less
cat text text >more
bad "rows of a shorter text" ": ends before the row" --base base.cbor more
bad "more than the context" "more than the context of 16" --context 16 \
    --base base.cbor text
zstd -qdc "$TOP/tests/golden/models/qwen3/model.gguf.zst" >qwen3.gguf
bad "another vocabulary" "its vocabulary is not that of" --base qwen3.gguf text
for o in --requests "--top 2" "--store s" "--mem 1G" "--max-sequences 2"; do
	# shellcheck disable=SC2086
	qscore -q --base base.cbor $o text >out 2>err </dev/null
	is "$? $(wc -l <err)" "2 1" "not with $o"
done
qscore -q --base - - <text >out 2>err
is "$? $(wc -l <err)" "2 1" "stdin is one thing only"
if [ -w /dev/full ]; then
	qscore -q --base base.cbor text >/dev/full 2>err
	is "$? $(wc -l <err)" "1 1" "a full disk is told"
fi
done_testing
