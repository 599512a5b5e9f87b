#!/bin/sh
# qserve: the interfaces of Ollama and of llama.cpp, as their documentation has
# them, and other requests of programs that know only one kind of server.
. "$TOP/tests/cli/tap.sh"
needs "the interfaces of Ollama and llama.cpp" jq curl
. "$TOP/tests/cli/qserve.sh"
serve --template qwen3.5 --alias gpt-4o --alias bible:18m -v

# -- Ollama: what there is
is "$(get /api/version | jq -r '.version | test("^[0-9]+[.][0-9]+[.][0-9]+$")')" true "a version"
is "$(get /api/tags | jq -c '[.models[] | .name, .model]')" \
    '["demo.gguf:latest","demo.gguf:latest","gpt-4o:latest","gpt-4o:latest","bible:18m","bible:18m"]' \
    "each name, with its tag"
is "$(jq -c '.models[0] | .size, (.modified_at | fromdate > 0), (.digest | test("^[0-9a-f]+$")),
    (.details | .format, .family, .families, .quantization_level)' answer | xargs)" \
    "$(wc -c <"$QWEN_MODEL" | xargs) true true gguf qwen35moe [qwen35moe] Q4_K_M" "what is known of it"
gguf-inspect --json "$QWEN_MODEL" >file
is "$(jq -r '.models[0].details.parameter_size' answer)" "$(jq -r '[.tensors[].shape |
    reduce .[] as $n (1; . * $n)] | add / 1e4 | round / 100 | "\(.)M"' file)" "and how many parameters"
is "$(get /api/ps | jq -c '.models[] | [.name, .size_vram, .context_length]')" '["demo.gguf:latest",0,4096]' \
    "what runs"
post /api/show '{"model":"demo.gguf"}' >show
is "$(jq -c '.model_info | ."general.architecture", ."qwen35moe.context_length", ."qwen35moe.embedding_length",
    ."qwen35moe.rope.dimension_sections", ."tokenizer.ggml.tokens", ."tokenizer.ggml.model",
    ."qwen35moe.attention.layer_norm_rms_epsilon"' show | xargs)" \
    "qwen35moe 4096 256 [6,5,5,0] null gpt2 1e-06" "the file's metadata, long lists left out"
is "$(jq -c '.capabilities' show) $(jq -r '.details.format, (.template | test("enable_thinking"))' show | xargs)" \
    '["completion","tools","thinking","insert"] gguf true' "and what it can do"
is "$(post /api/show '{"name":"x","verbose":true}' | jq '.model_info."tokenizer.ggml.tokens" | length')" \
    "$(jq '.metadata["tokenizer.ggml.tokens"] | length' file)" \
    "or all of it"
is "$(post /api/show '{}' | jq -r .error) $(cat code)" "model is required 400" "a request without a model"

# -- Ollama: chats
m='"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hello"}]'
want=$(post /v1/chat/completions "{$m,\"max_tokens\":12,\"chat_template_kwargs\":{\"enable_thinking\":false}}" |
    jq -r '.choices[0].message.content')
n=$(jq .usage.prompt_tokens answer)
post /api/chat "{\"model\":\"x\",$m,\"think\":false,\"stream\":false,\"options\":{\"num_predict\":12}}" >got
is "$(jq -r '.message.content' got)" "$want" "a chat is the same as by OpenAI's interface"
is "$(jq -c '[.model, .done, .done_reason, .message.role, .prompt_eval_count, .eval_count,
    (.total_duration >= .prompt_eval_duration + .eval_duration and .eval_duration > 0),
    (.created_at | fromdate > 1.7e9)]' got)" \
    "[\"x\",true,\"length\",\"assistant\",$n,12,true,true]" "and tells what Ollama does"
curl -sN -D head -o lines -d "{\"model\":\"x\",$m,\"think\":false,\"options\":{\"num_predict\":12}}" "$URL/api/chat"
is "$(grep -ci '^content-type: application/x-ndjson' head)" 1 "streams are lines of JSON"
is "$(jq -rsj 'map(.message.content) | add' lines)" "$want" "which add up to it"
is "$(jq -sc '[(.[:-1] | map(.done) | unique), .[-1].done, .[-1].done_reason, .[-1].eval_count]' lines)" \
    '[[false],true,"length",12]' "and the last one says so"
is "$(post /api/chat "{\"model\":\"x\",$m,\"stream\":false,\"options\":{\"num_predict\":8}}" |
    jq -c '[(.message.thinking | length > 0), .message.content]')" '[true,""]' "thoughts are apart"
is "$(post /api/chat "{\"model\":\"x\",$m,\"stream\":false,\"think\":\"none\",\"options\":{\"num_predict\":4}}" |
    jq -c '.message | has("thinking")')" false "think: none is no thought"
is "$(post /api/chat "{\"model\":\"x\",$m,\"stream\":false,\"think\":false,\"format\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"]},\"options\":{\"num_predict\":40}}" |
    jq -c '.message.content | fromjson | .a | type')" '"boolean"' "a schema holds"
tool='{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"enum":["sky","sea"]}},"required":["at"]}}}'
is "$(post /api/chat "{\"model\":\"x\",$m,\"stream\":false,\"think\":false,\"tools\":[$tool],\"tool_choice\":\"required\",\"options\":{\"num_predict\":90}}" |
    jq -c '.message | .content, (.tool_calls // [] | length >= 0)' | xargs -n 1 | tail -n 1)" true "tools are taken"
is "$(post /api/chat '{"model":"x"}' | jq -c '[.done, .done_reason, .message.content]')" '[true,"load",""]' "a load"
is "$(post /api/chat '{"model":"x","messages":7}' | jq -r .error) $(cat code)" "messages: is not a list 400" "an error"
is "$(printf x | post /api/chat | jq -r '.error | length > 0') $(cat code)" "true 400" "no JSON"

# -- Ollama: prompts
post /api/generate '{"model":"x","prompt":"Hello","system":"S","think":false,"stream":false,"options":{"num_predict":12}}' >got
is "$(jq -r .response got)" "$want" "a prompt is such a chat"
is "$(jq -c '.context | length' got)" $((n + 12)) "and tells its tokens"
is "$(jq '{model:"x",prompt:"More",stream:false,think:false,context,options:{num_predict:1}}' got |
    post /api/generate | jq '.prompt_eval_count') $(jq '.context[:20] | length' got)" \
    "$((n + 12 + $(post /v1/chat/completions '{"messages":[{"role":"user","content":"More"}],"max_tokens":1,"chat_template_kwargs":{"enable_thinking":false}}' | jq .usage.prompt_tokens))) 20" \
    "from which another goes on"
is "$(post /api/generate '{"model":"x","prompt":"In the beginning","raw":true,"stream":false,"options":{"num_predict":9}}' |
    jq -c '[.response, has("context")]')" \
    "$(post /v1/completions '{"prompt":"In the beginning","max_tokens":9}' | jq -c '[.choices[0].text, false]')" "a raw prompt"

is "$(post /api/generate '{"model":"x","prompt":"In the","suffix":"and the earth","stream":false,"options":{"num_predict":9,"temperature":0}}' |
    jq -r .response)" "$(post /v1/completions '{"prompt":"In the","suffix":"and the earth","max_tokens":9,"temperature":0}' |
    jq -r '.choices[0].text')" "what is between prompt and suffix"

# -- Ollama: vectors
post /v1/embeddings '{"input":["In the beginning","God created"]}' | jq -c '.data[].embedding' >want
is "$(post /api/embed '{"model":"x","input":["In the beginning","God created"],"keep_alive":"5m"}' |
    jq -c '.embeddings[]')" "$(cat want)" "vectors"
is "$(jq -c '[.model, (.prompt_eval_count > 0), (.total_duration > 0)]' answer)" '["x",true,true]' "with their counts"
is "$(post /api/embeddings '{"model":"x","prompt":"God created"}' | jq -c .embedding)" "$(tail -n 1 want)" "one, the old way"
awk 'BEGIN { printf "{\"model\":\"x\",\"input\":\""; for (i = 0; i < 5000; i++) printf "God "; printf "\"}" }' >long
is "$(post /api/embed <long | jq '.embeddings | length') $(sed 's/}$/,"truncate":false}/' long |
    post /api/embed | jq -r '.error | length > 0') $(cat code)" "1 true 400" "a long text is cut, unless it must not be"
is "$(post /api/embed '{"model":"x","input":"a\ud83d"}' | jq -c .embeddings)" \
    "$(post /api/embed '{"model":"x","input":"a\ufffd"}' | jq -c .embeddings)" "half a surrogate pair"
is "$(post /api/embed '{"model":"x","input":[]}' | jq -c .embeddings)" "[]" "no text, no vector"

# -- Ollama: what one model cannot do
is "$(post /api/pull '{"model":"demo.gguf"}' | jq -r .status), $(post /api/pull '{"model":"llama3"}' |
    jq -r '.error | test("demo.gguf")') $(cat code)" "success, true 404" "what is here is pulled at once"
is "$(for p in push create copy; do post /api/$p '{"model":"a","source":"a","destination":"b"}' | jq -r '.error | length > 0'; done | uniq) \
$(curl -s -X DELETE -d '{"model":"a"}' "$URL/api/delete" | jq -r '.error | length > 0') $(get /api/nothing | jq -r .error)" \
    "true true there is nothing at /api/nothing" "the others are errors in Ollama's form"
is "$(curl -sI "$URL/" | head -n 1 | tr -d '\r')" "HTTP/1.1 200 OK" "somebody is there"

# -- llama.cpp
want=$(post /v1/completions '{"prompt":"In the beginning","max_tokens":6}' | jq -r '.choices[0].text')
post /completion '{"prompt":"In the beginning","n_predict":6,"return_tokens":true}' >got
is "$(jq -r .content got)" "$want" "a completion of llama.cpp"
is "$(post /detokenize "{\"tokens\":$(jq -c .tokens got)}" | jq -r .content)" "$want" "and its tokens"
is "$(jq -c '[.stop, .stop_type, .stopping_word, .tokens_predicted, .tokens_evaluated, .truncated, .prompt,
    (.timings | .predicted_n, .prompt_n + .cache_n, (.predicted_per_second > 0))]' got)" \
    '[true,"limit","",6,3,false,"In the beginning",6,3,true]' "with what it says of them"
post /completion '{"prompt":"In the beginning","n_predict":6,"stream":true}' |
    sed -n 's/^data: //p' >lines
is "$(jq -rj .content lines)" "$want" "in events"
is "$(jq -sc '[.[-1].stop, .[-1].tokens_predicted, (map(.tokens) | add | length), (.[:-1] | map(.stop) | unique)]' lines)" \
    '[true,6,6,[false]]' "of which the last is the end"
is "$(post /completion '{"prompt":["In the",1136,258],"n_predict":1}' | jq -c '.tokens_evaluated')" 4 "texts and tokens"
is "$(post /completion '{"prompt":["In the","God"],"n_predict":1}' | jq -c 'map(.index)')" "[0,1]" "several prompts"
is "$(post /completion '{"prompt":"And the evening and the morning were the first day. And God said, Let there be a firmament in the midst","n_predict":0}' |
    jq -c '[.tokens_predicted, .stop_type]') $(post /completion '{"prompt":"And the evening and the morning were the first day. And God said, Let there be a firmament in the midst","n_predict":1}' |
    jq '.timings.cache_n > 0')" '[0,"limit"] true' "a prompt that is only read is there"
is "$(post /completion '{"prompt":"In the","n_predict":1,"temperature":0,"grammar":""}' |
    grep -o '"temperature":[0-9.]*') $(cat code)" '"temperature":0 200' "the temperature 0 once, and an empty grammar is none"
is "$(post /completion '{"prompt":"a","n_predict":-1,"stop":["e"]}' | jq -r '.stop_type, .stopping_word' | xargs)" "word e" \
    "a word that stops it"
is "$(get /props | jq -c '[.total_slots > 0, .default_generation_settings.n_ctx, .model_alias, .model_path, (.chat_template | length > 0)]')" \
    '[true,4096,"demo.gguf","demo.gguf",true]' "what it can do"
is "$(get /slots | jq -c '[length, (map(.is_processing) | unique)]')" "[$(get /props | jq .total_slots),[false]]" "slots"
is "$(get /models | jq -c '[.data[].id]')" '["demo.gguf","gpt-4o","bible:18m"]' "each name in lists"
is "$(get /v1/models/gpt-4o | jq -r .id) $(get /v1/models/x | jq -r .error.code)" "gpt-4o model_not_found" "which is found"

# -- a tokenizer from afar
get /tokenizer_info >info
is "$(jq -c '[.bos_token, .eos_token, (.chat_template | length > 0)]' info)" '[null,"<|endoftext|>",true]' "its tokens"
is "$(post /tokenize "{\"prompt\":$(jq .eos_token info),\"add_special_tokens\":false}" | jq '.tokens | length')" 1 \
    "each of them is one"

# -- times and progress
body='"max_tokens":2,"stream":true,"messages":[{"role":"user","content":"'$(awk 'BEGIN { for (i = 0; i < 700; i++) printf "and God saw it " }')'"}]'
post /v1/chat/completions "{$body,\"return_progress\":true}" | sed -n 's/^data: {/{/p' >lines
is "$(jq -sc 'map(.prompt_progress // empty) | [(map(.processed) | . == sort and .[-1] == .[-1]), .[-1].processed == .[-1].total,
    (map(.total) | unique | length), (map(.time_ms) | . == sort), length > 2]' lines)" '[true,true,1,true,true]' \
    "how far reading is"
is "$(jq -sc '[.[-1].timings | .predicted_n, .prompt_n + .cache_n] == [2, (map(.prompt_progress // empty) | .[0].total)]' lines)" true \
    "and times at the end"
is "$(post /v1/chat/completions "{$body}" | grep -c prompt_progress)" 0 "for those who ask"

# -- who left, and what was refused
before=$(stat prompt_tokens_total)
awk 'BEGIN { printf "{\"prompt\":\""; for (i = 0; i < 9000; i++) printf "God "; printf "\"}" }' | post /v1/completions >/dev/null
is "$(cat code) $(stat prompt_tokens_total)" "400 $before" "a prompt that is refused is none that was read"
post /v1/completions '{"prompt":[1136,258,2049],"max_tokens":1}' >/dev/null
is "$(stat prompt_tokens_total)" $((before + 3)) "others count"
curl -sN -m 0.3 -o /dev/null -d '{"prompt":"a","max_tokens":4000,"ignore_eos":true}' "$URL/v1/completions"
until_stat clients_left_total 1
is "$(stat clients_left_total) $(grep -c 'POST /v1/completions: 499' log)" "1 1" "a client that left is no success"
is "$(get /healthz | jq -r .status)" ok "healthy"

# -- names and pages that are not allowed: what to do
is "$(curl -s -H 'Host: host.docker.internal:8080' "$URL/v1/models" | jq -r .error.message | grep -o -- '--host .*')" \
    "--host host.docker.internal" "a name that it has not"
is "$(for o in http://localhost:3000 app://obsidian.md vscode-file://vscode-app null; do
    curl -s -H "Origin: $o" "$URL/v1/models" | jq -r .error.message | grep -o -- '--cors .*'; done | xargs)" \
    "--cors http://localhost:3000 --cors app://obsidian.md --cors vscode-file://vscode-app --cors null" "pages of others"
is "$(curl -s -H 'Host: a b;c' "$URL/api/tags" | jq -r .error | grep -o -- '--host .*')" "--host NAME" \
    "what is no name is not repeated"
end_server
is "$gone" 0 "it ends"
mkdir -p config/qpipe
echo "bible = $QWEN_MODEL" >config/qpipe/models
XDG_CONFIG_HOME=$PWD/config serve -m bible --cors app://obsidian.md --host host.docker.internal
is "$(get /v1/models | jq -r '.data[].id')" bible "-m with an alias: that is the model's name"
is "$(curl -s -H 'Host: host.docker.internal:8080' -H 'Origin: app://obsidian.md' "$URL/api/tags" | jq '.models | length')" 1 \
    "with these options they may"
is "$(curl -si -X OPTIONS -H 'Origin: app://obsidian.md' -H 'Access-Control-Request-Method: POST' \
    -H 'Access-Control-Request-Private-Network: true' "$URL/api/chat" | tr -d '\r' |
    grep -ci '^access-control-allow-private-network: true')" 1 "also from another network"
end_server
done_testing
