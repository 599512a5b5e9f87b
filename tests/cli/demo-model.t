#!/bin/sh
# Without a model, the tools use the demo model and print one line that says so:
# each tool alone, and the first stage of a pipeline.
. "$TOP/tests/cli/tap.sh"
demo=$QWEN_MODEL
unset QWEN_MODEL
note='no model named .*: using the demo model'
noted() {	# COMMAND...: one note on stderr, nothing else; the same output
	"$@" >out 2>err </dev/null
	is "$? $(wc -l <err) $(grep -c "^$1: $note" err)" "0 1 1" "$* notes it"
	QWEN_MODEL=$demo "$@" >named 2>err </dev/null
	is "$?$(cat err)" 0 "with QWEN_MODEL it does not"
	cmp out named
	ok $? "and writes the same"
	"$@" -q >out 2>err </dev/null
	is "$?$(cat err)" 0 "nor with -q"
}
echo 'And God said' >text
echo '{"prompt":"And God said","max_tokens":3}' >in.jsonl
QWEN_MODEL=$demo qtok text >ids
QWEN_MODEL=$demo qprefill -o state.cbor <ids >ready
noted qtok text
noted qdecode -s state.cbor -n 3
noted qbatch in.jsonl
noted qscore text
noted qembed --pooling mean text
noted qchat --stop '\n' 'In the beginning'
noted gguf-inspect

seq 5 | qprefill -o s.cbor >/dev/null 2>err
is "$(grep -c "$note" err)" 1 "qprefill notes it of numbers on stdin"
seq 5 | qtok -d >/dev/null 2>err
is "$(grep -c "$note" err)" 1 "so does qtok -d"
{ echo hi | qtok | qprefill -o s.cbor | qdecode -s s.cbor -n 3 | qtok -d; } >out 2>err
is "$(cat err)" "$(sed -n "/^qtok: $note/p" err | head -n 1)" \
    "in a pipeline the first stage notes it, once"
{ qdecode -s s.cbor -n 3 </dev/null | qtok -d; } >out 2>err
is "$(grep -c . err) $(grep -c "^qdecode: $note" err)" "1 1" "from a state, qdecode does"
done_testing
