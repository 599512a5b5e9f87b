#!/bin/sh
# gguf-convert --mmproj: the image encoders of Hugging Face folders.
. "$TOP/tests/cli/tap.sh"
if ! command -v python3 >/dev/null 2>&1 || ! command -v jq >/dev/null 2>&1; then
	skip "image encoders" "no python3 or no jq"
	done_testing
fi
make() { # make TYPE [DEEP...] | of MMPROJ: the folder d
	how=$1 what=$2
	shift 2
	rm -rf d
	if [ "$how" = make ]; then
		set -- d "$what" "$@"
	else
		set -- "$what" d
	fi
	PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/mmproj_folder.py" "$how" "$@"
}

# -- the bytes that llama.cpp's converter (October 2026) writes with --mmproj
# --outtype TYPE; DEEP: layers with deepstack mergers
while IFS='|' read -r from deep type sum; do
	# shellcheck disable=SC2086
	make make "$from" $deep
	gguf-convert -q --mmproj --type "$type" -o m.gguf d 2>err
	is "$? $(cat err) $(sha256sum <m.gguf | cut -d' ' -f1)" "0  $sum" \
	    "$from${deep:+, deepstack in layers $deep}: the same bytes in $type"
done <<'END'
F32|0 1|f32|c13c89a36384ce5871fc96d201f7fc8f9fda81aa785aca4f2a3267fe6092daf1
F32|0 1|f16|c4ab91aaa89bb94b39c6f060f5a3662ec4124608a899b3f3a162dd543c5782ee
F32|0 1|bf16|33eb29f938363bbbf42084c8f4527a4242f8d07d66174f0dffb8ed37f3829114
F32|0 1|q8_0|71dd1604959de24e7986ad18941efc96a8b899d6d44e6303be119fd303474be3
F16|0 1|auto|cb9e15d062a16d546f0faf05938ecc7f1e7e9c2a7a0c93a4c895765301c7e433
BF16|0 1|f16|d38aa3920c90aa2581eeed5d2f9f0507516bbe98cb5bbb5a8ce98503d0ff7bbe
BF16|0 1|auto|a0ef84b2e5bc2158e46afaf14eec33ba50e3ee8b4b8cf0a580a07cab864b4d75
BF16|0 1|q8_0|2e028b3d6a7e3112573cc21d57fa8c02d90f28337b00c62e9b2d843cde530e14
F32||f32|c4dcbe41f6f5249e60f53676d8c096b058b792f16d3cddfd9122cbe95e396e7e
F16||q8_0|81350ac3d5e0515f27748b108df43b06bac0f4064e814494dd57cba784e0e0b7
BF16||f16|0a4e718ec61c0312581245f29988259916b0b59801be29f4e10c2adde34540aa
BF16||auto|0e20697a0c02146e893603e158e29accefa3935e3cabd988210049f010c3e32a
END
gguf-convert -q --mmproj -o m.gguf "$TOP/tests/files/hub/image"
is "$? $(sha256sum <m.gguf | cut -d' ' -f1)" "0 241790ecd73d2bc0861d4b6e5d2cbf80139b0c12c6f46ec551c187261f89cc82" \
    "tests/files/hub/image: the same bytes"
gguf-convert -q --mmproj --type q8_0 -t 1 -o a.gguf d && gguf-convert -q --mmproj --type q8_0 -t 3 d | cmp -s - a.gguf
ok $? "threads and stdout change nothing"

# -- encoders that another program computed with: the same numbers
for m in qwen3_vl qwen3_5; do
	F=$TOP/../shared/fixtures/vision/$m/mmproj.gguf
	if [ ! -e "$F" ]; then
		skip "$m" "no fixture"
		continue
	fi
	make of "$F"
	gguf-convert -q --mmproj -o m.gguf d
	is "$? $(gguf-inspect --diff "$F" m.gguf | cut -d' ' -f 1-3 | xargs)" \
	    "0 + meta general.name + meta general.size_label + meta general.file_type + meta general.quantization_version" \
	    "$m: all keys and tensors"
done

# -- names and settings as other programs write them
make make BF16 1
gguf-convert -q --mmproj -o want.gguf d
python3 - <<'END'
import json, struct
b = open("d/model.safetensors", "rb").read()
n, = struct.unpack_from("<Q", b)
head = b[8:8 + n].decode().replace('"model.visual.', '"visual.').encode()
open("d/model.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + b[8 + n:])
END
gguf-convert -q --mmproj -o m.gguf d
is "$? $(gguf-inspect --diff want.gguf m.gguf)" "0 " "names without model."
mv d/preprocessor_config.json p
jq '{image_processor: .}' p >d/processor_config.json
gguf-convert -q --mmproj -o m.gguf d
is "$? $(gguf-inspect --diff want.gguf m.gguf)" "0 " "processor_config.json"
echo '{"image_mean":[0.1,0.2,0.3],"image_std":[0.4,0.5,0.6]}' >d/preprocessor_config.json
rm d/processor_config.json
gguf-convert -q --mmproj -o m.gguf d
is "$(gguf-inspect m.gguf | awk '/image_(mean|std)/ { print $5, $6, $7 }' | xargs)" "0.1 0.2 0.3 0.4 0.5 0.6" \
    "other means and deviations"
rm d/preprocessor_config.json
gguf-convert --mmproj -o m.gguf d 2>err
is "$? $(grep -c 'no preprocessor_config.json with image_mean' err) $(gguf-inspect --diff want.gguf m.gguf)" "0 1 " \
    "neither: 0.5, with a note"

# -- folders that have no such encoder, or a damaged one: one line, no file
no() { # WORDS JQ
	make make BF16 1
	jq "$2" d/config.json >c && mv c d/config.json
	refused 1 "$2" gguf-convert --mmproj -o no.gguf d
	grep -q -e "$1" err
	ok $? "it says: $1"
}
v=.vision_config
no 'there is no vision_config' 'del(.vision_config)'
no 'vision_config has no depth' "del($v.depth)"
no 'depth of vision_config is not a whole' "$v.depth = -1"
no 'tensor model.visual.blocks.1.*encoder of 1 layers' "$v.depth = 1 | $v.deepstack_visual_indexes = [0]"
no 'd: the files have no tensor model.visual.blocks.2' "$v.depth = 3"
no 'clip.vision.block_count is 4000000000; supported: 1 to 256' "$v.depth = 4000000000"
no 'tensor model.visual.blocks.0.*does not fit the encoder' "$v.intermediate_size = 64"
no 'patch_embed.proj.weight.*patch embedding' "$v.patch_size = 8"
no 'num_position_embeddings.*not a square' "$v.num_position_embeddings = 17"
no 'spatial_merge_size of vision_config is 1; supported: 2' "$v.spatial_merge_size = 1"
no 'temporal_patch_size of vision_config is 4' "$v.temporal_patch_size = 4"
no 'out_hidden_size of vision_config is 48, but hidden_size.*32' "$v.out_hidden_size = 48"
no 'hidden_act of vision_config' "$v.hidden_act = \"gelu\""
no 'd/config.json: 32 numbers in 3 heads' "$v.num_heads = 3"
no 'ascending numbers below 2' "$v.deepstack_visual_indexes = [2]"
no 'ascending numbers below 2' "$v.deepstack_visual_indexes = [1, 1]"
no 'deepstack_visual_indexes is not a list' "$v.deepstack_visual_indexes = 1"
no 'deepstack_merger_list.*does not belong' "$v.deepstack_visual_indexes = []"
no 'hidden_size is missing' 'del(.text_config.hidden_size)'
make make BF16 1
echo '{"image_mean":[1,2]}' >d/preprocessor_config.json
refused 1 "two means" gguf-convert --mmproj -o no.gguf d
refused 1 "a model without images" gguf-convert --mmproj -o no.gguf "$TOP/tests/files/hub/qwen3"
refused 1 "an adapter" gguf-convert --mmproj -o no.gguf "$TOP/tests/files/hub/qwen3_5-lora"
for o in --no-mtp --mtp-only --no-vocab "--base d"; do
	# shellcheck disable=SC2086
	refused 2 "$o with --mmproj" gguf-convert --mmproj $o -o no.gguf d
done
gguf-convert -o m.gguf "$TOP/tests/files/hub/qwen3_vl" 2>err
is "$? $(grep -c 'mmproj makes the file for images' err)" "0 1" "the text half: a note names --mmproj"
done_testing
