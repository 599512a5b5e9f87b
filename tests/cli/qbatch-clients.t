#!/bin/sh
# Requests as clients write them (OpenAI library, LangChain, aider, harnesses):
# each is answered, or refused with the name of the unsupported feature.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
HI='"messages":[{"role":"user","content":"Hi"}],"max_tokens":4'

# line BODY: as one of a batch
line() {
	printf '%s' "$1" | jq -c '{custom_id: "1", method: "POST",
	    url: "/v1/chat/completions", body: .}'
}
# answered WHAT BODY: and nothing on stderr; or, cut within a schema, one line
answered() {
	line "$2" | qbatch --strict --template qwen3.6 >out 2>err
	set -- "$1" $? "$(cat err)"
	case $(jq -r .run.cut out) in
	schema) want="3, qbatch: 1 answer cut by the token limit inside a grammar or schema, so not complete; --retry-cut with a larger limit answers again, 200" ;;
	*) want="0, , 200" ;;
	esac
	is "$2, $3, $(jq -r '.response.status_code' out)" "$want" "$1"
}
# not_done WHAT MESSAGE BODY
not_done() {
	line "$3" | qbatch --template qwen3.6 >out 2>err
	is "$(jq -r '(.error // .response.body.error).message' out)" "$2" "$1"
}

# --- the OpenAI library: all that it may send, null or not
answered "OpenAI: every idle member" '{"model":"gpt-4o",'"$HI"',"n":1,"stop":null,
"temperature":0.7,"top_p":1.0,"presence_penalty":0,"frequency_penalty":0.0,"logit_bias":{},
"logprobs":false,"top_logprobs":null,"user":"u-1","seed":7,"stream":false,"stream_options":null,
"response_format":{"type":"text"},"service_tier":"auto","store":false,"metadata":{"k":"v"},
"modalities":["text"],"prediction":null,"audio":null,"function_call":null,"functions":null,
"parallel_tool_calls":true,"reasoning_effort":"low","verbosity":"low","safety_identifier":"s",
"prompt_cache_key":"p","tools":[],"tool_choice":"auto","web_search_options":null}'
answered "OpenAI: max_completion_tokens, a developer" '{"model":"o3","messages":[
{"role":"developer","content":"Be short."},{"role":"user","content":[{"type":"text","text":"Hi"},
{"type":"text","text":"there"}]}],"max_completion_tokens":4}'
is "$(jq -r '.response.body | "\(.model) \(.usage.completion_tokens)"' out)" "o3 4" "as it says"
answered "OpenAI: a conversation with calls" '{"messages":[{"role":"user","content":"Weather?"},
{"role":"assistant","content":null,"refusal":null,"annotations":[],"tool_calls":[{"id":"call_1",
"type":"function","function":{"name":"weather","arguments":"{\"city\": \"Rome\"}"}}]},
{"role":"tool","tool_call_id":"call_1","content":"sunny"}],"max_tokens":4,"tools":[{"type":"function",
"function":{"name":"weather","strict":true,"parameters":{"type":"object","properties":{"city":
{"type":"string"}},"required":["city"],"additionalProperties":false}}}]}'
answered "OpenAI: a tool with nothing to say" '{"messages":[{"role":"user","content":"Hi"},
{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f",
"arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":null}],"max_tokens":4}'
for template in qwen3 qwen3-coder; do
	line '{"messages":[{"role":"user","content":[]}],"max_tokens":4}' >in
	sed 's/\[\]/""/' in | qbatch --template $template | jq -c .response >want
	is "$(qbatch --template $template in | jq -c .response)" "$(cat want)" "content without a part is empty: $template"
done
answered "OpenAI: a schema made by pydantic" '{'"$HI"',"response_format":{"type":"json_schema",
"json_schema":{"name":"A","strict":true,"schema":{"$defs":{"K":{"enum":["x","y"],"title":"K",
"type":"string"}},"properties":{"kind":{"$ref":"#/$defs/K"},"n":{"title":"N","type":"integer"}},
"required":["kind","n"],"title":"A","type":"object","additionalProperties":false}}}}'
answered "LangChain: a tool chosen by name" '{"model":"m","messages":[{"content":"You help.",
"role":"system"},{"content":"Hi","role":"user"}],"stream":false,"temperature":0.0,"max_completion_tokens":6,
"parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"Answer","description":"",
"parameters":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object"}}}],
"tool_choice":{"type":"function","function":{"name":"Answer"}}}'
answered "aider" '{"model":"openai/qwen","messages":[{"role":"system","content":"Act as an expert."},
{"role":"user","content":"Hi"},{"role":"assistant","content":"Ok."},{"role":"user","content":"Go."}],
"temperature":0,"stream":false,"max_tokens":4}'
answered "vLLM: guided_choice" '{'"$HI"',"guided_choice":["yes","no"]}'
answered "vLLM: structured_outputs" '{'"$HI"',"structured_outputs":{"regex":"[a-z]+"}}'
answered "vLLM: its own members" '{'"$HI"',"top_k":20,"min_p":0.0,"repetition_penalty":1.05,
"chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":true,"ignore_eos":false,
"stop_token_ids":[],"guided_json":null}'

# --- what is not done says so
not_done "an image" "message 1: parts of type image_url are not supported (text only); --image-placeholder puts a line in their place" \
    '{"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},
{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}'
not_done "audio" "message 1: parts of type input_audio are not supported (text only); --image-placeholder puts a line in their place" \
    '{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}]}'
not_done "spoken answers" "modalities: only text is supported" "{$HI"',"modalities":["text","audio"]}'
not_done "a stream" "stream is not supported" "{$HI"',"stream":true,"stream_options":{"include_usage":true}}'
not_done "functions of old" "functions is not supported" "{$HI"',"functions":[{"name":"f"}]}'
not_done "a search" "web_search_options is not supported" "{$HI"',"web_search_options":{"user_location":null}}'
not_done "a tool of a server that has to be called" "tool_choice: is required, but there are no tools" \
    "{$HI"',"tools":[{"type":"web_search"}],"tool_choice":"required"}'
not_done "guided decoding" "structural_tag is not supported" "{$HI"',"structural_tag":{"a":1}}'

# --- harnesses: completions of several prompts, of token ids
cat >harness <<'E'
{"custom_id":"1","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":["And","In the"],"max_tokens":3,"temperature":0,"seed":1234,"stop":["\n\n"],"logprobs":null,"echo":false,"suffix":null,"best_of":1}}
{"custom_id":"2","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":[[1,2,3]],"max_tokens":1,"temperature":0,"logprobs":1,"echo":true}}
E
qbatch harness >out 2>err
is "$(head -n 1 out | jq -c '.response.body.choices | length')" 2 "a harness: two prompts"
is "$(jq -r '(.error // .response.body.error).message | values' out)" "echo is not supported" "scores by echo"

# --- other interfaces: the same chat, whatever it is called
cat >forms <<'E'
{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"system","content":"Brief."},{"role":"user","content":"Go."}],"temperature":0,"max_tokens":6}}
{"custom_id":"2","method":"POST","url":"/v1/responses","body":{"instructions":"Brief.","input":"Go.","temperature":0,"max_output_tokens":6}}
{"custom_id":"3","method":"POST","url":"/v1/messages","body":{"system":"Brief.","messages":[{"role":"user","content":"Go."}],"temperature":0,"max_tokens":6}}
{"custom_id":"4","method":"POST","url":"/v1/messages","body":{"messages":[{"role":"user","content":[{"type":"image"}]}]}}
E
qbatch forms >out 2>err
is "$(jq -c '.response.body | [.choices[0].message | .content, .reasoning_content | values], [.content[]? | .text // .thinking],
    [.output[]? | .content[0].text] | select(length > 0) | sort - [""]' out | uniq -c | awk '{ print $1 }')" \
    3 "responses and messages: the same answer"
is "$(jq -r '.response.body.usage | values | [.prompt_tokens // .input_tokens, .completion_tokens // .output_tokens] | @tsv' out |
    uniq | wc -l)" 1 "of as many tokens"
is "$(tail -n 1 out | jq -c '.response | [.status_code, .body.type, .body.error.type]')" \
    '[400,"error","invalid_request_error"]' "an error in the form of its interface"

# --- what is required is called, whatever the model would rather say
jq -n -c 'range(12) as $i | {custom_id: "\($i)", method: "POST", url: "/v1/chat/completions",
    body: {messages: [{role: "user", content: "Go on \($i)"}], max_tokens: 400, temperature: 1.2,
    seed: $i, reasoning_effort: "none", parallel_tool_calls: ($i % 2 == 1),
    tool_choice: (if $i % 3 == 0 then {type: "function", function: {name: "move"}} else "required" end),
    tools: [{type: "function", function: {name: "move", parameters: {type: "object", properties:
	{way: {type: "string", enum: ["left", "right"]}, far: {type: "integer", minimum: 1, maximum: 9},
	fast: {type: "boolean"}}, required: ["way", "far"]}}},
	{type: "function", function: {name: "halt"}}]}}' >calls
for t in qwen3 qwen3-coder qwen3.5 qwen3.6; do
	qbatch --template $t calls >out 2>err
	jq -c '.custom_id as $i | .response.body.choices[0] | [($i | tonumber), .finish_reason,
	    (.message.tool_calls | map(.function | [.name, (.arguments | fromjson)]))]' out >got
	is "$(jq -s 'map(select(.[1] != "length" and .[1] != "tool_calls" or (.[2] | length) == 0 or
	    (.[2] | any(.[0] as $f | .[1] | ($f == "halt" and . == {} or $f == "move" and
	    (.way == "left" or .way == "right") and .far >= 1 and .far <= 9 and
	    (.fast == null or .fast == true or .fast == false)) | not)))) | length' got)" 0 \
	    "calls by $t: $(jq -c '.[2][0]' got | sort | uniq | wc -l) of them"
	is "$(jq -s 'map(select(.[0] % 2 == 0) | .[2] | length) | max' got)" 1 "one call by $t"
	is "$(jq -r 'select(.[0] % 3 == 0) | .[2][][0]' got | sort -u)" move "the one that is named by $t"
done
done_testing
