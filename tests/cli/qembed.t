#!/bin/sh
# qembed: the embedding of a line does not depend on other lines; lines without
# one are reported.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qembed" "no jq"
	done_testing
fi
golden=$TOP/tests/golden/models/qwen3-embed
model qwen3-embed
QWEN_MODEL=$MODEL; export QWEN_MODEL

# --- the vectors of others
jq -c '.cases[] | {text}' "$golden/expected.json" >cases.jsonl
qembed --requests cases.jsonl >got.jsonl 2>err
is "$?$(cat err)" 0 "the golden texts"
od -An -v -tf4 -w256 "$golden/embeddings.f32" | tr -s ' ' |
    sed 's/^ /[/; s/ /,/g; s/$/]/' | jq -c . >want
jq -c .embedding got.jsonl | paste -d '\n' - want | jq -se '[_nwise(2) |
    [.[0], .[1]] | transpose | map(.[0] - .[1] | fabs) | max] |
    length == 6 and max < 0.0039' >/dev/null
ok $? "are those of others"
is "$(jq -c .tokens got.jsonl | xargs)" \
    "$(jq '.cases[].ids | length' "$golden/expected.json" | xargs)" \
    "and have as many tokens"
is "$(jq -s 'map([.embedding[] | . * .] | add | . - 1 | fabs) | max < 1e-6' got.jsonl)" \
    true "their length is 1"

# --- lines, and forms of output
cat >lines <<'END'
What is a codebook?

A file starts with four bytes; then come a version number and two counts.
What is a header?
END
qembed lines >json 2>err
is "$?$(cat err)$(wc -l <json)" 04 "a vector for each line, also an empty one"
qembed -f text lines | sed 's/^/[/; s/ /,/g; s/$/]/' | cmp -s - json
ok $? "as text: the same numbers"
qembed -f f32 lines >raw
is "$(wc -c <raw)" $((4 * 64 * 4)) "as bytes: four for each number"
od -An -v -tf4 -w256 raw | tr -s ' ' | sed 's/^ /[/; s/ /,/g; s/$/]/' |
    paste -d '\n' - json | jq -se '[_nwise(2) | transpose[] |
    .[0] - .[1] | fabs] | max < 1e-6' >/dev/null
ok $? "the same numbers"
sed -n 4p json >four
printf 'What is a header?' | qembed | cmp -s - four
ok $? "a last line without an end, alone: the same bytes"
qembed -o out.json <lines && cmp -s out.json json
ok $? "-o"

# --- alone and in company, in any manner
awk -v seed="$SEED" 'BEGIN {
	srand(seed)
	split("the file starts with four bytes and a header is what comes", w)
	for (i = 0; i < 150; i++) {
		n = i % 7 ? 1 + int(rand() * 12) : 1 + int(rand() * 200)
		s = i % 3 ? "" : "the header comes with what the file is and four "
		while (n-- > 0)
			s = s " " w[1 + int(rand() * 12)]
		print s
	}
}' >many
for p in last mean cls; do
	while IFS= read -r line; do
		printf '%s\n' "$line" | qembed --pooling $p
	done <many 2>err >want.$p
	qembed -t 3 --pooling $p many | cmp -s - want.$p
	ok $? "$p: 150 together have the bytes that each has alone$(cat err)"
done
qembed --max-sequences 3 --batch 17 -t 1 many | cmp -s - want.last
ok $? "three at a time, 17 tokens a pass"
refused 2 "--mem too small for one" qembed --mem 1000 many
least=$(sed -n 's/.*give at least \([0-9]*\);.*/\1/p' err)
qembed --mem $((least * 60)) many | cmp -s - want.last
ok $? "with little memory"
QWEN_CPU=scalar qembed -q many | cmp -s - want.last
ok $? "with plain C"
! cmp -s want.last want.mean && ! cmp -s want.mean want.cls
ok $? "poolings differ"

# --- an instruction
task='Given a web search query, retrieve relevant passages that answer the query'
sed -n 3p got.jsonl | sed 's/.*"embedding"://; s/}$//' >asked
echo 'what is a codebook?' | qembed --instruct "$task" | cmp -s - asked
ok $? "an instruction is what the golden text has before the query"
jq -nc --arg t "$task" '{text: "what is a codebook?", instruct: $t}' |
    qembed --requests | sed 's/.*"embedding"://; s/}$//' | cmp -s - asked
ok $? "the same in a request"
for i in 1 2; do
	qembed --instruct "$task" --store kept -v many 2>err >out.$i
	n=$(sed -n 's/.* shared, \([0-9]*\) from the store.*/\1/p' err)
	s=$(sed -n 's/.* \([0-9]*\) shared, .*/\1/p' err)
done
qembed --instruct "$task" many >plain
cmp -s out.1 plain && cmp -s out.2 plain && [ "$n" -gt 0 ] && [ "$s" -gt 2000 ]
ok $? "with a store the same bytes; shared $s tokens, from the store $n"

# --- shorter, and of any length
qembed --dimensions 8 lines >short
jq -c '.[0:8]' json | paste -d '\n' - short | jq -se '[_nwise(2) |
    (.[0] | map(. * .) | add | sqrt) as $l | [.[0], .[1]] | transpose[] |
    .[0] / $l - .[1] | fabs] | max < 1e-6' >/dev/null
ok $? "8 numbers: the first ones, of length 1"
qembed --no-norm --dimensions 8 lines | jq -se 'map(map(. * .) | add) |
    all(. > 1.1 or . < 0.9)' >/dev/null
ok $? "--no-norm: as they come"

# --- tokens
tr '\n' '\0' <lines | qtok -0 | qembed --tokens | cmp -s - json
ok $? "tokens of qtok -0: the same bytes"
tr '\n' '\0' <lines | qtok -0 -f text | qembed --tokens | cmp -s - json
ok $? "a line of ids each: the same"
while IFS= read -r line; do
	printf '%s' "$line" | qtok
done <lines >streams
sed 2d json >three
qembed --tokens streams | cmp -s - three
ok $? "streams one after another; one without a token is none"
echo '1 2 99999' | qembed --tokens >out 2>err
is "$?$(wc -c <out)$(grep -c 'outside the vocabulary' err)" 101 "no such token"

# --- the token at the end
echo | qembed >e
echo '<|endoftext|>' | qembed --special | cmp -s - e
ok $? "it is not put there twice"
echo '<|endoftext|>' | qembed | cmp -s - e
is $? 1 "but is no control token without --special"
echo a | qembed --eos off >off
echo a | qembed >on
cmp -s on off
is $? 1 "--eos off"
refused 1 "an empty text without it" sh -c 'echo | qembed --eos off'

# --- what cannot be
seq 3000 | tr '\n' ' ' >long
refused 1 "longer than the context" qembed long
grep -q '^qembed: long: line 1: [0-9]* tokens exceed the model.s context of 4096$' err
ok $? "its line is told"
cat lines long | qembed 2>err >out
cmp -s out json && is "$(wc -l <err)" 1 "lines before it are written"
qembed -o nothing long 2>err
is "$?$(ls -A | grep -c nothing)" 10 "-o leaves nothing"
qembed --truncate long >cut 2>err
is "$?$(cat err)$(wc -l <cut)" "0qembed: 1 text cut to the context of 4096 tokens1" \
    "--truncate"
refused 1 "--truncate leaves something of a text" \
    sh -c 'qembed --truncate --instruct "$(cat long)" lines'
printf '%s\n' '{"text":"a","id":7}' '{' '' '{"text":"a","tokens":[1]}' \
    '{"tokens":[1,99999]}' '{"tokens":[]}' '{"tokens":[64,336]}' '{"text":null}' \
    '{"text":"\ud800"}' '{"text":"a","instruct":1}' '{"id":[],"text":"a"}' \
    '{"tokens":[1],"instruct":"x"}' '{"text":"a","instruct":""}' \
    '{"tokens":"1 2"}' >bad.jsonl
qembed --requests bad.jsonl >out 2>err
is "$?, $(wc -l <err), $(wc -l <out)" "3, 1, 13" "bad lines: a result each"
is "$(jq -c 'select(.error == null) | [.line, .id, .tokens]' out | xargs)" \
    "[1,7,2] [6,null,1] [7,null,2] [13,null,$(jq 'select(.line == 13).tokens' out)]" \
    "the good ones have their vectors"
jq -es 'all((.error == null) != (.embedding == null))' out >/dev/null
ok $? "the others have their errors"
is "$(tail -n 1 out | jq -r .error.message)" "tokens: is not a list of token ids" \
    "which say what is wrong"
{ printf 'a\0b\377\n'; head -c 3000 "$MODEL" | tr -d '\n'; echo; } |
    qembed >out 2>err
is "$?$(cat err)$(wc -l <out)" 02 "any bytes are a text"
printf 'a\r\n' | qembed | cmp -s - on
is $? 1 "also a carriage return"

# --- models
TOPDEMO=$TOP/demo/demo.gguf
echo a | qembed -m "$TOPDEMO" 2>err >out
is "$?$(wc -l <out)$(grep -c 'names no pooling.*last token' err)" 011 \
    "a language model: a note"
echo a | qembed -m "$TOPDEMO" --pooling mean 2>err >out
is "$?$(wc -l <out)$(cat err)" 01 "--pooling says it"
model qwen3-rerank
refused 1 "a model that ranks" sh -c "echo a | qembed -m '$MODEL'"
grep -q 'use qrerank' err
ok $? "and where to go with it"
refused 2 "more numbers than there are" qembed --dimensions 65 lines
refused 2 "requests as text" qembed --requests -f text lines
refused 2 "requests of tokens" qembed --requests --tokens lines
refused 2 "an instruction for tokens" qembed --tokens --instruct x lines
refused 2 "two files" qembed lines lines
refused 1 "no such file" qembed nowhere

# --- images
printf '%s\n' '{"text":"a","image":"x.png"}' '{"images":["x.png"]}' \
    '{"image_url":{"url":"data:image/png;base64,AAAA"}}' >images.jsonl
qembed --requests images.jsonl 2>err | jq -r .error.message | sort >out
is "$(sort -u out | sed 's/^[a-z_]*: //' | uniq)$(wc -l <out)" \
    "images are not read for vectors and scores: give only text3" \
    "images are refused"

# --- members that nobody knows
printf '{"text":"a","instrct":"b"}\n{"text":"a","input":"b","x":1}\n' >odd
qembed --requests odd >out 2>err
is "$? $(wc -l <out) $(cat err)" "0 2 qembed: unknown fields of requests were ignored: instrct (did you mean instruct?), input (did you mean text?), x" \
    "a note of members that are not known"
qembed --requests --strict odd 2>err | jq -r .error.message | head -n 1 >out
is "$(cat out)" "unknown field instrct (did you mean instruct?)" "--strict refuses them"
refused 2 "--strict without requests" qembed --strict lines

# --- pipes
(while :; do echo a line; done) 2>err2 | qembed 2>err | head -n 2 >out
is "$(wc -l <out)$(cat err)" 2 "the reader goes away"
if [ -c /dev/full ]; then
	qembed lines >/dev/full 2>err
	is "$?, $(wc -l <err)" "1, 1" "a full device"
fi
qembed </dev/null >out 2>err
is "$?$(wc -c <out)$(cat err)" 00 "no text, no vector"
mkfifo pipe
qembed <pipe >slow &
exec 3>pipe
echo one >&3
i=0
while [ ! -s slow ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
is "$(wc -l <slow)" 1 "a text that waits for no other"
exec 3>&-
wait
done_testing
