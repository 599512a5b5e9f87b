#!/bin/sh
# gguf-convert in make check-long: models of random sizes and weights, made by
# transformers, against the logits of transformers; if QPIPE_LLAMA_CPP names a
# source folder of llama.cpp, also against the bytes that its converter writes;
# and adapters made by peft.  QPIPE_PYTHON: a Python with torch, transformers
# and peft.
. "$TOP/tests/cli/tap.sh"
if [ -z "$QPIPE_LONG" ]; then
	skip "checkpoints of transformers" "make check-long has them"
	done_testing
fi
py=${QPIPE_PYTHON:-python3}
if ! "$py" -c 'import torch, transformers, safetensors' 2>/dev/null; then
	skip "checkpoints of transformers" "no torch or no transformers"
	done_testing
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_VERBOSITY=error
seed=${SEED:-$(date +%s)}
echo "# SEED=$seed"
seq 1 7 260 | tr '\n' ' ' >ids
run() {
	"$py" "$TOP/tests/cli/gguf-convert.py" "$@" >log 2>&1 ||
	    { sed 's/^/# /' log | tail -n 5; false; }
}
one() { # ARCH TYPE
	rm -rf d
	run make "$1" d "$seed" "$2" || { ok 1 "$1 $2: made"; return; }
	gguf-convert -o m.gguf d
	ok $? "$1 $2: converted"
	case $1,$2 in
	*_rank,*|*_score*,*)
		printf 'what is it?\tIt is the first part of the file.\nyes\tno\nthe\t\n' >pairs
		jq -R -c 'split("\t") | { query: .[0], document: .[1] }' pairs |
		    qrerank -m m.gguf --kv f32 --requests | jq .score >got &&
		    run scores d pairs want && paste want got |
		    awk -F '\t' '{ d = $3 - $4; if (d > 1e-4 || d < -1e-4) bad++ } END { exit !(NR == 3 && !bad) }'
		ok $? "$1 $2: scores of its class" ;;
	*,float32)
		run logits d ids want &&
		    qprefill -q -m m.gguf --logits all -f raw -o /dev/null <ids >got &&
		    run agree got want 1e-4
		ok $? "$1: logits of its class, within 1e-4"
		sed 's/^/# /' log ;;
	esac
	# it has no MXFP4 for these, takes the experts of transformers 5 for
	# those of 4, and knows no classifiers
	[ -n "$QPIPE_LLAMA_CPP" ] && [ "$2" != mxfp4 ] &&
	    [ "$1" != qwen3_vl_moe ] && [ "${1%2}" != qwen3_score ] || return
	case $2 in
	float32) t=f32 ;;
	float16) t=f16 ;;
	*) t=bf16 ;;
	esac
	for out in $t q8_0; do
		[ $out = q8_0 ] && case $2 in nvfp4) continue ;; esac
		gguf-convert --type $out -o m.gguf d
		# it wants all experts in one format; NVFP4 needs rows of 64
		if [ "$2" = nvfp4 ] && ! run peer "$QPIPE_LLAMA_CPP/convert_hf_to_gguf.py" d p.gguf --outtype $out &&
		    grep -q "Unprocessed experts" log; then
			skip "$1 $2: as llama.cpp's converter writes it" "it makes none of it"
			continue
		fi
		run peer "$QPIPE_LLAMA_CPP/convert_hf_to_gguf.py" d p.gguf --outtype $out &&
		    run same m.gguf p.gguf
		ok $? "$1 $2: as llama.cpp's converter writes it, in $out"
	done
}
for arch in qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next qwen3_5 qwen3_5_moe qwen3_vl qwen3_vl_moe qwen3_rank qwen3_score qwen3_score2; do
	for type in float32 bfloat16 float16; do
		one $arch $type
	done
done
# image encoders
image() { # TYPE [DEEP...]
	rm -rf d
	PYTHONDONTWRITEBYTECODE=1 "$py" "$TOP/tests/cli/mmproj_folder.py" make d "$@"
	for out in f32 f16 bf16 q8_0; do
		gguf-convert -q --mmproj --type $out -o m.gguf d &&
		    run peer "$QPIPE_LLAMA_CPP/convert_hf_to_gguf.py" d p.gguf --mmproj --no-lazy --outtype $out &&
		    cmp m.gguf p.gguf
		ok $? "an image encoder in $*: as llama.cpp's converter writes it, in $out"
	done
}
for type in F32 F16 BF16; do
	[ -n "$QPIPE_LLAMA_CPP" ] || break
	image $type 0 1
	image $type
done
# adapters that peft makes, against its logits, and the bytes of that script
adapter() { # ARCH [rslora | experts | names]
	rm -rf d l
	run make "$1" d "$seed" float32 && run adapt d l "$seed" ${2:+"$2"} ||
	    { ok 1 "$*: made"; return; }
	gguf-convert -o m.gguf d && gguf-convert --base d -o l.gguf l
	ok $? "$*: an adapter converted"
	run logits d ids want l &&
	    qprefill -q -m m.gguf --lora l.gguf --logits all -f raw -o /dev/null <ids >got &&
	    run agree got want 1e-4
	ok $? "$*: logits of peft, within 1e-4"
	sed 's/^/# /' log
	# it refuses q, k, v and z in one, and takes no root of ranks
	[ -n "$QPIPE_LLAMA_CPP" ] && [ "$1" != qwen3_next ] && [ -z "$2" ] || return
	"$py" "$QPIPE_LLAMA_CPP/convert_lora_to_gguf.py" --base d \
	    --outfile p.gguf l >log 2>&1 && run same l.gguf p.gguf
	ok $? "$*: an adapter as llama.cpp writes it"
}
# experts in one parameter, and as they would be in several
experts() { # ARCH
	adapter "$1" experts
	run apart d l apart && gguf-convert -o l.gguf --base d apart &&
	    qprefill -q -m m.gguf --lora l.gguf --logits all -f raw -o /dev/null <ids >got &&
	    run agree got want 1e-4
	ok $? "$1: the same with a pair for each expert"
	run older d l older && gguf-convert -o o.gguf --base d older &&
	    qprefill -q -m m.gguf --lora o.gguf --logits all -f raw -o /dev/null <ids |
	    cmp -s - got
	ok $? "$1: the same as peft wrote it once"
	rm -rf apart older
}
if "$py" -c 'import peft' 2>/dev/null; then
	for arch in qwen2 qwen2_moe qwen3 qwen3_moe qwen3_next qwen3_5 qwen3_5_moe; do
		adapter $arch
	done
	adapter qwen3 rslora
	for arch in qwen2_moe qwen3_moe qwen3_next qwen3_5_moe; do
		experts $arch
	done
	adapter qwen3_moe names
	adapter qwen3_5_moe names
else
	skip "adapters" "no peft"
fi
for arch in qwen3 qwen3_moe qwen3_5 qwen3_5_moe; do
	for type in fp8 nvfp4 mxfp4; do
		one $arch $type
	done
done
done_testing
