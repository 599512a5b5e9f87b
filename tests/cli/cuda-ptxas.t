#!/bin/sh
# NVIDIA's assembler takes the PTX of all kernels, for cards of three generations:
# few registers, so that enough threads have room, and no spills.  In make
# check-long; ptxas is in PATH, in $CUDA_HOME, or installed from PyPI.
. "$TOP/tests/cli/tap.sh"
what="registers of kernels"
if [ -z "$QPIPE_LONG" ]; then
	skip "$what" "in make check-long"
	done_testing
fi
set -- "$B"/ptx/*.ptx
if [ ! -e "$1" ]; then
	skip "$what" "built without clang"
	done_testing
fi
venv=$B/ptxas
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
ptxas=$(command -v ptxas || find "$venv" -type f -name ptxas 2>/dev/null | head -n 1)
if [ -z "$ptxas" ]; then
	(rm -rf "$venv" && python3 -m venv "$venv" &&
	    timeout 300 "$venv/bin/pip" install -q --no-deps \
	    --disable-pip-version-check nvidia-cuda-nvcc) >pip.out 2>&1
	ptxas=$(find "$venv" -type f -name ptxas 2>/dev/null | head -n 1)
fi
if [ -z "$ptxas" ]; then
	skip "$what" "no ptxas: $(tail -n 1 pip.out)"
	done_testing
fi

# Kernels, the most registers, the most bytes of registers that are spilled.  A
# kernel has the limits of the first line whose pattern it matches.
cat >limits <<'EOF'
many64_super	255	32
many64_block	255	32
many64_q2_k	255	32
many64_*	168	32
many*		168	0
few_*		168	0
one		80	96
multiply_*	184	0
delta_rule	255	0
delta_step	232	0
attend_tile_*	144	0
attend_few_*	144	0
attend_q*	112	0
*		64	0
EOF

# used KERNEL REGISTERS SPILLS: prints a line if one is above its limit
used() {
	while read -r pattern registers spills; do
		case $1 in
		$pattern)
			[ "$2" -le "$registers" ] && [ "$3" -le "$spills" ] ||
			    echo "$1: $2 registers, $3 bytes of spills;" \
			    "$registers, $spills are the most"
			return
			;;
		esac
	done <limits
}

# The tiles of layouts of their own have this many at most: multiply.h.
most=$(sed -n 's/.*MANY_REGISTERS = \([0-9]*\).*/\1/p' \
    "$TOP/lib/engine/cuda/kernel/multiply.h")
is "$(echo "$most" | grep -c '^[0-9][0-9]*$')" 1 "registers of large tiles: $most"
for arch in sm_80 sm_90 sm_120; do
	: >found
	for ptx; do
		case $ptx in
		*/multiply_super.ptx | */multiply_block.ptx | \
		    */multiply_q2_k.ptx) limit= ;;
		*/multiply_*) limit=-maxrregcount=$most ;;
		*/one.ptx) limit=-maxrregcount=80 ;;	# ones.c
		*) limit= ;;
		esac
		# newer cards have the instructions of cuda/ptx.c
		case $arch in
		sm_80) cp "$ptx" text ;;
		*) sed 's/\.version 7.0/.version 7.8/; s/\.target sm_80/.target sm_90/
			s|//griddepcontrol|  griddepcontrol|' "$ptx" >text ;;
		esac
		"$ptxas" -v -arch=$arch $limit -o /dev/null text >said 2>&1 ||
		    { echo "$ptx: $(head -n 1 said)" >>wrong; }
		awk '/Compiling entry/ { split($0, part, "\047"); name = part[2] }
		    / spill stores,/ { spills = $5 }
		    / Used / { sub(/.* Used /, ""); print name, $1, spills }' \
		    said >>found
	done
	while read -r kernel registers spills; do
		used "$kernel" "$registers" "$spills"
	done <found >above
	is "$(cat above wrong 2>/dev/null)" "" "$arch: $(wc -l <found) kernels"
	[ "$(wc -l <found)" -gt 60 ]
	ok $? "all of them were assembled"
done

# -- the test itself can fail
is "$(used many64_q4_k 169 0; used norm_rows 64 4; used norm_rows 64 0 |
    wc -l)" "many64_q4_k: 169 registers, 0 bytes of spills; 168, 32 are the most
norm_rows: 64 registers, 4 bytes of spills; 64, 0 are the most
0" "numbers above the limits are found"
done_testing
