#!/bin/sh
# QWEN_CPU limits the instruction set, and changes no bit.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
seq 1 40 >ids
qprefill <ids >want.cbor
for level in scalar avx2 avxvnni avx512 vbmi bf16 amx neon dotprod i8mm ''; do
	QWEN_CPU=$level qprefill <ids >got.cbor 2>err
	cmp -s got.cbor want.cbor
	ok $? "QWEN_CPU=$level gives the same state"
	[ "$(wc -l <err)" -le 1 ]
	ok $? "with one warning at most"
done

# as many levels as sampling has passes for
chain='--temp 1.2 --typical 0.99 --top-p 0.98 --min-p 0.001 --seed 5 -n 30'
qdecode -s want.cbor $chain --ignore-eos -f text </dev/null >want
qdecode -s want.cbor --logits --ignore-eos <want >rows
for level in scalar avx2 avx512 neon; do
	QWEN_CPU=$level qdecode -s want.cbor $chain --ignore-eos -f text \
	    </dev/null >got 2>err
	cmp -s got want && [ "$(wc -l <err)" -le 1 ]
	ok $? "QWEN_CPU=$level draws the same tokens"
	QWEN_CPU=$level qsample $chain --ignore-eos -f text <rows >got 2>err
	cmp -s got want && [ "$(wc -l <got)" = 30 ] && [ "$(wc -l <err)" -le 1 ]
	ok $? "and so does qsample"
done
for level in AMX sse vnni AVX2 avx2,avx512 ' '; do
	for tool in "qprefill $PWD/ids" "qsample $PWD/rows"; do
		QWEN_CPU=$level "${tool%% *}" <"${tool#* }" >out 2>err
		is "$? $(wc -c <out) $(grep -c 'give scalar.*; see qwen(7)$' err)" "2 0 1" \
		    "${tool%% *}, QWEN_CPU=$level: $(cat err)"
	done
done
for o in --machine --sampling "-m $MODEL"; do
	# shellcheck disable=SC2086
	QWEN_CPU=vnni qbench $o >out 2>err
	is "$? $(wc -c <out) $(wc -l <err)" "2 0 1" "qbench ${o%% *}: no head of a table either"
done

# AMX is for many tokens, where it is there
for v in 1 4; do
	for level in '' avx512 amx; do
		want=0
		case "$level$(grep -c -m 1 -w amx_int8 /proc/cpuinfo)" in
		1 | amx1) want=1 ;;
		esac
		QWEN_CPU=$level qprefill --numerics $v -v <ids 2>err >/dev/null
		is "$(grep -c -m 1 'kernel gemm.* amx$' err)" $want \
		    "version $v, QWEN_CPU=$level: AMX is taken for many tokens, if it may"
	done
done
model qwen3
QWEN_MODEL=$MODEL
# VDPBF16PS for version 3, where it adds in the order that is wanted, as on all
# processors known so far
for level in vbmi bf16; do
	want=0
	case "$level$(grep -c -m 1 -w avx512_bf16 /proc/cpuinfo)" in
	bf161) want=1 ;;
	esac
	QWEN_CPU=$level qprefill --numerics 3 -v <ids 2>err >/dev/null
	is "$(grep -c -m 1 'kernel matmul.* avx512bf16$' err)" $want \
	    "QWEN_CPU=$level: pairs of bf16 are multiplied at once, if they may"
done
QWEN_CPU=scalar qprefill -v <ids 2>&1 >/dev/null | grep -q avx
[ $? = 1 ]
ok $? "-v names no variant above the limit"
done_testing
