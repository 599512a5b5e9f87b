#!/bin/sh
# qdecode: the same tokens however a run is divided, and where it ends.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
cp "$G/tokens-n65.txt" ids
qprefill -o p.cbor <ids >/dev/null

for how in "" "--temp 0.7 --seed 1" \
    "--temp 1.5 --top-k 40 --top-p 0.95 --min-p 0.01 --seed 7" \
    "--repeat-penalty 1.3 --presence-penalty 0.5 --penalty-last-n 8" \
    "--temp 0.9 --frequency-penalty 0.4 --penalty-prompt --seed 3"; do
	what=${how:-greedy}
	# shellcheck disable=SC2086
	{
	qdecode -s p.cbor -n 24 -f text $how </dev/null >whole
	is "$(wc -l <whole)" 24 "$what: 24 tokens"
	qdecode -s p.cbor -n 10 -f text -o q.cbor $how </dev/null >part
	qdecode -s q.cbor -n 1 -f text -o q.cbor $how </dev/null >>part
	qdecode -s q.cbor -n 13 -f text -o q.cbor $how </dev/null >>part
	cmp -s whole part
	ok $? "$what: 10 + 1 + 13 tokens are the same"
	qdecode -n 24 -f text $how <ids >part
	cmp -s whole part
	ok $? "$what: straight from the prompt"
	qprefill <ids | qdecode -n 24 -f text $how >part
	cmp -s whole part
	ok $? "$what: with the state in-band"
	qdecode -s p.cbor -n 24 -o r.cbor -t 1 $how </dev/null >/dev/null
	"$B/tests/unit/state" -e "$MODEL" q.cbor r.cbor
	ok $? "$what: the state after it does not tell how it was split"
	}
done

# the last token has been fed: the stored logits predict the next one
qdecode -s p.cbor -n 5 -f text -o five.cbor </dev/null >five
qdecode -s p.cbor -n 6 -f text </dev/null | tail -n 1 >sixth
is "$(qprefill -s five.cbor --logits=last --top 1 -f json </dev/null |
    jq -s '.[1].ids[0], .[1].position' | tr '\n' ' ')" "$(cat sixth) 69 " \
    "the stored logits predict the next token"
qprefill -s p.cbor --logits=last -f raw <five >a.f32
qprefill -s five.cbor --logits=last -f raw </dev/null >b.f32
cmp -s a.f32 b.f32
ok $? "and are those of a prompt with these tokens"
qdecode -s p.cbor --temp 0.7 --seed 5 -n 8 -o x.cbor -f text </dev/null >a
qdecode -s x.cbor --resume -n 8 -f text </dev/null >>a
qdecode -s p.cbor --temp 0.7 --seed 5 -n 16 -f text </dev/null >b
cmp -s a b
ok $? "--resume takes the sampling options of the state"

# --- where it ends
qdecode -s p.cbor --temp 100 --seed 1 --ignore-eos -n 900 -f text \
    </dev/null >all
is "$(wc -l <all)" 900 "--ignore-eos goes on"
qdecode -s p.cbor --temp 100 --seed 1 -f text -o end.cbor </dev/null >some
is "$(tail -n 1 some)" 608 "the end-of-generation token is emitted"
is "$(grep -c '^608$' some)" 1 "and is the last"
head -n "$(wc -l <some)" all | cmp -s - some
ok $? "up to there both are the same"
is "$(qprefill -s end.cbor -o end.cbor -f json </dev/null | jq .n_tokens |
    tail -n 1)" $((65 + $(wc -l <some))) "and it has been fed"
qdecode -s p.cbor -n 0 -f text -o zero.cbor </dev/null >none
is "$?$(wc -c <none)" 00 "-n 0 gives no token"
qprefill -s zero.cbor --logits=last -f raw </dev/null >a.f32
qprefill -s p.cbor --logits=last -f raw </dev/null >b.f32
cmp -s a.f32 b.f32
ok $? "and the state as it was"
yes 5 | head -n 4090 | qprefill -o long.cbor >/dev/null
qdecode -s long.cbor --ignore-eos -f text -o full.cbor </dev/null >rest
is "$(wc -l <rest)" 6 "the context length ends it"
qdecode -s full.cbor --ignore-eos -f text </dev/null >none
is "$?$(wc -c <none)" 00 "a full context gives no token"
refused 1 "a full context takes no token" sh -c 'echo 1 | qdecode -s full.cbor'

# --- formats
is "$(qdecode -s p.cbor -n 2 -f json </dev/null | jq -s -c \
    '[.[0].kind, (.[1].tokens | length), length]')" '["tokens",1,3]' "JSON"
qdecode -s p.cbor -n 24 </dev/null | qdecode -n 1 -f text >a
qdecode -s p.cbor -n 24 -f text </dev/null | qdecode -n 1 -f text >c
cmp -s a c
ok $? "CBOR and plain ids carry the same"

# --- the command line
refused 2 "-n that is no number" qdecode -n 3x <ids
refused 2 "-n below zero" qdecode -n -1 <ids
refused 2 "--temp that is no number" qdecode --temp warm <ids
refused 2 "--temp without end" qdecode --temp 1e999 <ids
refused 2 "--temp nan" qdecode --temp nan <ids
refused 2 "--top-p above 1" qdecode --top-p 1.5 <ids
refused 2 "-t above 1024" qdecode -t 5000 <ids
refused 2 "--top without --logits" qdecode --top 5 <ids
refused 2 "-f raw without --logits" qdecode -f raw <ids
refused 2 "--logits without -s" qdecode --logits <ids
refused 2 "--logits and --temp" qdecode --logits -s p.cbor --temp 1 <ids
refused 2 "--resume and --seed" qdecode --resume -s p.cbor --seed 1 <ids
refused 2 "-o -" qdecode -o - <ids
refused 1 "no input" qdecode </dev/null
is "$(qdecode --help | grep -c '^      --temp T ')" 1 "--help lists sampling options"
done_testing
