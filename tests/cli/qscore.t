#!/bin/sh
# qscore: the score of a token does not depend on other lines; windows score
# each token once; a bad line fails alone.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qscore" "no jq"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
# about MAX of what the two figures differ
near() {
	awk "BEGIN { d = ($1) - ($2); exit !(d < $3 && d > -($3)) }"
}

# --- against the logits that qprefill writes
printf 'In the beginning God created the heaven and the earth.' >text
qtok -f text text >ids
qscore --each text >each 2>err
is "$?$(cat err)" 0 "a text, token by token"
cut -f 2 each >got
tail -n +2 ids | cmp -s - got
ok $? "all tokens but the first"
is "$(cut -f 1 each | head -n 1)" 1 "positions count from 0"
is "$(cut -f 5 each | jq -rj .)" "$(sed 's/^In//' text)" "their text"
# the first token is in front of the rows: its scores are of the next ones
qtok text | qprefill --logits all -f json 2>/dev/null | jq -c '.logits // empty' >rows
if [ -s rows ]; then
	jq -s --slurpfile rows rows -r '. as $ids | [range(1; $ids | length)] |
	    map($rows[. - 1] as $r | ($r | max) as $m |
	    $r[$ids[.]] - $m - ([$r[] - $m | exp] | add | log))[]' ids >want
	cut -f 3 each | paste - want | awk '{ d = $1 - $2
	    if (d > 2e-6 || d < -2e-6) bad++ } END { exit !(NR > 5 && !bad) }'
	ok $? "scores are the softmax of the logits of qprefill"
else
	skip "scores against qprefill" "no rows in JSON"
fi

for cpu in scalar avx2; do
	QWEN_CPU=$cpu qscore -q --each -t 1 text 2>err | cmp -s - each
	ok $? "the same bytes with no more than $cpu"
done

qscore --top 3 text >top
cut -f 1-5 top | cmp -s - each
ok $? "the best of each place come after it"
awk -F '\t' 'NF != 14 || $7 < $10 || $10 < $13 || $3 > $7 { bad = 1 }
    $4 < 3 && ($(6 + 3 * $4) != $2 || $(7 + 3 * $4) != $3) { bad = 1 }
    END { exit bad + 0 }' top
ok $? "they fall, and the rank says which of them it is"
qscore --top 3 -f json text | jq -r '.tokens[] | [.position, .id, .logprob,
    (.top[] | .id, .logprob)] | map(. * 1e6 | round) | @tsv' >got
cut -f 1-3,6,7,9,10,12,13 top |
    jq -Rr 'split("\t") | map(tonumber * 1e6 | round) | @tsv' | cmp -s - got
ok $? "the same in JSON"

# --- sums
qscore -f json text >sum
near "$(jq .logprob sum)" "$(awk '{ s += $3 } END { print s }' each)" 1e-4
ok $? "the sum is that of the tokens"
n=$(($(wc -l <ids) - 1))
is "$(jq -c '[.tokens_total, .tokens_scored, .bytes]' sum)" \
    "[$((n + 1)),$n,$(($(wc -c <text) - 2))]" "what was counted"
near "$(jq .perplexity sum)" "$(jq '-.logprob / .tokens_scored | exp' sum)" 1e-6
ok $? "perplexity"
near "$(jq .bits_per_byte sum)" "$(jq '-.logprob / (2 | log) / .bytes' sum)" 1e-6
ok $? "bits per byte"
is "$(qscore text | awk 'NR == 2 { print $1, $2, $NF }')" "$((n + 1)) $n text" \
    "the same in a table"
is "$(qscore text - text <text | tail -n 1 | awk '{ print $1, $2, $NF }')" \
    "$((3 * n + 3)) $((3 * n)) total" "three texts, and all of them"
qtok text | qscore -f json --tokens | jq -c 'del(.file)' >got
jq -c 'del(.file)' sum | cmp -s - got
ok $? "the same from tokens"
is "$(qscore --bos --each text | cut -f 1 | head -n 1)" 0 \
    "with --bos the first token has a score"

# --- windows
for i in 1 2 3 4 5 6; do cat text; echo; done >long
qscore --each --context 24 --stride 7 long >windows
is "$(cut -f 1 windows | awk '$1 != NR { bad = 1 } END { print bad + 0, NR }')" \
    "0 $(($(qtok -c long) - 1))" "windows: each token once, in order"
# token 40 is in the window that ends at 24 + 3 * 7 = 45
qtok -f text long | sed -n '22,45p' | qscore --each --tokens |
    awk '$1 == 40 - 21 { print $2, $3 }' >got
awk '$1 == 40 { print $2, $3 }' windows | cmp -s - got
ok $? "and the score is that of its window alone"
qscore --each --context 24 --stride 7 -t 3 --max-sequences 2 --batch 5 long |
    cmp -s - windows
ok $? "on 3 threads, 2 windows at a time: the same bytes"

qscore --each --context 24 --stride 1 long >slow
qscore --each --context 24 --stride 1 --max-sequences 1 long | cmp -s - slow
ok $? "more windows than wait at a time"
for i in 1 2 3 4 5; do
	head -n $i long >text.$i
	qscore text.$i | tail -n 1
done >want
qscore text.1 text.2 text.3 text.4 text.5 | sed '1d; $d' | cmp -s - want
ok $? "several files at the same time: each as alone"

# --- requests
awk -v seed="$SEED" 'function words(n, s) {
	while (n-- > 0)
		s = s " " w[1 + int(rand() * 13)]
	return s
}
BEGIN {
	srand(seed)
	split("And it came to pass in those days that Moses went up unto God", w)
	for (i = 0; i < 60; i++) {
		if (i % 4 == 0)
			c = words(5 + int(rand() * 40))
		t = words(1 + int(rand() * 5))
		printf "{\"id\":%d,\"context\":\"%s\",\"continuation\":\"%s\"}\n",
		    i, c, t
	}
}' >in.jsonl
qscore --requests --each --max-sequences 1 -t 1 in.jsonl >want.jsonl 2>err
is "$?$(cat err), $(jq -r 'select(.error == null).id' want.jsonl | wc -l)" "0, 60" \
    "60 requests, one after another"
qscore --requests --each -t 3 -v in.jsonl 2>err | cmp -s - want.jsonl
ok $? "32 at a time: the same bytes"
[ "$(sed -n 's/.* read, \([0-9]*\) shared.*/\1/p' err)" -gt 0 ]
ok $? "and contexts were shared"
refused 2 "--mem too small for one" qscore --requests --mem 1000 in.jsonl
least=$(sed -n 's/.*give at least \([0-9]*\);.*/\1/p' err)
qscore --requests --each --mem $((least * 4)) in.jsonl | cmp -s - want.jsonl
ok $? "with little memory: the same bytes"
for i in 1 2; do
	qscore --requests --each --store kept -v in.jsonl 2>err | cmp -s - want.jsonl
	ok $? "with a prefix store, time $i: the same bytes"
done
[ "$(sed -n 's/.* shared, \([0-9]*\) from the store.*/\1/p' err)" -gt 0 ]
ok $? "and what contexts share came from there"
QWEN_STORE=kept qscore --requests -v --no-store in.jsonl 2>&1 >/dev/null |
    grep -q ' 0 from the store'
ok $? "but not with --no-store"
head -n 7 in.jsonl | tail -n 1 | qscore --requests --each | jq -c 'del(.line)' >got
sed -n 7p want.jsonl | jq -c 'del(.line)' | cmp -s - got
ok $? "alone: the same bytes"
is "$(jq -r '(.logprob - ([.tokens[].logprob] | add)) | if . < 1e-9 and . > -1e-9
    then empty else . end' want.jsonl)" "" "logprob is the sum of its tokens"
is "$(jq -r 'select(.is_greedy != (all(.tokens[]; .rank == 0))).line' want.jsonl)" \
    "" "is_greedy if all of them are the best"
qtok text | qdecode -n 4 -f text >four
jq -cn --slurpfile c ids --slurpfile k four '{context: $c, continuation: $k}' |
    qscore --requests | jq -c '[.is_greedy, .tokens_scored]' >got
is "$(cat got)" "[true,4]" "what qdecode chooses is greedy"

# lines that mean harm: whatever they say, the last one is answered
{
	printf '%s\n' '' '{' '[' '"' '{"context":"a","continuation":"' nan \
	    '{"context":"a","continuation":"\ud800"}' '{"id":{},"text":"a b"}' \
	    '{"text":"a b","text":"c d"}' '{"id":1e999999,"text":"a b"}' \
	    '{"tokens":[4294967296,1]}' '{"tokens":[1.0,2]}' \
	    '{"tokens":[-0,1]}' '{"tokens":[[1,2]]}' '{"tokens":{"0":1}}' \
	    '{"tokens":[00,1]}' '{"tokens":["1","2"]}' '{"context":null}' \
	    '{"context":[],"continuation":[]}' '{"context":[1],"continuation":"a"}'
	printf '{"text":"\0 nul"}\n{"text":"\377\376"}\n'
	awk 'BEGIN { while (n++ < 100000) printf "["; print "" }'
	awk 'BEGIN { printf "{\"id\":\""; while (n++ < 2000) printf "x"
	    print "\",\"text\":\"a b\"}" }'
	awk 'BEGIN { printf "{\"text\":\""; while (n++ < 1500000)
	    printf "%s", "0123456789ab"; print "\"}" }'
	printf '{"context":"And God","continuation":" said"}'
} >hostile.jsonl
qscore --requests hostile.jsonl >out 2>err
is "$?, $(wc -l <err), $(wc -l <out)" "3, 1, 25" "hostile lines: a result each"
jq -es 'all(has("line") and (has("error") != has("logprob"))) and
    all(.[]; .logprob == null or .logprob <= 0)' out >/dev/null
ok $? "and each is JSON: scores, or an error"
is "$(tail -n 1 out | jq .logprob)" "$(echo \
    '{"context":"And God","continuation":" said"}' | qscore --requests |
    jq .logprob)" "the last one has its score"
is "$(jq -r 'select(.line == 25).error.code' out)" "line_too_long" \
    "18 MB in a line are too many"

printf '%s\n' '{"context":"And God","continuation":" said"}' '{bad' \
    '{"text":"And God said"}' '' '{"id":"x","tokens":[1,99999999]}' '[]' \
    '{"continuation":"And"}' '{"context":"a","text":"b"}' \
    '{"context":"a","continuation":""}' '{"tokens":[5]}' \
    '{"context":"And God ","continuation":"said"}' \
    '{"context":[1,-2],"continuation":[3]}' '{"text":7}' >bad.jsonl
qscore --requests bad.jsonl >out 2>err
is "$?, $(wc -l <err)" "3, 1" "bad lines: exit 3 and one line on stderr"
is "$(jq -r 'select(.error == null).line' out | xargs)" "1 3 7 11" \
    "the good ones are answered"
is "$(jq -r 'select(.error).error.code' out | xargs)" \
    "invalid_json $(for i in 1 2 3 4 5 6 7; do echo invalid_request; done | xargs)" \
    "the others have their error"
is "$(sed -n 1p out | jq .logprob)" "$(jq 'select(.line == 11).logprob' out)" \
    "space at the end of a context belongs to the word after it"
is "$(jq -r 'select(.id).id' out)" x "an error bears the id"

# --- files and options
printf A >one
qscore one text >out 2>err
is "$?, $(grep -c text out), $(cat err)" \
    "1, 1, qscore: one: fewer than two tokens: nothing to score" \
    "a file with nothing to score; the rest goes on"
qscore nowhere text >out 2>err
is "$?, $(wc -l <err), $(grep -c text out)" "1, 1, 1" "a file that is not there"
printf '1 2 99999999\n' >high
qscore --tokens high >out 2>err
is "$?, $(cat err)" "1, qscore: high: line 1, byte 4: id 99999999 is outside the vocabulary of 4096" \
    "a token that the model has not"
qscore --requests -o nothing nowhere 2>err
is "$?, $(cat err), $(ls nothing 2>/dev/null)" \
    "1, qscore: nowhere: No such file or directory, " "requests that are not there"
qscore -f json -o result text && cmp -s result sum
ok $? "-o"
echo '{"text":"a b","contxt":"c"}' >odd
qscore --requests odd >out 2>err
is "$? $(wc -l <out) $(cat err)" "0 1 qscore: unknown fields of requests were ignored: contxt (did you mean context?)" \
    "a note of members that are not known"
is "$(qscore --requests --strict odd 2>err | jq -r .error.message)" \
    "unknown field contxt (did you mean context?)" "--strict refuses them"
refused 2 "--strict without requests" qscore --strict text
refused 2 "a stride as long as the context" qscore --context 8 --stride 8 text
refused 2 "a context longer than the model's" qscore --context 99999999 text
refused 2 "more of the best than there may be" qscore --top 65 text
refused 2 "requests as a table" qscore --requests -f text in.jsonl
refused 2 "two files of requests" qscore --requests in.jsonl in.jsonl
done_testing
