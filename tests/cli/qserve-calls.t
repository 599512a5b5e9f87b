#!/bin/sh
# Tool calls by a grammar in qserve: they match their schemas, in tags as in
# JSON, and the next turn reads nothing of them again.
. "$TOP/tests/cli/tap.sh"
needs "calls" jq curl
. "$TOP/tests/cli/qserve.sh"
cat >tools.json <<'E'
[{"type":"function","function":{"name":"look","parameters":{"type":"object",
"properties":{"city":{"type":"string","maxLength":12},
"code":{"type":"string","pattern":"^[A-Z]{3}$"},
"note":{"anyOf":[{"type":"string","minLength":2,"maxLength":5},{"type":"null"}]},
"long":{"type":"string","minLength":70,"maxLength":90},
"day":{"type":"string","format":"date"},
"how":{"$ref":"#/$defs/how"},
"o":{"type":"object","properties":{"a":{"type":"boolean"},"l":{"type":"array",
"items":{"enum":["p","q"]},"minItems":2,"maxItems":3}},"required":["a","l"]}},
"required":["city","code","note","long","day","how","o"],
"$defs":{"how":{"enum":["far","near"]}}}}}]
E
jq -c '{messages: [{role: "user", content: "call it"}], tools: .,
    tool_choice: "required", parallel_tool_calls: false, max_tokens: 1500,
    temperature: 0.7, seed: 3}' tools.json >body
cat >holds.jq <<'E'
(.city | length <= 12) and (.code | test("^[A-Z]{3}$")) and
(.note == null or (.note | length >= 2 and length <= 5)) and
(.long | length >= 70 and length <= 90) and
(.day | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")) and
(.how == "far" or .how == "near") and (.o.a | type == "boolean") and
(.o.l | length >= 2 and length <= 3 and all(. == "p" or . == "q"))
E
for t in qwen3-coder qwen3.6 qwen3; do
	serve --template $t
	# the demo's thoughts, where they are open, have no end
	[ $t != qwen3 ] || jq -c '.messages[0].content = "call it /no_think"' \
	    body >more
	[ $t = qwen3 ] || jq -c '.chat_template_kwargs = {enable_thinking: false}' \
	    body >more
	post /v1/chat/completions <more >one
	is "$(jq -c '.choices[0].message.tool_calls | length' one)" 1 "$t: one call"
	jq -r '.choices[0].message.tool_calls[0].function.arguments' one >args
	is "$(jq -f holds.jq args)" true "$t: $(cut -c1-120 args)"
	jq -c --slurpfile one one '.messages += [$one[0].choices[0].message,
	    {role: "tool", tool_call_id: "x", content: "rain"}] |
	    .max_tokens = 1' more >second
	post /v1/chat/completions <second >two
	is "$(jq -r .usage.prompt_tokens_details.cached_tokens two)" \
	    "$(jq -r '.usage | .prompt_tokens + .completion_tokens - 1' one)" \
	    "$t: of $(jq -r .usage.prompt_tokens two) tokens the new ones are read"
	end_server
done
done_testing
