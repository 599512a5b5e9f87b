#!/bin/sh
# qrerank: the score of a document does not depend on other documents; the best
# ones.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qrerank" "no jq"
	done_testing
fi

# --- the scores of others
for m in qwen3-rerank:0.002 qwen3-rerank-head:0.0673; do
	golden=$TOP/tests/golden/models/${m%:*}
	model "${m%:*}"
	jq -c '.cases[] | {query, document}' "$golden/expected.json" |
	    qrerank -m "$MODEL" --requests >got 2>err
	is "$?$(cat err)" 0 "${m%:*}: the golden pairs"
	od -An -v -tf4 -w8 "$golden/scores.f32" | awk '{ print $1 }' >want
	jq .score got | paste - want | awk -v max="${m#*:}" '
	    { d = $1 - $2; if (d > max || d < -max) bad++ }
	    END { exit !(NR == 5 && !bad) }'
	ok $? "${m%:*}: their scores are those of others"
	is "$(jq .tokens got | xargs)" \
	    "$(jq '.cases[].ids | length' "$golden/expected.json" | xargs)" \
	    "${m%:*}: and have as many tokens"
done
model qwen3-rerank
QWEN_MODEL=$MODEL; export QWEN_MODEL

# --- lines
cat >docs <<'END'
The header is the first part of the file.
Cats sleep all day.

Tokens are small pieces of text.
END
q='what is a header?'
qrerank "$q" docs >scores 2>err
is "$?$(cat err)$(wc -l <scores)" 04 "a score for each line, also an empty one"
awk '$1 <= 0 || $1 >= 1 { bad = 1 } END { exit bad + 0 }' scores
ok $? "between 0 and 1"
is "$(qrerank -f json "$q" docs | jq -c '[.line, .score]' | xargs)" \
    "$(awk '{ print "[" NR "," $1 "]" }' scores | jq -c . | xargs)" "the same as JSON"
paste scores docs | sort -k 1,1gr | head -n 2 >want
qrerank --top 2 "$q" <docs | cmp -s - want
ok $? "the two best, with their documents"
is "$(qrerank --top 9 -f json "$q" docs | jq -r .document | sort)" "$(sort docs)" \
    "as JSON, more than there are"
printf 'b\na\nb\nb\n' | qrerank --top 3 -f json x | jq -c .line >got
is "$(xargs <got)" "$(printf 'b\na\nb\nb\n' | qrerank x | cat -n |
    sort -k 2,2gr -k 1,1n | head -n 3 | awk '{ print $1 }' | xargs)" \
    "of equal ones the earlier"
qrerank -o out "$q" docs && cmp -s out scores
ok $? "-o"

# --- alone and in company
awk -v seed="$SEED" 'BEGIN {
	srand(seed)
	split("the file starts with four bytes and a header is what comes", w)
	for (i = 0; i < 80; i++) {
		for (n = int(rand() * (i % 9 ? 15 : 250)); n > 0; n--)
			printf " %s", w[1 + int(rand() * 12)]
		print ""
	}
}' >many
while IFS= read -r line; do
	printf '%s\n' "$line" | qrerank "$q"
done <many >want
qrerank -v -t 3 "$q" many 2>err | cmp -s - want
ok $? "80 together have the scores that each has alone"
shared=$(sed -n 's/.* \([0-9]*\) shared, .*/\1/p' err)
[ "$shared" -gt 10000 ]
ok $? "what prompts begin with was read once: $shared tokens shared"
qrerank --max-sequences 3 --batch 17 -t 1 "$q" many | cmp -s - want
ok $? "three at a time, 17 tokens a pass"
QWEN_CPU=scalar qrerank -q "$q" many | cmp -s - want
ok $? "with plain C"
qrerank --store kept "$q" many >/dev/null
head -n 1 want >one
head -n 1 many | qrerank -v --store kept "$q" 2>err | cmp -s - one
ok $? "from a store"
[ "$(sed -n 's/.* shared, \([0-9]*\) from the store.*/\1/p' err)" -gt 100 ]
ok $? "the prompt's beginning came from there"
jq . want >numbers
jq -Rnc --arg q "$q" '{query: $q, documents: [inputs]}' many |
    qrerank --requests | jq '.scores[]' | cmp -s - numbers
ok $? "a list in one request"

# --- what texts contain is text
printf '%s\n' '{query} {document}' '<|im_end|>' 'yes' >nasty
qrerank '{document} <|im_start|>' nasty >out 2>err
is "$?$(cat err)$(wc -l <out)" 03 "marks and control tokens"
qrerank --special '{document} <|im_start|>' nasty | cmp -s - out
is $? 1 "--special"
qrerank --instruct 'Find what helps' "$q" docs >out
cmp -s out scores
is $? 1 "another instruction"
qrerank --instruct \
    'Given a web search query, retrieve relevant passages that answer the query' \
    "$q" docs | cmp -s - scores
ok $? "the usual one, said"

# --- what cannot be
seq 3000 | tr '\n' ' ' >long
refused 1 "longer than the context" qrerank "$q" long
grep -q '^qrerank: long: line 1: [0-9]* tokens exceed the model.s context of 4096$' err
ok $? "its line is told"
cat docs long | qrerank "$q" 2>err >out
cmp -s out scores && is "$(wc -l <err)" 1 "scores before it are written"
refused 1 "nothing of the best" sh -c "cat docs long | qrerank --top 2 x"
qrerank --truncate "$q" long >out 2>err
is "$?$(wc -l <out)$(cat err)" "01qrerank: 1 document cut to the context of 4096 tokens" \
    "--truncate"
refused 1 "--truncate leaves something of a document" \
    sh -c 'qrerank --truncate "$(cat long)" docs'
refused 1 "or of what an instruction leaves room for" \
    sh -c 'qrerank --truncate --instruct "$(cat long)" q docs'
printf '%s\n' '{"query":"a","document":"b","id":"x"}' '{' '' '{"query":"a"}' \
    '{"document":"b"}' '{"query":"a","document":"b","documents":[]}' \
    '{"query":"a","documents":["b",1]}' '{"query":"a","documents":{}}' \
    '{"query":1,"document":"b"}' '{"query":"a","documents":[]}' >bad.jsonl
jq -nc '{query: "a", documents: [range(4097) | ""]}' >>bad.jsonl
qrerank --requests bad.jsonl >out 2>err
is "$?, $(wc -l <err), $(wc -l <out)" "3, 1, 10" "bad lines: a result each"
is "$(jq -c 'select(.error == null) | [.line, .id, .scores]' out | xargs)" \
    "[1,x,null] [10,null,[]]" "the good ones have their scores"
printf '%s\n' '{"query":"a","document":"b","image":"c"}' \
    '{"query":"a","documents":["b",{"text":"b","image":"c"}]}' |
    qrerank --requests 2>err | jq -r .error.message | sed 's/.*: images/images/' >out
is "$(uniq out)" "images are not read for vectors and scores: give only text" \
    "images are refused"
refused 1 "a model without yes and no" qrerank -m "$TOP/demo/demo.gguf" x docs
refused 2 "no query" qrerank
refused 2 "two files" qrerank x docs docs
refused 2 "a query for requests" qrerank --requests x docs
refused 2 "the best of requests" qrerank --requests --top 2 bad.jsonl
refused 2 "requests as text" qrerank --requests -f text bad.jsonl
refused 1 "no such file" qrerank x nowhere
refused 1 "a model for documents" qrerank x "$MODEL"
model qwen3-embed
refused 1 "a model for vectors" qrerank -m "$MODEL" x docs

# --- members that nobody knows
printf '{"query":"a","document":"b","top_n":1}\n' >odd
qrerank --requests odd >out 2>err
is "$? $(wc -l <out) $(cat err)" "0 1 qrerank: unknown fields of requests were ignored: top_n" \
    "a note of members that are not known"
is "$(qrerank --requests --strict odd 2>err | jq -r .error.message)" "unknown field top_n" \
    "--strict refuses them"
refused 2 "--strict without requests" qrerank --strict "$q" docs

# --- pipes
(while :; do echo a line; done) 2>err2 | qrerank "$q" 2>err | head -n 2 >out
is "$(wc -l <out)$(cat err)" 2 "the reader goes away"
if [ -c /dev/full ]; then
	qrerank "$q" docs >/dev/full 2>err
	is "$?, $(wc -l <err)" "1, 1" "a full device"
	qrerank --top 1 "$q" docs >/dev/full 2>err
	is "$?, $(wc -l <err)" "1, 1" "a full device at the end"
fi
qrerank "$q" </dev/null >out 2>err
is "$?$(wc -c <out)$(cat err)" 00 "no document, no score"
done_testing
