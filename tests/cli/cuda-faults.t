#!/bin/sh
# The tests of tests/cuda find faults in kernels: sums in another order, missing
# barriers, edges that are one off, contraction.  Each fault is a small change of
# the text of a kernel, which the emulated card then runs.  QPIPE_LONG=y tries all.
. "$TOP/tests/cli/tap.sh"
objects=$B/tests/cuda/lib/engine/cuda/kernel
if [ ! -e "$B/tests/cuda/libcuda.so.1" ]; then
	skip "faults in kernels" "there is no emulated card for this processor"
	done_testing
fi
case $(uname -m) in
x86_64) isa="-mavx2 -mfma -mf16c" ;;
*) isa= ;;
esac
export LD_LIBRARY_PATH=$PWD

# build MODULE...: libcuda.so.1 with these modules from the folder engine/
build() {
	cp "$objects"/*.o .
	for module; do
		${CC:-cc} -std=gnu11 -O1 -fPIC -ffp-contract=off $isa \
		    -D_DEFAULT_SOURCE -I. -I"$TOP/lib" -c -o "$module.o" \
		    "engine/cuda/kernel/$module.c" 2>cc.err || return 1
	done
	${CC:-cc} -shared -o libcuda.so.1 ./*.o "$B/tests/cuda/emu.o" \
	    "$B/tests/cuda/fake.o" -lm -ldl 2>>cc.err
}

fresh() {
	rm -rf engine
	mkdir -p engine/cuda
	cp -r "$TOP/lib/engine/cuda/kernel" engine/cuda
}

# passes TEST [ARGUMENT]
passes() {
	test=$1; shift
	timeout 200 "$B/tests/cuda/$test" "$@" >out 2>&1 && ! grep -q '^not ok' out
}

# fault WHAT FILE SED MODULES TEST [ARGUMENT]: after the change of FILE, of which
# MODULES are compiled, TEST fails.  Text that no longer occurs is a failure here.
fault() {
	what="$1: $2" file=engine/cuda/kernel/$1 change=$3 modules=$4
	shift 4
	fresh
	sed -z "$change" "$TOP/lib/$file" >"$file"
	if cmp -s "$TOP/lib/$file" "$file"; then
		ok 1 "$what: no text of the file matches '$change' any more"
		return
	fi
	if ! build $modules; then
		cat cc.err >&2
		ok 1 "$what: it does not compile"
		return
	fi
	! passes "$@"
	ok $? "$what"
}

# -- without a fault, built in the same way
fresh
build norm experts
passes norm
ok $? "kernels without a fault"

# -- sums in another order
fault norm_row.h "the tree of a sum of squares is turned" \
    's/i = 8; i > 0; i \/= 2/i = 1; i < 16; i *= 2/' norm norm
fault product.c "neighbouring partial sums are added first" \
    's/i = 8; i > 0; i \/= 2/i = 1; i < 16; i *= 2/' product product F32
fault multiply.h "the minimum is added before the sum" \
    's/v\[i\]\[0\], v\[i\]\[1\], acc);\n\t*if (has_min)\n\t*acc = rn_fma(v\[i\]\[2\], v\[i\]\[3\]/v[i][2], v[i][3], acc);\nif (has_min)\nacc = rn_fma(v[i][0], v[i][1]/' \
    multiply_q4_k product Q4_K
fault lora.c "the columns of B are added backwards" \
    's/low\[k\], b\[(u64)k/low[a.rank - 1 - k], b[(u64)(a.rank - 1 - k)/' lora lora
if [ -n "$QPIPE_LONG" ]; then
fault experts.c "the shared expert is added first" \
    's/f32 sum = 0.0f/f32 sum = a.has_shared ? share[a.used] * a.y[((u64)a.n * a.used + row) * a.y_stride + i] : 0.0f/; s/if (a.has_shared)/if (0)/' \
    experts moe
fault route_row.h "weights of experts are added backwards" \
    's/sum = sum + r->weight\[i\]/sum = sum + r->weight[a->used - 1 - i]/' "route one" moe
fault attend_few.c "values before the sum of weights of a chunk" \
    's/i \* 16 + tid() % 16) \* NQ/(15 - i) * 16 + tid() % 16) * NQ/' \
    attend_few attention
fault delta_rule.c "the state decays after the token" \
    's/u, s\[i + j\]);/u \* 1.0000001f, s[i + j]);/' delta_rule deltanet
fault deltanet_row.h "the last tap comes first" \
    's/a->conv\[j \* n_channel(a) + c\], in->tap\[j\]\[c\]/a->conv[(3 - j) * n_channel(a) + c], in->tap[3 - j][c]/' \
    "deltanet delta_rule" deltanet
fi

# -- barriers and waits
fault norm.c "a row's factor is read without a barrier" \
    's/x, factor);\n\tbar();/x, factor);/' norm norm
fault multiply.h "copies are not waited for" \
    's/copy_wait(1);\n\t\tbar();/bar();/' multiply_q4_k product Q4_K
if [ -n "$QPIPE_LONG" ]; then
fault multiply.h "a stage is overwritten while others read it" \
    's/&o, 0);\n\t\tbar();/\&o, 0);/' multiply_q4_k product Q4_K
fault multiply.h "parts are added before all are there" \
    's/&o, 1);\n\t\tbar();/\&o, 1);/' multiply_q4_k product Q4_K
fault product.c "a part is read before it is there" \
    's/copy_wait(FLOAT_STAGES - 2);\n\t\tbar();/bar();/' product product F32
fault product.c "a part is overwritten while others read it" \
    's/copy_wait(FLOAT_STAGES - 2);\n\t\tbar();/copy_wait(FLOAT_STAGES - 2);/' \
    product product F32
fault one.h "groups are added without a barrier" \
    's/u32 i;\n\n\twarp_bar();/u32 i;\n/' one product Q4_K
fault one.h "activations are read without a barrier" \
    's/256 + i % 16 \* 4);\n\tbar();/256 + i % 16 * 4);/' one product Q4_K
fault route_row.h "weights are read without a barrier" \
    's/warp_bar();\n\tfor (i = 0; i < a->used && !a/for (i = 0; i < a->used \&\& !a/' \
    "route one" moe
fault route.c "counts are read without a barrier" \
    's/expert_of(a, here, i)\], 1);\n\tbar();/expert_of(a, here, i)], 1);/' route moe
fault attend_few.c "a piece is overwritten while others read it" \
    's/copy_wait(SLOTS - 2);\n\tbar();/copy_wait(SLOTS - 2);/' attend_few attention
fault attend_few.c "a piece is read before it is there" \
    's/copy_wait(SLOTS - 2);/copy_wait(SLOTS - 1);/' attend_few attention
fault attend_merge.c "factors are read without a barrier" \
    's/a.d, some);\n\t\tbar();/a.d, some);/' attend_merge attention
fault attend_merge.c "numbers are rotated without a barrier" \
    's/w = x\[tid() | h\];\n\t\tbar();/w = x[tid() | h];/' attend_merge attention
fault delta_rule.c "a group of tokens is not waited for" \
    's/copy_wait(0);\n\t\tbar();/bar();/' delta_rule deltanet
fault delta_rule.c "tokens are read without a barrier" \
    's/get_state(&p, s);\n\tbar();/get_state(\&p, s);/' delta_rule deltanet
fi

# -- edges
fault norm_row.h "a row is one number too long" 's/at < a->n ? x\[at\]/at <= a->n ? x[at]/' \
    norm norm
fault route_row.h "of equal logits, the last is chosen" 's/key\[j\] > best/key[j] >= best/g' \
    "route one" moe
fault rows.c "rows without deepstack vectors add some" 's/if (deep == 0)/if (0)/' \
    rows spans
if [ -n "$QPIPE_LONG" ]; then
fault group.h "a is rounded to the nearest" 's/c = up_int(/c = rn_int(/' norm \
    product Q4_K
fault columns.h "the last pair of a matrix is lost" \
    's/k - o \* n < n ? k - o \* n : n;/k - o * n < n ? k - o * n - (k > 1) : n;/' \
    multiply_q4_k product Q4_K
fault columns.h "a tile of one more" 's/(k + n - 1) >> bits/k >> bits/' \
    "multiply_q4_k product" product Q4_K
fault one.h "the last row of weights is lost" 's/r >= a->n_out)/r + 1 >= a->n_out)/' \
    one product Q4_K
fault multiply.h "a row beyond the matrix is written" \
    's/if (r >= a->n_out || column >= c.n/if (r > a->n_out || column >= c.n/' \
    multiply_q4_k product Q4_K
fault multiply.h "of the last group, a column too few" 's/k + i >= n)/k + i + 1 >= n)/' \
    multiply_q4_k product Q4_K
fault product.c "a row one number too short" 's/k + j < a.n_in/k + j + 1 < a.n_in/' \
    product product F32
fault attend.c "a row attends to one key too many" 's/slot + 1/slot + 2/' \
    attend attention
fault attend_few.c "a row attends to one key too few" 's/slot + 1/slot/' \
    attend_few attention
fault attend_tile.c "a row of a tile attends to one key too many" 's/slot + 1/slot + 2/' \
    attend_tile attention
fault attend_integers.c "a row attends to one key too many" 's/slot + 1/slot + 2/' \
    attend_integers attention
fault attend_merge.c "the last chunk is lost" 's/a.pass.row\[t\].slot \/ DEV_CHUNK + 1/(a.pass.row[t].slot + 255) \/ DEV_CHUNK/g' \
    attend_merge attention
fault delta_rule.c "drafts change the state" 's/t + 1 == p.n_sure)/t + 1 == p.n)/' \
    delta_rule deltanet
fault deltanet.c "drafts change the state" 's/t == (s32)p.n_sure)/t == (s32)p.n)/' \
    deltanet deltanet
fault delta_end.h "inputs are those of the token before" 's/n_sure - 1;/n_sure - 2;/' \
    deltanet deltanet
fault product.h "a nibble of 8 or more has the value of another" \
    's/(n >> 1 & 0x4444) | 0x3210/(n >> 2 \& 0x4444) | 0x3210/' \
    multiply_q4 product IQ4_NL
fault one.h "scales of IQ4_XS have no sign" 's/(s8)one_byte(scale, j)/one_byte(scale, j)/' \
    one product IQ4_XS
fault lora.c "a pair has the matrix before its own" 's/first\[middle\] <= i/first[middle] < i/' \
    lora lora
fi

# -- contraction, and functions
fault product.h "scale and bias are contracted" \
    's/y = y \* a->scale\[matrix\];\n\tif (a->bias/;\n\tif (a->bias/; s/y = y + a->bias\[r\];/y = a->scale != (void *)0 ? rn_fma(y, a->scale[matrix], a->bias[r]) : y + a->bias[r]; else if (a->scale != (void *)0) y = y * a->scale[matrix];/' \
    multiply_q4_k product Q4_K
if [ -n "$QPIPE_LONG" ]; then
fault mma.h "factor times sum is rounded" \
    's/rn_fma(v\[0\], v\[1\], o->acc\[m\]\[n\]\[e\])/v[0] * v[1] + o->acc[m][n][e]/' \
    multiply_q4_k product Q4_K
fault norm_row.h "a mean is contracted with eps" \
    's/rn_sqrt(sum \/ (f32)a->n + a->eps)/rn_sqrt(rn_fma(sum, 1.0f \/ (f32)a->n, a->eps))/' \
    norm norm
fault math.h "exp adds 1 too early" \
    's/p = rn_fma(p, r \* r, r) + 1.0f/p = rn_fma(p, r * r, r + 1.0f)/' \
    "norm route" moe
fault delta_rule.c "decay is contracted" \
    's/rn_fma(k\[j\], u, s\[i + j\]) \* g;/rn_fma(k[j], u * g, s[i + j] * g);/' \
    delta_rule deltanet
fault attend_join.h "chunks are contracted" 's/x \* e\[1\]);/x * e[1] * 1.0f + 0.0f);/; s/rn_fma(\*o, e\[0\], x \* e\[1\] \* 1.0f + 0.0f)/rn_fma(x, e[1], *o * e[0])/' \
    attend_merge attention
fi
done_testing
