#!/bin/sh
# BOS for files that want it: in front of each text, once, whichever tool
# tokenizes.  The expected ids are those of llama.cpp and transformers with
# add_bos_token true.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/qserve.sh"

# The demo model with its end of texts as BOS, and add_bos_token true.
LC_ALL=C sed 's/tokenizer[.]ggml[.]eos_token_id/tokenizer.ggml.bos_token_id/
    s/\(add_bos_token\x07\x00\x00\x00\)\x00/\1\x01/' "$QWEN_MODEL" >bos.gguf
plain=$QWEN_MODEL
bos=$(gguf-inspect --json bos.gguf | jq -r ".metadata.\"tokenizer.ggml.bos_token_id\"")
QWEN_MODEL=$PWD/bos.gguf
export QWEN_MODEL
name=$(echo "$bos" | qtok -d --show-special)
ids() {
	qtok -f text "$@" | xargs
}
echo 'Hello there' >text
rest=$(qtok -m "$plain" -f text text | xargs)
echo "# BOS is $bos, $name; the text is $rest"
is "${rest%% *}" "$(qtok -f text --no-bos text | sed 1q)" "the text alone has none"

# -- qtok
is "$(ids text)" "$bos $rest" "in front of a text"
is "$(ids --no-bos text)" "$rest" "--no-bos: not there"
is "$(ids -m "$plain" text)" "$rest" "a file that does not want it has none"
is "$( (printf 'Hel'; sleep 0.2; printf 'lo there\n') | ids)" "$bos $rest" "once, however the text comes"
is "$(ids text text)" "$bos $rest $rest" "operands are one text"
is "$(printf 'Hello there\n\0\0' | qtok -0 -f text | tr '\n' '|')" "$bos $rest|$bos|" "each document"
is "$(ids </dev/null)" "" "no input has no token"
is "$(printf '%sHello there\n' "$name" | ids --special)" "$bos $rest" "not again where the text begins with it"
is "$(qtok -c text) $(qtok -c --no-bos text)" \
    "$(($(echo "$rest" | wc -w) + 1)) $(echo "$rest" | wc -w)" "-c counts it"
is "$(qtok text | qtok -d)" "Hello there" "it has no text"
is "$(qtok text | qtok -d --show-special)" "${name}Hello there" "but a name"
qtok --bos --no-bos text >out 2>err
is "$? $(grep -c 'exclude each other' err)" "2 1" "--bos --no-bos: one of them"
qtok --bos -m "$plain" text >out 2>err
is "$? $(grep -c bos_token_id err)" "1 1" "--bos needs a bos_token_id"
LC_ALL=C sed 's/\(add_bos_token\x07\x00\x00\x00\)\x01/\1\x00/' bos.gguf >named.gguf
is "$(ids -m named.gguf text)" "$rest" "a file that names one and does not add it"
is "$(ids -m named.gguf --bos text)" "$bos $rest" "--bos does"

# -- chats
chat() {
	qtok -m "$QWEN_MODEL" --chat --user Hi "$@"
}
printf '%s' '{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}' >with.jinja
printf '%s' '{% for m in messages %}{{ m.content }}.{% endfor %}' >without.jinja
hi=$(printf Hi | qtok -f text --no-bos | xargs)
is "$(chat -f prompt --template ./with.jinja)" "${name}Hi" "a template writes bos_token"
is "$(chat -f text --template ./with.jinja | xargs)" "$bos $hi" "which is one token, once"
is "$(chat -f prompt --template ./without.jinja)" "${name}Hi." "one that does not write it has it too"
is "$(chat --no-bos -f prompt --template ./with.jinja)" "Hi" "--no-bos: neither way"
is "$(chat --no-bos -f prompt --template ./without.jinja)" "Hi." "nor there"
is "$(qtok --chat --user "$name" -f text --template ./without.jinja | grep -c "^$bos\$")" 1 \
    "its name in what a user says is text"
is "$(chat -m "$plain" -f prompt --template ./with.jinja)" "Hi$(echo "$bos" |
    qtok -m "$plain" -d --show-special)" "eos_token is the file's; without BOS bos_token is nothing"
is "$(chat --template qwen3 -f prompt | sed 1q)" "$name<|im_start|>user" "in front of a named template"

# -- states: the text of one has BOS, what comes after it has not
n_tokens() {
	qstate show --json "$1" | jq .n_tokens
}
qtok text | qprefill -q -o a.state >ready
qtok text | qprefill -q -s a.state -o b.state >ready
n=$(echo "$rest" | wc -w)
is "$(n_tokens a.state) $(n_tokens b.state)" "$((n + 1)) $((2 * n + 1))" "once in a state that is continued"
{ qtok text; qtok text; } | qprefill -q -o c.state >ready
is "$(n_tokens c.state)" "$((2 * n + 1))" "once in streams that are joined"
is "$(qtok text | qdecode -q -s a.state -n 3 -f text)" "$({ qtok text; qtok text; } |
    qdecode -q -n 3 -f text)" "qdecode: the same way"

# -- scores: of all tokens but BOS
is "$(qscore -q -f json text | jq .tokens_total)" "$n" "qscore: it is not of the text"
is "$(qscore -q -f json text | jq .tokens_scored)" "$n" "and all tokens after it are scored"
is "$(qscore -q -f json --no-bos text | jq .tokens_scored)" "$((n - 1))" "--no-bos: the first is not"
is "$(qtok text | qscore -q --tokens -f json | jq -c '[.tokens_scored,.logprob]')" \
    "$(qscore -q -f json text | jq -c '[.tokens_scored,.logprob]')" "tokens that have it already are not given another"

# -- requests
one() {
	qbatch -q "$@" | jq -c '.response.body.usage.prompt_tokens // .usage.prompt_tokens'
}
printf '%s\n' '{"prompt":"Hello there\n","max_tokens":1}' >req
is "$(one req) $(one --no-bos req)" "$((n + 1)) $n" "qbatch: prompts"
echo "{\"prompt\":[$(echo "$rest" | tr ' ' ',')],\"max_tokens\":1}" >req
is "$(one req)" "$n" "ids are what they are"
echo '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}' >req
is "$(one --template ./with.jinja req)" "$(($(echo "$hi" | wc -w) + 1))" "and chats"

serve --no-store --template "$PWD/with.jinja"
is "$(post /v1/completions '{"prompt":"Hello there\n","max_tokens":1}' | jq .usage.prompt_tokens)" \
    "$((n + 1))" "qserve: completions"
post /v1/completions '{"prompt":"Hello there\n","max_tokens":1,"echo":true,"logprobs":0}' >echo
is "$(jq -r '.choices[0].text' echo | sed 1q)" "Hello there" "echo: BOS has no text"
is "$(jq -c '.choices[0].logprobs.text_offset[:3]' echo)" '[0,0,1]' "nor an offset"
is "$(post /v1/chat/completions '{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}' |
    jq .usage.prompt_tokens)" "$(($(echo "$hi" | wc -w) + 1))" "chats"
t() {
	post /tokenize "$1" | jq -c '.tokens|join(" ")' | tr -d '"'
}
is "$(t '{"content":"Hello there\n"}')" "$rest" "/tokenize, llama.cpp's: without"
is "$(t '{"content":"Hello there\n","add_special":true}')" "$bos $rest" "or with"
is "$(t '{"prompt":"Hello there\n"}')" "$bos $rest" "vLLM's: with"
is "$(t '{"prompt":"Hello there\n","add_special_tokens":false}')" "$rest" "or without"
end_server
done_testing
