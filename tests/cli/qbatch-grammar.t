#!/bin/sh
# Requests with a schema or grammar: each gets the result of qdecode, whatever
# other requests run; the same with one schema for all; invalid ones fail alone.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
# this model knows nothing of thoughts, and would begin one now and then
NO=--logit-bias=$(printf '<think>' | qtok --special -f text)=-1000
printf 'root ::= "yes" | "no" | [0-9]{2,3}' >a.gbnf
cat >b.json <<'E'
{"type":"object","properties":{"name":{"type":"string","maxLength":6},"n":{"type":"integer","minimum":3,"maximum":12}},"required":["name","n"]}
E
printf '{"type":"object"}' >c.json

# request WHAT PROMPT TEMP SEED
request() {
	case $1 in
	a) what=$(jq -c -Rs '{grammar: .}' a.gbnf) ;;
	b) what=$(jq -c '{response_format: {type: "json_schema",
	    json_schema: {name: "b", strict: true, schema: .}}}' b.json) ;;
	c) what='{"response_format":{"type":"json_object"}}' ;;
	esac
	jq -n -c --arg p "$2" --argjson t "$3" --argjson s "$4" \
	    --argjson w "$what" '{id: "\($p)", prompt: $p, max_tokens: 60,
	    temperature: $t, seed: $s} + $w'
}
decode() {
	case $1 in
	a) set -- "$1" "$2" "$3" "$4" --grammar a.gbnf ;;
	*) set -- "$1" "$2" "$3" "$4" --json-schema "$1.json" ;;
	esac
	printf %s "$2" | qtok | qdecode -n 60 --temp "$3" --seed "$4" "$5" "$6" \
	    "$NO" |
	    qtok -d
}
i=0
for p in "one" "two three" "one two"; do
	for w in a b c; do
		i=$((i + 1))
		t=$((i % 4))
		request $w "$p $i" $t $i >>in
		decode $w "$p $i" $t $i | jq -c -Rs . >>want
	done
done
qbatch "$NO" in >out
ok $? "$(wc -l <in) requests"
jq -c .text out >got
cmp -s want got
ok $? "each as qdecode has it"
diff want got >&2
qbatch "$NO" --max-sequences 2 -t 1 in | cmp -s - out
ok $? "two at a time"
is "$(jq -r 'select(.line % 3 == 1) | .text' out | grep -cEx 'yes|no|[0-9]{2,3}')" 3 \
    "grammars: $(jq -r 'select(.line % 3 == 1) | .text' out | xargs)"
is "$(jq -c 'select(.line % 3 == 2) | .text | fromjson | select((.name |
    length <= 6) and .n >= 3 and .n <= 12)' out | wc -l)" 3 \
    "schemas: $(jq -r 'select(.line % 3 == 2) | .text' out | tr -d '\n')"

# one for all, but not for those with their own
jq -c 'select(.response_format.type == "json_schema")' in >own
jq -c 'del(.response_format)' own >bare
qbatch "$NO" own | jq -c .text >want
qbatch "$NO" --json-schema b.json bare | jq -c .text | cmp -s - want
ok $? "--json-schema for all"
jq -c 'select(.grammar)' in >own
qbatch "$NO" own | jq -c .text >want
qbatch "$NO" --json-schema b.json own | jq -c .text | cmp -s - want
ok $? "a request's own comes before it"
jq -c 'del(.grammar)' own | qbatch "$NO" --grammar a.gbnf | jq -c .text |
    cmp -s - want
ok $? "--grammar for all"

# several answers, and many grammars
jq -n -c '{prompt: "x", n: 5, max_tokens: 20, temperature: 2,
    grammar: "root ::= [a-c]{3}"}' |
    qbatch "$NO" | jq -r '.choices[].text' >got
is "$(grep -cEx '[a-c]{3}' got)" 5 "five answers: $(xargs <got)"
jq -n -c 'range(200) | {prompt: "x", max_tokens: 3,
    grammar: "root ::= \"\(.)\""}' | qbatch "$NO" | jq -r .text >got
seq 0 199 | cmp -s - got
ok $? "200 grammars"
jq -n -c '{custom_id: "1", method: "POST", url: "/v1/chat/completions",
    body: {messages: [{role: "user", content: "Hi"}], max_tokens: 20,
    response_format: {type: "json_schema", json_schema: {schema:
    {enum: ["a", "b"]}}}}}' | qbatch --template qwen3-coder >out
is "$(jq -r '.response.body.choices[0].message.content' out | grep -cx '"[ab]"')" \
    1 "a chat: $(jq -c .response.body.choices[0].message out)"

cat >bad <<'E'
{"prompt":"x","max_tokens":2,"response_format":{"type":"xml"}}
{"prompt":"x","max_tokens":2,"response_format":7}
{"prompt":"x","max_tokens":2,"response_format":{"type":"json_schema"}}
{"prompt":"x","max_tokens":2,"response_format":{"type":"json_schema","json_schema":{"schema":{"contains":{},"items":true}}}}
{"prompt":"x","max_tokens":2,"grammar":"root ::= root"}
{"prompt":"x","max_tokens":2,"grammar":7}
{"prompt":"x","max_tokens":2,"grammar":"root ::= \"a\"","response_format":{"type":"json_object"}}
{"prompt":"x","max_tokens":2,"grammar":"root ::= \"a\"","response_format":{"type":"text"}}
{"prompt":"x","max_tokens":2}
E
qbatch bad >out 2>err
is "$?, $(wc -l <err) line, $(jq -r '.error.code // "fine"' out | uniq -c | xargs)" \
    "3, 1 line, 7 invalid_request 2 fine" "bad ones"
is "$(jq -r .error.message out | grep -c 'response_format: #: keyword "contains" is not')" 1 \
    "what is wrong with a schema"
# nothing can follow: it ends there, whatever else is asked for
for w in '"min_tokens":30' '"ignore_eos":true' '"temperature":1,"min_tokens":30'; do
	echo '{"prompt":"x","max_tokens":40,"grammar":"root ::= \"yes\"",'"$w}" |
	    qbatch -q "$NO" >out
	is "$? $(jq -r '.text, .finish_reason' out | xargs)" "0 yes stop" "$w"
done
echo '{"prompt":"x","max_tokens":40}' | qbatch -q "$NO" --ignore-eos --grammar a.gbnf >out
is "$? $(jq -r .finish_reason out)" "0 stop" --ignore-eos
# a prompt that is no chat's is not thought about first, unless it asks for that
for i in 1 2 3 4 5 6; do
	echo '{"prompt":"And God said","max_tokens":30,"temperature":1,"seed":'$i',
	    "json_schema":{"type":"integer","maximum":9,"minimum":1}}' | tr -d '\n'
	echo
done >raw
is "$(qbatch -m "$TOP/demo/demo.gguf" raw | jq -r .text | grep -cx '[1-9]')" 6 \
    "no thinking block before what a grammar holds"
printf 'root ::= [1-9]' >c.gbnf
is "$(jq -c 'del(.json_schema)' raw | qbatch -m "$TOP/demo/demo.gguf" \
    --grammar c.gbnf | jq -r .text | grep -cx '[1-9]')" 6 "nor with --grammar"
echo '{"not":{}}' >bad.json
refused 1 "a bad one for all" qbatch "$NO" --json-schema bad.json in
refused 2 "which one?" qbatch "$NO" --json-schema b.json --grammar a.gbnf in
done_testing
