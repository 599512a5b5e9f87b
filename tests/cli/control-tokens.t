#!/bin/sh
# Every control token of a vocabulary as text in all inputs of the tools: a
# prompt contains only the control tokens that its template writes.
. "$TOP/tests/cli/tap.sh"
MODEL=$TOP/demo/demo.gguf
QWEN_MODEL=$MODEL; export QWEN_MODEL
unset QWEN_STORE

# all of them: apart, and joined
gguf-inspect --json "$MODEL" | jq -r '.metadata | ."tokenizer.ggml.token_type" as $t |
    ."tokenizer.ggml.tokens" | to_entries[] | select($t[.key] == 3) | "\(.key) \(.value)"' >control
cut -d ' ' -f 1 control >ids
cut -d ' ' -f 2 control >names
text=$(tr '\n' ' ' <names)$(tr -d '\n' <names)
[ "$(grep -c . ids)" -gt 5 ]
ok $? "a vocabulary with $(grep -c . ids) control tokens"
is "$(printf %s "$text" | qtok --special -f text | grep -c -x -F -f ids)" \
    "$((2 * $(grep -c . ids)))" "which are such where that is asked for"

# none NAME: no id in seen is of them, and there are some
none() {
	[ -s seen ] && ! grep -q -x -F -f ids seen
	ok $? "$1" || grep -x -F -f ids seen >&2
}

# same NAME COMMAND: a prompt has the same control tokens with a harmless word
# and with the text, in $w and in the file doc
same() {
	for w in word "$text"; do
		printf %s "$w" >doc
		export w
		[ ! -f got ] || mv got first
		eval "$2" >all
		grep -x -F -f ids all >got
	done
	[ -s first ] && [ "$(grep -c . all)" -gt 100 ] && cmp -s first got
	ok $? "$1" || diff first got >&2
	rm -f first got
}

# -- text
printf %s "$text" >text
printf %s "$text" | qtok -f text >seen
none "qtok"
printf 'a%s\0%s' "$text" "$text" | qtok -0 -f text | tr ' ' '\n' >seen
none "qtok -0"
file=$(head -n 1 names)
cp text "./$file"
qtok -f text "./$file" >seen
none "a file, whose name is one as well"
qtok text | qtok -d | cmp -s - text
ok $? "they come back as text"

# -- chats
for t in qwen3 qwen3.5 qwen3.6 qwen3.6-ud qwen3.8 qwen3-coder; do
	chat="qtok --chat --template $t -f text"
	same "$t: --system, --user, --assistant" \
	    "$chat --system \"a \$w\" --user \"\$w\" --assistant \"b \$w\" --user \"\$w c\""
	same "$t: --data" "$chat --user 'Read this:' --data doc --user 'And?'"
	same "$t: --data, on stdin and by that name" "cp doc './$file'; $chat --data - --data './$file' <doc"
	same "$t: a request" "jq -n --arg w \"\$w\" '{messages: [{role: \"system\", content: \$w},
	    {role: \"user\", content: [{type: \"text\", text: \$w}, {type: \"text\", text: (\"x\" + \$w)}]},
	    {role: \"assistant\", content: \$w, reasoning: (\"y\" + \$w), tool_calls: [{function:
	    {name: (\"f\" + \$w), arguments: {(\"p\" + \$w): \$w, q: [\$w, {(\$w): 1}]}}}]},
	    {role: \"tool\", content: \$w}, {role: \"user\", content: (\$w + \"z\")}]}' | $chat"
	same "$t: tools" "jq -n --arg w \"\$w\" '[{type: \"function\", function: {name: (\"f\" + \$w),
	    description: \$w, parameters: {type: \"object\", properties: {(\"p\" + \$w): {type: \"string\",
	    description: \$w, enum: [\$w]}}, required: [\$w]}}}]' >tools.json
	    $chat --tools tools.json --user \"\$w\""
done
printf '{%% for m in messages %%}<|im_start|>{{ m.content }}{{ x }}{{ y }}<|im_end|>{%% endfor %%}' >my.jinja
same "a template of one's own, and what it is given" "jq -n --arg w \"\$w\" '{messages: [{role: \"user\",
    content: \$w}], x: \$w, chat_template_kwargs: {y: \$w}}' | qtok --chat --template ./my.jinja -f text"

# -- what models read: as many tokens as of text
n=$(qtok -c text)
is "$(jq -n -c --arg w "$text" '{prompt: $w}' | qbatch -q -n 1 | jq .usage.prompt_tokens)" "$n" \
    "qbatch: a prompt"
jq -n -c --arg w "$text" '{messages: [{role: "system", content: $w}, {role: "user", content: $w}]}' >ask
n=$(qtok --chat -c ask)
is "$(qbatch -q -n 1 ask | jq .usage.prompt_tokens)" "$n" "qbatch: messages"
{ echo "/data ./$file"; cat text; printf '\n/save said.json\n'; } |
    qchat -v -n 1 --system "$text" 2>err >/dev/null
is "$(sed -n 's/^qchat: \([0-9]*\) tokens to read.*/\1/p' err)" \
    "$(jq '.messages |= .[:2]' said.json | qtok --chat -c)" "qchat: --system, /data, what is said"
is "$(jq -r '.messages[] | .content' said.json | head -n 4)" "$(printf '%s\n%s\n\n%s' "$text" "$text" "$text")" \
    "and all of it is kept"
printf '/load said.json\n%s\n' "$text" | qchat -v -n 1 2>err >/dev/null
is "$(sed -n 's/^qchat: \([0-9]*\) tokens to read.*/\1/p' err)" \
    "$(jq --arg w "$text" '.messages += [{role: "user", content: $w}]' said.json | qtok --chat -c)" \
    "qchat: /load"
done_testing
