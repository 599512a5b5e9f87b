#!/bin/sh
# gguf-synth: the shapes of published files, plausible weights, complete files.
. "$TOP/tests/cli/tap.sh"
V=$TOP/tests/files/gguf/good-vocab.gguf

# What a type line says: tensors and bytes.
sum() { # FILE KIND NAME
	gguf-inspect "$1" | awk -v k="$2" -v n="$3" '$1 == k && $2 == n { print $3, $4, $5 }'
}

# -- the real file: figures of the published one (a hole takes no disk)
gguf-synth --sparse --vocab "$V" -o real.gguf Qwen3.6-35B-A3B-UD-Q4_K_M 2>err
is "$? $(wc -l <err)" "0 0" "the whole real shape"
is "$(sum real.gguf total all | awk '{ print $1, $3 }')" "753 21603.01" "tensors and MiB"
is "$(sum real.gguf type F32 | awk '{ print $1, $3 }')" "368 99.78" "F32"
is "$(sum real.gguf type BF16 | awk '{ print $1, $3 }')" "2 1.00" "BF16"
is "$(sum real.gguf type Q8_0 | awk '{ print $1, $3 }')" "259 1978.38" "Q8_0"
is "$(sum real.gguf type Q4_K | awk '{ print $1, $3 }')" "82 11808.00" "Q4_K"
is "$(sum real.gguf type Q5_K | awk '{ print $1, $3 }')" "38 6688.00" "Q5_K"
is "$(sum real.gguf type Q6_K | awk '{ print $1, $3 }')" "4 1027.85" "Q6_K"
is "$(sum real.gguf group mtp | awk '{ print $1 }')" 20 "the MTP block"
is "$(gguf-inspect real.gguf | awk '$2 == "tokenizer.ggml.tokens" { print $4 }')" 248320 \
    "the vocabulary has its size"
is "$(gguf-inspect real.gguf | awk '$2 == "qwen35moe.block_count" || $2 == "tokenizer.ggml.pre" { print $5 }' | tr '\n' ' ')" \
    "41 qwen35 " "blocks and pre-tokenizer"
du -k real.gguf >out
[ "$(awk '{ print $1 }' out)" -lt 100000 ]
ok $? "--sparse takes no disk"
refused 2 "no holes in stdout" sh -c 'gguf-synth --sparse qwen3-0.6b >holes'
gguf-synth --sparse --no-mtp --vocab "$V" -o real.gguf qwen3.6
is "$(sum real.gguf total all | awk '{ print $1 }')" 733 "--no-mtp leaves 20 tensors out"
is "$(gguf-inspect real.gguf | grep -c nextn)" 0 "and the key"
gguf-synth --sparse --layers 8 --no-mtp --vocab "$V" -o real.gguf qwen3.6
is "$(gguf-inspect real.gguf | awk '/attn_q.weight/ { printf "%s ", $2 }')" \
    "blk.3.attn_q.weight blk.7.attn_q.weight " "--layers keeps every fourth"

# Sizes of the published files are 18556.7, 5027.8 and 396.7 MB with their
# metadata; these have the same tensors.
gguf-synth --sparse --vocab "$V" -o s.gguf qwen3-30b
is "$(sum s.gguf total all)" "579 18550716416 17691.34" "Qwen3-30B-A3B"
gguf-synth --sparse --vocab "$V" -o s.gguf qwen3-8b
is "$(sum s.gguf total all)" "399 5021827072 4789.19" "Qwen3-8B"
gguf-synth --sparse --vocab "$V" -o s.gguf qwen3-0.6b
is "$(sum s.gguf total all)" "310 390753280 372.65" "Qwen3-0.6B"
gguf-synth --sparse --mtp-only --vocab "$TOP/demo/demo.gguf" -o s.gguf qwen3.8
is "$(gguf-inspect s.gguf | awk '$1 == "total" { print $3 } /^usable/')" "18
usable no: a draft file for Qwen3.8-27B, not a model: it has only the MTP block, \
the last of 65 blocks" "--mtp-only is a side file"
echo 1 | qprefill -m s.gguf -o none 2>err
is "$? $(ls none 2>/dev/null) $(cat err)" "1  qprefill: s.gguf: a draft file for Qwen3.8-27B, not a model: it \
has only the MTP block, the last of 65 blocks" "which no tool takes for a model"

# The counts of the published file, of 15 formats.
gguf-synth --sparse --vocab "$V" -o s.gguf Qwen3.8-27B-UD-Q2_K_XL
is "$(gguf-inspect s.gguf | awk '$1 == "type" { printf "%s %s; ", $2, $3 } $1 == "total" { print $3 }')" \
    "F32 360; Q8_0 98; Q2_K 16; Q3_K 5; Q4_K 21; Q5_K 2; Q6_K 6; IQ2_XXS 48; IQ2_XS 34; \
IQ3_XXS 112; IQ1_S 20; IQ3_S 57; IQ2_S 67; IQ4_XS 19; IQ1_M 1; 866" "Qwen3.8-27B, UD-Q2_K_XL"
gguf-synth --sparse --recipe mxfp4_moe --vocab "$V" -o s.gguf qwen3-235b
is "$(gguf-inspect s.gguf | awk '$1 == "type" { printf "%s %s; ", $2, $3 }')" "F32 471; Q8_0 378; MXFP4 282; " \
    "MXFP4_MOE: the experts"
gguf-synth --sparse --layers 3 --recipe nvfp4 --vocab "$V" -o s.gguf qwen3-30b
is "$(gguf-inspect s.gguf | awk '/blk.1.ffn_up/ || /blk.1.attn_k\.s/ { print $2, $3, $4 }')" \
    "blk.1.attn_k.scale F32 1
blk.1.ffn_up_exps.weight NVFP4 2048x768x128
blk.1.ffn_up_exps.scale F32 128" "NVFP4 has a second scale, one an expert"
gguf-synth --sparse --layers 16 --recipe Q3_K_M --vocab "$V" -o s.gguf qwen3-4b
is "$(gguf-inspect s.gguf | awk '/ffn_down/ { printf "%s ", $3 }')" \
    "Q5_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K Q4_K " \
    "a sixteenth of fewer layers"
rm -f real.gguf s.gguf

# -- all of them are models that can be used
for shape in $(gguf-synth --list | awk '{ print $1 }'); do
	gguf-synth --sparse --vocab "$TOP/demo/demo.gguf" -o s.gguf "$shape"
	is "$(gguf-inspect s.gguf | grep usable)" "usable yes" "$shape"
done
gguf-synth --layers 1 --vocab-size 4096 --vocab "$TOP/demo/demo.gguf" -o s.gguf qwen3-embedding
is "$(gguf-inspect --json s.gguf | jq -c '.metadata |
    [.["qwen3.pooling_type"], .["tokenizer.ggml.add_eos_token"]]')" "[3,true]" "an embedder says how"
for recipe in $(gguf-synth --list-recipes); do
	gguf-synth --vocab "$TOP/demo/demo.gguf" --layers 1 --recipe "$recipe" \
	    --vocab-size 4096 -o r.gguf qwen3-0.6b && gguf-inspect --check r.gguf 2>err &&
	    gguf-inspect r.gguf | grep -q '^usable yes' && echo 1 2 3 | qprefill -q -m r.gguf >/dev/null 2>>err
	is "$? $(cat err)" "0 " "recipe $recipe"
done
rm -f s.gguf r.gguf

# -- weights
small() { gguf-synth --vocab "$V" --layers 1 --vocab-size 64 "$@" qwen3-0.6b; }
small -o a.gguf 2>err
is "$? $(wc -l <err)" "0 0" "a small one"
gguf-inspect --check a.gguf 2>err
is "$? $(cat err)" "0 " "passes --check"
small -o b.gguf && cmp -s a.gguf b.gguf
ok $? "same seed, same bytes"
small >b.gguf && cmp -s a.gguf b.gguf
ok $? "and on stdout"
small --seed 2 -o b.gguf
is "$(gguf-inspect --diff a.gguf b.gguf | grep -c '^! data')" \
    "$(sum a.gguf total all | awk '{ print $1 }')" "another seed, other weights everywhere"
gguf-synth --vocab "$V" --layers 2 --vocab-size 64 -o b.gguf qwen3-0.6b
is "$(gguf-inspect --diff a.gguf b.gguf | grep -c '^! data')" 0 \
    "weights do not depend on the other tensors"

# Mean and standard deviation, in units of 1/sqrt(inputs).
spread() { # FILE TENSOR INPUTS
	gguf-inspect --values "$2" "$1" | awk -v n="$3" '
	{ for (i = 1; i <= NF; i++) { s += $i; q += $i * $i; c++ } }
	END { m = s / c; d = sqrt(q / c - m * m) * sqrt(n)
	      print (m * sqrt(n) < 0.02 && m * sqrt(n) > -0.02), (d > 0.97 && d < 1.03) }'
}
is "$(spread a.gguf token_embd.weight 1024)" "1 1" "Q6_K has the wanted spread"
is "$(spread a.gguf blk.0.attn_k.weight 1024)" "1 1" "Q4_K"
gguf-synth --vocab "$V" --layers 1 --no-mtp --experts 2 --vocab-size 64 -o c.gguf qwen3.6
gguf-inspect --check c.gguf
ok $? "a block of DeltaNet and two experts"
is "$(spread c.gguf blk.0.ffn_gate_shexp.weight 2048)" "1 1" "Q8_0"
is "$(spread c.gguf blk.0.ffn_down_exps.weight 512)" "1 1" "Q5_K"
is "$(spread c.gguf blk.0.ssm_alpha.weight 2048)" "1 1" "F32"
between() { # FILE TENSOR MIN MAX
	gguf-inspect --values "$2" "$1" | tr ' ' '\n' |
	    awk -v a="$3" -v b="$4" '$1 < a || $1 > b { bad = 1 } END { print bad + 0, (NR > 1) }'
}
is "$(between c.gguf blk.0.ssm_a -16 -1)" "0 1" "decay is negative"
is "$(between c.gguf blk.0.ssm_dt.bias -6.9 -2.2)" "0 1" "dt bias"
is "$(between c.gguf blk.0.ssm_conv1d.weight -0.5 0.5)" "0 1" "convolution taps"
is "$(between c.gguf output_norm.weight 0.5 1.5)" "0 1" "norms are near 1"

# -- vocabulary
is "$(gguf-inspect --json a.gguf | jq -c '.metadata |
    [.["tokenizer.ggml.tokens"][0,3,4,63], .["tokenizer.ggml.token_type"][0,3,4,63],
    .["tokenizer.ggml.eos_token_id"], .["tokenizer.ggml.pre"]]')" \
    '["a","<|im_end|>","[PAD4]","[PAD63]",1,3,5,5,3,"qwen2"]' "padded, with its special tokens"
gguf-synth --vocab "$V" --vocab-size 3 -o none.gguf qwen3-0.6b 2>err
is "$? $(grep -c 'has 4 tokens' err) $(ls none.gguf* .none* 2>/dev/null)" "1 1 " "a vocabulary too large"
gguf-synth --vocab "$TOP/tests/files/gguf/good-v2.gguf" -o none.gguf qwen3-0.6b 2>err
is "$? $(grep -c 'no vocabulary' err)" "1 1" "a file without vocabulary"

# -- output
if [ -c /dev/full ]; then
	small -o /dev/full 2>err
	is "$? $(wc -l <err)" "1 1" "a full disk"
	small >/dev/full 2>err
	is "$? $(wc -l <err)" "1 1" "a full disk at stdout"
fi
cp a.gguf keep.gguf
(ulimit -f 1024; trap '' XFSZ; small -o keep.gguf 2>err)
is "$? $(wc -l <err)" "1 1" "a file that may not grow"
cmp -s a.gguf keep.gguf
ok $? "the old file is still there"
small -o no/such/folder.gguf 2>err
is "$? $(wc -l <err)" "1 1" "no such folder"
# -- image encoders: that of the 27B has 460 million parameters
gguf-synth --sparse --mmproj -o s.gguf qwen3.8 2>err
is "$? $(cat err) $(sum s.gguf total all)" "0  334 927587264 884.62" "the image encoder of Qwen3.8-27B"
is "$(sum s.gguf type F16 | cut -d' ' -f1) $(gguf-inspect s.gguf | grep -e ^images -e 'image deep')" \
    "112 image deepstack  none
images yes: for a model of embedding_length 5120" "in F16, for models of this size"
for s in qwen3.6:2048:none qwen3-vl-2b:2048:5-11-17 qwen3-vl-8b:4096:8-16-24; do
	gguf-synth --sparse --mmproj --recipe bf16 -o s.gguf "${s%%:*}"
	is "$(gguf-inspect s.gguf | awk '$2 == "row" { printf "%s:", $3 }
	    $2 == "deepstack" { print $3 ($4 ? "-" $4 "-" $5 : "") }')" "${s#*:}" "${s%%:*}: rows and deepstack layers"
done
is "$(gguf-inspect s.gguf | awk '$2 == "v.patch_embd.weight" || $2 == "v.blk.0.ffn_down.weight" { print $3 }' | xargs)" \
    "F32 BF16" "in BF16"
gguf-synth --sparse --mmproj --recipe Q8_0 -o s.gguf qwen3.8
is "$(gguf-inspect s.gguf | awk '$2 == "v.patch_embd.weight" || $2 == "v.blk.0.ffn_down.weight" || $2 == "mm.0.weight" { print $3 }' | xargs)" \
    "F32 F16 Q8_0" "in Q8_0, rows that are no whole blocks in F16"
gguf-synth -q --mmproj --layers 3 -o s.gguf qwen3-vl-2b
gguf-inspect --check s.gguf 2>err
is "$? $(cat err) $(gguf-inspect s.gguf | grep -e ^images -e 'image deep' | xargs)" \
    "0  image deepstack 0 1 2 images yes: for a model of embedding_length 2048" "fewer layers"
is "$(gguf-inspect --values v.blk.1.ln1.weight s.gguf | tr ' ' '\n' | awk '{ s += $1 } END { printf "%.1f", s / NR }') $(
    gguf-inspect --values v.blk.1.attn_out.weight s.gguf | head -n 99 | tr ' ' '\n' |
    awk '{ s += $1; q += $1 * $1 } END { printf "%d %.2f", s / NR * 1000, sqrt(q / NR) * 32 }')" "1.0 0 1.00" \
    "norms are near 1, weights as wide as in models"
gguf-synth -q --mmproj --layers 3 qwen3-vl-2b | cmp -s - s.gguf
ok $? "same seed, same bytes"
rm -f s.gguf

for args in "" "qwen9" "qwen3-" "--layers 0 qwen3-8b" "--layers x qwen3-8b" \
    "--experts 4 qwen3-8b" "--mtp-only qwen3-8b" "--no-mtp --mtp-only qwen3.8" "--recipe Q4_K qwen3-8b" "--vocab-size 0 qwen3-8b" "a b" \
    "--mmproj qwen3-8b" "--mmproj --recipe Q4_K_M qwen3.8" "--mmproj --layers 257 qwen3.8" "--mmproj --no-mtp qwen3.8"; do
	# shellcheck disable=SC2086
	gguf-synth --vocab "$V" $args >out 2>err
	is "$? $(wc -c <out | tr -d ' ') $(wc -l <err) $(grep -c '; see gguf-synth --help$' err)" "2 0 1 1" "usage error: $args"
done
is "$(gguf-synth --list | wc -l | tr -d ' ') $(gguf-synth --list | grep -c 'tokens, images$')" "14 4" "--list"
is "$(gguf-synth --list-recipes | grep -c -x -e UD-Q2_K_XL -e Q4_K_M)" 2 "--list-recipes"
gguf-synth --help >out
ok $? "--help"
done_testing
