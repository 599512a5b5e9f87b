#!/bin/sh
# qserve: its other interfaces: prompts with log-probabilities, embeddings,
# reranking, tokens, and the forms of other APIs.
. "$TOP/tests/cli/tap.sh"
needs "the interfaces of qserve" jq curl
. "$TOP/tests/cli/qserve.sh"
serve --template qwen3.5

# -- how likely prompts are
text='And God said, Let there be light: and there was light.'
post /v1/completions "{\"prompt\":\"$text\",\"max_tokens\":0,\"echo\":true,\"logprobs\":3}" >got
printf '%s' "$text" | qscore -q --tokens --each -f json >score 2>/dev/null ||
    printf '%s' "$text" | qtok | qscore -q --tokens --each -f json >score
is "$(jq -c '[.choices[0].logprobs.token_logprobs[1:][] | . * 1e6 | round]' answer)" \
    "$(jq -c '[.tokens[].logprob | . * 1e6 | round]' score)" \
    "tokens of a prompt are as likely as qscore has them"
is "$(jq -c '.choices[0] | .text, .finish_reason, (.logprobs | .token_logprobs[0], (.top_logprobs[1:] | map(length) | unique))' answer | xargs)" \
    "$text length null [3]" "and it is all that there is"
post /v1/completions '{"prompt":["And God said","In"],"n":2,"max_tokens":4,"echo":true,"logprobs":0,"seed":3,"temperature":1}' >/dev/null
jq -r '.choices[] | .text' answer >all
post /v1/completions '{"prompt":["And God said","In"],"n":2,"max_tokens":4,"seed":3,"temperature":1}' |
    jq -r '.choices[] | (if .index < 2 then "And God said" else "In" end) + .text' >want
cmp all want
ok $? "answers after it are the same"
is "$(jq '[.choices[] | has("logprobs")] | length' answer), $(post /v1/completions \
    '{"prompt":["And God said","In"],"n":2,"max_tokens":4,"echo":true,"logprobs":0,"seed":3,"temperature":1,"stream":true}' |
    jq -nRr '[inputs | select(startswith("data: {")) | .[6:] | fromjson | .choices[]] |
    group_by(.index) | map(map(.text) | add) | .[]' | cmp - want && echo same)" \
    "4, same" "and so in events"

# -- vectors
printf 'In the beginning\nGod created\n' >texts
post /v1/embeddings '{"input":["In the beginning","God created"],"model":"m"}' |
    jq -c '.data[].embedding' >got
qembed -q texts | jq -c . | cmp - got
ok $? "vectors are those of qembed"
post /v1/embeddings '{"input":"In the beginning","encoding_format":"base64","dimensions":5}' |
    jq -r '.data[0].embedding' | base64 -d >got
qembed -q --dimensions 5 -f f32 texts | head -c 20 | cmp - got
ok $? "in base64, and fewer numbers"
is "$(post /v1/embeddings '{"input":[]}' >/dev/null; cat code) $(post /v1/embeddings \
    '{"input":"a","dimensions":9999}' | jq -r .error.param)" "400 dimensions" "what is wrong with it"
for body in '{"input":[]}' '{"input":""}' '{"input":[[]]}' '{"input":["a",""]}'; do
	post /v1/embeddings "$body" >/dev/null
	is "$(cat code) $(jq -r .error.param answer)" "400 input" "as OpenAI: $body"
done
is "$(jq -r .error.message answer)" "input: entry 1 is empty" "which names it"
is "$(post /v1/embeddings '{"input":"In the beginning God created","truncate_prompt_tokens":2}' |
    jq .usage.prompt_tokens)" 2 "truncate_prompt_tokens"
awk 'BEGIN { printf "{\"truncate\":true,\"input\":\""; while (i++ < 5000) printf "and it "; print "\"}" }' >long
n=$(get /v1/models | jq '.data[0].max_model_len')
is "$(post /v1/embeddings <long | jq .usage.prompt_tokens)" "$n" "truncate: as many as the model takes"
is "$(post /v1/embeddings '{"input":"a"}' | jq -r .warning)" \
    "this model was not trained for embeddings: its vectors say little" "a language model says so"
is "$(grep -c 'not trained for embeddings' log)" 1 "and once on stderr"

# -- tokens
is "$(post /tokenize '{"content":"In the beginning"}' | jq -c .tokens)" \
    "$(printf 'In the beginning' | qtok -f json | jq -sc 'map(.tokens // []) | add')" "tokens of a text"
is "$(post /detokenize '{"tokens":[1136,258,2049]}' | jq -r .content)" "In the beginning" "and back"
m='"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hello"}]'
is "$(post /apply-template "{$m}" | jq -r .prompt)" \
    "$(printf '{%s}' "$m" | qtok --chat --template qwen3.5 -f prompt)" "the prompt of a chat"
n=$(post /v1/chat/completions "{$m,\"max_tokens\":1,\"reasoning_effort\":\"none\"}" |
    jq .usage.prompt_tokens)
m2='"system":"S","messages":[{"role":"user","content":"Hello"}],"model":"m"'
is "$(post /v1/messages/count_tokens "{$m2}" | jq .input_tokens)" "$n" "how many there are"

# -- the same question in other forms: the same text
want=$(post /v1/chat/completions "{$m,\"max_tokens\":12,\"chat_template_kwargs\":{\"enable_thinking\":false}}" |
    jq -r '.choices[0].message.content')
is "$(post /v1/messages "{$m2,\"max_tokens\":12,\"thinking\":{\"type\":\"disabled\"}}" |
    jq -r '.content[] | select(.type == "text") | .text')" "$want" "messages of Anthropic"
post /v1/messages "{$m2,\"max_tokens\":12,\"thinking\":{\"type\":\"disabled\"},\"stream\":true}" >events
is "$(sed -n 's/^data: //p' events | jq -r 'select(.delta.text) | .delta.text' | tr -d '\n')" \
    "$(echo "$want" | tr -d '\n')" "in events"
is "$(sed -n 's/^event: //p' events | uniq | xargs)" \
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop" \
    "which have their order"
is "$(post /v1/responses '{"instructions":"S","input":"Hello","max_output_tokens":12,"reasoning":{"effort":"none"}}' |
    jq -r '.output[] | select(.type == "message") | .content[0].text')" "$want" "responses"
is "$(post /v1/messages '{"messages":7}' | jq -r '.type, .error.type' | xargs) $(cat code)" \
    "error invalid_request_error 400" "errors of Anthropic"
end_server
is "$gone" 0 "it ends"

# -- ranking
zstd -dq "$TOP/tests/golden/models/qwen3-rerank/model.gguf.zst" -o rank.gguf
printf 'the sea\na hill\nwater and fish\n' >documents
serve -m rank.gguf
post /v1/rerank '{"query":"Where are fish?","documents":["the sea","a hill",{"text":"water and fish"}],"return_documents":true}' |
    jq -r '.results | sort_by(.index)[] | .relevance_score | . * 1e8 | round' >got
qrerank -q -m rank.gguf 'Where are fish?' documents | jq '. * 1e8 | round' | cmp - got
ok $? "scores are those of qrerank: $(xargs <got)"
is "$(jq -r '.results | map(.relevance_score) == (map(.relevance_score) | sort | reverse)' answer) $(post /v1/rerank \
    '{"query":"a","documents":["b","c"],"top_n":1}' | jq '.results | length')" "true 1" \
    "the best first, or some of them"
is "$(post /v1/rerank '{"query":"a"}' >/dev/null; cat code)" 400 "a query without documents"
is "$(grep -c 'is not a reranker' log)" 0 "a model that ranks is not noted"
end_server
done_testing
