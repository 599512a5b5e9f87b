#!/bin/sh
# qserve: /v1/responses as Codex uses it, with earlier responses, token counts
# and compaction.  Names of fields and events are those of the types in OpenAI's
# Python client; tests/clients/sdk.py reads them with that client.
. "$TOP/tests/cli/tap.sh"
needs "responses" jq curl
. "$TOP/tests/cli/qserve.sh"
serve --no-store --template qwen3.6 -t 1
off='"reasoning":{"effort":"none"}'

# -- the tools that Codex sends
f='{"type":"function","name":"shell","description":"d","strict":false,"parameters":{"type":"object","properties":{"cmd":{"type":"string"}},"required":["cmd"]}}'
patch='{"type":"custom","name":"apply_patch","description":"d","format":{"type":"grammar","syntax":"lark","definition":"start: \"x\""}}'
space='{"type":"namespace","name":"crm","description":"d","tools":[{"type":"function","name":"pick","parameters":{"type":"object","properties":{"kind":{"enum":["x"]}},"required":["kind"]}}]}'
tools="\"tools\":[$f,{\"type\":\"web_search\",\"external_web_access\":false},$patch,$space,{\"type\":\"image_generation\"}]"
post /v1/responses "{\"model\":\"x\",\"instructions\":\"S\",\"input\":[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Hi\"}]}],$tools,\"tool_choice\":\"auto\",\"parallel_tool_calls\":false,\"store\":false,\"stream\":true,\"include\":[\"reasoning.encrypted_content\"],\"prompt_cache_key\":\"k\",\"max_output_tokens\":4}" >events
is "$(cat code) $(sed -n 's/^event: //p' events | tail -n 1)" "200 response.incomplete" "a request with all kinds of tools"
is "$(sed -n 's/^qserve: //p' log | grep 'left out' | xargs -d '\n')" \
    "left out of requests: tools of type web_search left out of requests: tools of type image_generation" "what is left out is told"
post /v1/responses "{\"input\":\"Hi\",$tools,\"max_output_tokens\":4}" >/dev/null
is "$(cat code) $(grep -c 'web_search' log)" "200 1" "once"
post /v1/responses "{\"input\":\"Hi\",$tools,\"tool_choice\":{\"type\":\"web_search\"}}" >/dev/null
is "$(cat code) $(jq -r .error.param answer)" "400 tool_choice" "a choice of what is left out"

# -- a tool of a namespace is called, and goes on
post /v1/responses "{\"input\":\"Hi\",$tools,\"tool_choice\":{\"type\":\"function\",\"name\":\"pick\"},$off,\"parallel_tool_calls\":false,\"max_output_tokens\":200}" >/dev/null
is "$(jq -c '.output[-1] | [.type, .name, .namespace, .arguments, .status]' answer)" \
    '["function_call","pick","crm","{\"kind\": \"x\"}","completed"]' "a call with its namespace"
cp answer call
id=$(jq -r .id call)
post /v1/responses "{\"input\":[{\"type\":\"function_call_output\",\"call_id\":$(jq '.output[-1].call_id' call),\"output\":\"1\"}],\"previous_response_id\":\"$id\",$tools,\"max_output_tokens\":2}" >/dev/null
long=$(jq .usage.input_tokens answer)
post /v1/responses "{\"input\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"type\":\"item_reference\",\"id\":$(jq '.output[-1].id' call)},{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"1\"}],$tools,\"max_output_tokens\":2}" >/dev/null
is "$(cat code) $(jq .usage.input_tokens answer)" "200 $long" "and by a reference to its item"
jq -c '{input: ([{role: "user", content: "Hi"}] + .output + [{type: "function_call_output", call_id: "c", output: [{type: "input_text", text: "1"}]}]), tools, max_output_tokens: 2}' call |
    post /v1/responses >/dev/null
is "$(cat code) $(jq .usage.input_tokens answer)" "200 $long" "and when the item itself is sent"
jq -c '{input: ([{role: "user", content: "Hi"}] + .output + [{type: "function_call_output", call_id: "c", output: "1"}]), tools}' call |
    post /v1/responses/input_tokens >/dev/null
is "$(jq -c . answer)" "{\"object\":\"response.input_tokens\",\"input_tokens\":$long}" "the number of its tokens"

# -- responses that are kept
get "/v1/responses/$id" >/dev/null
jq -S . answer >got
jq -S . call | cmp - got
ok $? "a response by its id"
is "$(curl -s -X DELETE "$URL/v1/responses/$id" | jq -c .)" "{\"id\":\"$id\",\"object\":\"response\",\"deleted\":true}" "it is forgotten"
for m in GET DELETE; do
	curl -s -X $m -o answer -w '%{http_code}' "$URL/v1/responses/$id" >code
	is "$(cat code) $(jq -r .error.type answer)" "404 invalid_request_error" "$m of one that is not there"
done
post /v1/responses "{\"input\":[{\"type\":\"item_reference\",\"id\":$(jq '.output[-1].id' call)}]}" >/dev/null
is "$(cat code) $(jq -r .error.param answer)" "404 input" "and its items are not there"
is "$(curl -s -o answer -w '%{http_code}' -X PUT -d '{}' "$URL/v1/responses/$id")" 405 "another method"
k=0
while [ $k -lt 3 ]; do
	post /v1/responses '{"input":"a","max_output_tokens":1}' | jq -r .id
	k=$((k + 1))
done >ids
for i in 2 1 3; do
	curl -s -X DELETE "$URL/v1/responses/$(sed -n ${i}p ids)" | jq .deleted
done >gone
is "$(xargs <gone)" "true true true" "in whatever order"
post /v1/responses '{"input":"a","max_output_tokens":1}' >/dev/null
get "/v1/responses/$(jq -r .id answer)" >/dev/null
is "$(cat code)" 200 "and others are kept then"

# -- a conversation is made short
post /v1/responses/compact "{\"model\":\"m\",\"instructions\":\"S\",\"max_output_tokens\":12,$tools,\"stream\":true,\"input\":[{\"role\":\"user\",\"content\":\"One\"},{\"role\":\"assistant\",\"content\":\"Two\"},{\"type\":\"web_search_call\",\"id\":\"w\",\"status\":\"completed\"},{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"Three\"}]}]}" >/dev/null
is "$(cat code) $(jq -c '[.object, (.output | map(.type)), (.output[:-1] | map(.content[0].text)), (.usage.output_tokens > 0)]' answer)" \
    '200 ["response.compaction",["message","message","compaction"],["One","Three"],true]' "a conversation made short"
jq -c '{input: (.output + [{role: "user", content: "And?"}]), max_output_tokens: 1}' answer | post /v1/responses >/dev/null
is "$(cat code)" 200 "it goes on from there"

# -- nothing to answer
for input in '[]' '""'; do
	post /v1/responses "{\"input\":$input,\"max_output_tokens\":1}" >/dev/null
	is "$(cat code)" 200 "input $input"
done
end_server
is "$gone" 0 "it ends"
serve --no-store --template qwen3.6 -t 1 --strict
post /v1/responses "{\"input\":\"Hi\",$tools}" >/dev/null
is "$(cat code) $(jq -r .error.message answer)" "400 tools of type web_search: not supported" "--strict refuses"
post /api/embed '{"input":"a","keep_alive":0,"turncate":true}' >/dev/null
is "$(cat code) $(jq -r .error answer | grep -c turncate)" "400 1" "--strict, of Ollama's embeddings"
post /v1/messages '{"max_tokens":4,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}' >/dev/null
is "$(cat code)" 400 "also those of Anthropic"
end_server
serve --no-store --template qwen3.6 -t 1
post /v1/messages '{"max_tokens":4,"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"}],"mcp_servers":[{"type":"url","url":"u","name":"s"}]}' >/dev/null
is "$(cat code) $(grep -c 'left out of requests: ' log)" "200 2" "which are left out else"
end_server
done_testing
