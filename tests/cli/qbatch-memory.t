#!/bin/sh
# Lines made to need much memory: 4 MB of many small values, and many large
# grammars.  Each gets its answer in 160 MB of address space (qbatch needs 50
# without them), the grammars together in 320.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ] || ! (ulimit -v 1000000) 2>/dev/null; then
	skip "memory of lines" "no limit of address space here"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
USER='{"role":"user","content":"x"}'

# fill BEFORE UNIT AFTER: so many of the unit, as a list, that it is 4 MB
fill() {
	awk -v a="$1" -v u="$2" -v z="$3" 'BEGIN {
		n = int(4000000 / (length(u) + 1))
		printf "%s%s", a, u
		for (i = 1; i < n; i++)
			printf ",%s", u
		print z }'
}
# answered WHAT [KB]: all lines of the file line have an answer
answered() {
	(ulimit -v "${2:-160000}"; exec qbatch -q -t 1 -n 1 --template qwen3 line >out 2>err)
	is "$(wc -l <out), $(head -c 4000 err | grep -c memory)" \
	    "$(wc -l <line), 0" "$1: $(tail -n 1 err | cut -c 1-60)"
}
fill '{"prompt":"a","n":100,"logit_bias":{' '"5":1' '}}' >line
answered "biases"
fill '{"prompt":[' 1 ']}' >line
answered "tokens"
fill '{"prompt":"a","stop":[' '"a"' ']}' >line
answered "stop strings"
fill '{"prompt":"a",' '"a":1' '}' >line
answered "members"
fill '{"messages":[' '{}' ']}' >line
answered "messages that are none"
fill '{"messages":[' "$USER" ']}' >line
answered "messages"
fill '{"messages":[{"role":"user","content":[' '{"type":"text","text":"x"}' ']}]}' >line
answered "parts"
fill '{"messages":['"$USER"'],"tools":[' '{"function":{"name":"f"}}' ']}' >line
answered "tools"
fill '{"messages":['"$USER"'],"tools":[{"function":{"name":"f","parameters":{"enum":[' 1 ']}}}]}' >line
answered "a tool"
fill '{"messages":['"$USER"'],"chat_template_kwargs":{' '"a":1' '}}' >line
answered "arguments of the template"
fill '{"prompt":"a","response_format":{"type":"json_schema","json_schema":{"schema":{"enum":[' 1 ']}}}}' >line
answered "a schema"
fill '' '[' '' | tr -d , >line
answered "brackets"
awk 'BEGIN { for (i = 0; i < 200; i++)
	printf "{\"prompt\":\"a\",\"grammar\":\"root ::= [a-z]{%d}\"}\n", 200000 + i }' >line
answered "grammars" 320000
done_testing
