#!/bin/sh
# The next stage of a pipeline exits: death by SIGPIPE, no message, no temporary
# file.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 | qprefill -o s.cbor >/dev/null

{ qdecode -s s.cbor --ignore-eos -f text </dev/null 2>err; echo $? >status; } |
    head -n 3 >out
is "$(wc -l <out), $(cat status), $(wc -c <err)" "3, 141, 0" \
    "qdecode | head: died of SIGPIPE, silently"
{ qdecode -s s.cbor --ignore-eos -f text -o t.cbor </dev/null 2>err
  echo $? >status; } | head -n 3 >out
is "$(cat status), $(wc -c <err), $(ls -A | grep -c t.cbor)" "141, 0, 0" \
    "with -o: no temporary, no file"
(trap '' PIPE
 { qdecode -s s.cbor --ignore-eos -f text </dev/null 2>err; echo $? >status; } |
    head -n 3 >out)
is "$(cat status), $(wc -c <err)" "1, 0" "SIGPIPE ignored: exit 1, silently"
{ qprefill --logits=all -f text <"$TOP/tests/golden/models/qwen35moe-ud/tokens-n600.txt" \
    2>err; echo $? >status; } | head -n 1 >out
is "$(cat status), $(wc -c <err)" "141, 0" "qprefill | head"
{ qprefill <"$TOP/tests/golden/models/qwen35moe-ud/tokens-n600.txt" 2>err
  echo $? >status; } | true
is "$(cat status), $(wc -c <err)" "141, 0" "qprefill | true"
{ echo 1 2 3 | qprefill -o u.cbor 2>err; echo $? >status; } | true
cmp -s u.cbor s.cbor
ok $? "qprefill -o FILE | true: the file is there"
done_testing
