#!/bin/sh
# arm64: its kernels and whole models under qemu-user, bit by bit.
. "$TOP/tests/cli/tap.sh"
A=$B/arm64/tests
for qemu in qemu-aarch64-static qemu-aarch64; do
	command -v "$qemu" >/dev/null && break
	qemu=
done
why=
[ -n "$qemu" ] || why="no qemu-aarch64: install qemu-user-static"
[ -x "$A/golden/bits" ] || why="not cross-compiled: make check-arm64; \
needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross"
[ "$(uname -m)" != aarch64 ] || why="this is one: the other tests tell"
[ -z "$QPIPE_SAN" ] || why="no sanitizers there"
if [ -n "$why" ]; then
	skip "arm64" "$why"
	done_testing
fi

GOLDEN_DIR=tests/golden/models
TMPDIR=$PWD
export GOLDEN_DIR TMPDIR
here=$PWD

# tests CPU COMMAND...: how many variants were left out, in $lacks
tests() {
	cpu=$1 lacks=0
	shift
	for t; do
		# their long forms would take hours here
		(cd "$TOP" && unset QPIPE_LONG && exec "$qemu" -cpu "$cpu" \
		    "$A"/$t) >"$here/out" 2>"$here/err"
		rc=$?
		n=$(grep -c '^ok ' out)
		lacks=$((lacks + $(grep -c 'SKIP this CPU' out)))
		[ $rc = 0 ] && grep -q "^1\.\.$n$" out
		ok $? "$t, $cpu: $n passed"
		grep '^not ok ' out >&2
		head -n 5 err >&2
	done
}

tests max "kernel/matmul quick" kernel/edges "kernel/rows quick" kernel/sift \
    kernel/probe "golden/bits i8mm"
is $lacks 0 "max has all instruction sets"
tests neoverse-n1 kernel/probe
tests cortex-a72 kernel/probe "kernel/rows quick"
[ $lacks != 0 ]
ok $? "cortex-a72 has neither SMMLA nor SDOT"
if [ -n "$QPIPE_LONG" ]; then
	tests max kernel/rows golden/bits golden/same_bits golden/logits golden/odd_models \
	    golden/ref unit/gguf unit/model_bad unit/nonfinite unit/pool \
	    unit/quant unit/quantize unit/sample unit/sample_methods unit/session
	tests neoverse-n1 kernel/rows kernel/matmul
	[ $lacks != 0 ]
	ok $? "neoverse-n1 has no SMMLA"
	tests cortex-a72 kernel/matmul kernel/edges golden/bits
fi
done_testing
