#!/bin/sh
# Where the store of a model with recurrent layers gets checkpoints: at ends of
# turns, paragraphs, lines and sentences, if reading the text before again costs
# more than writing the checkpoint.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# read STORE: how many tokens of the ids on stdin came from the store; state.cbor
# is right
read_with() {
	cat >ids.cbor
	qprefill -v --store "$1" -o state.cbor <ids.cbor >/dev/null 2>err || return
	qprefill --no-store -o cold.cbor <ids.cbor >/dev/null
	qstate diff state.cbor cold.cbor >&2 || return
	sed -n 's/^qprefill: \([0-9]*\) tokens\{0,1\} from store .*/\1/p' err
}
places() {
	qstate ls --store "$1" | awk '$1 == "checkpoint" { print $2 }' | xargs
}
# lines FROM TO: of a text
lines() {
	awk -v a="$1" -v b="$2" 'BEGIN { for (i = a; i <= b; i++)
		print "And the lot of number " i " came forth unto the sons of Levi." }'
}

# --- as qwen-tutorial(7) has it: a text, and what is asked of it
{ lines 1 12; echo; } >text
n=$(qtok -c text)
for who in Moses Jonah Ruth; do
	{ cat text; printf 'And God said unto %s,' $who; } >prompt
	is "$(qtok prompt | read_with S)" "$([ $who = Moses ] && echo 0 || echo "$n")" \
	    "$who: the text is read once, $n tokens"
done
# --- two words, and no text before them: reading them is less than a checkpoint
for who in Moses Jonah; do
	printf 'And God said unto %s,' $who >prompt
	is "$(qtok prompt | read_with T) $(places T | wc -w)" \
	    "0 $([ $who = Moses ] && echo 1 || echo 2)" \
	    "a short prompt has a checkpoint at its end alone: $who"
done
# but where somebody asks for it
for who in Moses Jonah; do
	{ printf 'And God said unto' | qtok --mark said
	    printf ' %s,' $who | qtok; } >ids
	is "$(read_with U <ids)" "$([ $who = Moses ] && echo 0 || echo 4)" \
	    "a mark: $who"
done
# --- a chat: the turns before the last one
{ lines 1 6; } >first
{ lines 7 13; } >second
for what in first second; do
	qtok --chat --system "$(cat text)" --user "$(cat $what)" >ids
	got=$(read_with V <ids)
	if [ $what = first ]; then
		is "$got" 0 "a chat: nothing of it is in the store"
	else
		[ "$got" -gt "$n" ] && [ "$got" -le $((n + 8)) ]
		ok $? "the system's turn is read once: $got of $(qtok -d -c ids)"
	fi
done
# --- a long text: they are few, and near the end
lines 1 150 >long
{ cat long; echo; echo 'Who is it?'; } | qtok >ids
total=$(qtok -d -c ids)
is "$(read_with W <ids)" 0 "a long text, $total tokens"
at=$(places W)
[ "$(echo "$at" | wc -w)" -le $((total / 1024 + 5)) ]
ok $? "its checkpoints: $at"
for cut in 2000 1200 300; do
	got=$({ qtok -d ids | qtok -f text | head -n $((total - cut)); echo 7; } |
	    read_with W)
	[ "$got" -le $((total - cut)) ] && [ "$got" -ge $((total - 4 * cut - 464)) ]
	ok $? "a prompt that differs from $cut tokens before the end on: $got"
done
# --- the same prompt, the same places
qprefill --store Y -o state.cbor <ids >/dev/null
is "$(places Y)" "$at" "whoever reads it"
# --- states in files have none of them
qprefill --no-store -o one.cbor <ids >/dev/null
qprefill --store Z -o two.cbor <ids >/dev/null
cmp -s one.cbor two.cbor
ok $? "a state in a file is the same with a store"
done_testing
