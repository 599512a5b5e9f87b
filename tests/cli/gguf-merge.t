#!/bin/sh
# gguf-merge adds adapters to the weights: the bytes do not depend on the number
# of threads, and the merged model gives the results of --lora.
. "$TOP/tests/cli/tap.sh"

# far A B: the largest difference of two files of f32
far() {
	od -An -v -tf4 -w4 "$1" >far.a
	od -An -v -tf4 -w4 "$2" | paste - far.a |
	    awk '{ d = $1 - $2; d = d < 0 ? -d : d; if (d > m) m = d }
	    END { printf "%.6f\n", m }'
}

# near LIMIT NAME: got and want, and neither is alone
near() {
	d=$(far got want)
	e=$(far alone want)
	awk -v d="$d" -v l="$1" -v e="$e" 'BEGIN { exit !(d <= l && e > 10 * l) }'
	ok $? "$2: $d from --lora, the model alone $e"
}

# logits OPTIONS...: the last row
logits() {
	qprefill -q "$@" --numerics 4 --logits last -f raw <ids
}

# --- models in F32 and F16 whose shapes have all there is
for name in qwen3 qwen3moe qwen35-tied qwen3next qwen35moe-f32; do
	model "$name"
	vocab=$(gguf-inspect --json "$MODEL" | jq '.tensors[] |
	    select(.name == "token_embd.weight") | .shape[1]')
	ids 40 6 "$vocab" >ids
	gguf-quantize -q --type F32 -o f32.gguf "$MODEL"
	gguf-synth --lora f32.gguf --rank 4 -o a.lora
	gguf-synth --lora f32.gguf --rank 2 --seed 3 --recipe F16 -o b.lora
	set -- --lora a.lora=0.5 --lora b.lora
	logits -m f32.gguf "$@" >want
	logits -m f32.gguf >alone
	gguf-merge -m f32.gguf "$@" -o merged.gguf 2>err
	is "$?$(cat err)" 0 "$name"
	logits -m merged.gguf >got
	near 0.005 "$name"
	for t in 1 3; do
		QWEN_CPU=scalar gguf-merge -m f32.gguf "$@" -t $t >again.gguf
		cmp -s merged.gguf again.gguf
		ok $? "$name: the same bytes on stdout, by $t threads"
	done
	gguf-inspect --check merged.gguf >out 2>&1
	ok $? "$name: a sound file"
	# what no adapter names is as it was
	gguf-inspect --json f32.gguf | jq -r '.tensors[].name' |
	    grep -e norm -e conv1d -e ssm_a -e dt | head -n 3 >names
	while read -r n; do
		gguf-inspect --values "$n" f32.gguf >x
		gguf-inspect --values "$n" merged.gguf | cmp -s - x
		ok $? "$name: $n is as it was"
	done <names
	# and all of it, where nothing is added
	gguf-merge -q -m "$MODEL" --lora a.lora=0 -o same.gguf
	is "$?$(gguf-inspect --diff --full "$MODEL" same.gguf)" 0 \
	    "$name: scale 0 changes nothing"
done

# --- one more tensor where head and embedding were one
model qwen35-tied
vocab=$(gguf-inspect --json "$MODEL" | jq '.tensors[] |
    select(.name == "token_embd.weight") | .shape[1]')
ids 40 6 "$vocab" >ids
gguf-synth --lora "$MODEL" --rank 4 -o a.lora
gguf-merge -q -m "$MODEL" --lora a.lora -o merged.gguf
gguf-inspect --values token_embd.weight "$MODEL" >x
gguf-inspect --values output.weight merged.gguf | cmp -s x -
ok $? "a head that was the embedding is that still"
gguf-inspect --values token_embd.weight merged.gguf | cmp -s x -
is $? 1 "and the embedding is not"

# --- a quantised model: its own formats, or others; numerics 4 rounds what goes
# into quantised weights, if little, but not into F32
model qwen35moe-ud
vocab=$(gguf-inspect --json "$MODEL" | jq '.tensors[] |
    select(.name == "token_embd.weight") | .shape[1]')
ids 40 6 "$vocab" >ids
gguf-synth --lora "$MODEL" --rank 4 -o a.lora
gguf-merge -m "$MODEL" --lora a.lora -o merged.gguf 2>err
is "$?$(grep -c 'tensors are rounded to their formats' err)" 01 "a note"
gguf-inspect --json "$MODEL" | jq -c '.tensors[] | [.name, .type]' >types
gguf-inspect --json merged.gguf | jq -c '.tensors[] | [.name, .type]' | cmp -s - types
ok $? "tensors have the formats that they had"
gguf-inspect --json "$MODEL" | jq -c .metadata >keys
gguf-inspect --json merged.gguf | jq -c .metadata | cmp -s - keys
ok $? "and the file all keys"
logits -m "$MODEL" --lora a.lora >want
logits -m "$MODEL" >alone
gguf-merge -q -m "$MODEL" --lora a.lora --type F32 -o f32.gguf
logits -m f32.gguf >got
near 0.15 "brought to F32"
gguf-merge -q -m "$MODEL" --lora a.lora --type Q8_0 -o q8.gguf
is "$?$(gguf-inspect --json q8.gguf | jq -r '.tensors[].type' | grep -c Q8_0 |
    awk '{ print ($1 > 10) }')" 01 "or to Q8_0"
logits -m q8.gguf >got
near 0.3 "which is near"

# --- weighed by importance: as brought to F32, merged, and quantised again
model qwen3
vocab=$(gguf-inspect --json "$MODEL" | jq '.tensors[] |
    select(.name == "token_embd.weight") | .shape[1]')
ids 60 6 "$vocab" >ids
gguf-synth --lora "$MODEL" --rank 4 -o a.lora
qprefill -q -m "$MODEL" --lora a.lora --imatrix i.gguf <ids >/dev/null
gguf-quantize -q --type Q4_0 --imatrix i.gguf -o small.gguf "$MODEL"
gguf-merge -q -m small.gguf --lora a.lora -o plain.gguf
gguf-merge -q -m small.gguf --lora a.lora --type F32 -o f32.gguf
gguf-inspect --json small.gguf | jq -r '.tensors[] |
    select(.type | test("^Q")) | "\(.name) \(.type)"' >types
gguf-quantize -q --type F32 --types types --imatrix i.gguf -o want.gguf f32.gguf
gguf-merge -m small.gguf --lora a.lora --imatrix i.gguf -o merged.gguf 2>err
is "$?" 0 "with an importance matrix"
n=0 same=0 differ=0
while read -r t _; do
	gguf-inspect --values "$t" want.gguf >x
	gguf-inspect --values "$t" merged.gguf >y
	gguf-inspect --values "$t" plain.gguf >z
	n=$((n + 1))
	cmp -s x y && same=$((same + 1))
	cmp -s y z || differ=$((differ + 1))
done <types
is "$same $((differ > 5))" "$n 1" "each matrix is what gguf-quantize makes of it"
is "$(gguf-inspect --json merged.gguf | jq -r '.metadata |
    to_entries[] | select(.key == "quantize.imatrix.file") | .key' | wc -l)" 1 \
    "the file says so, once"
gguf-inspect --check merged.gguf >out 2>&1
ok $? "and is sound"
gguf-merge -q -m "$MODEL" --lora a.lora --imatrix i.gguf --type IQ2_XS -o a.gguf
gguf-merge -q -m "$MODEL" --lora a.lora --type F32 -o f32.gguf
gguf-quantize -q --type IQ2_XS --imatrix i.gguf -o b.gguf f32.gguf
gguf-inspect --diff --full a.gguf b.gguf >out 2>&1
is "$?$(cat out)" 0 "the same with --type"
model qwen35-tied
gguf-synth --lora "$MODEL" --rank 4 -o t.lora
gguf-merge -q -m "$MODEL" --lora t.lora --imatrix i.gguf -o no.gguf 2>err
is "$?$(grep -c 'of another shape' err)$(ls no.gguf 2>&1 | grep -c cannot)" 111 \
    "not with another model's"
vocab=$(gguf-inspect --json "$MODEL" | jq '.tensors[] |
    select(.name == "token_embd.weight") | .shape[1]')
ids 60 6 "$vocab" >ids
qprefill -q -m "$MODEL" --imatrix t.imatrix <ids >/dev/null
gguf-merge -q -m "$MODEL" --lora t.lora --imatrix t.imatrix --type Q4_0 -o t.gguf
is "$?" 0 "also where the head becomes a tensor of its own"

# --- what cannot be
model qwen35moe-nvfp4
gguf-synth --lora "$MODEL" --rank 2 -o n.lora
refused 1 "NVFP4" gguf-merge -m "$MODEL" --lora n.lora -o no.gguf
is "$(grep -c 'is NVFP4, which cannot be encoded: choose another' err)$(ls no.gguf 2>&1 | grep -c cannot)" \
    11 "says so, and leaves no file"
vocab=$(gguf-inspect --json "$MODEL" | jq '.tensors[] |
    select(.name == "token_embd.weight") | .shape[1]')
ids 40 6 "$vocab" >ids
gguf-merge -q -m "$MODEL" --lora n.lora --type F32 -o n.gguf
is $? 0 "but with --type"
logits -m "$MODEL" --lora n.lora >want
logits -m "$MODEL" >alone
logits -m n.gguf >got
near 0.15 "with the scales that such files have"
# at FILE WORD: the byte after the word
at() {
	echo $(($(grep -abo "$2" "$1" | head -n 1 | cut -d: -f1) + ${#2}))
}
# not_merged WHAT MESSAGE: bad.gguf and bad.lora
not_merged() {
	refused 1 "$1" gguf-merge -q -m bad.gguf --lora bad.lora --type F32 -o no.gguf
	is "$(grep -c "$2" err)$(ls -A | grep -c 'no.gguf')" 10 "says so, and leaves no file"
}
cp n.lora bad.lora
scale=blk.0.ffn_down_exps.scale
for n in 2 7; do
	cp "$MODEL" bad.gguf
	printf "\\$n" | dd of=bad.gguf bs=1 seek=$(($(at bad.gguf $scale) + 4)) conv=notrunc 2>/dev/null
	not_merged "$n scales for 5 matrices" "$scale is $n, should be 5\$"
done
data=$(gguf-inspect "$MODEL" | awk -v s=$scale '$2 == s { print $6 }')
cp "$MODEL" bad.gguf
head -c 4 /dev/zero | dd of=bad.gguf bs=1 seek="$data" conv=notrunc 2>/dev/null
not_merged "a scale of 0" "$scale: cannot divide by 0\$"
cp "$MODEL" bad.gguf
a=blk.0.ffn_down_exps.weight.lora_a
data=$(gguf-inspect n.lora | awk -v s=$a '$2 == s { print $6 }')
printf '\377\377\377\377' | dd of=bad.lora bs=1 seek="$data" conv=notrunc 2>/dev/null
not_merged "NaN in an adapter" "adapter bad.lora: tensor $a has a value that is NaN or infinite\$"
refused 2 "no adapter" gguf-merge -m "$MODEL" -o no.gguf
refused 2 "no such type" gguf-merge --lora n.lora --type Q9 -o no.gguf
refused 1 "of another model" gguf-merge -m "$TOP/demo/demo.gguf" --lora a.lora -o no.gguf
refused 1 "a model" gguf-merge -m "$MODEL" --lora "$MODEL" -o no.gguf
refused 1 "an adapter as the model" gguf-merge -m n.lora --lora n.lora -o no.gguf
refused 1 "no file" gguf-merge --lora nowhere -o no.gguf
refused 1 "no importance" gguf-merge -m "$MODEL" --lora n.lora --imatrix n.lora -o no.gguf
head -c 3000 n.lora >cut.lora
refused 1 "a part of one" gguf-merge -m "$MODEL" --lora cut.lora -o no.gguf
is "$(ls no.gguf 2>&1 | grep -c cannot)" 1 "no file is left"
gguf-merge -q -m "$MODEL" --lora n.lora --type F16 >/dev/full 2>err
is "$? $(grep -c . err)" "1 1" "a full disk"
gguf-merge -q -m "$MODEL" --lora n.lora --type F16 2>err | head -c 10 >/dev/null
is "$(cat err)" "" "head closes the pipe"
done_testing
