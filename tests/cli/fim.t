#!/bin/sh
# Fill in the middle: qtok --fim, the field suffix of completions, and /infill
# give the tokens of a prompt written by hand with --special, and the same
# answer.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
before='In the beginning God created the '
after=' and the earth.'
printf %s "$before" >before
printf %s "$after" >after
printf 'And God said' >one.txt
hand="<|fim_prefix|>$before<|fim_suffix|>$after<|fim_middle|>"
repo="<|repo_name|>myproject
<|file_sep|>one.txt
And God said<|file_sep|>filename
$hand"

# -- qtok
qtok --fim -f text before after >got
printf %s "$hand" | qtok --special -f text | cmp -s - got
ok $? "qtok --fim: prefix, suffix, middle"
qtok --fim -f text before after one.txt >got
printf %s "$repo" | qtok --special -f text | cmp -s - got
ok $? "with another file: as Qwen2.5-Coder's card has it"
is "$(qtok --fim -c before after)" "$(printf %s "$hand" | qtok --special -c)" "-c"
printf '<|fim_middle|>' >name
qtok --fim -f text name after | grep -c -x "$(printf '<|fim_middle|>' | qtok --special -f text)" >count
is "$(cat count)" 1 "a name in a file is text"
refused 2 "one file is not enough" qtok --fim before
refused 2 "no chat" qtok --fim --chat before after
model qwen3
refused 1 "a vocabulary without such tokens" qtok --fim -m "$MODEL" before after
is "$(sed 's/.*: //' err)" "its vocabulary has no <|fim_prefix|>" "says so"
QWEN_MODEL=$TOP/demo/demo.gguf
needs "requests" jq curl

# -- qbatch: by hand, and as a request
jq -nc --arg p "$hand" '{prompt: $p, max_tokens: 12}' >by-hand
jq -nc --arg p "$before" --arg s "$after" '{prompt: $p, suffix: $s, max_tokens: 12}' >request
qbatch -q --special by-hand | jq -r '.text, .usage.prompt_tokens' >want
qbatch -q request | jq -r '.text, .usage.prompt_tokens' >got
cmp -s want got
ok $? "suffix, by qbatch"
qbatch by-hand 2>err >/dev/null
is "$(cat err)" "qbatch: a prompt contains <|fim_prefix|>, the name of a control token: read as plain text; --special reads such names as tokens" \
    "names in a plain prompt are noted"
qbatch --special by-hand 2>err >/dev/null
is "$(cat err)" "" "but with --special"
is "$(qbatch -q -m "$MODEL" request | jq -r .error.message)" \
    "suffix: this model cannot fill in the middle: its vocabulary has no <|fim_prefix|>" \
    "a model without such tokens"

# -- qserve
. "$TOP/tests/cli/qserve.sh"
serve --no-store
post /v1/completions <request | jq -r '.choices[0].text, .usage.prompt_tokens' >got
cmp -s want got
ok $? "suffix, by qserve"
jq -nc --arg p "$before" --arg s "$after" '{input_prefix: $p, input_suffix: $s, n_predict: 12}' >infill
post /infill <infill | jq -r '.content, .tokens_evaluated' >got
cmp -s want got
ok $? "/infill"
is "$(jq -c '[.stop, .stop_type, .tokens_predicted, .truncated, (.timings | .prompt_n + .cache_n,
    .predicted_n, (.predicted_ms > 0))]' answer)" \
    "[true,\"limit\",12,false,$(tail -n 1 want),12,true]" "in llama.cpp's shape"
jq -nc --arg p "$repo" '{prompt: $p, max_tokens: 12}' | qbatch -q --special |
    jq -r '.text, .usage.prompt_tokens' >want
jq -c '.input_extra = [{filename: "one.txt", text: "And God said", time: 5}]' infill |
    post /infill | jq -r '.content, .tokens_evaluated' >got
cmp -s want got
ok $? "with another file"
# what llama.vim sends
jq -c '. + {input_extra: [], prompt: "", n_indent: 0, top_k: 40, top_p: 0.99, stream: false,
    samplers: ["top_k", "top_p", "infill"], cache_prompt: true, t_max_prompt_ms: 500,
    t_max_predict_ms: 100000, response_fields: ["content", "timings/prompt_n",
    "timings/predicted_per_second", "truncated", "tokens_cached"]}' infill | post /infill >vim
is "$(jq -c 'keys' vim)" \
    '["content","timings/predicted_per_second","timings/prompt_n","tokens_cached","truncated"]' \
    "llama.vim gets the fields that it asks for"
post /infill <infill >/dev/null
is "$(jq .content vim)" "$(jq .content answer)" "and the best tokens"
is "$(post /infill '{"input_prefix":"a","input_suffix":"b","n_predict":0,"samplers":[],"response_fields":[""]}')" \
    "{}" "and has what may come read"
is "$(jq -c '.n_cmpl = 2' infill | post /infill | jq -c 'map([.index, .content])')" \
    "$(jq -c '[[0, .content], [1, .content]]' vim)" "n_cmpl, as llama.vscode: a list"
jq -c '.stream = true' infill | post /infill | sed -n 's/^data: //p' >parts
is "$(jq -s -c '[map(.content) | add] + [last | .stop, .tokens_predicted]' parts)" \
    "$(jq -c '[.content, true, 12]' vim)" "a stream adds up to the same"
is "$(post /v1/completions <by-hand >/dev/null; grep -c 'control token' log)" 1 \
    "a name in a prompt is noted"
is "$(post /v1/completions <by-hand >/dev/null; grep -c 'control token' log)" 1 "once"
is "$(post /infill '{"input_prefix":"a"}' | jq -r .error.message), $(cat code)" \
    "input_suffix is missing, 400" "what is missing"
end_server
serve --no-store -m "$MODEL"
is "$(post /infill <infill | jq -r .error.message), $(cat code)" \
    "input_prefix: this model cannot fill in the middle: its vocabulary has no <|fim_prefix|>, 400" \
    "a model without such tokens"
end_server
done_testing
