#!/bin/sh
# qbatch: an answer does not depend on other requests; no result is lost or
# repeated; a bad line fails alone.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qbatch" "no jq"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# items N SEED: as many requests of all kinds
items() {
	awk -v n="$1" -v seed="$2" '
	# the same with every awk
	function r(k) { x = x * 16807 % 2147483647; return int(x / 2147483647 * k) }
	BEGIN {
		x = seed % 2147483646 + 1
		for (i = 0; i < 8; i++) r(2)
		split("And it came to pass in those days that Moses the son " \
		    "of Amram went up unto the mount of God", word, " ")
		head[0] = "In the beginning God created the heaven and the " \
		    "earth. And the earth was without form, and void;"
		head[1] = "And the LORD spake unto Moses, saying, Speak unto " \
		    "the children of Israel, and say unto them,"
		for (i = 0; i < n; i++) {
			p = head[r(4)]
			for (k = r(30); k >= 0; k--)
				p = p " " word[1 + r(19)]
			s = ",\"max_tokens\":" 1 + r(24)
			if (r(2)) s = s ",\"temperature\":0.9,\"seed\":" r(999)
			if (r(5) == 0) s = s ",\"n\":3"
			if (r(4) == 0) s = s ",\"stop\":[\"the\",\"LORD \"]"
			if (r(4) == 0) s = s ",\"frequency_penalty\":0.4"
			if (r(4) == 0) s = s ",\"logprobs\":2"
			printf "{\"custom_id\":\"i%d\",\"method\":\"POST\"," \
			    "\"url\":\"/v1/completions\",\"body\":" \
			    "{\"prompt\":\"%s\"%s}}\n", i, p, s
		}
	}'
}

# --- exactness
items 64 "$SEED" >in.jsonl
qbatch -q --max-sequences 1 -t 1 in.jsonl >want.jsonl 2>err
is "$?, $(wc -l <want.jsonl), $(wc -c <err)" "0, 64, 0" "64 items, one after another"
is "$(jq -r '.error // empty' want.jsonl)" "" "none of them failed"
qbatch -t 2 in.jsonl | cmp -s - want.jsonl
ok $? "32 at a time: the same bytes"
qbatch -t 3 --max-sequences 5 --batch 7 in.jsonl | cmp -s - want.jsonl
ok $? "5 at a time, on 3 threads, 7 tokens a pass: the same bytes"
refused 2 "--mem too small for one" qbatch --mem 1000 in.jsonl
least=$(sed -n 's/.*give at least \([0-9]*\);.*/\1/p' err)
printf '{"prompt":"And","max_tokens":1}\n' | qbatch --mem "$least" >out 2>err
is "$?, $(jq -r .finish_reason out)" "0, length" "the least is enough for one"
made=0
for k in 3 7 12; do
	mem=$((least * k / 2 + 300000))
	qbatch -v --mem $mem in.jsonl 2>err | cmp -s - want.jsonl
	ok $? "with --mem $mem: the same bytes"
	made=$((made + $(sed -n 's/.*: \([0-9]*\) times* a sequence was preempted.*/\1/p' err)))
	used=$(sed -n 's/.* sequences and \([0-9.]*\) MiB.*/\1/p' err)
	awk "BEGIN { exit !($used * 1048576 <= $mem + 60000) }"
	ok $? "of which $used MiB were used"
done
# texts that grow to many times what they began with cannot but be in each
# other's way
seq 10 | awk '{ printf "{\"prompt\":\"And it came to pass in the days of %d\"," \
    "\"temperature\":1,\"max_tokens\":120,\"seed\":%d}\n", $1, $1 }' >grow.jsonl
qbatch --ignore-eos --max-sequences 1 grow.jsonl >grow.want
qbatch --ignore-eos -v --mem $((least * 6)) grow.jsonl 2>err | cmp -s - grow.want
ok $? "texts that grow, with little memory: the same bytes"
n=$(sed -n 's/.*: \([0-9]*\) times* a sequence was preempted.*/\1/p' err)
[ "$n" -ge 3 ]
ok $? "$n times a sequence had to make room for another (before: $made)"
ids 64 "$SEED" 1000000 | paste - in.jsonl | sort | cut -f 2- >shuffled.jsonl
answers() {
	jq -c '[.custom_id, .response.body.choices, .response.body.usage]' "$@" | sort
}
answers want.jsonl >want
qbatch --mem $((least * 4)) shuffled.jsonl >out.jsonl
answers out.jsonl | cmp -s - want
ok $? "in another order, the same answers"
qbatch --unordered in.jsonl | sort >out
sort want.jsonl | cmp -s - out
ok $? "--unordered: the same lines"

# --- the prefix store
qbatch --store st in.jsonl | cmp -s - want.jsonl
ok $? "with a store: the same bytes"
qbatch -v --store st in.jsonl 2>err | cmp -s - want.jsonl
ok $? "and with what is in it now"
n=$(sed -n 's/.* \([0-9]*\) from the store$/\1/p' err)
[ "$n" -ge 40 ]
ok $? "$n tokens came from there"
QWEN_STORE=st qbatch -v --mem $((least * 3)) in.jsonl 2>err | cmp -s - want.jsonl
ok $? "with little memory, too"

# --- one item, and what other tools say
n=0
for i in 3 17 31; do
	sed -n "${i}p" in.jsonl | qbatch | answers >alone
	n=$((n + $(grep -c -F -x -f alone want)))
done
is "$n" 3 "alone, the same answers"
printf 'And God said' | qtok | qdecode -n 20 --temp 0.8 --seed 7 | qtok -d >text
printf '{"prompt":"And God said","temperature":0.8,"seed":7,"max_tokens":20}\n' |
    qbatch | jq -j .text | cmp -s - text
ok $? "the text is that of qdecode"
printf '{"prompt":"And God said","max_tokens":20}\n' |
    qbatch --temp 0.8 --seed 7 | jq -j .text | cmp -s - text
ok $? "also with the options on the command line"
ids=$(printf 'And God said' | qtok -f text | xargs | tr ' ' ,)
printf '{"prompt":[%s]}\n' "$ids" | qbatch -n 20 --temp 0.8 --seed 7 |
    jq -j .text | cmp -s - text
ok $? "and with the prompt as token ids"
printf '{"prompt":"And God said","n":3,"temperature":0.8,"seed":5}\n' |
    qbatch -n 20 | jq -j '.choices[2].text' | cmp -s - text
ok $? "answer i of n has the seed plus i"
printf '{"prompt":["And","And God said",[%s]],"temperature":0.8,"seed":7}\n' "$ids" |
    qbatch -n 20 >out
is "$(jq -r '.choices | length, (.[1].text == .[2].text)' out | xargs)" "3 true" \
    "a list of prompts"

# --- stop strings, across borders of tokens
printf '{"prompt":"And God said"}\n' | qbatch -n 30 | jq -r .text >whole
# whose beginning and end are within words
stop=$(head -c 24 whole | tail -c 9)
jq -n -c --arg s "$stop" '{prompt: "And God said", stop: ["zzz", $s]}' |
    qbatch -n 30 >out
is "$(jq -r '.finish_reason' out)" stop "a stop string ends the text"
is "$(jq -j .text out)" "$(jq -n -j -R --rawfile t whole --arg s "$stop" \
    '$t | split($s)[0]')" "and is no part of it"
is "$(printf '{"prompt":"In the beginning","stop":"%s"}\n' "$(printf '{"prompt":"In the beginning"}\n' |
    qbatch -n 9 | jq -j '.text[0:1]')" | qbatch -n 9 | jq -c '[.text, .finish_reason]')" \
    '["","stop"]' "also at the very beginning"
echo '{"prompt": "And God said"}' | qbatch -q -n 30 --stop zzz --stop "$stop" | jq -j .text >got
is "$(cat got)" "$(jq -j .text out)" "--stop does the same"
echo '{"prompt": "And God said", "stop": "zzz"}' | qbatch -q -n 30 --stop "$stop" | jq -r .text | cmp -s - whole
ok $? "a request's own in its place"
echo '{"prompt": "And God said", "stop": "e", "min_tokens": 12}' | qbatch -q -n 30 >got
[ "$(jq .usage.completion_tokens got)" -ge 12 ] && [ "$(jq -r .finish_reason got)" = stop ] &&
    jq -e '.text | contains("e")' got >/dev/null
ok $? "none counts before min_tokens" || cat got >&2

id=$(printf ' LORD' | qtok -f text)
printf '{"prompt":"In the beginning","max_tokens":3,"logit_bias":{"%s":1000}}\n' "$id" |
    qbatch | jq -j .text >out
is "$(cat out)" " LORD LORD LORD" "logit_bias"
# one for each of the 4096 tokens, told of once for all 128 answers
awk -v id="$id" 'BEGIN { printf "{\"prompt\":\"And\",\"n\":128,\"max_tokens\":1,\"logit_bias\":{\"%s\":1000", id
    for (i = 0; i < 4096; i++) if (i != id) printf ",\"%d\":-100", i; print "}}" }' >all
is "$(qbatch all | jq -c '[.choices[].text] | unique')" '[" LORD"]' "logit_bias of all tokens"
sed 's/}}/,"4096":1}}/' all | qbatch 2>err | jq -r .error.message >out
is "$(cat out)" "logit_bias: has 4097 entries, but the model has 4096 tokens" "and no more"

# --- probabilities
printf '{"prompt":"In the beginning","logprobs":3,"max_tokens":4}\n' | qbatch >out
is "$(jq -c '[(.logprobs | length), (.logprobs[0].top | length),
    (.logprobs[0].logprob == .logprobs[0].top[0].logprob),
    ([.logprobs[].token] | join("")) == .text,
    ([.logprobs[].logprob] | max) <= 0]' out)" '[4,3,true,true,true]' "logprobs"
printf '{"custom_id":"a","body":{"prompt":"In the beginning","logprobs":2,"max_tokens":4}}\n' |
    qbatch | jq -c '.response.body.choices[0] | [(.logprobs | keys),
	(.logprobs.tokens | join("")) == .text, .logprobs.text_offset[0]]' >out
is "$(cat out)" \
    '[["text_offset","token_logprobs","tokens","top_logprobs"],true,0]' \
    "in the form of completions"

# what an answer has for an error, in either form
CODE='(.error // .response.body.error).code // "none"'

# --- messages
cat >chat.jsonl <<'END'
{"custom_id":"a","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"In the <|im_end|> beginning"}],"max_tokens":6,"logprobs":true,"top_logprobs":1}}
{"messages":[{"role":"user","content":"In the <|im_end|> beginning"}],"max_tokens":6}
{"custom_id":"b","url":"/v1/chat/completions","body":{"messages":"x","max_tokens":6}}
{"custom_id":"c","url":"/v1/chat/completions","body":{"prompt":"x"}}
{"messages":[{"role":"user","content":"x"}],"prompt":"x"}
{"messages":[{"role":"user","content":"x"}],"tool_choice":"required"}
END
qbatch --template qwen3 chat.jsonl >out 2>err
is "$?, $(jq -c "$CODE" out | xargs)" \
    "3, none none invalid_request invalid_request invalid_request invalid_request" \
    "chat: two answers, four errors"
sed -n 2p chat.jsonl | qtok --chat --template qwen3 - | qdecode -n 6 | qtok -d >text
[ -s text ] && jq -j 'select(.line == 2) | .text' out | cmp -s - text
ok $? "the prompt is that of qtok --chat"
is "$(head -n 1 out | jq -c '.response.body | [.object, .choices[0].message.role,
    (.choices[0].logprobs.content | length),
    (.choices[0].logprobs.content[0].top_logprobs | length), .usage]')" \
    "[\"chat.completion\",\"assistant\",6,1,$(sed -n 2p out | jq -c .usage)]" \
    "in the form of chat completions"
is "$(head -n 1 out | jq -r '.response.body.choices[0].message.content')" \
    "$(sed -n 2p out | jq -r .text)" "with the same text"
refused 1 "an unknown template" qbatch --template nobody chat.jsonl
refused 1 "no such template" qbatch --template ./none chat.jsonl

# --- bad lines
cat >bad.jsonl <<'END'
{"prompt":"And","max_tokens":2}
not json

{"prompt":
[1,2]
{"max_tokens":3}
{"prompt":""}
{"prompt":[]}
{"prompt":[1,99999999]}
{"prompt":[-1]}
{"prompt":{"a":1}}
{"prompt":"x","max_tokens":0}
{"prompt":"x","max_tokens":1e99}
{"prompt":"x","max_tokens":99999999999999999999999999}
{"prompt":"x","n":129}
{"prompt":"x","temperature":"hot"}
{"prompt":"x","temperature":-1}
{"prompt":"x","seed":18446744073709551616}
{"prompt":"x","stop":5}
{"prompt":"x","logprobs":21}
{"prompt":"x","stream":true}
{"prompt":"x","logit_bias":{"no":1}}
{"custom_id":"d","body":{"prompt":"And","max_tokens":2}}
{"custom_id":"d","body":{"prompt":"And","max_tokens":2}}
{"custom_id":7,"body":{"prompt":"And"}}
{"body":{"prompt":"And"}}
{"custom_id":"e","body":"text"}
{"custom_id":"f","url":"/v1/embeddings","body":{"prompt":"And"}}
{"custom_id":"g","method":"GET","body":{"prompt":"And"}}
{"prompt":"And","max_tokens":2,"id":"last"}
END
printf '{"prompt":"\377"}\n{"prompt":"a\000b"}\n{"prompt":"\\ud800"}\n' >>bad.jsonl
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "["; print "" }' >>bad.jsonl
awk 'BEGIN { printf "{\"id\":\"deep\",\"prompt\":\"And\",\"x\":"
	for (i = 0; i < 100000; i++) printf "["
	for (i = 0; i < 100000; i++) printf "]"
	print "}" }' >>bad.jsonl
printf '{"prompt":"And","max_tokens":2}' >>bad.jsonl
qbatch -n 2 bad.jsonl >out 2>err
is "$?, $(wc -l <err)" "3, 3" "bad lines: exit 3, $(tail -n 1 err | cut -c 1-60)"
is "$(head -n 1 err)" "qbatch: unknown fields of requests were ignored: x" "a note"
is "$(jq -r "$CODE" out | sort | uniq -c | xargs)" \
    "1 duplicate_id 5 invalid_json 23 invalid_request 6 none" "each has its error"
is "$(jq -c "select(($CODE) == \"none\") | [.line, .custom_id, .id]" out | xargs)" \
    "[1,null,null] [null,d,batch_req_23] [30,null,last] [33,null,null] [35,null,deep] [36,null,null]" \
    "the others are answered, with the number of the line"
is "$(jq -r '.text // .response.body.choices[0].text | values' out |
    head -n 2 | uniq | wc -l)" 1 "as if they were alone"
awk 'BEGIN { printf "{\"prompt\":\""; for (i = 0; i < 1100000; i++) printf "%0128d", i
    print "\"}\n{\"prompt\":\"And\"}" }' | qbatch -n 1 >out 2>err
is "$(jq -c "[.line, .id, $CODE]" out | xargs)" "[1,null,line_too_long] [2,null,none]" \
    "a line of 134 MiB goes by"
awk 'BEGIN { printf "{\"prompt\":[1"; for (i = 0; i < 300000; i++) printf ",1"
    print "]}" }' | qbatch -n 1 2>err | jq -r .error.message >out
grep -q "context" out
ok $? "more than the context: $(cat out)"

# --- where results go
qbatch -o out.new in.jsonl && cmp -s out.new want.jsonl
ok $? "-o FILE"
refused 1 "results are not written over" qbatch -o out.new in.jsonl
cmp -s out.new want.jsonl
ok $? "they are as they were"
refused 2 "--resume without -o" qbatch --resume in.jsonl
refused 1 "no such input" qbatch none.jsonl
refused 1 "a folder that is not there" qbatch -o no/out in.jsonl
refused 2 "two inputs" qbatch in.jsonl in.jsonl
refused 2 "--store-max -1" qbatch --store S --store-max=-1 in.jsonl
refused 2 "--store without a name" qbatch --store "" in.jsonl
qbatch </dev/null >out 2>err
is "$?, $(cat out err | wc -c)" "0, 0" "no line, no result"
if [ -c /dev/full ]; then
	qbatch in.jsonl >/dev/full 2>err
	is "$?, $(wc -l <err)" "1, 1" "a full disk: $(cat err)"
	qbatch -o /dev/full in.jsonl 2>err
	is "$?, $(wc -l <err)" "1, 1" "with -o: $(cat err)"
else
	skip "a full disk" "no /dev/full"
fi
(ulimit -f 4; trap '' XFSZ; exec qbatch -o short in.jsonl 2>err)
is "$?, $(wc -l <err), $(head -n "$(wc -l <short)" want.jsonl | cmp - short)" \
    "1, 1, " "a file that may not grow ends with a whole line: $(cat err)"
qbatch --resume -o short in.jsonl && cmp -s short want.jsonl
ok $? "and --resume goes on with it"
# more than a pipe holds
items 4000 "$SEED" >many.jsonl
{ qbatch many.jsonl 2>err; echo $? >status; } | head -n 2 >out
is "$(cat status), $(wc -c <err), $(wc -l <out)" "141, 0, 2" \
    "qbatch | head: died of SIGPIPE, silently"
head -n 2 want.jsonl | cmp -s - out
ok $? "with the first two results"

# --- resuming: wherever it was cut off, nothing is lost or repeated
bytes=$(wc -c <want.jsonl)
first=$(head -n 1 want.jsonl | wc -c)
bad=0
for at in 0 1 $((first - 1)) "$first" $((first + 1)) $((bytes / 2)) \
    $((bytes - 1)) "$bytes"; do
	head -c "$at" want.jsonl >out.part
	qbatch --resume -o out.part in.jsonl 2>>err && cmp -s out.part want.jsonl ||
	    bad=1
done
ok $bad "resumed after 0, 1, ... $bytes bytes: the same bytes"
sed -n '5p; 9p; 60,64p' want.jsonl >out.part
qbatch --unordered --resume -o out.part in.jsonl
sort want.jsonl >out.sorted
sort out.part | cmp -s - out.sorted
ok $? "also of results in any order"
echo '{"custom_id":"other","body":{"prompt":"x"}}' >other.jsonl
cp want.jsonl out.part
refused 1 "of another input" qbatch --resume -o out.part other.jsonl
head -n 5 in.jsonl >other.jsonl
refused 1 "results for no line of the input" qbatch --resume -o out.part other.jsonl
cmp -s out.part want.jsonl
ok $? "of which it is, too, when a line has no id; nothing of them is lost"
echo 'hello' >out.part
refused 1 "of no results" qbatch --resume -o out.part in.jsonl
is "$(cat out.part)" hello "which are left alone"
qbatch -n 2 -o bad.out bad.jsonl 2>/dev/null
cp bad.out bad.copy
qbatch -n 2 --resume -o bad.out bad.jsonl 2>err
is "$?, $(cmp bad.out bad.copy && echo same)" "3, same" \
    "what failed is not tried again, and still is a failure"

# the shape of errors: in an envelope as the batch interface has them, with a
# place for them in the response; so what is no request at all
printf '%s\n' '{"custom_id":"x","url":"/v1/completions","body":{"prompt":"a","n":"b"}}' \
    'no' '{"id":7,"prompt":[]}' >shape.jsonl
qbatch shape.jsonl 2>err | jq -c 'del(.run)' >out
sed -n 1p out >one
is "$(cat one)" '{"id":"batch_req_1","custom_id":"x","response":{"status_code":400,"request_id":"req_1","body":{"error":{"message":"n: \"b\" is not a number","type":"invalid_request_error","param":"n","code":"invalid_request"}}},"error":null}' \
    "a request that fails has a response"
is "$(sed -n 2p out | jq -c '[.custom_id, .response.status_code, .response.body.error.code, .error]')" \
    '[null,400,"invalid_json",null]' "so has a line that is no JSON"
is "$(sed -n 3p out | jq -c '[.line, .id, .error.param, .error.code]')" '[3,7,"prompt","invalid_request"]' \
    "a request alone has an error"

# what is no list of requests at all is one line, not an error for each of its own
refused 1 "a model is not taken for requests" qbatch "$TOP/demo/demo.gguf"
refused 1 "nor from stdin" sh -c 'qbatch <"$QWEN_MODEL"'
printf 'And' | qtok | qprefill -o model.state >/dev/null
refused 1 "nor is a state" qbatch model.state

# --retry-failed: what failed is done again, whatever was wrong, and nothing else
qbatch -n 2 -o again shape.jsonl 2>err
is "$?, $(wc -l <again)" "3, 3" "complete, with errors"
sed 's/"b"/2/; s/\[\]/"And"/' shape.jsonl >mended.jsonl
qbatch -q -n 2 --retry-failed -o again mended.jsonl 2>err
is "$?, $(cat err), $(jq -c "$CODE" again | xargs)" \
    "3, qbatch: 1 of 3 items failed; the first, line 2: invalid JSON at byte 1: invalid literal, expected 'null', none invalid_json none" \
    "--retry-failed"
qbatch -n 2 mended.jsonl 2>err >want.again
qbatch --merge -o again again 2>err
is "$?, $(cmp again want.again && echo same)" "3, same" "--merge of one file puts it in order"
cp want.jsonl whole.copy
qbatch -q --retry-failed -o whole.copy in.jsonl 2>err
is "$?, $(cat err), $(cmp whole.copy want.jsonl && echo same)" "0, , same" "with nothing to do"
refused 2 "--retry-failed without -o" qbatch --retry-failed in.jsonl
echo hello >out.part
refused 1 "of no results" qbatch --retry-failed -o out.part in.jsonl
is "$(cat out.part)" hello "which are left alone"
# results that an older qbatch wrote
cat >old.jsonl <<'E'
{"id":"batch_req_1","custom_id":"x","response":null,"error":{"code":"invalid_request","message":"n: is not a number"}}
{"line":2,"error":{"code":"invalid_json","message":"byte 1: unexpected character"}}
E
cp old.jsonl old.copy
qbatch -n 2 --resume -o old.copy shape.jsonl 2>err
is "$?, $(head -n 2 old.copy | cmp - old.jsonl && echo same) $(wc -l <old.copy)" "3, same 3" \
    "older results are resumed from"
qbatch -n 2 -o new.copy shape.jsonl 2>err
qbatch --merge old.copy new.copy >out 2>err
is "$?, $(wc -l <out)" "3, 3" "and merged, an error for an error"
qbatch --merge again old.copy 2>err | jq -c "$CODE" | xargs >out
is "$(cat out)" "none invalid_json none" "what failed gives way"

# wait_lines FILE N: until it has so many, or for five minutes
wait_lines() {
	n=0
	while [ "$(cat "$1" 2>/dev/null | wc -l)" -lt "$2" ] &&
	    [ $n -lt 15000 ]; do
		sleep 0.02
		n=$((n + 1))
	done
}

# killed in the midst: its input comes by hand
mkfifo fifo
qbatch -o out.killed --max-sequences 4 fifo &
pid=$!
exec 3<>fifo
head -n 20 in.jsonl >&3
wait_lines out.killed 12
kill -9 $pid
wait $pid 2>/dev/null
exec 3>&-
qbatch --resume -o out.killed in.jsonl && cmp -s out.killed want.jsonl
ok $? "after kill -9 with $(cat out.killed | wc -l) lines: the same bytes"
# Ctrl-C says how to go on, and what it says does
if ignored INT; then
	skip "Ctrl-C" "it is ignored here"
else
	perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' -- qbatch -o "out it's" fifo 2>err &
	pid=$!
	exec 3<>fifo
	head -n 20 in.jsonl >&3
	wait_lines "out it's" 12
	kill -INT $pid
	wait $pid
	is "$?, $(tail -n 1 err)" "130, qbatch: interrupted; this resumes it: QWEN_MODEL=$QWEN_MODEL qbatch --resume -o 'out it'\\''s' fifo" \
	    "Ctrl-C says how to go on"
	exec 3>&-
	eval "$(tail -n 1 err | sed 's/.*resumes it: //; s/fifo$/in.jsonl/')" && cmp -s "out it's" want.jsonl
	ok $? "by the command it says: the same bytes"
	perl -e '$SIG{INT} = "DEFAULT"; exec @ARGV' -- qbatch -o out.stdin <fifo 2>err &
	pid=$!
	exec 3<>fifo
	head -n 3 in.jsonl >&3
	wait_lines out.stdin 1
	kill -INT $pid
	wait $pid
	is "$(tail -n 1 err)" "qbatch: interrupted; this resumes it, with the same input on stdin: QWEN_MODEL=$QWEN_MODEL qbatch --resume -o out.stdin" \
	    "Ctrl-C where the input is on stdin"
	exec 3>&-
fi
qbatch -o out.both fifo &
pid=$!
exec 3<>fifo
head -n 2 in.jsonl >&3
wait_lines out.both 2
is "$(wc -l <out.both)" 2 "results come while the input is still open"
refused 1 "two runs with one file" qbatch --resume -o out.both in.jsonl
exec 3>&-
wait $pid
is "$?, $(wc -l <out.both)" "0, 2" "the first one is not disturbed"

# --- parts
for i in 1 2 3; do
	qbatch --shard $i/3 -o part.$i in.jsonl
done
is "$(cat part.? | sort | cmp - out.sorted && echo same)" same "shards have each line once"
qbatch --merge part.3 part.1 part.2 | cmp -s - want.jsonl
ok $? "--merge puts them in order"
qbatch --merge -o merged part.? part.2 && cmp -s merged want.jsonl
ok $? "also with a part twice"
SLURM_ARRAY_TASK_ID=14 SLURM_ARRAY_TASK_MIN=10 SLURM_ARRAY_TASK_COUNT=3 \
    SLURM_ARRAY_TASK_STEP=2 qbatch --shard slurm in.jsonl | cmp -s - part.3
ok $? "--shard slurm"
refused 2 "outside Slurm" qbatch --shard slurm in.jsonl
for s in 0/3 4/3 x 1/ /2 1/0 -1/2; do
	refused 2 "--shard $s" qbatch --shard "$s" in.jsonl
done
sed 's/"text":"./"text":"!/' part.2 >part.4
refused 1 "parts that differ" qbatch --merge part.2 part.4
head -c 100 part.2 >part.4
refused 1 "a part that was cut off" qbatch --merge part.1 part.4
refused 2 "--merge of nothing" qbatch --merge

# --- reports
qbatch --arrivals 200 --seed 3 --report-json r.json --report r.txt \
    --goodput ttft:100000,e2e:100000 in.jsonl >out 2>err
is "$?, $(answers out | cmp - want && echo same)" "0, same" "--arrivals changes no answer"
is "$(jq -c '[.items, .failed, .ttft_ms.n, .e2e_ms.n,
    (.goodput_items_per_s == .items_per_s),
    (.ttft_ms.p50 <= .ttft_ms.p99), (.ttft_ms.p99 <= .ttft_ms.max),
    (.ttft_ms.max <= .e2e_ms.max)]' r.json)" \
    '[64,0,64,64,true,true,true,true]' "--report-json"
is "$(awk '/^[a-z]/ { n++ } END { print n }' r.txt)" 22 "--report"
qbatch --goodput ttft:0.000001 --report - in.jsonl 2>&1 >out |
    grep -q '^goodput_items_per_s  *0$'
ok $? "nothing is as good as that"
for o in --report --report-json; do
	refused 2 "$o of nothing" qbatch $o "" in.jsonl
	is "$(cat err)" "qbatch: $o: '' is not the name of a file; see qbatch --help" "named"
	refused 2 "$o of a folder" qbatch $o no/ in.jsonl
done
for o in "--goodput x:1" "--goodput ttft" "--arrivals 0" "--max-sequences 0" \
    "--mem 5X" "-n 0" "--batch 0" "--temp x"; do
	refused 2 "$o" qbatch $o in.jsonl
done

# -- ids, members and parts of others, at a terminal
{
	printf '%s\n' '{"custom_id":"a\u001b[31m\u009b1m\u007f","body":{"prompt":"And","max_tokens":2,"x\u001b[1m":1}}'
	printf '{"custom_id":"c\302\233d\177","body":{"prompt":7}}\n'
	printf '{"custom_id":"d","body":{"messages":[{"role":"user","content":[{"type":"e\302\2331m"}]}]}}\n'
} >steers.jsonl
qbatch -v steers.jsonl >out 2>&1
is "$? $(jq -cR 'fromjson? | .custom_id' out | LC_ALL=C cat -v | tr '\n' ' ')" \
    '3 "a\u001b[31mM-BM-^[1m\u007f" "cM-BM-^[d\u007f" "d" ' "ids are what they were"
LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]\|\302[\200-\237]')" out
is $? 1 "but nothing that steers a terminal is written as it is"
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	script -qec 'qbatch -v steers.jsonl' /dev/null </dev/null 2>&1 | tr -d '\r' >out
	LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]\|\302[\200-\237]')" out
	is "$? $(grep -c custom_id out)" "1 3" "at a terminal either"
else
	skip "a terminal" "script(1) makes none here"
fi
done_testing
