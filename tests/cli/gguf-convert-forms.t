#!/bin/sh
# gguf-convert: folders in the formats of other programs: quantised weights,
# models and adapters of MLX, adapters of vision models.  Unsupported formats
# are named.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/hub
if ! command -v python3 >/dev/null 2>&1; then
	skip "folders in other forms" "no python3"
	done_testing
fi
make() { # KIND FROM: the folder d
	rm -rf d d-plain
	PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/hub_forms.py" "$1" "$F/$2" d
}
named() { # WORDS WHAT COMMAND...
	words=$1
	shift
	refused 1 "$@"
	grep -q -e "$words" err
	ok $? "it says: $words"
}

# -- quantised weights: the method, and what to do
for m in gptq awq bitsandbytes hqq something-new; do
	make $m qwen3
	for tool in "gguf-convert -o no.gguf" "qprefill -m"; do
		named "d: weights quantised with $m (config.json) .*the original model" \
		    "$m, $tool" $tool d
	done
done
for m in mlx mlx-older; do
	make $m qwen3
	named "its scales and biases do not match 4 bits and groups of 32 (config.json)" "$m" gguf-convert -o no.gguf d
done
# an older folder, whose config.json names no method
while IFS='|' read -r m words; do
	make "$m" qwen3
	jq 'del(.quantization_config, .quantization)' d/config.json >c && mv c d/config.json
	named "$words" "$m, named by its tensors" gguf-convert -o no.gguf d
	named "$words" "$m, named by its tensors, as it lies" qprefill -m d
done <<'END'
gptq|d: weights quantised with gptq (tensor .*[.]g_idx) are not supported
awq|d: weights quantised with awq (tensor .*[.]qweight) are not supported
bitsandbytes|d: weights quantised with bitsandbytes (tensor .*[.]absmax) are not supported
mlx|d: weights quantised with MLX (tensor .*[.]scales), but config.json has no quantization
END
# codes of MLX: each weight is what scale * code + bias says
jq_config() {
	jq "$1" d/config.json >c && mv c d/config.json
}
same() { # A B NAME
	is "$(gguf-inspect --diff "$1" "$2" | awk '{ print $2, $3 }' | sort -u | xargs)" "meta general.name" "$3"
}
seq 1 9 190 | tr '\n' ' ' >ids
for how in "qwen3 4 32 F16" "qwen3 4 64 BF16" "qwen3 4 128 BF16" "qwen2 4 64 F16" "qwen2 4 128 F16" "qwen3 8 32 F16" "qwen3 2 32 BF16" "qwen3_5 4 32 F16" "qwen3_next 4 32 BF16" "qwen3_moe 4 32 BF16"; do
	# shellcheck disable=SC2086
	set -- $how
	make "mlx-$2-$3-$4" "$1"
	for type in f32 bf16 q8_0; do
		gguf-convert -q --no-mtp --type $type -o m.gguf d 2>err
		is "$? $(cat err)" "0 " "$how: to $type"
		gguf-convert -q --no-mtp --type $type -o want.gguf d-plain
		same m.gguf want.gguf "is what the numbers become"
	done
	gguf-convert -q --no-mtp -o m.gguf d 2>err
	is "$? $(cat err)" "0 " "$how: without a type"
	if [ "$2" != 4 ]; then
		is "$(gguf-inspect m.gguf | awk '$1 == "type" && $2 !~ /F32|F16/')" "" "none of it is quantised"
		continue
	fi
	n=$(gguf-inspect m.gguf | awk '$1 == "type" && $2 == "Q4_1" { print $3 }')
	is "$((${n:-0} > 1)) $(gguf-inspect m.gguf | awk '$1 == "tensor" && $2 ~ /(attn_q|attn_output|token_embd)[.]weight$/ && $3 != "Q4_1"')" \
	    "1 " "its matrices are Q4_1"
	gguf-convert -q --no-mtp --type f32 -o want.gguf d
	for t in $(gguf-inspect m.gguf | awk '$1 == "tensor" && $3 == "Q4_1" { print $2 }'); do
		gguf-inspect --values "$t" m.gguf >values
		gguf-inspect --values "$t" want.gguf | cmp -s - values || echo "$t"
	done >differ
	is "$(cat differ)" "" "to the last bit"
	qprefill -q -m m.gguf --logits last -f raw <ids >out 2>err
	is "$? $(cat err) $(wc -c <out | tr -d ' ' | sed 's/[1-9][0-9]*/n/')" "0  n" "and it computes"
done
is "$(gguf-inspect m.gguf | awk '$1 == "tensor" && $2 ~ /_exps|gate_inp/ { print substr($2, 7), $3 }' | sort -u | xargs)" \
    "ffn_down_exps.weight BF16 ffn_gate_exps.weight Q4_1 ffn_gate_inp.weight F32 ffn_up_exps.weight Q4_1" "experts of MLX, in one tensor"
make mlx-4-32-F16 qwen3
gguf-convert -q --type q8_0 -o m.gguf d
qprefill -q -m m.gguf --logits last -f raw <ids >want
qprefill -q -m d --quantize q8_0 --logits last -f raw <ids >got 2>err
is "$?" 0 "MLX, --quantize"
[ -s got ] && cmp -s got want
ok $? "is the converted file"
named '"gguf-convert d" to make a GGUF file' "MLX, as it lies" qprefill -m d
jq_config '.quantization.bits = 3'
named "by MLX with 3 bits; 2, 4 and 8 are supported" "MLX, 3 bits" gguf-convert -o no.gguf d
jq_config '.quantization.bits = 8'
named "do not match 8 bits and groups of 32" "MLX, other bits" gguf-convert -o no.gguf d
jq_config '.quantization["model.embed_tokens"] = {"group_size": 32, "bits": 4}'
named "layers.0.*do not match" "MLX, a matrix of its own" gguf-convert -o no.gguf d
jq_config '.quantization |= {"group_size": 32, "bits": 4, "mode": "mxfp4"} | .quantization_config = .quantization'
named "quantised with mlx (mxfp4) (config.json)" "MLX, another mode" gguf-convert -o no.gguf d
# a scale that F16 does not have
make mlx-4-32-BF16 qwen3
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/tests/cli python3 - <<'E'
from hub_forms import *
t = load("d/model.safetensors")
for k, v in ("q_proj", 1e-9), ("k_proj", 1e9):
	name = "model.layers.0.self_attn.%s.scales" % k
	dtype, shape, data = t[name]
	t[name] = (dtype, shape, as_bytes([v], dtype) + data[2:])
name = "model.layers.0.self_attn.k_proj.weight"
dtype, shape, data = t[name]
t[name] = (dtype, shape, bytes(16) + data[16:])
save("d/model.safetensors", t)
E
gguf-convert -q -o m.gguf d 2>err
is "$? $(cat err) $(gguf-inspect m.gguf | awk '$2 ~ /blk.0.attn_[qk].weight/ { print $2, $3 }' | sort | xargs)" \
    "0  blk.0.attn_k.weight Q4_1 blk.0.attn_q.weight BF16" \
    "one that Q4_1 has no scale for is as its scales are; one whose scale nothing uses is Q4_1"
make compressed-tensors qwen3
named "with compressed-tensors (pack-quantized) (config.json)" "compressed-tensors" gguf-convert -o no.gguf d
make modelopt qwen3
named "with modelopt (W4A16_AWQ) (config.json)" "another algorithm of modelopt" gguf-convert -o no.gguf d
make rotated qwen3
named "transform_config" "activations that are rotated" gguf-convert -o no.gguf d
gguf-convert -o want.gguf "$F/qwen3"
make left-over qwen3
gguf-convert -o m.gguf d 2>err
is "$? $(cat err) $(gguf-inspect --diff want.gguf m.gguf | awk '{ print $2, $3 }' | sort -u)" "0  meta general.name" \
    "weights that are not quantised, whatever the config says"
# an adapter needs the config of its model alone, which may be quantised
make lora-peft qwen3
mv d ad
make bitsandbytes qwen3
gguf-convert -o l.gguf --base d ad 2>err
is "$? $(cat err)" "0 " "an adapter of a quantised model"

# -- MLX: a hybrid model has 1 added to its norms already
gguf-convert --no-mtp -o want.gguf "$F/qwen3_5"
make mlx-model qwen3_5
gguf-convert -o m.gguf d 2>err
is "$? $(grep -v 'names an MTP block' err)" "0 " "a model as MLX saves it"
is "$(gguf-inspect --diff want.gguf m.gguf | awk '{ print $2, $3 }' | sort -u)" "meta general.name" "is the same one"

# -- adapters: each form gives the same numbers
gguf-convert -o want.gguf --base "$F/qwen3" ad
for form in default mlx; do
	make lora-$form qwen3
	gguf-convert -o l.gguf --base "$F/qwen3" d 2>err
	is "$? $(cat err)" "0 " "an adapter, $form"
	is "$(gguf-inspect --diff want.gguf l.gguf | awk '{ print $2, $3 }' | sort -u)" "meta general.name" "is the same one"
done
gguf-convert -o l.gguf d
is $? 0 "MLX: the model that the adapter names"
set_config() { # JQ
	jq "$1" d/adapter_config.json >c && mv c d/adapter_config.json
}
while IFS='|' read -r change words; do
	make lora-mlx qwen3
	set_config "$change"
	named "adapter_config.json: $words" "MLX: $change" gguf-convert -o no.gguf --base "$F/qwen3" d
done <<'END'
.fine_tune_type = "dora"|fine_tune_type is dora
.fine_tune_type = "full"|fine_tune_type is full
.lora_parameters.alpha = 16|lora_parameters has an alpha
del(.lora_parameters)|lora_parameters is missing
del(.lora_parameters.rank)|lora_parameters has no rank
.lora_parameters.scale = "x"|lora_parameters has no scale
.lora_parameters.scale = 0|lora_parameters has a scale that is 0
END
make lora-mlx qwen3
set_config '.lora_parameters.rank = 4'
named "has rank 3, but lora_parameters has rank 4" "MLX: another rank" gguf-convert -o no.gguf --base "$F/qwen3" d
make lora-mlx qwen3
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/tests/cli python3 - <<'E'
from hub_forms import *
save("d/adapters.safetensors", {"model.layers.0.linear_attn.out_proj.lora_a": zeros("F32", 64, 3),
    "model.layers.0.linear_attn.out_proj.lora_b": zeros("F32", 3, 32)})
E
named "matrices that GGUF reorders" "MLX: a matrix that GGUF has in another order" gguf-convert -o no.gguf --base "$F/qwen3_5" d
for init in pissa pissa_niter_16 olora corda loftq lora_ga; do
	make lora-peft qwen3
	set_config ".init_lora_weights = \"$init\""
	named "init_lora_weights changed the model's own weights" "$init" gguf-convert -o no.gguf --base "$F/qwen3" d
done
make lora-peft qwen3
set_config '.init_lora_weights = "gaussian"'
gguf-convert -q -o l.gguf --base "$F/qwen3" d
is "$? $(gguf-inspect --diff want.gguf l.gguf | awk '{ print $2, $3 }' | sort -u)" "0 meta general.name" "gaussian changes nothing"

# -- what is for images is left out, and the count of it told
make lora-visual qwen3_vl
gguf-convert -o l.gguf --base "$F/qwen3_vl" d 2>err
is "$? $(wc -l <err) $(grep -c 'd: [1-9][0-9]* of its matrices are for images or audio.*left out' err)" "0 1 1" \
    "an adapter with matrices for images"
gguf-inspect l.gguf | grep -c 'tensor.*visual' >out
is "$(cat out)" 0 "they are not in the file"
make lora-visual-only qwen3_vl
named "only matrices for images" "an adapter for images alone" \
    gguf-convert -o no.gguf --base "$F/qwen3_vl" d
gguf-convert -o m.gguf "$F/qwen3_vl" 2>err
is "$? $(cat err)" "0 gguf-convert: $F/qwen3_vl: 27 tensors for images or audio are left out: the file is for text only; --mmproj makes the file for images" \
    "a model that sees"
make untied qwen3
gguf-convert -o m.gguf d 2>err
is "$? $(wc -l <err) $(grep -c 'ties the output to the embeddings, but lm_head.weight differs' err)" "0 1 1" \
    "an output that differs from the embeddings, which the config ties to it"
make tied-twice qwen3
gguf-convert -o m.gguf d 2>err
is "$? $(cat err)" "0 " "the same twice: no note"
gguf-convert -q -o m.gguf "$F/qwen3_vl" 2>err
is "$? $(cat err)" "0 " "-q says nothing"
done_testing
