#!/bin/sh
# qserve for coding agents: sessions as Claude Code sends them to /v1/messages
# and Codex to /v1/responses, with a template that refuses system messages after
# the first place.  Every request is answered, and reuses what the request
# before it has read.
. "$TOP/tests/cli/tap.sh"
needs "sessions of coding agents" jq curl
. "$TOP/tests/cli/qserve.sh"
serve --template qwen3.6 --no-store --seed 1

# events: the data of a stream, a JSON value a line
events() {
	sed -n 's/^data: \({.*\)/\1/p' answer
}

# -- Claude Code
cat >claude <<'E'
{"model": "claude-sonnet-4-5", "max_tokens": 8, "stream": true,
 "temperature": 1, "metadata": {"user_id": "user_1_session_2"},
 "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
 "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
 "system": [
  {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.0; cch=1;"},
  {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}},
  {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
 "tools": [
  {"name": "Read", "description": "Read a file.", "input_schema": {
   "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
   "properties": {"file_path": {"type": "string"},
    "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}},
   "required": ["file_path"], "additionalProperties": false}},
  {"name": "TodoWrite", "description": "Write the list of tasks.", "input_schema": {
   "type": "object", "properties": {"todos": {"type": "array", "items": {
    "type": "object", "properties": {"content": {"type": "string", "minLength": 1},
     "status": {"type": "string", "enum": ["pending", "completed"]}},
    "required": ["content", "status"], "additionalProperties": false}}},
   "required": ["todos"], "additionalProperties": false}},
  {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]}
E
cat >claude.turns <<'E'
[{"role": "user", "content": [
   {"type": "text", "text": "<system-reminder>The date is today.</system-reminder>"},
   {"type": "text", "text": "Read a.txt and b.txt.", "cache_control": {"type": "ephemeral"}}]},
  {"role": "system", "content": "Agents: explore, plan."}]
[{"role": "assistant", "content": [
   {"type": "thinking", "thinking": "Both.", "signature": ""},
   {"type": "text", "text": "Reading both."},
   {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.txt"}},
   {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "b.txt", "limit": 5}}]},
 {"role": "user", "content": [
   {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "apples"}]},
   {"type": "tool_result", "tool_use_id": "t2", "content": "No such file", "is_error": true,
    "cache_control": {"type": "ephemeral"}}]}]
[{"role": "assistant", "content": [{"type": "text", "text": "b.txt is missing."}]},
 {"role": "user", "content": [{"type": "text", "text": "Then make it."}]},
 {"role": "system", "content": [{"type": "text", "text": "The task list is empty."}]}]
[{"role": "assistant", "content": [
   {"type": "tool_use", "id": "t3", "name": "TodoWrite", "input": {"todos": [
    {"content": "make b.txt", "status": "pending"}]}}]},
 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t3"}]}]
E
before=0
k=1
while [ $k -le 4 ]; do
	jq -c --slurpfile t claude.turns ". + {messages: (\$t[:$k] | add)}" claude >body
	post "/v1/messages?beta=true" <body >/dev/null
	events >events
	is "$(cat code) $(jq -r .type events | tail -n 1)" "200 message_stop" \
	    "Claude Code, request $k is answered"
	set -- $(jq -r 'select(.type == "message_delta") | .usage |
	    "\(.cache_read_input_tokens // 0) \(.input_tokens)"' events) 0 0
	[ $k = 1 ] || { [ "$1" -gt 0 ] && [ "$1" -ge $((before - 8)) ]; }
	ok $? "  and finds what was read before ($1 of $before)"
	before=$(($1 + $2))
	k=$((k + 1))
done
jq -c --slurpfile t claude.turns '{model, system, tools, thinking,
    context_management, messages: ($t | add)}' \
    claude >body
is "$(post /v1/messages/count_tokens <body | jq .input_tokens)" "$before" \
    "and can count its tokens"
# a history without a user, as after a compaction
jq -c '. + {stream: false, messages: [
    {role: "assistant", content: [{type: "tool_use", id: "t", name: "Read",
     input: {file_path: "a"}}]},
    {role: "user", content: [{type: "tool_result", tool_use_id: "t", content: "x"}]}]}' \
    claude >body
post /v1/messages <body >/dev/null
is "$(cat code)" 200 "a history in which no user has spoken"

# -- Codex
cat >codex <<'E'
{"model": "gpt-5-codex", "max_output_tokens": 8, "stream": true, "store": false,
 "instructions": "You are a coding agent in a terminal.",
 "tool_choice": "auto", "parallel_tool_calls": false,
 "reasoning": {"effort": "medium", "summary": "auto"},
 "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
 "text": {"verbosity": "medium"},
 "tools": [
  {"type": "function", "name": "exec_command", "description": "Run a command.", "strict": false,
   "parameters": {"type": "object", "properties": {"cmd": {"type": "string"},
    "yield_time_ms": {"type": "number"}}, "required": ["cmd"], "additionalProperties": false}},
  {"type": "custom", "name": "apply_patch", "description": "Edit files.",
   "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}},
  {"type": "web_search", "external_web_access": false},
  {"type": "namespace", "name": "mcp__files", "description": "Files.", "tools": [
   {"type": "function", "name": "list", "description": "List files.",
    "parameters": {"type": "object", "properties": {"dir": {"type": "string"}}}}]}]}
E
cat >codex.turns <<'E'
[{"type": "message", "role": "developer", "content": [
   {"type": "input_text", "text": "<permissions>read only</permissions>"}]},
 {"type": "message", "role": "user", "content": [
   {"type": "input_text", "text": "<environment_context>sh</environment_context>"}]},
 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]}]
[{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
 {"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "c1"},
 {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}]
[{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a.txt"}]},
 {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Writing is allowed now."}]},
 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Remove it."}]}]
[{"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch\n*** End Patch", "call_id": "c2"},
 {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "done"}]},
 {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}]
E
before=0
k=1
while [ $k -le 4 ]; do
	jq -c --slurpfile t codex.turns ". + {input: (\$t[:$k] | add)}" codex >body
	post /v1/responses <body >/dev/null
	events >events
	end=$(jq -r .type events | tail -n 1)
	case $end in
	response.completed | response.incomplete) end=ended ;;
	esac
	is "$(cat code) $end" "200 ended" "Codex, request $k is answered"
	set -- $(tail -n 1 events | jq -r '.response.usage |
	    "\(.input_tokens_details.cached_tokens) \(.input_tokens)"') 0 0
	# where a new question comes, the template drops the marks of a thought
	# from the turn before it, so that turn is read again
	[ $k = 3 ] && before=$first
	[ $k = 1 ] && first=$2
	[ $k = 1 ] || { [ "$1" -gt 0 ] && [ "$1" -ge $((before - 8)) ]; }
	ok $? "  and finds what was read before ($1 of $before)"
	before=$2
	k=$((k + 1))
done

# -- what tells an agent to make its history shorter
long=$(i=0; while [ $i -lt 3000 ]; do printf 'x y '; i=$((i + 1)); done)
for path in chat/completions messages; do
	post /v1/$path "{\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"$long\"}]}" >/dev/null
	is "$(cat code) $(jq -r '.error.message' answer |
	    grep -c '^prompt is too long: .* tokens > .*maximum context length is')" "400 1" \
	    "/v1/$path says that the prompt is too long"
done
is "$(post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"$long\"}]}" |
    jq -r .error.code)" context_length_exceeded "and has a code for it"
end_server
is $gone 0 "the server ends"
done_testing
