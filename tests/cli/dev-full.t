#!/bin/sh
# A full disk is an error: one line, exit 1.
. "$TOP/tests/cli/tap.sh"
if [ ! -c /dev/full ]; then
	skip "a full device" "no /dev/full"
	done_testing
fi
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 | qprefill -o s.cbor >/dev/null

full() {
	name=$1
	shift
	"$@" >/dev/full 2>err
	is "$?, $(wc -l <err) line" "1, 1 line" "$name: $(head -n 1 err)"
}
full "qprefill, a state" sh -c 'echo 1 | qprefill'
full "qprefill, a ready record" sh -c 'echo 1 | qprefill -o t.cbor'
qdecode -s t.cbor -n 1 </dev/null >/dev/null 2>err
ok $? "the state that it told of is there, and whole"
full "qprefill, logits" sh -c 'echo 1 | qprefill --logits=all'
full "qprefill --help" qprefill --help
full "qprefill --version" qprefill --version
full "qdecode" qdecode -s s.cbor -n 3 </dev/null
full "qdecode, text" qdecode -s s.cbor -n 3 -f text </dev/null
full "qdecode, logits" qdecode --logits -s s.cbor </dev/null
full "qdecode -n 0" qdecode -s s.cbor -n 0 </dev/null
full "qdecode --help" qdecode --help
qdecode -s s.cbor -n 3 -o u.cbor </dev/null >/dev/full 2>err
[ ! -e u.cbor ] && [ ! -e .u.cbor.qpipe-tmp ]
ok $? "tokens that nobody got leave no state"
qdecode -s s.cbor -n 3 </dev/null >&- 2>err
is "$?, $(wc -l <err) line" "1, 1 line" "stdout closed: $(head -n 1 err)"

# room for all but one of the writes: nothing follows what is missing
traced() {
	env ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" strace -qq -o log -P "$PWD/got" \
	    -e inject=write:error=ENOSPC:when=2 "$@"
}
seq 4000 | sed 's/.*/100/' | qprefill -o long.cbor >/dev/null
while read -r line; do
	if ! traced true >got 2>/dev/null; then
		skip "$line" "no strace"
		continue
	fi
	$line >want
	traced $line >got 2>err
	is "$?, $(wc -l <err) line" "1, 1 line" "$line: $(head -n 1 err)"
	n=$(wc -c <got)
	[ "$n" -gt 0 ] && [ "$n" -lt "$(wc -c <want)" ] && head -c "$n" want | cmp - got
	ok $? "of which the beginning is there"
done <<'EOF'
gguf-inspect
gguf-inspect --json
gguf-inspect --graph --dot
gguf-inspect --values output.weight
qstate show --tokens long.cbor
EOF
done_testing
