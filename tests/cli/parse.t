#!/bin/sh
# qtok --parse: replies as messages, at once and while they arrive.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=/nonexistent; export QWEN_MODEL

# fails STATUS WORDS NAME CMD...: exits so, with one line that has WORDS, and
# nothing on stdout
fails() {
	want=$1 words=$2 name=$3
	shift 3
	"$@" >out 2>err </dev/null
	is "$?" "$want" "$name: status"
	is "$(wc -c <out | tr -d ' ')" 0 "$name: nothing on stdout"
	is "$(wc -l <err | tr -d ' ')" 1 "$name: one line"
	grep -q -e "$words" err
	ok $? "$name: says what" || cat err >&2
}

cat >tools.json <<'EOF'
[{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
  "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}}}]
EOF
cat >reply <<'EOF'
Let me see: a < b.
</think>

I look.

<tool_call>
<function=f>
<parameter=n>
12345678901234567890
</parameter>
<parameter=s>
12
</parameter>
</function>
</tool_call>
EOF
want='{"role":"assistant","reasoning":"Let me see: a < b.","content":"I look.","tool_calls":[{"name":"f","arguments":{"n":12345678901234567890,"s":"12"}}]}'
is "$(qtok --parse --template qwen3.6 --tools tools.json reply)" "$want" "a message"
is "$(qtok --parse --template qwen3.6 --tools tools.json <reply)" "$want" "from stdin"
is "$(head -c 7 reply >r1; tail -c +8 reply >r2
    qtok --parse --template qwen3.5 --tools tools.json r1 r2)" "$want" "several files are one text"
is "$(qtok --parse --template qwen3.6 --tools tools.json --stream reply)" \
'{"reasoning":"Let me see: a < b."}
{"content":"I look."}
{"tool_call":{"name":"f","arguments":{"n":12345678901234567890,"s":"12"}}}' "--stream: a line for each"
cat >const.json <<'EOF'
[{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
  "properties": {"n": {"const": 12}, "s": {"const": "12"}, "b": {"type": "BOOLEAN"}}}}}]
EOF
printf '<tool_call>\n<function=f>\n<parameter=n>\n12\n</parameter>\n<parameter=s>\n12\n</parameter>\n<parameter=b>\ntrue\n</parameter>\n</function>\n</tool_call>' >r1
is "$(qtok --parse --template qwen3-coder --tools const.json r1 | jq -c '.tool_calls[0].arguments')" \
    '{"n":12,"s":"12","b":true}' "values of constants, and of types in capitals"
is "$(qtok --parse --template qwen3.6 reply | jq -r '.content | test("<function=f>")')" true \
    "without tools, calls are content"
is "$(printf '<think>a</think>b' | qtok --parse --template qwen3)" \
    '{"role":"assistant","reasoning":"a","content":"b"}' "a reply that begins with a thought"
is "$(printf 'a</think>b' | qtok --parse --template qwen3 --thinking open)" \
    '{"role":"assistant","reasoning":"a","content":"b"}' "--thinking open"
is "$(printf 'a</think>b' | qtok --parse --template qwen3.6 --think off)" \
    '{"role":"assistant","content":"a</think>b"}' "--think off"
is "$(printf 'a</think>b' | qtok --parse --template qwen3.6 --thinking closed)" \
    '{"role":"assistant","content":"a</think>b"}' "--thinking closed"
is "$(printf '<tool_call>\n{"name": "f", "arg' | qtok --parse --template qwen3 --tools tools.json)" \
    '{"role":"assistant","content":"","unparsed":["<tool_call>\n{\"name\": \"f\", \"arg"]}' "a call that was cut off"
is "$(printf 'a\377b\0c\303' | qtok --parse --template qwen3)" \
    "$(printf '{"role":"assistant","content":"a\357\277\275b\\u0000c\357\277\275"}')" "what is not UTF-8"
is "$(printf '' | qtok --parse --template qwen3)" '{"role":"assistant","content":""}' "nothing"

# -- a piece leaves before the next comes
mkfifo to from
qtok --parse --template qwen3 --stream <to >from 2>err &
exec 3>to 4<from
printf 'Hello, wor' >&3
read -r line <&4
is "$line" '{"content":"Hello, wor"}' "the first piece, before the second is there"
printf 'ld <too' >&3
read -r line <&4
is "$line" '{"content":"ld <too"}' "no tools: nothing is held back"
exec 3>&-
is "$(cat <&4)" "" "and that was all"
exec 4<&-
wait

# -- and back: the message in the next request makes the same text again
# (jq has no more digits than a double)
sed 's/^123.*/-7/' reply >short
qtok --parse --template qwen3.6 --tools tools.json short |
    jq -c --slurpfile t tools.json '{messages: [{role: "user", content: "x"}, .], tools: $t[0], add_generation_prompt: false}' |
    qtok --chat --template qwen3.6 -f prompt | sed '1,/^<|im_start|>assistant$/d' | sed 's/<|im_end|>$//' >again
{ echo '<think>'; cat short; } | cmp -s - again
ok $? "the text of the reply comes back" || diff short again >&2

printf '{%% for m in messages %%}{{ m.content }}{%% endfor %%}' >plain.jinja
echo a | qtok --parse --template ./plain.jinja --tools tools.json >got 2>err
is "$? $(cat got) $(grep -c 'how to call tools' err)" '0 {"role":"assistant","content":"a"} 1' \
    "a template without tools is told of"
is "$(qtok --chat --template ./plain.jinja --tools tools.json --user a -f prompt 2>&1 >/dev/null | grep -c 'call tools')" 1 \
    "in both directions"
qtok --parse -q --template ./plain.jinja --tools tools.json reply 2>&1 >/dev/null | cmp -s - /dev/null
ok $? "not with -q"
fails 1 "unknown template 'x'" "an unknown template" qtok --parse --template x reply
fails 1 'none.json: ' "tools that are not there" qtok --parse --template qwen3 --tools none.json reply
echo '{' >bad.json
fails 1 'bad.json: tools: invalid JSON' "tools that are no JSON" qtok --parse --template qwen3 --tools bad.json reply
echo '{}' >object.json
fails 1 'object.json: tools is not a JSON list' "tools that are no list" qtok --parse --template qwen3 --tools object.json reply
fails 1 'nothere: ' "no such reply" qtok --parse --template qwen3 nothere
fails 1 '/nonexistent: ' "no model" qtok --parse reply

# -- what is no text is refused, not taken apart
printf 'hi' | qtok -m "$TOP/demo/demo.gguf" >ids
fails 1 'ids: .* decode tokens with qtok -d first' "a stream of tokens" qtok --parse --template qwen3 ids
cat ids | qtok --parse --template qwen3 >out 2>err
is "$? $(wc -c <out | tr -d ' ') $(wc -l <err | tr -d ' ')" "1 0 1" "on stdin as well"
is "$(qtok -d -m "$TOP/demo/demo.gguf" ids | qtok --parse --template qwen3)" '{"role":"assistant","content":"hi"}' \
    "but its text is read"

# -- of a call whose value has swallowed other tags nobody knows what was meant
echo '[{"name":"w","parameters":{"properties":{"path":{"type":"string"},"text":{"type":"string"}},"required":["path","text"]}},
    {"name":"r","parameters":{"properties":{"path":{"type":"string"},"l":{"type":"array"}},"required":["path"]}}]' >files.json
w() {	# the end of a call that has begun
	printf '<tool_call>\n<function=%b\n</function>\n</tool_call>\n' "$1" | qtok --parse --template qwen3.6 \
	    --thinking closed --tools files.json | jq -c '[.tool_calls[]?.arguments, (.unparsed | length)]'
}
p='w>\n<parameter=path>\na.c\n</parameter>\n'
t='<parameter=text>\nx\n</parameter>'
is "$(w "$p$t")" '[{"path":"a.c","text":"x"},0]' "nothing is damaged"
for damaged in "$p<parame\nx\n</parameter>" "$p<<parameter=text>\nx\n</parameter>" "$p\nx\n</parameter>" \
    "$p<parameter=text>\nx\n</pameter>" "$p<parameter=text>\nx\n</ameter>" "$p<parameter=text>\nx\nparameter>" \
    "$p$t\n</fnction>" "$p$t\n</funct,ion>" "$p<eter=text>\nx\n</parameter>" \
    "w>\n<parameter=path><parameter=path>\na.c\n</parameter>\n$t" "w><function=w>\n${p#w>??}$t" \
    "r>\n<parameter=path>\na.c\n</peter>\n<parameter=l>\n[]\n</parameter>"; do
	is "$(w "$damaged")" '[1]' "no call: $damaged"
done
is "$(w "w>\n<parameter=path> \t\na.c\n</parameter>\n$t")" '[{"path":"a.c","text":"x"},0]' \
    "white space after a tag is not of the value"
for text in '</para>' '</parameter>\ny' '<parameter>\ny\n</parameter>\n</parameters>' \
    '<parameter=path>\ny\n</parameter>\n<param>' '</function>\n</tool_call>\n<b>'; do
	is "$(w "$p<parameter=text>\n$text\n</parameter>")" \
	    "[{\"path\":\"a.c\",\"text\":\"$text\"},0]" "a text about tags: $text"
done

# -- --strict-calls: as the template has it, and not otherwise
printf '<tool_call>\n<function=f>\n<parameter=s>\nx\n</function>\n</tool_call>' >damaged
is "$(qtok --parse --template qwen3.6 --think off --tools tools.json damaged)" \
    '{"role":"assistant","content":"","tool_calls":[{"name":"f","arguments":{"s":"x"}}]}' "a tag is missing"
is "$(qtok --parse --strict-calls --template qwen3.6 --think off --tools tools.json damaged | jq -c '[.tool_calls, (.unparsed | length)]')" \
    '[null,1]' "a tag is missing, with --strict-calls"
is "$(qtok --parse --strict-calls --template qwen3.6 --tools tools.json reply)" \
    "$(qtok --parse --template qwen3.6 --tools tools.json reply)" "--strict-calls: nothing is missing"
fails 2 'need --parse' "--strict-calls alone" qtok --strict-calls
fails 2 'need --parse' "--stream alone" qtok --stream
fails 2 'not with' "--parse -d" qtok --parse -d
fails 2 'not with' "--parse --chat" qtok --parse --chat
fails 2 'is not one of' "--thinking maybe" qtok --parse --thinking maybe
qtok --parse --template qwen3 reply >/dev/full 2>err
is "$? $(grep -c . err)" "1 1" "a full disk"
done_testing
