#!/bin/sh
# Terminals: no binary data to them, no waiting for input from them, progress
# only there.
. "$TOP/tests/cli/tap.sh"
if ! script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	skip "terminals" "script(1) makes none here"
	done_testing
fi
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 | qprefill -o s.cbor >/dev/null

# on_tty COMMAND: with a terminal; output in out, status in status
on_tty() {
	script -qec "$1; echo \$? >status" /dev/null </dev/null 2>&1 |
	    tr -d '\r' >out
}
on_tty 'echo 1 | qprefill'
is "$(cat status), $(wc -l <out)" "1, 1" "a state to a terminal: $(cat out)"
on_tty 'echo 1 | qprefill --logits=last'
is "$(cat status), $(wc -l <out)" "1, 1" "logits to a terminal"
on_tty 'qdecode -s s.cbor -n 1 </dev/null'
is "$(cat status), $(wc -l <out)" "1, 1" "tokens to a terminal"
on_tty 'qdecode -s s.cbor -n 2 -f text </dev/null'
qdecode -s s.cbor -n 2 -f text </dev/null >want
cmp -s out want
ok $? "but -f text goes there"
on_tty 'echo 1 | qprefill -o t.cbor'
is "$(cat status), $(wc -c <out)" "0, 0" "-o FILE has no news for a terminal"
on_tty 'qprefill -o t.cbor'
is "$(cat status), $(grep -c '^qprefill: .*; see qprefill --help' out)" "2, 1" \
    "usage instead of waiting for a terminal"
on_tty 'qdecode -n 1 -f text'
is "$(cat status), $(grep -c '^qdecode: .*; see qdecode --help' out)" "2, 1" "for qdecode too"
on_tty 'qdecode --logits -s s.cbor -f text --top 2'
is "$(cat status), $(wc -l <out)" "0, 1" "--logits without feedback: one row"
on_tty 'echo 1 2 3 | qprefill -o t.cbor --batch 1'
is "$(cat status), $(wc -c <out)" "0, 0" "no progress in the first seconds"
seq 1 50 | qprefill -o t.cbor >/dev/null 2>err
is "$(wc -c <err)" 0 "no progress where there is no terminal"
done_testing
