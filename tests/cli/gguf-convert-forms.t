#!/bin/sh
# gguf-convert: folders in the forms of other programs: quantised weights, models
# and adapters of MLX, adapters for a model that sees.  What is not read is named.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/hub
if ! command -v python3 >/dev/null 2>&1; then
	skip "folders in other forms" "no python3"
	done_testing
fi
make() { # KIND FROM: the folder d
	rm -rf d
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
		named "d: weights are quantised with $m (config.json), .*the original model" \
		    "$m, $tool" $tool d
	done
done
for m in mlx mlx-older; do
	make $m qwen3
	named "quantised with mlx (config.json)" "$m" gguf-convert -o no.gguf d
done
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
is "$? $(grep -v 'tells of an MTP block' err)" "0 " "a model as MLX saves it"
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
del(.lora_parameters)|no lora_parameters
del(.lora_parameters.rank)|lora_parameters has no rank
.lora_parameters.scale = "x"|lora_parameters has no scale
.lora_parameters.scale = 0|lora_parameters has a scale that is 0
END
make lora-mlx qwen3
set_config '.lora_parameters.rank = 4'
named "of rank 3, and lora_parameters has rank 4" "MLX: another rank" gguf-convert -o no.gguf --base "$F/qwen3" d
make lora-mlx qwen3
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/tests/cli python3 - <<'E'
from hub_forms import *
save("d/adapters.safetensors", {"model.layers.0.linear_attn.out_proj.lora_a": zeros("F32", 64, 3),
    "model.layers.0.linear_attn.out_proj.lora_b": zeros("F32", 3, 32)})
E
named "in another order" "MLX: a matrix that GGUF has in another order" gguf-convert -o no.gguf --base "$F/qwen3_5" d
for init in pissa pissa_niter_16 olora corda loftq lora_ga; do
	make lora-peft qwen3
	set_config ".init_lora_weights = \"$init\""
	named "init_lora_weights has changed the model's own weights" "$init" gguf-convert -o no.gguf --base "$F/qwen3" d
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
named "all pairs of matrices in its files are for images" "an adapter for images alone" \
    gguf-convert -o no.gguf --base "$F/qwen3_vl" d
gguf-convert -o m.gguf "$F/qwen3_vl" 2>err
is "$? $(cat err)" "0 gguf-convert: $F/qwen3_vl: 27 tensors for images or audio are left out: the file is for text" \
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
