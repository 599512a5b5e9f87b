#!/bin/sh
# States and streams of one model are refused by another, and the message names
# both.
. "$TOP/tests/cli/tap.sh"
model qwen3moe
other=$MODEL
model qwen35moe-ud
echo 1 2 3 | qprefill -m "$MODEL" -o s.cbor >ready

refused 1 "a state of another model" qdecode -m "$other" -s s.cbor -n 1 </dev/null
grep -q '^qdecode: s.cbor: made with another model: its vocabulary is .*; give that model with -m$' err
ok $? "the message says what to do"
refused 1 "one to be reused" sh -c "echo 1 | qprefill -m '$other' --reuse s.cbor"
grep -q '^qprefill: s.cbor: made with another model' err
ok $? "likewise"
refused 1 "in-band" sh -c "cat s.cbor | qdecode -m '$other' -n 1"
is "$(grep -c '[0-9a-f]\{32\}.*[0-9a-f]\{32\}' err)" 1 "both sides are named"
refused 1 "a stream for another vocabulary" sh -c \
    "cat ready | qprefill -m '$other' -o x.cbor"
grep -q '^qprefill: stdin: made with another model' err
ok $? "the message does not count records"
is "$(grep -c '[0-9a-f]\{32\}.*[0-9a-f]\{32\}' err)" 1 "both sides are named"
refused 1 "feedback for another vocabulary" sh -c \
    "qdecode -m '$other' -n 1 -f cbor --logits -s s.cbor </dev/null"
[ ! -e x.cbor ]
ok $? "no file is left"
refused 1 "a model that is not there" sh -c 'echo 1 | qprefill -m none.gguf'
refused 1 "a model that is a folder" sh -c 'echo 1 | qprefill -m .'
refused 1 "a model that is a state" sh -c 'echo 1 | qprefill -m s.cbor'
refused 1 "QWEN_MODEL that is not there" sh -c \
    'echo 1 | QWEN_MODEL=none.gguf qprefill'
echo 1 2 3 | QWEN_MODEL=none.gguf qprefill -m "$MODEL" >t.cbor
cmp -s s.cbor t.cbor
ok $? "-m goes before QWEN_MODEL"
echo 1 2 3 | QWEN_MODEL=$MODEL qprefill >t.cbor
cmp -s s.cbor t.cbor
ok $? "QWEN_MODEL is used"

# a model that may only be read, at a path with a space, and is moved while open
mkdir "my models"
cp "$MODEL" "my models/a model.gguf"
chmod 444 "my models/a model.gguf"; chmod 555 "my models"
echo 1 2 3 | qprefill -m "my models/a model.gguf" >t.cbor
cmp -s s.cbor t.cbor
ok $? "a read-only model at a path with a space"
chmod 755 "my models"

# the demo model is found from the executable, wherever that is
mkdir -p inst/bin inst/share/qpipe tree/bin tree/demo tree/build/asan/bin
cp "$BIN/qprefill" inst/bin; cp "$BIN/qprefill" tree/bin
cp "$BIN/qprefill" tree/build/asan/bin
unset QWEN_MODEL
refused 1 "no model anywhere" sh -c 'echo 1 | inst/bin/qprefill'
is "$(grep -c 'no model: give -m FILE or set QWEN_MODEL' err)" 1 \
    "the message says what to do"
cp "$MODEL" inst/share/qpipe/demo.gguf; cp "$MODEL" tree/demo/demo.gguf
for exe in inst/bin tree/bin tree/build/asan/bin; do
	echo 1 2 3 | $exe/qprefill >t.cbor
	cmp -s s.cbor t.cbor
	ok $? "the demo model of $exe"
done
ln -s "$PWD/inst/bin/qprefill" ./qprefill-link
echo 1 2 3 | ./qprefill-link >t.cbor
cmp -s s.cbor t.cbor
ok $? "also through a link"
done_testing
