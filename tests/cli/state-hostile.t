#!/bin/sh
# Damaged, truncated, forged and foreign states: one line, exit 1, at once, no
# output file; from a file and in a stream.
. "$TOP/tests/cli/tap.sh"
model qwen3
OTHER=$MODEL
model qwen35-tied
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 1 2 3 4 5 6 7 | qprefill -o s.cbor >/dev/null
echo 1 2 3 | qprefill -m "$OTHER" -o other.cbor >/dev/null

# no_state FILE NAME: refused however it comes
no_state() {
	refused 1 "$2" timeout 100 qdecode -s "$1" -n 1 -o new.cbor </dev/null
	refused 1 "$2, in-band" timeout 100 qdecode -n 1 -o new.cbor <"$1"
	[ ! -e new.cbor ] && [ ! -e .new.cbor.qpipe-tmp ]
	ok $? "$2 leaves no file"
}

no_state other.cbor "a state of another model"
grep -q 'made with another model' err
ok $? "the message names both sides"
: >empty
refused 1 "an empty file" qdecode -s empty -n 1 </dev/null
refused 1 "a folder" qdecode -s . -n 1 </dev/null
refused 1 "a model as the state" qdecode -s "$MODEL" -n 1 </dev/null
refused 1 "noise" qdecode -s /dev/urandom -n 1 </dev/null
refused 1 "zeros without end" timeout 100 qdecode -s /dev/zero -n 1 </dev/null

size=$(wc -c <s.cbor)
for part in 1 50 1000 $((size / 2)) $((size - 1)); do
	head -c "$part" s.cbor >cut.cbor
	no_state cut.cbor "cut after $part bytes"
done
# flip AT: the byte there, changed by one bit
flip() {
	cp s.cbor bad.cbor
	b=$(od -An -tu1 -j "$1" -N 1 s.cbor)
	# shellcheck disable=SC2059
	printf "\\$(printf %o $((b ^ 16)))" |
	    dd of=bad.cbor bs=1 seek="$1" conv=notrunc 2>/dev/null
}
for at in 3 60 200 $((size / 3)) $((size / 2)) $((size - 30)) $((size - 1)); do
	flip "$at"
	no_state bad.cbor "a bit flipped in byte $at of $size"
done
cat s.cbor s.cbor >two.cbor
refused 1 "two states in one file" qdecode -s two.cbor -n 1 </dev/null
(cat s.cbor; echo) >more.cbor
refused 1 "a byte more" qdecode -s more.cbor -n 1 </dev/null

# --- all checksums right, one thing wrong
"$B/tests/unit/state_bad" -w "$MODEL"
ok $? "forged states are written"
qprefill -s good.state -o new.cbor </dev/null >/dev/null
ok $? "the one without a fault is taken"
rm -f new.cbor good.state
n=0
for f in *.state; do
	name=${f%.state}
	case $name in
	# an in-band stream that is not of state is not one that is forged
	header_*)
		refused 1 "$name" timeout 100 qprefill -s "$f" -o new.cbor \
		    </dev/null ;;
	*)
		refused 1 "$name" timeout 100 qprefill -s "$f" -o new.cbor \
		    </dev/null
		timeout 100 qprefill -o new.cbor <"$f" >out 2>err
		is "$?$(wc -l <err)" 11 "$name, in-band" ;;
	esac
	[ ! -e new.cbor ] && [ ! -e .new.cbor.qpipe-tmp ]
	ok $? "$name leaves no file"
	n=$((n + 1))
done
refused 1 "a position in the index alone" qstate pack -o new.cbor index_at_kv.state
[ ! -e new.cbor ]
ok $? "qstate pack leaves nothing out for it"
[ "$n" -ge 80 ]
ok $? "$n forged states"
done_testing
