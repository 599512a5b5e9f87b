#!/bin/sh
# qbatch --plan: the tokens to read and to write are those of the run; it
# answers nothing.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qbatch --plan" "no jq"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
# of NAME: its number in the plan
of() {
	awk -v name="$1" '$1 == name { print $2 }' out
}
seq 40 | jq -c '{prompt: "\("In the beginning God created the heaven and the earth. " * 12) And \(.)",
    max_tokens: (. % 7 + 1), n: (. % 2 + 1), ignore_eos: true}' >in
qbatch --plan in >out 2>err
is "$?, $(wc -l <err)" "0, 1" "how the rates are measured: $(cat err)"
qbatch -q --report-json r.json in >results
is "$(of requests) $(of failed) $(of answers)" "40 0 60" "requests and answers"
is "$(of prompt_tokens)" "$(jq .usage.prompt_tokens results | awk '{ n += $1 } END { print n }')" "tokens of prompts"
is "$(of tokens_to_write_max)" "$(jq .generated_tokens r.json)" "tokens of answers, where none ends by itself"
read=$(of tokens_to_read) really=$(jq .prompt_tokens_read r.json)
[ "$read" -ge "$really" ] && [ "$read" -le $((really + 15 * 40)) ] &&
    [ $((4 * read)) -lt "$(of prompt_tokens)" ]
ok $? "$read tokens to read, $really were, of $(of prompt_tokens): beginnings count once"
awk '$1 == "read_tok_s" || $1 == "write_tok_s" { n += $2 > 0 } END { exit n != 2 }' out
ok $? "rates: $(of read_tok_s) and $(of write_tok_s) tok/s"
awk -v s="$(of seconds_max)" -v r="$(of tokens_to_read)" -v w="$(of tokens_to_write_max)" \
    -v rr="$(of read_tok_s)" -v wr="$(of write_tok_s)" \
    'BEGIN { d = r / rr + w / wr - s; exit !(d < 1 && d > -1) }'
ok $? "the time is what these come to: $(of seconds_max) s"
qbatch --plan --shard 2/4 <in >out 2>err
is "$?, $(of requests)" "0, 10" "a part, from stdin"
printf '%s\n' '{"prompt":"And","max_tokens":3}' 'no json' '' '{"prompt":[]}' >bad
qbatch --plan bad >out 2>err
is "$?, $(of requests) $(of failed) $(of answers) $(of prompt_tokens) $(of tokens_to_write_max)" \
    "0, 3 2 1 1 3" "lines that would be errors"
printf '%s\n' '{"custom_id":"a","body":{"prompt":"And"}}' '{"custom_id":"a","body":{"prompt":"And"}}' \
    '{"custom_id":"b","body":{"prompt":"And"}}' >twins
qbatch --plan -n 3 twins >out 2>err
is "$?, $(of requests) $(of failed) $(of answers)" "0, 3 1 2" "one whose custom_id was there before"
qbatch --plan -n 3 --shard 2/3 twins >out 2>err
is "$?, $(of requests) $(of failed)" "0, 1 1" "also in another part"
head -n 12 results >done.was
printf '{"line":13,"te' >>done.was
cp done.was done
qbatch --plan --resume -o done in >out 2>err
is "$?, $(of requests) $(cmp done done.was)" "0, 28 " "with --resume, what is left, and nothing changes"
qbatch --plan --resume -o none in >out 2>err
is "$?, $(of requests) $([ -e none ]; echo $?)" "0, 40 1" "if there is no file yet, all"
qbatch --plan --resume --temp 2 -o done in >out 2>err
is "$?, $(wc -c <out) $(grep -c 'is of another run' err)" "1, 0 1" "results of another run are refused"
echo '{"prompt":"And"}' | qbatch --plan -n 9 >out 2>err
is "$?, $(of tokens_to_write_max)" "0, 9" "-n"
echo '{"prompt":"And"}' | qbatch --plan >out 2>err
is "$?, $(($(of tokens_to_write_max) + 1))" \
    "0, $(gguf-inspect --get qwen35moe.context_length "$QWEN_MODEL" 2>/dev/null || echo 4096)" "without a limit: the context"
: >empty
qbatch --plan empty >out 2>err
is "$?, $(of requests), $(cat err)" "0, 0, " "of nothing"
qbatch --plan --store S -n 9 in >out 2>err
[ ! -e S ]
ok $? "the store is neither read nor written"
refused 2 "with --merge" qbatch --plan --merge in
refused 1 "no such input" qbatch --plan none
done_testing
