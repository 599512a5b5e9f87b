#!/bin/sh
# Marks in token streams: which tools write them, and that tools which do not
# use marks ignore them.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
printf 'one two three' >text

# --- written
qtok <text >plain
qtok --mark 'the "end"' <text >marked
ok $? "qtok --mark"
is "$(qtok --mark 'the "end"' -f json <text | tail -n 1)" '{"mark":"the \"end\""}' \
    "is the last record"
n=$(wc -c <plain)
head -c "$n" marked | cmp -s - plain
ok $? "what is before it is the same"
is "$(tail -c +$((n + 1)) marked | od -An -c | tr -d ' \n')" \
    '241dmarkithe"end"' "a map of one pair, as qwen-stream(5) has it"
is "$(printf 'a\0\0b' | qtok -0 --mark x -f json | grep -o '"[a-z]*":' |
    tail -n +4 | tr -d '\n')" \
    '"tokens":"mark":"end":"mark":"end":"tokens":"mark":"end":' \
    "with -0 after each document, also an empty one"
is "$(: | qtok --mark x -f json | tail -n 1)" '{"mark":"x"}' \
    "after no text: the mark alone"
name=$(printf '%255s' '' | tr ' ' a)
qtok --mark "$name" <text >long
ok $? "a name of 255 bytes"
for bad in '' "a$name" "$(printf 'caf\351')"; do
	refused 2 "a name that is none" qtok --mark "$bad" <text
done
refused 2 "--mark with -d" qtok -d --mark x <plain
refused 2 "--mark with -c" qtok -c --mark x <text
refused 2 "--mark with -f text" qtok --mark x -f text <text

# --- in a chat: after the system's turn, after each document, before the last turn
printf 'A text.\n\nOf two parts.\n' >doc
# parts WHICH...: the texts between the marks, each with | after it
parts() {
	qtok --chat --mark x -f json "$@" | jq -c 'select(.tokens or .mark)' >recs
	: >cut
	while read -r rec; do
		case $rec in
		*mark*) printf '|' ;;
		*) echo "$rec" | jq -r '.tokens[]' | qtok -d --show-special ;;
		esac
	done <recs
}
QWEN_MODEL=$TOP/demo/demo.gguf
is "$(parts --system S --data doc --user 'Why?')" '<|im_start|>system
S<|im_end|>
|<|im_start|>user
A text.

Of two parts.


|Why?<|im_end|>
|<|im_start|>assistant' "a document in a chat: its end is marked"
is "$(parts --data doc --data text --user 'Why?' --assistant No --user 'How?')" \
    '<|im_start|>user
A text.

Of two parts.


|one two three

|Why?<|im_end|>
<|im_start|>assistant
No<|im_end|>
<|im_start|>user
How?<|im_end|>
|<|im_start|>assistant' "two documents, and turns after them"
is "$(parts --user 'Why?' --data doc)" '<|im_start|>user
Why?

A text.

Of two parts.
<|im_end|>
|<|im_start|>assistant' "one that ends with the turn has no mark of its own"
printf start >word
is "$(parts --data word --user 'Why?')" '<|im_start|>user
start

|Why?<|im_end|>
|<|im_start|>assistant' "one whose text the template has before it, too"
# whatever is at the border, marks do not change the ids
i=0
for end in '' '\n' '\n\n' ' ' ' \n' '\n ' '.\n' '\r\n' '...\n\n\n' '\t\n \n'; do
	for begin in 'Why?' ' why' '?' '12' "$(printf '\nx')" "$(printf ' \n x')" '\303\251'; do
		printf "text$end" >doc
		qtok --chat --data doc --user "$begin" -f text >want
		qtok --chat --data doc --user "$begin" --mark x -f json |
		    jq '.tokens | select(. != null)[]' >got
		cmp -s want got || { echo "# '$end' '$begin'" >&2; i=$((i + 1)); }
	done
done
is $i 0 "marks change no id"
QWEN_MODEL=$MODEL

# --- passed over
{ cat marked marked long; } >many
{ cat plain plain plain; } >none
is "$(qtok -d many)" "$(qtok -d none)" "qtok -d"
is "$(qtok -d -0 many | tr '\0' ,)" "$(qtok -d -0 none | tr '\0' ,)" "qtok -d -0"
qdecode -n 5 -f text <none >want
qdecode -n 5 -f text <many >got
cmp -s want got
ok $? "qdecode"
qprefill --logits=all -f raw <none >want
qprefill --logits=all -f raw <many >got
cmp -s want got
ok $? "qprefill: the same logits"
qprefill -o s.cbor <plain >/dev/null
qdecode --logits -s s.cbor <none >want
qdecode --logits -s s.cbor <many >got
cmp -s want got
ok $? "qdecode --logits"
refused 1 "a mark alone is no token" sh -c \
    ': | qtok --mark x | qprefill -o none.cbor'
refused 1 "nor news that upstream is well" sh -c \
    ': | qtok --mark x | qdecode -s s.cbor -n 1'

# --- refused
n=$(wc -c <marked)
head -c $((n - 1)) marked >cut
refused 1 "a mark that is cut off" qprefill -o none.cbor <cut
[ ! -e none.cbor ]
ok $? "leaves no file"
done_testing
