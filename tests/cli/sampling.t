#!/bin/sh
# Sampling options in the tools: stop strings across tokens, --chain, options
# that need the vocabulary; an interrupted run gives the same tokens.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
qprefill -o p.cbor <"$G/tokens-n65.txt" >/dev/null
mkfifo loop

in_loop() {
	timeout 60 sh -c 'qdecode --logits -s p.cbor <loop |
	    qsample -s p.cbor "$@" | tee loop >got' sh "$@"
}

# -- divided runs, each method
for how in "--mirostat 4 --mirostat-eta 0.4" "--temp 2 --typical 0.7" \
    "--temp 3 --xtc-probability 0.5 --xtc-threshold 0.01" \
    "--temp 1 --dry-multiplier 2 --dry-allowed-length 1 --dry-prompt" \
    "--temp 4 --top-n-sigma 1.5" "--dyntemp-max 3" \
    "--temp 3 --logit-bias 5=2 --logit-bias 7=-inf" \
    "--temp 3 --min-tokens 14" \
    "--temp 2 --top-k 30 --top-p 0.9 --chain temp,top-p,top-k"; do
	# shellcheck disable=SC2086
	{
		qdecode -s p.cbor -n 20 --seed 3 $how -f text </dev/null >want
		qdecode -s p.cbor -n 7 --seed 3 $how -f text -o a.cbor \
		    </dev/null >got
		qdecode -s a.cbor -n 13 --resume -f text </dev/null >>got
	}
	cmp -s want got
	ok $? "$how: 20 tokens are 7 and 13 more"
	# shellcheck disable=SC2086
	in_loop -n 20 --seed 3 $how -f text
	cmp -s want got
	ok $? "$how: and the loop's"
done
qdecode -s p.cbor -n 5 --mirostat 4 -o a.cbor </dev/null >/dev/null
qstate show a.cbor | grep -q '^memory mirostat='
ok $? "qstate shows the memory"
qdecode -s a.cbor -n 1 -o a.cbor </dev/null >/dev/null
is "$(qstate show a.cbor | grep -c '^memory')" 0 "which ends with its use"

# -- stop: a text over the border of the 6th and 7th token
qdecode -s p.cbor -n 30 --ignore-eos --temp 2 --seed 5 -f text </dev/null >ids
six=$(head -n 6 ids | qtok -d --bytes | tail -c 1)
text=$(sed -n 6,7p ids | qtok -d --bytes)
seven=$(sed -n 7p ids | qtok -d --bytes | head -c 1)
[ -n "$six" ] && [ -n "$seven" ] && [ -n "$text" ]
ok $? "token 6 ends in '$six', 7 begins with '$seven'"
qdecode -s p.cbor -n 30 --ignore-eos --temp 2 --seed 5 -f text \
    --stop "$text" --stop 'this is not there' </dev/null >got
cmp -s got - <<E
$(head -n 7 ids)
E
ok $? "--stop ends after the token that completes the text"
in_loop -n 30 --ignore-eos --temp 2 --seed 5 -f text --stop "$text"
cmp -s got - <<E
$(head -n 7 ids)
E
ok $? "in the loop too"
qdecode -s p.cbor -n 6 --ignore-eos --temp 2 --seed 5 -f text -o a.cbor \
    --stop "$text" </dev/null >got
qdecode -s a.cbor -n 20 --ignore-eos --resume -f text </dev/null >>got
cmp -s got - <<E
$(head -n 7 ids)
E
ok $? "and where a run was divided between the two"
qdecode -s p.cbor -n 9 --ignore-eos --temp 2 --seed 5 -f text --stop "$text" \
    --save-every 0 -o r.cbor </dev/null >got
qdecode -s p.cbor -n 9 --ignore-eos --temp 2 --seed 5 -f text --stop "$text" \
    --save-every 0 -o r.cbor </dev/null >again
cmp -s got again
ok $? "a run that stopped is over"
qdecode -s p.cbor -n 9 --temp 1 --stop 'a b%c' -o a.cbor </dev/null >/dev/null
is "$(qstate show a.cbor | sed -n 's/^sampler //p')" \
    "stop=a%20b%25c temp=1" "a state says how"

# -- what does not fit
refused 2 "--chain with an unknown method" qdecode -s p.cbor --chain top-x
refused 2 "--chain without what is set" \
    qdecode -s p.cbor --top-p 0.5 --chain top-k,temp
refused 2 "--stop ''" qdecode -s p.cbor --stop ''
refused 2 "--logit-bias 5" qsample --logit-bias 5
refused 2 "--dry-prompt without -s" qsample --dry-prompt --dry-multiplier 1
refused 1 "--logit-bias outside" qdecode -s p.cbor --logit-bias 623=1 -f text
qprefill --logits=last -s p.cbor </dev/null >row
model qwen3
qsample -f text --stop x -m "$MODEL" <row >out 2>err
is "$?$(grep -c vocabulary err)" 11 "texts of another model"

# -- a thinking budget
model qwen35moe-ud
if [ "$(printf '<think></think>' | qtok --special -f text | wc -l)" = 2 ]; then
	printf '<think>' | qtok --special | qprefill -o t.cbor >/dev/null
	qdecode -s t.cbor -n 12 --temp 5 --seed 2 --ignore-eos --think-max 4 \
	    </dev/null | qtok -d --show-special >text
	ok $? "think"
	grep -q '^</think>' text
	ok $? "--think-max closes the block"
else
	refused 1 "--think-max without such tokens" \
	    qdecode -s p.cbor -f text --think-max 4
	grep -q '</think>' err
	ok $? "says so"
fi

# -- what the makers of a model advise
model qwen3
LC_ALL=C sed 's/tiny qwen3 3016/Qwen3-tiny 3016/' "$MODEL" >named.gguf
QWEN_MODEL=named.gguf
warm='--temp 0.6 --top-k 20 --top-p 0.95' cool='--temp 0.7 --top-k 20 --top-p 0.8'
# advised NAME OPTIONS PLAIN: the tokens with the options are those of PLAIN
advised() {
	# shellcheck disable=SC2086
	{
		echo 1 2 3 | qdecode -n 30 --seed 2 -f text $2 >got
		echo 1 2 3 | qdecode -n 30 --seed 2 -f text $3 >want
	}
	cmp -s got want
	ok $? "$1"
}
advised "qdecode takes the best token" "" "--greedy"
advised "--sampling model" "--sampling model" "$cool"
advised "--sampling thinking" "--sampling thinking" "$warm"
advised "an option goes before one advice" "--sampling model --top-k 3" "$cool --top-k 3"
advised "--sampling none" "--sampling none --temp 2" "--temp 2"
echo 1 2 3 | qdecode -n 1 -v --sampling model 2>&1 >/dev/null |
    grep -q 'sampling: top-k=20 top-p=0.8 temp=0.7, recommended by the card of Qwen3$'
ok $? "-v tells which, and whose"
qprefill -m named.gguf -o n.cbor <"$TOP/tests/golden/models/qwen3/tokens-n65.txt" >/dev/null
qdecode -s n.cbor -n 20 --seed 5 --sampling model -f text </dev/null >want
timeout 60 sh -c 'qdecode --logits -s n.cbor <loop |
    qsample -m named.gguf -n 20 --seed 5 --sampling model -f text | tee loop >got'
cmp -s got want
ok $? "qsample advises alike"
qdecode -s n.cbor -n 20 --seed 5 $cool -f text </dev/null | cmp -s - want
ok $? "and these are the card's"
qdecode -s n.cbor -n 7 --seed 5 --sampling model -f text -o a.cbor </dev/null >got
qdecode -s a.cbor -n 13 --resume -f text </dev/null >>got
cmp -s got want
ok $? "a state has them"
ask='{"messages": [{"role": "user", "content": "Hello"}], "seed": 3'
# answers OPTIONS REQUEST: what qbatch answers
answers() {
	# shellcheck disable=SC2086
	echo "$2" | qbatch -n 20 --template qwen3 $1 2>/dev/null | jq -c 'del(.run)'
}
is "$(answers "" "$ask}")" "$(answers "--sampling none $warm" "$ask}")" \
    "qbatch: a request that says nothing, and may think"
is "$(answers "" "$ask, \"enable_thinking\": false}")" \
    "$(answers "--sampling none $cool" "$ask, \"enable_thinking\": false}")" \
    "and one that may not"
is "$(answers "" "$ask, \"temperature\": 0}")" "$(answers "--greedy" "$ask}")" \
    "qbatch: temperature 0 is the best token"
is "$(answers "--top-k 2" "$ask}")" \
    "$(answers "--sampling none --temp 0.6 --top-p 0.95 --top-k 2" "$ask}")" \
    "qbatch: an option goes before one advice"
for t in "" --think=off; do
	# shellcheck disable=SC2086
	is "$(echo Hello | qchat -q -n 20 --template qwen3 $t 2>/dev/null)" \
	    "$(echo Hello | qchat -q -n 20 --template qwen3 $t --sampling none \
	    $([ -n "$t" ] && echo $cool || echo $warm) 2>/dev/null)" "qchat $t"
done
# -- temperature 0 is the best token in every tool, whatever is advised
LC_ALL=C sed 's/tiny qwen3 3016/Qwen3-Coder 301/' "$MODEL" >coder.gguf
QWEN_MODEL=$PWD/coder.gguf
echo '{"messages": [{"role": "user", "content": "Hello"}]}' >ask.json
# decode OPTIONS: what qdecode says to it
decode() {
	# shellcheck disable=SC2086
	qtok --chat --template qwen3 ask.json | qdecode -n 60 --ignore-eos -f text $1 | qtok -d
}
decode --greedy >best
decode "--sampling model --temp 0 --repeat-penalty 1.05 --penalty-last-n -1" >held
cmp -s best held
is $? 1 "the penalty that is advised would show"
decode "--sampling model --temp 0" | cmp -s - best
ok $? "qdecode --temp 0"
qbatch -q -n 60 --template qwen3 --temp 0 --ignore-eos ask.json | jq -j .text | cmp -s - best
ok $? "qbatch --temp 0"
zero='{"temperature": 0, "ignore_eos": true, "max_tokens": 60}'
jq -c ". + $zero" ask.json >zero.json
qbatch -q --template qwen3 zero.json | jq -j .text | cmp -s - best
ok $? "qbatch, temperature 0 of a request"
for t in 1e-40 1e-46 1e-300; do	# the last two are 0 as floats
	sed "s/\"temperature\":0/\"temperature\":$t/" zero.json >tiny.json
	qbatch -q --template qwen3 --sampling none tiny.json | jq -j .text | cmp -s - best
	ok $? "a temperature of $t is as good as 0"
done
jq -c '. + {repetition_penalty: 1.05, repeat_last_n: -1}' zero.json |
    qbatch -q --template qwen3 | jq -j .text | cmp -s - held
ok $? "with a penalty of the request itself"
echo Hello | qchat -q -n 60 --template qwen3 --temp 0 --system '' >out 2>err
echo Hello | qchat -q -n 60 --template qwen3 --greedy --sampling none --system '' >want 2>err
[ -s want ] && cmp -s out want
ok $? "qchat --temp 0"
. "$TOP/tests/cli/qserve.sh"
QWEN_MODEL=$PWD/coder.gguf
serve --template qwen3
post /v1/chat/completions "$(cat zero.json)" | jq -j '.choices[0].message | .reasoning_content // "", .content' >out
jq -c '{custom_id: "1", url: "/v1/chat/completions", body: .}' zero.json | qbatch -q --template qwen3 |
    jq -j '.response.body.choices[0].message | .reasoning_content // "", .content' | cmp -s - out && [ -s out ]
ok $? "qserve, temperature 0 of a request"
end_server
refused 2 "--sampling of nobody" sh -c 'echo 1 | qdecode --sampling mine'
done_testing
