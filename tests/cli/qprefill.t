#!/bin/sh
# qprefill: states and logits, and runs without tokens.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
cp "$G/tokens-n65.txt" ids

# same_state A B: but for checkpoints, which tell where the text was cut
same_state() {
	"$B/tests/unit/state" -e "$MODEL" "$1" "$2"
}

# --- states
qprefill -o a.cbor <ids >/dev/null
ok $? "tokens to a state"
qprefill <ids >b.cbor
cmp -s a.cbor b.cbor
ok $? "in-band state and file are the same bytes"
tr ' ' '\n' <ids | head -n 20 >first
tr ' ' '\n' <ids | tail -n +21 >rest
qprefill -o c.cbor <first >/dev/null
qprefill -s c.cbor -o c.cbor <rest >/dev/null
same_state a.cbor c.cbor
ok $? "a prompt in two calls gives the same state, -s and -o being one file"
{ qprefill <first; cat rest >rest.ids; } >d.cbor
qprefill -s d.cbor <rest.ids >e.cbor
same_state a.cbor e.cbor
ok $? "also with the state in between on a pipe"
qprefill <first | qprefill >e.cbor
qprefill <first >d.cbor
cmp -s d.cbor e.cbor
ok $? "a state without further tokens passes unchanged, in-band"
qprefill -s a.cbor -o f.cbor </dev/null >/dev/null
cmp -s a.cbor f.cbor
ok $? "and from -s"
: >empty
qprefill -s a.cbor -o f.cbor <empty >/dev/null
cmp -s a.cbor f.cbor
ok $? "and with an empty file on stdin"
qprefill --batch 1 -t 1 <ids >e.cbor
cmp -s a.cbor e.cbor
ok $? "token by token, the same state"
qprefill --no-compress <ids >big.cbor
qprefill -s big.cbor </dev/null >e.cbor
[ "$(wc -c <big.cbor)" -gt "$(wc -c <a.cbor)" ] && cmp -s a.cbor e.cbor
ok $? "--no-compress is another form of the same state"

# --- nothing to do
refused 1 "no input" qprefill -o none.cbor </dev/null
[ ! -e none.cbor ]
ok $? "leaves no file"
refused 1 "an empty pipe" sh -c ': | qprefill -o none.cbor'
refused 1 "only white space" sh -c 'echo " " | qprefill -o none.cbor'
[ ! -e none.cbor ]
ok $? "leaves no file either"
refused 1 "an id outside the vocabulary" sh -c 'echo 623 | qprefill -o none.cbor'
refused 1 "more tokens than the context" sh -c 'yes 5 | qprefill -o none.cbor'
refused 1 "a state that is not there" qprefill -s none.cbor -o x.cbor </dev/null
refused 1 "a folder that is not there" qprefill -o no/x.cbor <ids

# --- logits
qprefill --logits=all -f raw <ids >all.f32
ok $? "--logits=all -f raw"
is "$(wc -c <all.f32)" $((65 * 623 * 4)) "is rows of float32 and nothing else"
qprefill --logits=last -f raw <ids >last.f32
tail -c $((623 * 4)) all.f32 | cmp -s - last.f32
ok $? "--logits=last is the last row"
qprefill -s c.cbor --logits=last -f raw </dev/null >old.f32
cmp -s old.f32 last.f32
ok $? "a state alone gives the row it holds"
qprefill -s d.cbor --logits=all -f raw <rest >rest.f32
tail -c $((45 * 623 * 4)) all.f32 | cmp -s - rest.f32
ok $? "after a state, the rows of the new tokens"
qprefill --logits=all -f raw -o g.cbor <ids >h.f32
cmp -s all.f32 h.f32 && cmp -s a.cbor g.cbor
ok $? "rows and a state in one call"
is "$(qprefill --logits=all -f json <ids |
    jq -s -c '[.[0].kind, length, .[1].position, .[65].position,
	(.[1].logits | length)]')" \
    '["logits",66,0,64,623]' "rows as JSON"
is "$(qprefill --logits=last --top 3 -f json <ids |
    jq -s -c '[.[1].position, (.[1].ids | length),
	((.[1].logits[0] - .[1].logsumexp) < 0)]')" \
    '[64,3,true]' "the best of a row as JSON"
is "$(qprefill --logits=all -f text <ids | awk 'NR == 65 { print $1, NF }')" \
    "64 624" "rows as text"
is "$(qprefill -o k.cbor -f json <ids | tail -n 1 |
    jq -c '[.ready, .n_tokens, (.fingerprint | length)]')" \
    '["k.cbor",65,32]' "the ready record"

# --- the command line
refused 2 "-f raw without --logits" qprefill -f raw <ids
refused 2 "-f json of a state" qprefill -f json <ids
refused 2 "--top of raw rows" qprefill --logits=all --top 3 -f raw <ids
refused 2 "an unknown format" qprefill -f xml <ids
refused 2 "--logits=some" qprefill --logits=some <ids
refused 2 "rows and a state on stdout" qprefill --logits last -o - <ids
sh -c 'qprefill --logits last -o both <ids' >both 2>err
is "$? $(grep -c 'both write to stdout' err)" "2 1" "and where both are one file"
refused 2 "--imatrix to stdout" qprefill --imatrix - -o /dev/null <ids
refused 2 "an unknown option" qprefill -Z <ids
refused 2 "an unknown long option" qprefill --zoo <ids
refused 2 "a missing argument" qprefill -o
refused 2 "an operand" qprefill ids
refused 2 "-o with an empty name" qprefill -o '' <ids
refused 2 "a folder as -o" qprefill -o ./ <ids
qprefill --help >help
is "$?$(head -c 16 help)" "0usage: qprefill " "--help goes to stdout"
done_testing
