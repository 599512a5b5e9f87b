#!/bin/sh
# qsample: penalties and ends in the loop (more in fifo-loop.t), logits from
# other programs, --top, bad input.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
cp "$G/tokens-n65.txt" ids
qprefill -o p.cbor <ids >/dev/null
mkfifo loop

# in_loop STATE "qdecode's options" "qsample's options": tokens in got
in_loop() {
	# shellcheck disable=SC2086
	timeout 900 sh -c 'qdecode --logits -s "$1" $2 <loop |
	    qsample $3 | tee loop >got' sh "$1" "$2" "$3"
}

# --- the loop and qdecode alone
for how in "--temp 1 --seed 18446744073709551615" \
    "--repeat-penalty 1.3 --presence-penalty 0.5 --penalty-last-n 8" \
    "--temp 0.9 --frequency-penalty 0.4 --penalty-last-n -1 --seed 3" \
    "--temp 2 --greedy"; do
	# shellcheck disable=SC2086
	qdecode -s p.cbor -n 20 $how </dev/null >want
	in_loop p.cbor "" "-n 20 $how"
	cmp -s want got
	ok $? "$how: the loop gives qdecode's tokens"
done

# --- text before the first row counts for penalties, with -s
how="--temp 1.2 --seed 4 --repeat-penalty 1.4 --frequency-penalty 0.3"
# shellcheck disable=SC2086
qdecode -s p.cbor -n 10 $how -o ten.cbor </dev/null >ten
for more in "" "--penalty-prompt" "--penalty-last-n -1"; do
	# shellcheck disable=SC2086
	qdecode -s ten.cbor -n 12 $how $more </dev/null >want
	in_loop ten.cbor "" "-s ten.cbor -n 12 $how $more"
	cmp -s want got
	ok $? "-s with penalties${more:+ and $more}"
done

# --- where it ends
# shellcheck disable=SC2086
qdecode -s p.cbor --temp 100 --seed 1 </dev/null >want
in_loop p.cbor "" "--temp 100 --seed 1"
cmp -s want got
ok $? "both end at the same end-of-generation token"
qdecode -s p.cbor --temp 100 --seed 1 --ignore-eos -n 500 </dev/null >want
in_loop p.cbor "--ignore-eos" "--temp 100 --seed 1 --ignore-eos -n 500"
cmp -s want got
ok $? "and go on together with --ignore-eos"
yes 5 | head -n 4094 | qprefill -o near.cbor >/dev/null
qdecode -s near.cbor --ignore-eos </dev/null >want
in_loop near.cbor "--ignore-eos" "--ignore-eos"
cmp -s want got
ok $? "and end at the context length"
is "$(qdecode -f text -s near.cbor --ignore-eos </dev/null | wc -l)" 2 \
    "which is two tokens ahead"

# --- rows from elsewhere
qprefill --logits=all <ids >all
is "$(qsample -f text -n 1 <all)" \
    "$(qsample -f text --ignore-eos <all | head -n 1)" "one row"
is "$(qsample -f text --ignore-eos <all | wc -l)" 65 "a token for each row"
is "$(qsample -f text --ignore-eos --temp 1 --seed 2 <all | tail -n 3)" \
    "$(qsample -f text --ignore-eos --temp 1 --seed 2 <all | tail -n 3)" \
    "same seed, same tokens"
qsample -f text --ignore-eos --temp 1 --seed 2 <all >a
qsample -f text --ignore-eos --temp 1 --seed 3 <all >b
cmp -s a b
is $? 1 "another seed, other tokens"
is "$(qsample -f json -n 2 --ignore-eos <all | jq -s -c \
    '[.[0].kind, .[0].n_vocab, (.[1].tokens | length), length]')" \
    '["tokens",623,1,3]' "JSON"
qsample --ignore-eos <all | qtok -d >/dev/null
ok $? "what comes out is a stream of tokens"
is "$(cat all all | qsample -f text --ignore-eos | wc -l)" 130 \
    "streams of logits can be concatenated"
qprefill --logits=all --top 50 <ids >best
qsample -f text --ignore-eos --temp 0.8 --top-k 40 --seed 5 <all >a
qsample -f text --ignore-eos --temp 0.8 --top-k 40 --seed 5 <best >b
cmp -s a b
ok $? "rows cut to 50 do for --top-k 40"
is "$(qsample -n 0 -f text <all | wc -l)" 0 "-n 0"

# --- --top
is "$(qsample --top 3 -n 2 <all | wc -l)" 6 "--top 3 of two rows"
is "$(qsample --top 3 <all | awk '{ print $1 }' | uniq -c | awk '
	$1 != 3 { bad = 1 } END { print NR, bad + 0 }')" "65 0" \
    "three lines a row, each with its position"
is "$(qsample --top 623 -n 1 <all |
    awk '{ s += exp($4) } END { printf "%d %.4f", NR, s }')" \
    "623 1.0000" "probabilities of a row sum up to 1"
is "$(qsample --top 1000 -n 1 <all | wc -l)" 623 "no more than there are"
is "$(qsample --top 1 --ignore-eos <all 2>/dev/null; echo $?)" 2 \
    "--top takes no other options"
is "$(qsample --top 1 <all | cut -f 2 | cksum)" \
    "$(qsample -f text --ignore-eos <all | cksum)" "the best one is greedy's"
qsample --top 4 <all >a
qsample --top 4 <best >b
is "$(paste a b | awk '$2 != $6 || ($4 - $8) ^ 2 > 1e-10 { bad++ }
	END { print NR, bad + 0 }')" "260 0" "--top of rows that were cut"
is "$(qsample --top 2 -n 1 -f json <all | jq -c '[.position, (.top | length),
	(.top[0].logprob >= .top[1].logprob), (.top[0] | keys)]')" \
    '[1,2,true,["id","logit","logprob"]]' "--top as JSON"
# with the texts of tokens, as qscore --top has them
demo=$TOP/demo/demo.gguf
printf 'And God said,\n"Let' | qtok -m "$demo" | qprefill -m "$demo" --logits=all >said
qsample --top 3 -m "$demo" <said >spelt
printf 'And God said,\n"Let' | qscore -m "$demo" --top 4 - >scored
n=$(($(wc -l <spelt) - 3))	# the last row is of a token that is not there
is "$(cut -f 5 spelt | head -n $n)" \
    "$(awk -F '\t' '$1 > 0 { for (i = 6; i < 15; i += 3) print $(i + 2) }' scored)" \
    "-m --top: the $n texts that qscore --top has"
is "$(qsample --top 3 <said | cksum)" "$(cut -f 1-4 spelt | cksum)" "after the other columns"
is "$(qsample --top 3 -m "$demo" -f json <said | jq -r '.top[].text | @json')" \
    "$(cut -f 5 spelt)" "as JSON"
refused 1 "of another vocabulary" qsample --top 3 -m "$demo" <all

# --- bad input
refused 1 "no logits at all" qsample </dev/null
refused 1 "a stream of tokens" sh -c 'qtok </dev/null | qsample'
refused 1 "plain text" qsample <ids
head -c 100 all >cut
refused 1 "half a header" qsample <cut
head -c 2000 all >cut
is "$(qsample -f text <cut 2>err; echo $?)$(wc -l <err)" 11 "half a row"
cp all bad
# the first logit of the first row: a NaN
n=$(LC_ALL=C grep -abo 'flogits' all | sed -n 2p | cut -d: -f1)
printf '\377\377\377\177' |
    dd of=bad bs=1 seek=$((n + 7 + 5)) conv=notrunc 2>/dev/null
is "$(qsample -f text <bad 2>err; echo $?)$(wc -l <err)" 11 "a NaN"
refused 2 "--penalty-prompt without -s" qsample --penalty-prompt <all
refused 2 "--dry-prompt without -s" qsample -m "$demo" --dry-prompt <said
refused 2 "--penalty-prompt after a text of 2,100 bytes" qsample -m "$demo" \
    --stop "$(printf %2100s a)" --penalty-prompt <said
is "$(qsample -m "$demo" -f text --stop dry-prompt=1 --penalty-last-n 4 <said |
    wc -l)" "$(qsample -f text <said | wc -l)" "a text that reads like an option"
refused 2 "--temp that is no number" qsample --temp warm <all
refused 2 "--seed below zero" qsample --seed -1 <all
refused 2 "--top-k 1.5" qsample --top-k 1.5 <all
refused 2 "--top 0" qsample --top 0 <all
refused 2 "-f raw" qsample -f raw <all
refused 2 "--top in CBOR" qsample --top 1 -f cbor <all
refused 2 "an operand" qsample all
is "$(qsample -s none.cbor -f text <all 2>err; echo $?)$(wc -l <err)" 11 \
    "-s that is not there"
is "$(qsample -s p.cbor -f text <all 2>err; echo $?)$(wc -l <err)" 11 \
    "-s that is not of these rows"
printf 'x' >>ten.cbor
in_loop p.cbor "" "-s ten.cbor -n 1" 2>/dev/null
is "$(qdecode --logits -s p.cbor </dev/null | qsample -s ten.cbor -f text \
    2>err; echo $?)" 1 "-s that is damaged"
qsample -n 3 <all >/dev/full 2>err
is "$?$(wc -l <err)" 11 "a full disk"
qsample --top 3 <all >/dev/full 2>err
is "$?$(wc -l <err)" 11 "a full disk, --top"
is "$(qsample --help | sed '1,/^sampling:/d; /^$/,$d' | grep -c '^      --')" 33 "--help lists the sampling options"
done_testing
