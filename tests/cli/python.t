#!/bin/sh
# A reader in Python, written from qwen-state(5) alone, reads what the tools
# write, in both forms, and chains of parts from a store: the same tokens,
# logits and numbers as libqwen.
. "$TOP/tests/cli/tap.sh"
[ -n "$QPIPE_LONG" ] || done_testing	# in make check-long
for python in python3 /usr/bin/python3 ''; do
	[ -n "$python" ] && $python -c 'import cbor2, xxhash, zstandard' \
	    2>/dev/null && break
done
if [ -z "$python" ]; then
	skip "a reader in Python" "needs python3 with cbor2, xxhash, zstandard"
	done_testing
fi

reader() {
	$python "$TOP/tests/cli/state_reader.py" "$@" >out 2>err
	ok $? "  read: $(cat out)"
	tail -n 3 err >&2
}

# tests/unit/state opens its models with keys and values in f16
qprefill() {
	command qprefill --kv f16 "$@"
}
qdecode() {
	command qdecode --kv f16 "$@"
}

# same STATE NAME: both read the same
same() {
	rm -rf got want
	mkdir want
	"$B/tests/unit/state" -d "$QWEN_MODEL" "$1" want
	reader got "$1"
	diff -r got want >diff
	ok $? "$2: $(ls want | wc -l) files, $(cat want/* | wc -c) bytes"
	cat diff >&2
}

DEMO=$TOP/demo/demo.gguf
for name in $(ls "$TOP/tests/golden/models") demo; do
	case $name in
	demo) MODEL=$DEMO ;;
	*) model "$name" ;;
	esac
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	v=$(gguf-inspect --get n_vocab)
	v=$((v < 500 ? v : 500))
	ids 333 9 $v >ids
	qprefill --checkpoint-every 64 --checkpoint-at 5,100 -o s.cbor \
	    <ids >/dev/null
	same s.cbor "$name"
	qstate pack --no-compress -o map.cbor s.cbor
	same map.cbor "$name, mapped"
	qstate slice -n 100 -o cut.cbor s.cbor
	same cut.cbor "$name, cut"
	# from a store: a chain of parts, each written by another command
	rm -rf store
	qprefill --store store --checkpoint-every 64 -o s.cbor <ids >/dev/null
	{ head -n 200 ids; ids 50 10 $v; } >two
	qprefill --store store -o two.cbor <two >/dev/null
	{ cat two; ids 7 11 $v; } >three
	qprefill --store store -o three.cbor <three >/dev/null
	"$python" - store/v1/* <<-'EOF' >chain
	import os, sys
	d, kv, cp = sys.argv[1], {}, {}
	for f in os.listdir(d):
	    a = f.split(".")
	    if a[-1] == "kv":
	        kv[a[0]] = a[1], f
	    else:
	        cp[a[0]] = f
	at = [k for k in kv if k.endswith("-257")][0]
	chain = [cp[at]] if at in cp else []
	while not at.endswith("-0"):
	    at, f = kv[at]
	    chain.append(f)
	print("\n".join(d + "/" + f for f in reversed(chain)))
	EOF
	rm -rf got want
	mkdir want
	"$B/tests/unit/state" -d "$QWEN_MODEL" three.cbor want
	# shellcheck disable=SC2046
	reader got $(cat chain)
	# of checkpoints, a chain has those that were asked for
	rm -f got/about want/about
	for f in $(cd want && ls -d delta.* conv.* logits.* 2>/dev/null); do
		[ "${f##*.}" = 257 ] || rm -f "want/$f" "got/$f"
	done
	diff -r got want >diff
	ok $? "$name: $(wc -l <chain) files of a store are its state"
	cat diff >&2
	[ $name = demo ] || rm -f "$MODEL"
done

# what a run leaves behind
printf 'Gr\303\274\303\237 Gott' | qtok | qdecode -n 200 --temp 3 --seed 5 \
    --ignore-eos --save-every 0 -o run.cbor >/dev/null
same run.cbor "a run"
is "$(cut -d ' ' -f 1 want/about | xargs)" \
    "n_tokens generated sampler pending run" "with all that is told of it"
# more than a piece of each object
ids 3000 12 $v | qprefill -o large.cbor >/dev/null
same large.cbor "3,000 tokens"
qstate show -v large.cbor | grep -c '^block' >blocks
[ "$(cat blocks)" -gt 40 ]
ok $? "in $(cat blocks) blocks"

# what is damaged is found out
size=$(wc -c <run.cbor)
for at in $(ids 40 "$SEED" "$size"); do
	cp run.cbor bad.cbor
	b=$(od -An -tu1 -j "$at" -N 1 run.cbor)
	# shellcheck disable=SC2059
	printf "\\$(printf %o $((b ^ 1)))" |
	    dd of=bad.cbor bs=1 seek="$at" conv=notrunc 2>/dev/null
	$python "$TOP/tests/cli/state_reader.py" bad bad.cbor >/dev/null 2>&1 &&
	    echo "$at"
done >accepted
is "$(cat accepted)" "" "a bit flipped: refused"

# the programs of the page itself
. "$TOP/tests/cli/page.sh"
if command -v mandoc >/dev/null 2>&1; then
	page "$TOP/man/qwen-state.5" | section EXAMPLES |
	    awk '/^ *import / { n++ } /^ *$/ { on = 0 } /^ *import / { on = 1 }
	    on { print >(n ".raw") }'
	for f in 1 2; do
		sed 's/^ \{11\}//' $f.raw >$f.py
		$python $f.py large.cbor >out 2>err
		is "$? $(wc -l <out)" "0 $(($(cat blocks) - 2 * (f - 1)))" \
		    "program $f of the page"
		tail -n 3 err >&2
	done
fi
done_testing
