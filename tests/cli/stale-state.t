#!/bin/sh
# Which state a command with -s uses, and that it never decodes a stale one.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 | qprefill -o stale.cbor >/dev/null
echo 7 8 9 | qprefill -o fresh.cbor >ready
qdecode -s fresh.cbor -n 4 -f text </dev/null >want
qdecode -s stale.cbor -n 4 -f text </dev/null >wrong
cmp -s want wrong
[ $? = 1 ]
ok $? "two states that go on differently"

# --- a pipe upstream
refused 1 "upstream failed at once" sh -c \
    'false | qdecode -s stale.cbor -n 4'
refused 1 "upstream failed late" sh -c \
    '(sleep 0.3; exit 1) | qdecode -s stale.cbor -n 4'
cp stale.cbor x.cbor
refused 1 "upstream met bad input" sh -c \
    'echo bad | qprefill -o x.cbor 2>/dev/null | qdecode -s x.cbor -n 4'
refused 1 "upstream has no model" sh -c \
    'echo 1 | qprefill -m no.gguf -o x.cbor 2>/dev/null |
	qdecode -s x.cbor -n 4'
refused 1 "upstream was killed" sh -c \
    '(sleep 5 & p=$!; kill -9 $p; wait $p) 2>/dev/null |
	qdecode -s x.cbor -n 4'
# a header alone is no news: the ready record without its end
head -c 58 ready >header
refused 1 "a header alone" sh -c 'cat header | qdecode -s stale.cbor -n 4'
refused 1 "a truncated ready record" sh -c \
    'head -c 80 ready | qdecode -s stale.cbor -n 4'
refused 1 "the same for qprefill" sh -c \
    'cat header | qprefill -s stale.cbor -o y.cbor'
[ ! -e y.cbor ]
ok $? "which leaves no file"

# --- the race that the ready record is for
i=0
while [ $i -lt 5 ]; do
	cp stale.cbor x.cbor
	(sleep 0.1; echo 7 8 9) | qprefill -o x.cbor |
	    qdecode -s x.cbor -n 4 -f text >got
	cmp -s got want || break
	i=$((i + 1))
done
is $i 5 "a pipe through -o and -s gives the fresh state"
echo 7 8 9 | qprefill -o new.cbor | qdecode -s new.cbor -n 4 -f text >got
cmp -s got want
ok $? "also where there was no file"
refused 1 "a file that is not the one made ready" sh -c \
    'cat ready | qdecode -s stale.cbor -n 4'
refused 1 "the same from a regular file" qdecode -s stale.cbor -n 4 <ready
qdecode -s fresh.cbor -n 4 -f text <ready >got
cmp -s got want
ok $? "ready record and file agree"
refused 1 "a ready record without -s" sh -c 'cat ready | qdecode -n 4'
grep -q 'give -s fresh.cbor' err
ok $? "the message says what to give"

# --- tokens on stdin
echo 7 8 | qprefill -o part.cbor >/dev/null
echo 9 | qdecode -s part.cbor -n 4 -f text >got
cmp -s got want
ok $? "tokens on a pipe come after the state"
echo 9 >nine
qdecode -s part.cbor -n 4 -f text <nine >got
cmp -s got want
ok $? "tokens in a file as well"
{ qprefill -s part.cbor </dev/null; } | cat - >inband
(cat inband; cat ready | head -c 58; printf '\241ftokens\330\116\104\011\0\0\0') |
    qdecode -n 4 -f text >got
cmp -s got want
ok $? "tokens after an in-band state"

# --- no upstream
: >empty
qdecode -s fresh.cbor -n 4 -f text <empty >got
cmp -s got want
ok $? "an empty file on stdin"
qdecode -s fresh.cbor -n 4 -f text <&- >got
cmp -s got want
ok $? "stdin closed"
rm -f got
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	script -qec 'qdecode -s fresh.cbor -n 4 -f text >got' /dev/null \
	    >/dev/null 2>&1
	cmp -s got want
	ok $? "a terminal on stdin"
else
	skip "a terminal on stdin" "script(1) makes none here"
fi

# --- two states
refused 2 "in-band state and -s" sh -c \
    'cat inband | qdecode -s stale.cbor -n 4'
refused 2 "the same for qprefill" sh -c \
    'cat inband | qprefill -s stale.cbor -o y.cbor'
refused 1 "two in-band states" sh -c 'cat inband inband | qdecode -n 4'
refused 1 "tokens, then a state" sh -c \
    '(qdecode -s fresh.cbor -n 1 </dev/null; cat inband) | qdecode -n 4'
[ ! -e y.cbor ]
ok $? "none of them leaves a file"
done_testing
