#!/bin/sh
# Sampling options of requests: temperature 0 chooses the most likely token
# whatever the model recommends, random seeds are reported, and the names of
# llama.cpp, vLLM and Ollama work; in qserve and in qbatch.
. "$TOP/tests/cli/tap.sh"
needs "sampling of requests" jq curl
. "$TOP/tests/cli/qserve.sh"
# a model with the recommended settings of a family: temperature 0.7, top-k 20,
# top-p 0.8 and presence penalty 1.5
LC_ALL=C sed 's/qpipe demo 18M/Qwen3.5 demo18/' "$QWEN_MODEL" >advised.gguf
QWEN_MODEL=$PWD/advised.gguf; export QWEN_MODEL
serve --no-store

# text JSON: the text that a completion has
text() {
	post /v1/completions "$1" | jq -r '.choices[0].text'
}
# batch JSON OPTIONS: the text of the same from qbatch
batch() {
	req=$1
	shift
	printf '%s\n' "$req" | qbatch -q "$@" | jq -r .text
}
ask='"prompt":"And the sons of","max_tokens":40'

# -- temperature 0
plain=$(printf 'And the sons of' | qtok | qdecode -q -n 40 --greedy | qtok -d)
penal=$(printf 'And the sons of' | qtok | qdecode -q -n 40 --greedy \
    --presence-penalty 1.5 --penalty-last-n -1 | qtok -d)
[ "$plain" != "$penal" ]
ok $? "the recommended penalty would change the best tokens"
is "$(text "{$ask,\"temperature\":0}")" "$plain" \
    "temperature 0: no recommended penalty"
is "$(text "{$ask,\"temperature\":0,\"presence_penalty\":1.5,\"repeat_last_n\":-1}")" \
    "$penal" "the request's own holds"
is "$(text "{$ask,\"temperature\":0,\"mirostat\":2,\"top_k\":5}")" "$plain" \
    "beside Mirostat, too, as in llama.cpp"
is "$(batch "{$ask,\"temperature\":0}")" "$plain" "qbatch: temperature 0"
is "$(batch "{$ask}" --temp 0)" "$plain" "qbatch --temp 0"
is "$(batch "{$ask}" --greedy)" "$plain" "qbatch --greedy"
is "$(batch "{$ask,\"temperature\":0}" --presence-penalty 1.5 --penalty-last-n -1)" \
    "$penal" "an option of the command line holds"
is "$(printf 'And the sons of' | qtok | qdecode -q -n 40 --sampling model --temp 0 | qtok -d)" \
    "$plain" "qdecode --sampling model --temp 0"
post /v1/completions "{$ask,\"temperature\":0}" >/dev/null
is "$(jq .seed answer)" null "no seed where no chance is"

# -- seeds
hot='"temperature":1.2,"top_k":0,"top_p":1,"presence_penalty":0'
a=$(text "{$ask,$hot}")
seed=$(jq .seed answer)
[ "$a" != "$(text "{$ask,$hot}")" ] && [ "$(jq .seed answer)" != "$seed" ]
ok $? "without a seed, another answer each time"
is "$(text "{$ask,$hot,\"seed\":$seed}")" "$a" "the seed that was told has it again"
is "$(jq .seed answer)" null "which need not be told again"
is "$(batch "{$ask,$hot,\"seed\":$seed}")" "$a" "and qbatch, too"
awk -v n="$seed" 'BEGIN { exit !(n >= 0 && n < 2 ^ 53 - 128) }'
ok $? "every program that reads JSON keeps it: $seed"
[ "$(text "{$ask,$hot,\"seed\":-1}")" != "$(text "{$ask,$hot,\"seed\":-1}")" ]
ok $? "seed -1 is drawn, as llama.cpp and Ollama have it"
post /v1/completions "{$ask,$hot,\"n\":3}" | jq -c '[.choices[].text]' >three
jq -c "[.choices[].text]" answer >three
seed=$(jq .seed answer)
is "$(jq -c 'unique | length' three)" 3 "three answers"
is "$(post /v1/completions "{$ask,$hot,\"n\":3,\"seed\":$seed}" |
    jq -c '[.choices[].text]')" "$(cat three)" "and the same three again"
is "$(text "{$ask,$hot,\"seed\":$((seed + 2))}")" "$(jq -r '.[2]' three)" \
    "the third alone"
post /v1/completions "{$ask,$hot,\"stream\":true}" >/dev/null
seed=$(sed -n 's/^data: {/{/p' answer | jq 'select(.choices[0].finish_reason != null) | .seed')
whole=$(sed -n 's/^data: {/{/p' answer | jq -j '.choices[0].text')
is "$(text "{$ask,$hot,\"seed\":$seed}")" "$whole" "a stream tells it at its end"
post /v1/chat/completions '{"messages":[{"role":"user","content":"Who?"}],"max_tokens":9,
    "stream":true,"stream_options":{"include_usage":true}}' >/dev/null
is "$(sed -n 's/^data: {/{/p' answer | jq -c 'select(.usage != null) | .seed > 0')" \
    true "beside its usage, too"
# header PATH JSON: the seed that the headers tell
header() {
	curl -s -m 100 -D head -o answer --data-binary "$2" "$URL$1"
	tr -d '\r' <head | sed -n 's/^X-Seed: //p'
}
said='"messages":[{"role":"user","content":"Who?"}],"max_tokens":12'
seed=$(header /v1/messages "{$said}")
jq -c .content answer >want
header /v1/messages "{$said,\"seed\":$seed}" >/dev/null
is "$(jq -c .content answer)" "$(cat want)" "Anthropic's form: header X-Seed ($seed)"
seed=$(header /v1/responses '{"input":"Who?","max_output_tokens":12}')
jq -c '[.output[].content]' answer >want
header /v1/responses "{\"input\":\"Who?\",\"max_output_tokens\":12,\"seed\":$seed}" >/dev/null
is "$(jq -c '[.output[].content]' answer)" "$(cat want)" "responses: likewise"
is "$(header /v1/completions "{$ask,\"seed\":3}")" "" "no header for a seed of the request"

# -- qbatch draws none, unless a request asks for it
is "$(batch "{$ask,$hot}")" "$(batch "{$ask,$hot,\"seed\":0}")" "qbatch: seed 0"
printf '{%s,%s,"seed":-1}\n' "$ask" "$hot" "$ask" "$hot" | qbatch -q >two
is "$(jq -s -c 'map(.text) | unique | length' two)" 2 "qbatch: -1 draws"
is "$(batch "{$ask,$hot,\"seed\":$(head -n 1 two | jq .seed)}")" \
    "$(head -n 1 two | jq -r .text)" "and tells it in the result"
printf '{"custom_id":"a","url":"/v1/messages","body":{%s,"seed":-1}}\n' "$said" |
    qbatch -q >one
is "$(jq '.response.seed > 0' one)" true "also where the form has no place for it"

# -- --seed random of the pipeline
printf 'And the sons of' | qtok >p
qdecode -n 40 --temp 1.2 --seed random <p 2>err >a
seed=$(sed -n 's/^qdecode: seed //p' err)
qdecode -q -n 40 --temp 1.2 --seed "$seed" <p | cmp -s - a
ok $? "qdecode --seed random tells its seed: $seed"
qdecode -q -n 40 --temp 1.2 --seed random <p | cmp -s - a
is $? 1 "and draws another one each time"
refused 2 "not where a run is to be resumed" qdecode --seed random --save-every 1 -o s
printf '{%s,%s}\n' "$ask" "$hot" | qbatch --seed random 2>err | jq -r .text >a
seed=$(sed -n 's/^qbatch: seed //p' err)
is "$(batch "{$ask,$hot}" --seed "$seed")" "$(cat a)" "qbatch --seed random"

# -- llama.cpp's and vLLM's names: qserve and qbatch have what the options give
# same WHAT FIELDS OPTIONS: the fields, by both, are the options of qdecode
same() {
	what=$1
	fields=$2
	shift 2
	want=$(qdecode -q -n 40 --seed 4 "$@" <p | qtok -d)
	is "$(text "{$ask,\"seed\":4,$fields}")" "$want" "$what"
	is "$(batch "{$ask,\"seed\":4,$fields}")" "$want" "$what, qbatch"
}
free='"top_k":-1,"top_p":1,"presence_penalty":0'
same "DRY" "$free,\"temperature\":1,\"dry_multiplier\":4,\"dry_base\":2,\"dry_allowed_length\":1,\"dry_penalty_last_n\":-1,\"dry_sequence_breakers\":[\"zz\"]" \
    --temp 1 --dry-multiplier 4 --dry-base 2 --dry-allowed-length 1 --dry-breaker zz
same "Mirostat" "$free,\"temperature\":1,\"mirostat\":2,\"mirostat_tau\":3,\"mirostat_eta\":0.5" \
    --temp 1 --mirostat 3 --mirostat-eta 0.5
same "dynamic temperature" "$free,\"temperature\":1,\"dynatemp_range\":0.75,\"dynatemp_exponent\":2" \
    --dyntemp-min 0.25 --dyntemp-max 1.75 --dyntemp-exponent 2
same "top-n-sigma" "$free,\"temperature\":2,\"top_n_sigma\":1" --temp 2 --top-n-sigma 1
same "penalties on the prompt" "$free,\"temperature\":1,\"repeat_penalty\":2,\"penalty_prompt\":true" \
    --temp 1 --repeat-penalty 2 --penalty-prompt
same "the best token" "\"temperature\":2,\"greedy\":true" --greedy
same "an order of samplers" '"temperature":1.5,"top_k":30,"top_p":0.6,"samplers":["temperature","top_p","top_k"]' \
    --temp 1.5 --top-k 30 --top-p 0.6 --chain temp,top-p,top-k
same "the best token where infill is asked for" '"top_k":40,"top_p":0.99,"samplers":["top_k","top_p","infill"]' \
    --greedy
is "$(post /v1/completions "{$ask,\"samplers\":[\"top_k\"],\"presence_penalty\":1}" |
    jq -r .error.message)" "presence-penalty is set, but the chain has no penalties" \
    "a setting that the order leaves out"
is "$(post /v1/completions "{\"prompt\":\"And the sons of\",\"n_predict\":2}" |
    jq -c .usage.completion_tokens)" 2 "n_predict is a bound"

# -- endings
id=$(printf '%s' "$plain" | qtok -f text | sed -n 5p)
is "$(text "{$ask,\"temperature\":0,\"stop_token_ids\":[$id]}")" \
    "$(printf '%s' "$plain" | qtok -f text | head -n 5 | qtok -d)" "stop_token_ids"
is "$(jq -r '.choices[0].finish_reason' answer)" stop "is a stop"
is "$(batch "{$ask,\"temperature\":0,\"stop_token_ids\":[$id]}")" \
    "$(printf '%s' "$plain" | qtok -f text | head -n 5 | qtok -d)" "by qbatch, too"
word=$(printf '%s' "$plain" | awk '{ print $3; exit }')
is "$(text "{$ask,\"temperature\":0,\"stop\":\"$word\",\"include_stop_str_in_output\":true}")" \
    "$(text "{$ask,\"temperature\":0,\"stop\":\"$word\"}")$word" "the stop string in the output"
end_server

# -- a seed of the server is every request's
serve --no-store --seed 4
is "$(text "{$ask,$hot}")" "$(text "{$ask,$hot}")" "--seed 4: the same each time"
is "$(jq .seed answer)" null "which is not told"
[ "$(text "{$ask,$hot,\"seed\":-1}")" != "$(text "{$ask,$hot,\"seed\":-1}")" ]
ok $? "but for -1"
end_server

# -- -v tells of sampling with thinking where the chat template can think
for t in qwen3 ./plain.jinja; do
	printf '{%% for m in messages %%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{%% endfor %%}' >plain.jinja
	serve -v --no-store --template $t
	grep -c 'sampling with thinking' log
	end_server
done >got
is "$(xargs <got)" "1 0" "-v: sampling with thinking, of models that can think"
done_testing
