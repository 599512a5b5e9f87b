#!/bin/sh
# qserve: its answers, as bodies and as events, are those of qbatch and the
# pipeline; errors have the documented form.
. "$TOP/tests/cli/tap.sh"
needs "qserve" jq curl
. "$TOP/tests/cli/qserve.sh"
serve --template qwen3.5
is "$(get /health), $(cat code)" '{"status":"ok"}, 200' "it is up"
is "$(get /v1/models | jq -c '[.object, (.data[] | .id, .object)]')" \
    '["list","demo.gguf","model"]' "its model"
is "$(get /v1/models | jq -c '[.has_more, (.data[] | .type, .display_name,
    (.created_at | fromdate) == .created)]')" '[false,"model","demo.gguf",true]' \
    "as Anthropic has it, too"
is "$(get /v1/models/demo.gguf | jq -r .id), $(get /v1/models/x | jq -r .error.code)" \
    "demo.gguf, model_not_found" "a model by its name"

# -- the same as qbatch: what a body holds, but for when, for whom, and how much
# was read before
cat >bodies <<'EOT'
/v1/completions {"prompt":"In the beginning","max_tokens":20}
/v1/completions {"prompt":"And God said, Let there","max_tokens":20,"temperature":0.9,"seed":5,"n":3}
/v1/completions {"prompt":["And it came","to pass"],"max_tokens":9,"temperature":1.2,"seed":7,"n":2,"logprobs":3}
/v1/completions {"prompt":[1136,258,2049],"max_tokens":30,"stop":["the ","and"]}
/v1/completions {"prompt":"Behold","max_tokens":9,"temperature":0.8,"seed":18446744073709551615,"logit_bias":{"77":3}}
/v1/completions {"prompt":"Is it so? ","max_tokens":9,"grammar":"root ::= \"yes\" | \"no\""}
/v1/chat/completions {"messages":[{"role":"user","content":"Who art thou?"}],"max_tokens":30}
/v1/chat/completions {"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Who?"}],"max_tokens":12,"temperature":1,"top_p":0.9,"seed":1,"n":2,"logprobs":true,"top_logprobs":2}
/v1/chat/completions {"messages":[{"role":"user","content":"Who art thou?"}],"max_tokens":80,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"name":{"type":"string","maxLength":8}},"required":["name"]}}}}
/v1/chat/completions {"messages":[{"role":"user","content":"call"}],"max_tokens":90,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"enum":["sky","sea"]}},"required":["at"]}}}],"tool_choice":"required"}
/v1/completions {"prompt":"Behold","max_tokens":40.0,"temperature":1.1,"seed":-3,"ignore_eos":true,"typical_p":0.9,"repeat_penalty":1.2,"repeat_last_n":8}
/v1/completions {"prompt":"Is it so? ","max_tokens":9,"guided_json":{"type":"boolean"}}
EOT
awk '{ path = $1; sub(/^[^ ]* /, ""); printf "{\"custom_id\":\"%d\",\"method\":\"POST\",\"url\":\"%s\",\"body\":%s}\n", NR, path, $0 }' \
    bodies >lines
norm='del(.id, .created, .timings, .usage.prompt_tokens_details,
    .usage.completion_tokens_details) |
    (.choices[]?.message.tool_calls[]?.id) = "id"'
qbatch -q --template qwen3.5 lines | jq -c ".response.body | $norm" >want
n=0
while read -r path body; do
	n=$((n + 1))
	post "$path" "$body" | jq -c "$norm"
done <bodies >got
diff want got >diff
ok $? "alone, $n requests have the answers that qbatch gives"
cut -c1-200 diff >&2
# all at the same time, twice
n=0
while read -r path body; do
	n=$((n + 1))
	for k in 1 2; do
		curl -s -m 100 --data-binary "$body" "$URL$path" >at.$k.$n &
		echo $! >>pids
	done
done <bodies
for p in $(cat pids); do
	wait "$p"
done
for k in 1 2; do
	i=1
	while [ $i -le $n ]; do
		jq -c "$norm" at.$k.$i
		i=$((i + 1))
	done >got
	diff want got >diff
	ok $? "in company, and for the ${k}. time"
done
# what a stream adds up to
streamed='[inputs | select(startswith("data: {")) | .[6:] | fromjson |
    .choices[]] | group_by(.index) | map({text: (map(.text //
    .delta.content // "") | add), calls: (map(.delta.tool_calls // [] |
    .[].function | .name // "", .arguments // "") | add), why:
    (map(.finish_reason // empty) | last)})'
whole='.choices | map({text: (.text // .message.content // ""), calls:
    (.message.tool_calls // [] | map(.function | .name, .arguments) | add),
    why: .finish_reason})'
while read -r path body; do
	printf '%s' "$body" | sed 's/^{/{"stream":true,/' | post "$path" |
	    jq -nRc "$streamed"
done <bodies >got
jq -c "$whole" want >want.whole
diff want.whole got >diff
ok $? "events add up to the same"
cut -c1-200 diff >&2
is "$(tail -n 2 answer | head -n 1)" "data: [DONE]" "and end as they should"
# the pipeline
printf 'And God said, Let there' | qtok | qdecode -q -n 20 --temp 0.9 --seed 5 |
    qtok -d >want
post /v1/completions '{"prompt":"And God said, Let there","max_tokens":20,"temperature":0.9,"seed":5}' |
    jq -j '.choices[0].text' >got
cmp got want
ok $? "the same as qtok | qdecode | qtok -d: $(tr '\n' ' ' <want)"
is "$(post /v1/completions '{"prompt":"And God said","max_tokens":0,"echo":true}' |
    jq -c '[.usage[] | objects | .[]]')" "[0,0]" "usage has its parts where nothing was made"

# -- what is wrong
# wrong PATH JSON: status and code
wrong() {
	post "$@" >/dev/null
	echo "$(cat code) $(jq -r '.error | .type, .code' answer | xargs)"
}
is "$(wrong /v1/chat/completions nonsense)" "400 invalid_request_error invalid_json" \
    "no JSON"
is "$(wrong /v1/chat/completions '{"messages":7}')" \
    "400 invalid_request_error invalid_request" "messages that are none"
is "$(wrong /v1/completions '{"prompt":"a","temperature":-1}')" \
    "400 invalid_request_error invalid_request" "a temperature that is none"
is "$(wrong /v1/completions '{"prompt":"a","temperature":-1,"stream":true}')" \
    "400 invalid_request_error invalid_request" "and so in a stream"
awk 'BEGIN { printf "{\"prompt\":\""; while (i++ < 5000) printf "and it "; print "\"}" }' >long
is "$(post /v1/completions <long >/dev/null; cat code) $(jq -r .error.code answer)" \
    "400 context_length_exceeded" "a prompt that is too long for the model"
is "$(wrong /v1/completions '') $(jq -r .error.message answer)" \
    "400 invalid_request_error invalid_json the request has no body: send a JSON object" \
    "no body"
echo '{"prompt":"a"}' | gzip >packed
curl -s -o answer -H 'Content-Encoding: gzip' --data-binary @packed "$URL/v1/completions"
is "$(jq -r '.error | .code, .message' answer | xargs)" \
    "unsupported_encoding Content-Encoding gzip is not supported: send the body as it is" \
    "a body that is packed"
is "$(wrong /v1/nothing '{}')" "404 invalid_request_error not_found" "no such path"
is "$(curl -s -H 'anthropic-version: 2023-06-01' "$URL/v1/models/none" |
    jq -r '"\(.type) \(.error.type)"')" "error not_found_error" \
    "no such model, for a client of Anthropic's"
is "$(get /v1/completions >/dev/null; cat code)" 405 "no such method there"
is "$(get /v1/messages | jq -c '[.type, .error.type]'; cat code)" \
    "$(printf '["error","invalid_request_error"]\n405')" "and said as Anthropic says it"
head -c 17000000 /dev/zero >large
is "$(post /v1/completions <large >/dev/null; cat code)" 413 "17 MB"
post /v1/completions <large >/dev/null
is "$(curl -s -H 'Transfer-Encoding: chunked' -T large -X POST -o answer \
    -w '%{http_code}' "$URL/v1/completions")" 413 "17 MB of which the length is not told"
is "$(curl -s -H "X-Large: $(head -c 70000 /dev/zero | tr '\0' x)" -o answer \
    -w '%{http_code}' "$URL/health")" 431 "70 kB of headers"
is "$(get /health)" '{"status":"ok"}' "and it is still up"
is "$(head -n 1 log)" "qserve: model: $QWEN_MODEL (qpipe demo 18M)" "the first line names the model"
end_server
is "$gone, $(grep -c . log)" "0, 3" "SIGTERM ends it"
refused 1 "an engine that cannot be started" qserve -q --listen 127.0.0.1:0 --engine false
refused 2 "no address" qserve --listen nowhere
refused 2 "no port" qserve --listen localhost:http
refused 2 "options of an engine that is not ours" qserve --engine cat --mem 3G
# what is wrong with the engine's is told before anybody could ask
for o in --threads=-1 --numerics=7 --quantize=q9 --kv=x --kv-k=x --kv-v=x --rope-scaling=x --mem=0 \
    --max-sequences=0 --batch=x --keep=-1 --pause=x --draft=x '--draft=none --draft-text=bodies'; do
	refused 2 "$o" timeout 20 qserve --listen unix:S $o
done
refused 1 "no file with drafts" timeout 20 qserve --listen unix:S --draft ./nothing.gguf
refused 1 "no text with drafts" timeout 20 qserve --listen unix:S --draft-text nothing
refused 1 "a folder of them" timeout 20 qserve --listen unix:S --draft-text .
timeout 20 qserve --listen unix:S --quantize q8_0 >out 2>err
is "$? $(grep -c 'only F32, F16 and BF16 weights can become Q8_0' err)" "1 1" "weights of fewer bits"
refused 1 "no model" qserve -m /nonexistent
done_testing
