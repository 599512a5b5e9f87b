#!/bin/sh
# gguf-convert: Hugging Face folders, valid and invalid ones.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/hub

# -- the bytes of llama.cpp's converter, the logits of the class
seq 1 9 190 | tr '\n' ' ' >ids
sed '/^#/d' "$F/INDEX.tsv" >index
[ "$(grep -c . index)" -gt 9 ]
ok $? "there are checkpoints"
numbers() { # FILE
	od -An -v -tf4 "$1" | tr -s ' ' '\n' | sed '/^$/d'
}
while read -r name sum; do
	gguf-convert -o m.gguf "$F/$name" 2>err
	is "$? $(grep -v 'for images or audio are left out' err)" "0 " "$name: converted"
	is "$(sha256sum <m.gguf | cut -d' ' -f1)" "$sum" "$name: the same bytes"
	is "$(gguf-inspect m.gguf | grep '^usable')" "usable yes" "$name: can be used"
	if [ -e "$F/$name.tsv" ]; then
		jq -R -c 'split("\t") | { query: .[0], document: .[1] }' "$F/$name.tsv" |
		    qrerank -m m.gguf --kv f32 --requests | jq .score | paste "$F/$name.tsv" - |
		    awk -F '\t' '{ d = $3 - $4; if (d > 1e-4 || d < -1e-4) bad++ } END { exit !(NR == 4 && !bad) }'
		ok $? "$name: its scores are those of its class"
	fi
	[ -e "$F/$name.f32" ] || continue
	qprefill -q -m m.gguf --kv f32 --logits last -f raw -o /dev/null <ids >got
	numbers got >got.txt
	numbers "$F/$name.f32" | paste - got.txt | awk '
	    { d = $1 - $2; if (d < 0) d = -d; if (!(d <= max)) max = d; n++ }
	    END { exit !(n == 272 && max <= 1e-4) }'
	ok $? "$name: logits within 1e-4"
done <index
gguf-convert "$F/qwen3" >m.gguf
gguf-convert -o n.gguf "$F/qwen3/"
cmp -s m.gguf n.gguf
ok $? "to stdout, and with a slash at the end"

# -- adapters, as peft writes them
sed '/^#/d' "$F/ADAPTERS.tsv" >adapters
is "$(grep -c . adapters)" 5 "there are adapters"
while read -r name base sum; do
	gguf-convert -o m.gguf "$F/$base"
	gguf-convert -o l.gguf --base "$F/$base" "$F/$name" 2>err
	is "$? $(cat err)" "0 " "$name: converted"
	is "$(sha256sum <l.gguf | cut -d' ' -f1)" "$sum" "$name: the same bytes"
	qprefill -q -m m.gguf --lora l.gguf --kv f32 --logits last -f raw -o /dev/null <ids >got
	numbers got >got.txt
	numbers "$F/$name.f32" | paste - got.txt | awk '
	    { d = $1 - $2; if (d < 0) d = -d; if (!(d <= max)) max = d; n++ }
	    END { exit !(n == 272 && max <= 1e-4) }'
	ok $? "$name: logits of peft within 1e-4"
done <adapters
gguf-convert -o l.gguf --base "$F/qwen3_moe" "$F/qwen3_moe-lora"
for i in apart older; do
	gguf-convert -o o.gguf --base "$F/qwen3_moe" "$F/qwen3_moe-lora-$i"
	is "$(gguf-inspect --diff l.gguf o.gguf | awk '{ print $2, $3 }' | sort -u)" \
	    "meta general.name" "experts in one parameter, and $i: the same adapter"
done
gguf-convert -o m.gguf "$F/qwen3_5"
for t in f16 q8_0; do
	gguf-convert --type $t -o t.gguf --base "$F/qwen3_5" "$F/qwen3_5-lora"
	gguf-inspect t.gguf | awk '$1 == "tensor" { print $3 }' | sort -u | tr '\n' ' ' >types
	qprefill -q -m m.gguf --lora t.gguf --logits last -f raw -o /dev/null <ids >got
	ok $? "an adapter of type $t"
done
is "$(cat types)" "F16 Q8_0 " "rows that are no whole blocks are F16"
# a copy whose config is changed
new() { # [JQ]
	rm -rf ad
	cp -R "$F/qwen3_5-lora" ad
	chmod -R u+w ad
	jq "${1:-.}" "$F/qwen3_5-lora/adapter_config.json" >ad/adapter_config.json
}
alpha() {
	gguf-inspect --json l.gguf | jq '.metadata."adapter.lora.alpha" | (.value? // .) * 1000 | round'
}
new '.lora_alpha = 3 | .r = 2 | .use_rslora = true'
gguf-convert -o l.gguf --base "$F/qwen3_5" ad
is "$(alpha)" 4243 "rsLoRA: alpha times the root of the rank"
# another alpha for some: B is that many times as large
new '.alpha_pattern = {".*\\.q_proj": 6, "self_attn.k_proj": 9, "roj": 5}'
gguf-convert -o p.gguf --base "$F/qwen3_5" ad
new
gguf-convert -o l.gguf --base "$F/qwen3_5" ad
larger() { # TENSOR: its numbers beside those without
	gguf-inspect --values "$1" l.gguf | tr -s ' \t' '\n' >v
	gguf-inspect --values "$1" p.gguf | tr -s ' \t' '\n' | paste v - |
	    awk '$1 != 0 { print $2 / $1 }' | sort -u | xargs
}
is "$(larger blk.1.attn_q.weight.lora_b) $(larger blk.1.attn_k.weight.lora_b | cut -c 1-6) $(
    larger blk.1.attn_q.weight.lora_a) $(larger blk.1.attn_v.weight.lora_b)" "2 3 1 1" \
    "alpha_pattern: what it names, and nothing else"
new ".base_model_name_or_path = \"$F/qwen3_5\""
gguf-convert -o l.gguf ad
is $? 0 "the model that the adapter names"

no_adapter() { # WHAT WANTED FOLDER [OPTION...]
	what=$1 want=$2; shift 2
	gguf-convert -o no.gguf --base "$F/qwen3_5" "$@" 2>err
	is "$? $(wc -l <err) $(ls no.gguf 2>/dev/null)" "1 1 " "$what: one line"
	grep -q -e "$want" err
	ok $? "it says: $want"
}
for k in '.use_dora = true' '.bias = "all"' '.modules_to_save = ["lm_head"]' \
    '.fan_in_fan_out = true'; do
	new "$k"
	no_adapter "$k" "$(echo "${k#.}" | cut -d' ' -f1) is set" ad
done
new '.peft_type = "IA3"'
no_adapter "another method" "peft_type is IA3" ad
new '.lora_alpha = "x"'
no_adapter "no alpha" "lora_alpha is missing" ad
new '.alpha_pattern = {"(q|k)_proj": 4}'
no_adapter "a pattern of another kind" "alpha_pattern has an unsupported pattern" ad
new '.alpha_pattern = {"q_proj": "x"}'
no_adapter "no number in it" "alpha_pattern has a value that is not a number" ad
new '.use_rslora = true | .rank_pattern = {"q_proj": 3}'
no_adapter "rsLoRA of many ranks" "needs one rank" ad
new '.use_rslora = true | .r = 8'
no_adapter "rsLoRA of another rank" "has rank 2, but use_rslora is set with r 8" ad
for a in 0 1e-300 1e300; do
	new ".lora_alpha = $a"
	no_adapter "alpha $a" "lora_alpha is missing, 0 or" ad
done
new '.lora_alpha = 3e38 | .r = 2 | .use_rslora = true'
no_adapter "alpha times the root is infinite" "lora_alpha is missing, 0 or" ad
new
echo '[' >ad/adapter_config.json
no_adapter "no JSON" "ad/adapter_config.json" ad
rm ad/adapter_config.json
no_adapter "no config" "no adapter_config.json" ad
new
rm ad/adapter_model.safetensors
no_adapter "no weights" "adapter_model.safetensors: cannot open" ad
head -c 9000 "$F/qwen3_5-lora/adapter_model.safetensors" >ad/adapter_model.safetensors
no_adapter "weights cut short" "adapter_model.safetensors: .*incomplete download" ad
new
sed -i 's/layers\.1\.self_attn\.q_proj\.lora_A/layers.1.self_attn.q_proj.lora_C/' ad/adapter_model.safetensors
no_adapter "half of a pair" "q_proj" ad
new
sed -i 's/layers\.1\.self_attn\.q_proj\.lora_/layers.9.self_attn.q_proj.lora_/g' ad/adapter_model.safetensors
no_adapter "another layer" "does not belong to a qwen35 model of 2 layers" ad
new
sed -i 's/layers\.1\.self_attn\.q_proj\.lora_/layers.1.self_attn.q_nope.lora_/g' ad/adapter_model.safetensors
no_adapter "another matrix" "q_nope" ad
new
sed -i 's/layers\.1\.self_attn\.q_proj\.lora_\([AB]\)/layers.1.input_layernorm.\1xxxxxx/g' ad/adapter_model.safetensors
no_adapter "a whole tensor" "not one of a pair" ad
# experts: all in one parameter, or each its own
base() { # JQ
	rm -rf base
	cp -R "$F/qwen3_moe" base
	chmod -R u+w base
	jq "$1" "$F/qwen3_moe/config.json" >base/config.json
}
base '.moe_intermediate_size = 24'
no_adapter "experts of another size" "do not fit gate_up_proj or down_proj of 4 experts" \
    "$F/qwen3_moe-lora" --base base
base 'if .num_experts then .num_experts = 5 else .num_local_experts = 5 end'
no_adapter "of another number" "do not fit .* of 5 experts" "$F/qwen3_moe-lora" --base base
no_adapter "some of them" "4 of 5 experts: adapters must cover all experts or none" \
    "$F/qwen3_moe-lora-apart" --base base
some() { # SED: changes names
	rm -rf ad
	cp -R "$F/qwen3_moe-lora-apart" ad
	chmod -R u+w ad
	sed -i "$1" ad/adapter_model.safetensors
}
some 's/\(layers\.0\.mlp\.experts\.\)3\(\.up_proj\)/\17\2/g'
no_adapter "one too many" "config.json has 4 experts" ad --base "$F/qwen3_moe"
some 's/"base_model\.model\.model\.\(layers\.0\.mlp\.experts\.3\.up_proj\.lora_[AB]\.weight"\)/"mtp.\1                   /g'
no_adapter "those of a block for drafts" "for experts of the MTP block" ad \
    --base "$F/qwen3_moe"
# weights NAME...: pairs of rank 2 for matrices of 16 rows and 32 columns
weights() {
	header=$(printf '%s\n' "$@" | awk '
	    { printf "%s\"%s.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[2,32]," \
	      "\"data_offsets\":[%d,%d]},\"%s.lora_B.weight\":{\"dtype\":\"F32\"," \
	      "\"shape\":[16,2],\"data_offsets\":[%d,%d]}", (NR > 1 ? "," : "{"),
	      $0, at, at + 256, $0, at + 256, at + 384; at += 384 }
	    END { print "}" }')
	# shellcheck disable=SC2059
	printf "\\$(printf %o $((${#header} & 255)))\\$(printf %o $((${#header} >> 8)))"
	head -c 6 /dev/zero
	printf %s "$header"
	head -c $((384 * $#)) /dev/zero
}
m=model.layers.1.mlp.up_proj
new
weights base_model.model.$m >ad/adapter_model.safetensors
gguf-convert -o l.gguf --base "$F/qwen3_5" ad
is $? 0 "one pair"
weights base_model.model.$m $m >ad/adapter_model.safetensors
no_adapter "two pairs for a matrix" "two tensors become blk.1.ffn_up.weight.lora_a" ad
weights $m.base_layer >ad/adapter_model.safetensors
sed -i 's/lora_\([AB]\)\.weight/xxxx_\1.weight/g' ad/adapter_model.safetensors
no_adapter "no pair" "has no pair of matrices" ad
new
no_adapter "another model's" "(config.json)" ad --base "$F/qwen3"
no_adapter "no model" "its base model (see --base)" ad --base nowhere
gguf-convert -o no.gguf ad 2>err
is "$? $(wc -l <err) $(grep -c 'does not name its model' err)" "1 1 1" \
    "a model that is not named"
new '.base_model_name_or_path = "Qwen/Some"'
gguf-convert -o no.gguf ad 2>err
is "$? $(wc -l <err) $(grep -c 'Some: no config.json' err)" "1 1 1" \
    "or is not here"

# -- types
for t in f32 f16 q8_0; do
	gguf-convert --type $t -o m.gguf "$F/qwen3"
	is "$(gguf-inspect m.gguf | awk '$2 == "blk.0.ffn_gate.weight" { print tolower($3) }') $(
	    gguf-inspect m.gguf | awk '$2 == "blk.0.attn_norm.weight" { print $3 }') $(
	    gguf-inspect m.gguf | grep '^usable')" "$t F32 usable yes" "--type $t"
done

# -- threads: experts, heads in another order, scales
for m in qwen3_moe qwen3_5 qwen3_next; do
	gguf-convert --type q8_0 -t 1 "$F/$m" >a.gguf && gguf-convert --type q8_0 -t 3 "$F/$m" >b.gguf && cmp a.gguf b.gguf
	ok $? "$m: the same file with other threads"
done

# -- the block for drafts
gguf-convert --no-mtp -o trunk.gguf "$F/qwen3_5"
gguf-convert --mtp-only -o side.gguf "$F/qwen3_5"
is "$(gguf-inspect trunk.gguf | grep -c nextn)" 0 "--no-mtp"
is "$(gguf-inspect side.gguf | grep -c 'blk\.[01]\.')" 0 "--mtp-only"
gguf-convert -o whole.gguf "$F/qwen3_5"
(tr '\n' ' ' <ids | qdecode -q -m trunk.gguf -n 9 --draft side.gguf -f text) >a 2>err
tr '\n' ' ' <ids | qdecode -q -m whole.gguf -n 9 --draft none -f text >b
is "$(cat a err)" "$(cat b)" "trunk and side file decode as the whole does"
refused 1 "no block for drafts" gguf-convert --mtp-only -o no.gguf "$F/qwen3"

# -- metadata
gguf-inspect --json whole.gguf >j
is "$(jq -c '.metadata | [.["general.sampling.top_k"], .["tokenizer.ggml.pre"], .["tokenizer.ggml.eos_token_id"],
    .["tokenizer.ggml.add_bos_token"], .["qwen35.nextn_predict_layers"], .["general.name"]]' j)" \
    '[20,"qwen35",261,false,1,"Qwen3_5"]' "what the files beside the weights say"
is "$(printf '<|im_end|> the' | qtok -m whole.gguf --special -f text | tr -s '\n ' ' ')" "261 258 " \
    "its tokenizer reads text"

# -- how an embedding model pools
pooled() { # MODULES CONFIG: as a folder of sentence-transformers says it
	rm -rf d
	cp -R "$F/qwen3" d
	mkdir d/1_Pooling
	echo "$1" >d/modules.json
	echo "$2" >d/1_Pooling/config.json
}
modules='[{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
    {"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]'
while read -r type config; do
	pooled "$modules" "$config"
	gguf-convert -o m.gguf d
	is "$? $(gguf-inspect m.gguf | awk '$2 == "qwen3.pooling_type" { print $3, $5 }')" "0 UINT32 $type" \
	    "pooling: $config"
done <<'EOT'
3 {"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":false,"pooling_mode_lasttoken":true}
1 {"pooling_mode_mean_tokens":true}
2 {"pooling_mode":"cls"}
EOT
is "$(sha256sum <m.gguf | cut -d' ' -f1)" c3852466a75ee90043835deda600d9987d1ee66bdcdf347e0ce087e9a2e62c8e \
    "the last one has the bytes of llama.cpp's converter"

# -- models that rank: by what the config, the card or the folder's name says
said() { # FOLDER: pooling and labels of its file, how many classifiers it has
	gguf-convert -o m.gguf "$1" && gguf-inspect --json m.gguf |
	    jq -c '[(.metadata | .["qwen3.pooling_type"], .["qwen3.classifier.output_labels"],
	        .["tokenizer.chat_templates"]), ([.tensors[] | select(.name == "cls.output.weight")] | length)]'
}
is "$(said "$F/qwen3_score")" '[4,null,["rerank"],1]' "one class has no labels"
is "$(said "$F/qwen3_score2")" '[4,["LABEL_0","LABEL_1"],["rerank"],1]' "two have those of transformers"
rm -rf d && cp -R "$F/qwen3_score" d
jq '.id2label = {"0": "no", "1": "yes"}' "$F/qwen3_score/config.json" >d/config.json
is "$(said d)" '[4,["no","yes"],["rerank"],1]' "labels of the config, in order"
rm -rf d Some-QWEN3-Reranker-x && cp -R "$F/qwen3_rank" Some-QWEN3-Reranker-x
rm Some-QWEN3-Reranker-x/README.md
is "$(said Some-QWEN3-Reranker-x)" '[4,["yes","no"],["rerank"],1]' "by the folder's name"
cp -R Some-QWEN3-Reranker-x d
is "$(said d)" '[null,null,null,0]' "without it and the card it is a model that writes"
for t in f32 q8_0; do
	gguf-convert --type $t -o m.gguf Some-QWEN3-Reranker-x
	echo 'a b' | qrerank -m m.gguf q >want
	[ $t = f32 ] || echo 'a b' | qrerank -q --quantize $t -m Some-QWEN3-Reranker-x q | cmp - want
	ok $? "its rows of yes and no in $t"
done
echo 'a b' | qrerank -m "$F/qwen3_rank" q >got
gguf-convert -o m.gguf "$F/qwen3_rank" && echo 'a b' | qrerank -m m.gguf q | cmp - got
ok $? "it runs as a folder"

# -- folders that are not what they should be: one line, no file
bad() { # WHAT [WORD]
	rm -f no.gguf
	gguf-convert -o no.gguf d >out 2>err
	is "$? $(wc -l <err | tr -d ' ') $(ls no.gguf 2>/dev/null)" "1 1 " "$1"
	grep -q -e "$2" err || { cat err; false; }
	ok $? "$1: says so"
	rm -rf d
	cp -R "$F/qwen3" d
}
pooled "$modules" '{"pooling_mode_max_tokens":true}'
bad "another pooling" "mean, cls and lasttoken are supported"
pooled "$modules" '{}'
rm d/1_Pooling/config.json
bad "no config of the module that pools" "is missing"
pooled '[{"path":"../d/1_Pooling","type":"x.Pooling"}]' '{"pooling_mode":"cls"}'
bad "a path that leaves the folder" "not a folder name"
pooled '"x"' '{}'
bad "modules.json is a text" "modules.json"
for x in 1e300 '"x"'; do
	jq -c --argjson x "$x" '.rope_theta = $x | del(.rope_parameters)' "$F/qwen3/config.json" >d/config.json
	bad "rope_theta $x" "rope_theta is not a number in the range of f32"
done
cp "$F/qwen3/config.json" x
rm -rf d && mv x d
bad "a file for a folder" "not a folder"
rm -rf d
cp -R "$F/qwen3_5-nvfp4" d
LC_ALL=C sed '1s/\(out_proj.weight_scale":{"dtype":"F8_E4M3","shape":\)\[32,4\]/\1[4,32]/' \
    "$F/qwen3_5-nvfp4/model.safetensors" >x
cmp -s x d/model.safetensors
is "$?" 1 "a shape is changed"
mv x d/model.safetensors
bad "scales of another shape" "out_proj.weight_scale"
rm -rf d; cp -R "$F/qwen3_rank" d
sed 's/"yes"/"yse"/' "$F/qwen3_rank/tokenizer.json" >d/tokenizer.json
bad "a model that ranks has no token yes" 'has no token "yes"'
rm -rf d; cp -R "$F/qwen3_rank" d
sed 's/"yes": *[0-9]*/"yes": 300/' "$F/qwen3_rank/tokenizer.json" >d/tokenizer.json
bad "the token is none of the rows" "rows of yes and no"
rm -rf d; cp -R "$F/qwen3_rank" d
sed 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' "$F/qwen3_rank/config.json" >d/config.json
bad "no output whose rows they are" "no tensor lm_head.weight"
rm -rf d; cp -R "$F/qwen3_score" d
sed 's/ForSequenceClassification/ForCausalLM/' "$F/qwen3_score/config.json" >d/config.json
bad "a classifier in a model that ranks nothing" "score.weight"
rm -rf d; cp -R "$F/qwen3" d
sed 's/ForCausalLM/ForSequenceClassification/' "$F/qwen3/config.json" >d/config.json
bad "a model that ranks, and no classifier" "no tensor score.weight"
rm -rf d
bad "no folder" "no config.json"
mkdir -p d && rm -rf d/*
bad "an empty folder" "no config.json"
rm d/*.safetensors
bad "no weights" "model-0.*: cannot open"
rm d/*.safetensors d/*.index.json
bad "no weights, no index" "no weights: there is no file"
rm d/model-00001-*
bad "a file is missing" "cannot open"
rm d/model-00001-* d/*.index.json
bad "a file is missing, and the index" "get the missing ones"
echo '{' >d/config.json
bad "config.json is no JSON" "config.json"
echo '{"architectures":["LlamaForCausalLM"]}' >d/config.json
bad "another architecture" "LlamaForCausalLM"
echo '{"architectures":[" Qwen3ForCausalLM"]}' >d/config.json
bad "a space before one that is known" "unknown architecture"
echo '{"architectures":["Qwen3ForCausalLM Qwen3Model"]}' >d/config.json
bad "two that are known, as one" "unknown architecture"
sed 's/"num_hidden_layers": 2/"num_hidden_layers": 3/' "$F/qwen3/config.json" >d/config.json
bad "more layers than there are" "layer 2 of 3"
sed 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' "$F/qwen3/config.json" >d/config.json
bad "fewer layers" "does not belong to a qwen3 model of 1 layers"
sed 's/"num_hidden_layers": 2/"num_hidden_layers": 4000000000/' "$F/qwen3/config.json" >d/config.json
bad "very many layers" "4000000000"
sed 's/"vocab_size": 272/"vocab_size": 200/' "$F/qwen3/config.json" >d/config.json
bad "fewer ids than tokens" "id 200\|200 ids"
sed 's/"weight_map"/"other"/' d/model.safetensors.index.json >i && mv i d/model.safetensors.index.json
bad "an index of nothing" "weight_map"
sed 's/"model-00001/"..\/model-00001/' "$F/qwen3/model.safetensors.index.json" >d/model.safetensors.index.json
bad "an index that leaves the folder" "has no file in this folder"
f=$(ls d/model-00001-*)
head -c 4000 "$f" >x && mv x "$f"
bad "a file cut short" "incomplete download"
f=$(ls d/model-00001-*)
printf 'x' >>"$f"
bad "bytes at the end" "unused bytes at the end"
f=$(ls d/model-00001-*)
printf '\377\377\377\377\377\377\377\177{}' >"$f"
bad "a header of any length" "the header needs"
echo '[1]' >d/tokenizer.json
bad "a tokenizer that is a list" "tokenizer.json"
rm d/config.json; mkdir d/config.json
bad "config.json is a folder" "config.json"

# -- numbers that a format cannot have; what is copied stays what it is
put() { # TENSOR BYTES: at its beginning, in d
	n=$(od -An -tu8 -N8 d/model.safetensors)
	at=$(tail -c +9 d/model.safetensors | head -c $((n)) | jq --arg t "$1" '.[$t].data_offsets[0]')
	printf "$2" | dd of=d/model.safetensors bs=1 seek=$((8 + n + at)) conv=notrunc 2>/dev/null
}
up=model.layers.1.mlp.up_proj.weight
while read -r what bytes type; do
	rm -rf d; cp -R "$F/qwen2" d
	put $up "$bytes"
	gguf-convert -q -o m.gguf d 2>err
	is "$? $(cat err)" "0 " "$what is copied"
	gguf-inspect --check m.gguf >out 2>err
	is "$? $(grep -c 'blk\.1\.ffn_up\.weight: not finite' err)" "$([ "$what" = large ] && echo 0 0 || echo 1 1)" \
	    "gguf-inspect --check tells of what is none"
	for t in $type; do
		rm -f no.gguf
		gguf-convert -q --type "$t" -o no.gguf d >out 2>err
		is "$? $(wc -l <err | tr -d ' ') $(grep -c "$up: row 0 of " err) $(ls no.gguf 2>/dev/null)" "1 1 1 " \
		    "$what is refused as $t"
	done
	qprefill -q -m d --quantize q8_0 <ids >out 2>err
	is "$? $(grep -c "$up: row 0 of " err)" "1 1" "$what, by --quantize"
done <<'EOT'
NaN \300\177 q8_0
infinity \200\177 q8_0
large \177\177 q8_0 f16
EOT
rm -rf d; cp -R "$F/qwen3" d

# Headers of one small tensor, in a file of its own.
header() { # JSON BYTES-OF-DATA
	rm -f d/model*
	n=${#1}
	{ printf "\\$(printf '%o' $((n % 256)))\\$(printf '%o' $((n / 256)))\\0\\0\\0\\0\\0\\0%s" "$1"
	head -c "$2" /dev/zero; } >d/model.safetensors
}
one='"dtype":"F32","shape":[2,2],"data_offsets":[0,16]'
while IFS='|' read -r what json bytes word; do
	header "$json" "$bytes"
	bad "$what" "$word"
done <<EOT
overlap|{"a":{$one},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}|16|overlap
a gap|{"a":{$one},"b":{"dtype":"F32","shape":[2],"data_offsets":[20,28]}}|28|unused bytes before
twice|{"a":{$one},"a":{$one}}|16|duplicate key
out of range|{"a":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}}|16|incomplete download
shape and bytes|{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,16]}}|16|its shape and type
from after to|{"a":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}}|8|data_offsets
a product that overflows|{"a":{"dtype":"F32","shape":[4294967296,4294967296,16],"data_offsets":[0,0]}}|0|invalid shape
a negative size|{"a":{"dtype":"F32","shape":[-2,2],"data_offsets":[0,16]}}|16|invalid shape
an unknown type|{"a":{"dtype":"F12","shape":[2,2],"data_offsets":[0,16]}}|16|F12
no type|{"a":{"shape":[2,2],"data_offsets":[0,16]}}|16|dtype
a tensor that is a list|{"a":[1]}|0|dtype
a name that is no text|{"a\u001b[2J":{$one}}|16|not plain text
a list|[1]|0|not a JSON object
no JSON|{"a":|0|header
no tensor|{}|0|the files have no weights
a tensor of another model|{"model.layers.0.mlp.router.weight":{$one}}|16|does not belong to a qwen3
packed weights|{"model.layers.0.mlp.up_proj.weight":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}|16|I32
nothing else|{"model.embed_tokens.weight":{$one}}|16|no tensor norm.weight
one tensor under two names|{"norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"model.norm.weight":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},"model.embed_tokens.weight":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}}|12|two tensors
EOT
cp -R "$F/qwen3_moe" e
sed 's/\("num_[a-z_]*experts": \)4/\15/' "$F/qwen3_moe/config.json" >e/config.json
rm -rf d; mv e d
bad "an expert is missing" "of 5 experts"
for n in '"x"' -1 0 1.5 '[4]'; do
	rm -rf d; cp -R "$F/qwen3_moe" d
	jq ".num_local_experts = $n" "$F/qwen3_moe/config.json" >d/config.json
	bad "num_local_experts is $n" "config.json: .*num_local_experts"
done
# config and tensors that contradict each other: what opens files says how
while IFS='|' read -r name change why; do
	rm -rf d; cp -R "$F/$name" d
	jq -c "$change" "$F/$name/config.json" >d/config.json
	bad "$name: $change" "no tool can use the file: .*$why"
done <<'EOT'
qwen3|.hidden_size = 33|token_embd.weight is 32x272, should be 33x272
qwen3|del(.intermediate_size)|qwen3.feed_forward_length is missing
qwen3|.intermediate_size = 8|ffn_gate.weight is 32x16, should be 32x8
qwen3|.num_attention_heads = 1|attn_q.weight is 32x32, should be 32x16
qwen3|.num_key_value_heads = 2|attn_k.weight
qwen3|.head_dim = 32|attn_q.weight
qwen3|.vocab_size = 271|272 rows, but the vocabulary 271 tokens
qwen3|del(.max_position_embeddings)|context_length is missing
qwen3|.rms_norm_eps = -1|layer_norm_rms_epsilon
qwen3|.rope_parameters.rope_theta = -1|RoPE
qwen2|.num_attention_heads = 3|head sizes
qwen3_moe|.moe_intermediate_size = 8|ffn_down_exps
qwen3_moe|.num_experts_per_tok = 5|expert_used_count
qwen2_moe|.shared_expert_intermediate_size = 8|ffn_gate_shexp
qwen3_5|.linear_conv_kernel_dim = 3|ssm_conv1d
qwen3_5|del(.layer_types)|blk.1.attn_qkv.weight is missing
qwen3_5|del(.rope_parameters)|dimension_sections
EOT
rm -rf d; cp -R "$F/qwen3" d
jq -c '.hidden_act = "gelu"' "$F/qwen3/config.json" >d/config.json
bad "another activation" "hidden_act is gelu; qwen3 needs silu"
# what a file has no key for, and what contradicts the tensors or itself
while IFS=@ read -r name change why; do
	rm -rf d; cp -R "$F/$name" d
	jq -c "$change" "$F/$name/config.json" >d/config.json
	bad "$name: $change" "^gguf-convert: d/config.json: $why$"
done <<'EOT'
qwen3_moe@.decoder_sparse_step = 2@decoder_sparse_step is 2, but all layers of qwen3moe must have experts
qwen3_vl_moe@.text_config.decoder_sparse_step = 0@decoder_sparse_step is 0, but all layers of qwen3vlmoe must have experts
qwen2_moe@.decoder_sparse_step = "x"@decoder_sparse_step is not a whole number below 2^32
qwen2_moe@.mlp_only_layers = [5, 1]@mlp_only_layers has layer 1, but all layers of qwen2moe must have experts
qwen3_moe@.mlp_only_layers = 1@mlp_only_layers is not a list
qwen3_moe@.mlp_only_layers = [-1]@mlp_only_layers has an invalid layer
qwen3@.attention_bias = true@attention_bias is true, but 0 of 2 layers have attn_q.bias
qwen3@.attention_bias = 1@attention_bias is neither true nor false
qwen3_next@.attention_bias = true@attention_bias is true, but 0 of 2 layers have attn_q.bias
qwen2_moe@.qkv_bias = false@qkv_bias is false, but 2 of 2 layers have attn_q.bias
qwen3@.rope_scaling = 4@rope_scaling is not an object
qwen3@.rope_parameters = "x"@rope_parameters is not an object
qwen3@.rope_scaling = {"rope_theta": 5}@rope_theta is 10000[.0]* in rope_parameters, but 5 in rope_scaling
qwen3@.rope_scaling = {"type": "dynamic", "factor": 2}@unknown RoPE scaling dynamic
qwen3@.rope_parameters += {"rope_type": "linear", "factor": 2} | .rope_scaling = {"type": "yarn"}@rope_type is linear in rope_parameters, but yarn in rope_scaling
qwen3@.rope_parameters += {"rope_type": "linear", "factor": 2} | .rope_scaling = {"factor": 4}@factor is 2 in rope_parameters, but 4 in rope_scaling
qwen3_5@.rope_scaling = {"mrope_section": [1, 2, 1]}@mrope_section is one list in rope_parameters, but another in rope_scaling
qwen3@.rope_scaling = {"factor": 4}@rope_scaling has a factor but no type of scaling
qwen3@.rope_parameters.factor = 4@rope_parameters has a factor but no type of scaling
qwen3@.rope_scaling = {"type": 4, "factor": 4}@type of rope_scaling is not a string
qwen3@.rope_parameters.rope_type = ["yarn"]@rope_type of rope_parameters is not a string
qwen3@.rope_scaling = {"rope_type": "default", "type": "yarn", "factor": 4}@rope_scaling has rope_type default and type yarn
qwen3@.rope_parameters = {"full_attention": {"rope_type": "yarn", "rope_theta": 5, "factor": 4}}@rope_parameters has full_attention for single layers, but GGUF has one value for all layers
qwen3@.rope_theta = 5@rope_theta is 5, but 10000[.0]* in rope_parameters
qwen3@.rope_scaling = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64.5}@yarn needs original_max_position_embeddings, a whole number
qwen3@.rope_scaling = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "attention_factor": 1, "attn_factor": 1}@attention_factor and attn_factor contradict each other
qwen3@.hidden_act = 3@hidden_act is not a string
EOT
# and what says what is so
while IFS=@ read -r name change; do
	rm -rf d; cp -R "$F/$name" d
	jq -c "$change" "$F/$name/config.json" >d/config.json
	gguf-convert -q -o a.gguf "$F/$name"
	gguf-convert -o m.gguf d 2>err
	is "$? $(grep -v 'for images or audio are left out' err) $(gguf-inspect --diff a.gguf m.gguf | awk '{ print $2, $3 }' | sort -u)" \
	    "0  meta general.name" "$name: $change: no difference"
done <<'EOT'
qwen3_moe@.decoder_sparse_step = null | .mlp_only_layers = null
qwen3_moe@del(.decoder_sparse_step, .mlp_only_layers, .attention_bias)
qwen3_moe@.mlp_only_layers = [2]
qwen2_moe@del(.qkv_bias)
qwen3@.attention_bias = null | .rope_scaling = null
qwen3@.rope_scaling = {"rope_type": "default", "rope_theta": 1e4, "factor": null}
qwen3@.rope_scaling = .rope_parameters | .rope_parameters = null
qwen3_vl@.text_config.rope_scaling = (.text_config.rope_parameters | { mrope_section, type: "mrope" })
EOT
# rope_scaling, beside rope_parameters that scale nothing or say the same
yarn='{"type": "yarn", "factor": 4, "original_max_position_embeddings": 64}'
rm -rf d; cp -R "$F/qwen3" d
for change in ".rope_scaling = $yarn" \
    ".rope_parameters += ($yarn | .rope_type = .type) | .rope_scaling = $yarn" \
    ".rope_parameters += $yarn | del(.rope_parameters.factor, .rope_parameters.rope_type) | .rope_scaling = { factor: 4 }"; do
	jq -c "$change" "$F/qwen3/config.json" >d/config.json
	gguf-convert -o m.gguf d 2>err
	is "$? $(cat err) $(gguf-inspect m.gguf | awk '/rope[.]/ { print $2, $NF }' | xargs)" \
	    "0  qwen3.rope.scaling.type yarn qwen3.rope.scaling.factor 4 \
qwen3.rope.scaling.original_context_length 64 qwen3.rope.freq_base 10000" "$change"
done

# biases of the attention, of the output too, where the config says so
tensors() { # FILE NAME:SIZE...: zeros but for the first, 1
	to=$1 list= at=0; shift
	for i in "$@"; do
		list="$list,\"${i%:*}\":{\"dtype\":\"F32\",\"shape\":[${i#*:}],\"data_offsets\":[$at,$((at + 4 * ${i#*:}))]}"
		at=$((at + 4 * ${i#*:}))
	done
	list="{${list#,}}"
	n=${#list}
	{ printf "\\$(printf '%o' $((n % 256)))\\$(printf '%o' $((n / 256)))\\0\\0\\0\\0\\0\\0%s\\0\\0\\200\\77" "$list"
	head -c $((at - 4)) /dev/zero; } >"$to"
}
biases() { # LAYER...
	for i in "$@"; do
		echo "model.layers.$i.self_attn.q_proj.bias:32"
		echo "model.layers.$i.self_attn.k_proj.bias:16"
		echo "model.layers.$i.self_attn.v_proj.bias:16"
		echo "model.layers.$i.self_attn.o_proj.bias:32"
	done
}
with_biases() { # ATTENTION_BIAS NAME:SIZE...
	rm -rf d; cp -R "$F/qwen3" d
	rm d/model.safetensors.index.json
	mv d/model-00001-of-00002.safetensors d/model-a.safetensors
	mv d/model-00002-of-00002.safetensors d/model-b.safetensors
	jq -c ".attention_bias = $1" "$F/qwen3/config.json" >d/config.json
	shift
	tensors d/model-c.safetensors "$@"
}
with_biases true $(biases 0 1)
gguf-convert -o m.gguf d 2>err
is "$? $(cat err) $(gguf-inspect m.gguf | grep -c 'attn_.*[.]bias')" "0  8" "attention_bias: biases are converted"
is "$(gguf-inspect --values blk.0.attn_q.bias m.gguf | tr -s '\t\n' '  ' | cut -c 1-7)" "1 0 0 0" "as they are"
qprefill -q -m m.gguf --logits last -f raw -o /dev/null <ids >got
is "$(qprefill -q -m d --logits last -f raw -o /dev/null <ids | cmp - got 2>&1)" "" "and of the folder itself"
with_biases null $(biases 0 1)
bad "biases that are not told of" "attention_bias is false, but 2 of 2 layers have attn_q.bias"
with_biases true $(biases 0 1 | grep -v 1.self_attn.o_proj)
bad "a bias is missing" "attention_bias is true, but 1 of 2 layers have attn_output.bias"
rm -rf d; cp -R "$F/qwen2" d
tensors d/model-1.safetensors $(biases 1 | grep o_proj)
bad "an output of qwen2 with a bias" "the files have attn_output.bias, which qwen2 does not support"

# and what is only noted
while IFS='|' read -r name change note; do
	rm -rf d; cp -R "$F/$name" d
	jq -c "$change" "$F/$name/config.json" >d/config.json
	gguf-convert -o m.gguf d 2>err
	is "$? $(wc -l <err | tr -d ' ') $(grep -c "$note" err)" "0 1 1" "$name: $change: $(cat err)"
done <<'EOT'
qwen3_moe|.norm_topk_prob = false|of qwen3moe are divided by their sum$
qwen2_moe|.norm_topk_prob = true|of qwen2moe are not divided by their sum$
qwen2|.use_sliding_window = true|each token sees all before it$
EOT
# YaRN's factor of cos and sin: itself, or as a multiple of the usual one
while read -r name value multiple; do
	rm -rf d; cp -R "$F/qwen3" d
	jq -c --arg n "$name" --argjson v "$value" '.rope_parameters += { rope_type: "yarn",
	    factor: 4, original_max_position_embeddings: 64 } | .rope_parameters[$n] = $v' \
	    "$F/qwen3/config.json" >d/config.json
	gguf-convert -o m.gguf d 2>err
	is "$? $(gguf-inspect m.gguf | awk '$2 ~ /yarn_attn_factor$/ { printf "%.4f", $NF }')" \
	    "0 $multiple" "$name $value"
done <<'EOT'
attn_factor 0.8782488562869419 0.8782
attention_factor 1 0.8782
attention_factor 1.1386294361119891 1.0000
beta_fast 32
EOT
rm -rf d; cp -R "$F/qwen3_5" d
sed 's/"linear_num_value_heads": 4/"linear_num_value_heads": 6/' "$F/qwen3_5/config.json" >d/config.json
bad "heads that do not fit" "(config.json)"
rm -rf d; cp -R "$F/qwen3-fp8" d
rm -rf d; cp -R "$F/qwen3-fp8" d

# -- what is missing and not needed
rm -f d/tokenizer* d/generation_config.json
gguf-convert -o m.gguf d 2>err
is "$? $(grep -c 'no vocabulary' err)" "0 1" "without a tokenizer, and says so"
gguf-convert --no-vocab -o m.gguf d 2>err
is "$? $(cat err)" "0 " "--no-vocab"
refused 2 "no folder" gguf-convert -o no.gguf
refused 2 "both halves" gguf-convert --no-mtp --mtp-only -o no.gguf "$F/qwen3"
if [ -e /dev/full ]; then
	refused 1 "a full disk" sh -c "gguf-convert '$F/qwen3' >/dev/full"
fi
done_testing
