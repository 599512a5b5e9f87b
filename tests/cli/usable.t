#!/bin/sh
# gguf-inspect says whether the tools can use a file: for unusual files that
# people have had, and for many files that are unusual at random.
. "$TOP/tests/cli/tap.sh"
if ! command -v python3 >/dev/null 2>&1; then
	skip "odd files" "no python3"
	done_testing
fi
for m in qwen3 qwen35-tied qwen35moe-f32; do
	model $m
done
printf text >text
PYTHONDONTWRITEBYTECODE=1 python3 - "$TOP/tests/cli" qwen3.gguf <<'E'
import sys
sys.path.insert(0, sys.argv[1])
sys.argv = ["", "1", "0", sys.argv[2]]
from gguf_odd import *
keys, tensors = read("qwen3.gguf")
key = lambda k, t, v: [x for x in keys if x[0] != k] + [[k, t, v]]
for end in (b"eos", b"eot", b"bos", b"padding", b"fim_pre"):
	name = b"tokenizer.ggml.%s_token_id" % end
	for what, t, v in (("none", 4, 2**32 - 1), ("minus", 5, -1), ("beyond", 4, 673),
	    ("text", 8, b"1")):
		write("%s-%s.gguf" % (end.decode(), what), key(name, t, v), tensors)
write("align.gguf", key(b"general.alignment", 4, 1), tensors)
write("zero.gguf", keys, tensors + [[b"nothing", [0], 0, b""]])
E
state_of() { # FILE: what gguf-inspect, qprefill, qdecode and qtok make of it
	for tool in "gguf-inspect" "qprefill -q -o /dev/null -m" "qdecode -q -n 1 -m" "qtok text -m"; do
		echo 1 | $tool "$1" >out 2>err
		rc=$?
		[ "$tool" != gguf-inspect ] || [ $rc != 0 ] || grep -q '^usable yes' out || rc=1
		printf '%s ' $rc
		[ $rc = 0 ] || [ "$(wc -l <err)" = 1 ] || [ "$tool" = gguf-inspect ] || printf 'lines '
	done
}
for end in eos eot bos padding fim_pre; do
	for what in none minus; do
		is "$(state_of $end-$what.gguf)" "0 0 0 0 " "$end is -1: no such token"
	done
done
for end in eos eot; do
	is "$(state_of $end-beyond.gguf) $(state_of $end-text.gguf)" "1 1 1 0  1 1 1 0 " "$end is no token"
	qprefill -m $end-beyond.gguf <text >out 2>err
	is "$(cat err)" "qprefill: $end-beyond.gguf: tokenizer.ggml.${end}_token_id is 673, but there are 673 tokens" "and which"
done
is "$(state_of align.gguf)" "1 1 1 1 " "an alignment of 1"
is "$(state_of zero.gguf)" "1 1 1 1 " "a tensor of no elements"
gguf-inspect --check padding-beyond.gguf 2>err
is "$? $(grep -c 'padding_token_id is 673' err)" "1 1" "an id that no tool uses: --check finds it"
want_none=$(gguf-inspect --json qwen3.gguf | jq '.metadata["tokenizer.ggml.eos_token_id"] != null')
is "$want_none" true "(the file has one)"

# -- at random: the last line counts those that were usable and those that were not
n=120
[ -z "$QPIPE_LONG" ] || n=2000
PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/gguf_odd.py" "$SEED" $n qwen3.gguf qwen35-tied.gguf \
    qwen35moe-f32.gguf >got
is "$(sed '$d' got)" "" "$n odd files: gguf-inspect says what the tools do"
tail -n 1 got | awk '{ exit !($1 > 9 && $2 > 9) }'
ok $? "usable, not usable: $(tail -n 1 got)"
done_testing
