#!/bin/sh
# gguf-quantize: models with smaller weights, and invalid files.  unit/quantize
# tests the quality of the encoders.
. "$TOP/tests/cli/tap.sh"
format() { # FILE TENSOR
	gguf-inspect "$1" | awk -v t="$2" '$2 == t { print $3 }'
}
gguf-synth --recipe BF16 --layers 1 --vocab-size 4096 -o big.gguf Qwen3-0.6B
gguf-convert --type f32 -o tiny.gguf "$TOP/tests/files/hub/qwen3_moe"

# -- all types
model qwen35moe-f32
gguf-quantize --list-types >types
[ "$(grep -c . types)" -gt 15 ]
ok $? "there are types"
while read -r t; do
	gguf-quantize -q --type "$t" -t 1 -o one.gguf "$MODEL" 2>err
	is "$? $(cat err)" "0 " "$t"
	QWEN_CPU=scalar gguf-quantize -q --type "$t" -t 3 tiny.gguf >a.gguf &&
	    gguf-quantize -q --type "$t" -t 2 -o b.gguf tiny.gguf && cmp a.gguf b.gguf
	ok $? "$t: the same bytes with other threads and instructions"
	is "$(gguf-inspect one.gguf | grep ^usable) $(gguf-inspect b.gguf | grep ^usable)" \
	    "usable yes usable yes" "$t: can be used"
done <types
gguf-quantize --type q4_k -o k.gguf big.gguf
gguf-quantize --type Q4_K_M -t 3 big.gguf >km.gguf
cmp -s k.gguf km.gguf
ok $? "to stdout; Q4_K is Q4_K_M, in any case, with any threads"
is "$(format k.gguf blk.0.attn_q.weight) $(format k.gguf blk.0.attn_v.weight) $(
    format k.gguf token_embd.weight) $(format k.gguf output_norm.weight)" "Q4_K Q6_K Q6_K F32" "Q4_K_M is a mix"
is "$(gguf-inspect --json k.gguf | jq -c '.metadata | [.["general.file_type"], .["general.quantization_version"],
    .["qwen3.block_count"]]')" "[15,2,1]" "metadata"
is "$(format b.gguf blk.0.ffn_gate_inp.weight)" F32 "routers stay F32"

# -- what comes of it: the fewer bits, the further away
seq 1 9 190 | tr '\n' ' ' >ids
gguf-convert --type f32 -o F32.gguf "$TOP/tests/files/hub/qwen3"
for t in F32 Q8_0 Q5_0 Q4_0; do
	[ $t = F32 ] || gguf-quantize --type $t -o $t.gguf F32.gguf
	qprefill -q --numerics 4 -m $t.gguf --logits last -f raw -o /dev/null <ids |
	    od -An -v -tf4 | tr -s ' ' '\n' | sed '/^$/d' >$t.txt
done
paste F32.txt Q8_0.txt Q5_0.txt Q4_0.txt | awk '{ for (i = 2; i < 5; i++) s[i] += ($i - $1) ^ 2; n++ }
    END { exit !(n == 272 && s[2] > 0 && s[2] < n * 0.02 ^ 2 && s[3] < n * 0.1 ^ 2 && s[2] < s[3] && s[3] < s[4]) }'
ok $? "logits are near those before, and the nearer the more bits there are"

# -- formats of single tensors
printf '# mine\r\n\nblk.*.attn_[qk].weight  q5_k # both\n*attn_q.weight Q8_0\n' >t
gguf-quantize --type Q4_0 --types t -o o.gguf big.gguf
is "$(format o.gguf blk.0.attn_q.weight) $(format o.gguf blk.0.attn_k.weight) $(
    format o.gguf blk.0.attn_output.weight)" "Q5_K Q5_K Q4_0" "--types: the first pattern that fits"
while IFS='|' read -r what line word; do
	printf "$line\n" >t
	refused 1 "--types: $what" gguf-quantize --type Q4_0 --types t -o no.gguf big.gguf
	grep -q -e "$word" err
	ok $? "says so"
done <<'EOT'
no format|*attn_q.weight|line 1
more than a format|# one\n*attn_q.weight Q8_0 Q8_0|line 2
an unknown format|*attn_q.weight Q9|Q9
one that cannot be made|*attn_q.weight IQ1_S|IQ1_S
no such tensor|*attn_z.weight Q8_0|attn_z
a tensor that stays|output_norm.weight Q8_0|output_norm
EOT
printf '*attn_q.weight Q4_K\n' >t
refused 1 "--types: rows that are not whole blocks" gguf-quantize --type Q8_0 --types t -o no.gguf tiny.gguf

# -- by size
size=0
for s in 12M 16M 20M; do
	gguf-quantize --size $s -t 2 -o $s.gguf big.gguf 2>err
	is "$?" 0 "--size $s"
	n=$(wc -c <$s.gguf)
	[ "$n" -le $((${s%M} * 1048576)) ] && [ "$n" -gt $((${s%M} * 1048576 * 9 / 10)) ] && [ "$n" -gt "$size" ]
	ok $? "$s: $n bytes, no more than that and not much less"
	size=$n
	is "$(gguf-inspect $s.gguf | grep ^usable) $(format $s.gguf blk.0.attn_norm.weight)" "usable yes F32" "$s: can be used"
done
QWEN_CPU=scalar gguf-quantize --size 16M -t 1 -q big.gguf >other.gguf
cmp -s 16M.gguf other.gguf
ok $? "the same file with other threads and instructions"
printf '*attn_q.weight Q8_0\n' >t
gguf-quantize -q --size 14M --types t -o o.gguf big.gguf
is "$(format o.gguf blk.0.attn_q.weight)" Q8_0 "--size with --types"
refused 1 "--size: too small" gguf-quantize --size 100K -o no.gguf big.gguf
refused 2 "--size and --type" gguf-quantize --size 1G --type Q8_0 -o no.gguf big.gguf

# -- by size, where the damage is measured with a text
kl() {
	qscore -q -m "$1" --base F32.gguf t.txt | awk '/^KL/ { print $4 }'
}
seq 1 40 >t.txt
qtok -m F32.gguf <t.txt >text
for t in Q4_0 Q5_0; do
	gguf-quantize -q --size "$(wc -c <$t.gguf)" --calibration text -t 2 -o s.gguf F32.gguf
	n=$?
	[ "$(wc -c <s.gguf)" -le "$(wc -c <$t.gguf)" ]
	is "$n $?" "0 0" "--calibration: no larger than $t"
	gguf-quantize -q --size "$(wc -c <$t.gguf)" -o b.gguf F32.gguf
	a=$(kl s.gguf) b=$(kl b.gguf) c=$(kl $t.gguf)
	awk -v a="$a" -v b="$b" -v c="$c" 'BEGIN { exit !(a > 0 && a < b && a < c) }'
	ok $? "nearer to F32 than without a text, and than $t: $a, $b, $c"
done
QWEN_CPU=scalar gguf-quantize -q --size "$(wc -c <Q5_0.gguf)" --calibration - -t 1 F32.gguf <text >a.gguf
cmp -s a.gguf s.gguf
ok $? "the same file with other threads and instructions, and tokens on stdin"
gguf-quantize -q --size "$(wc -c <Q5_0.gguf)" -o a.gguf F32.gguf
cmp -s a.gguf s.gguf
is $? 1 "another one without a text"
gguf-quantize -q --size 16M --calibration ids -o a.gguf big.gguf
is "$? $(gguf-inspect a.gguf | grep ^usable)" "0 usable yes" "formats of 256"
: >none
refused 1 "--calibration: no tokens" gguf-quantize --size 16M --calibration none -o no.gguf big.gguf
refused 1 "--calibration: of another vocabulary" gguf-quantize --size 16M --calibration text -o no.gguf big.gguf
echo 1 2 4096 >none
refused 1 "--calibration: ids that are none" gguf-quantize --size 16M --calibration none -o no.gguf big.gguf
refused 1 "--calibration: no such file" gguf-quantize --size 16M --calibration no -o no.gguf big.gguf
refused 1 "--calibration: no tokens, but a model" gguf-quantize --size 16M --calibration big.gguf -o no.gguf big.gguf
refused 2 "--calibration without --size" gguf-quantize --type Q8_0 --calibration ids -o no.gguf big.gguf

# -- weights that were quantised
gguf-quantize --type Q4_0 -o c.gguf k.gguf 2>err
is "$? $(grep -c 'already quantised' err)" "0 1" "a note where weights are quantised already"
gguf-quantize -q --type Q4_0 -o c.gguf k.gguf 2>err
is "$? $(cat err)" "0 " "not with -q"
gguf-quantize --type Q4_K_M -o c.gguf k.gguf 2>err
cmp -s c.gguf k.gguf
is "$? $(grep -c 'these formats already' err)" "0 1" "the same formats: the same file"

zstd -dq "$TOP"/tests/golden/models/qwen3/model.gguf.zst -o g.gguf
gguf-quantize -q --type Q8_0 -o h.gguf g.gguf
is "$(gguf-inspect h.gguf | grep ^usable)" "usable yes" "a model of the fixtures"

# -- what is no model, or a bad one
refused 1 "no such file" gguf-quantize --type Q8_0 -o no.gguf nothing.gguf
echo hello >x.gguf
refused 1 "no GGUF file" gguf-quantize --type Q8_0 -o no.gguf x.gguf
head -c 3000 tiny.gguf >x.gguf
refused 1 "cut short" gguf-quantize --type Q8_0 -o no.gguf x.gguf
cp tiny.gguf x.gguf
at=$(gguf-inspect --json x.gguf | jq '.tensors[] | select(.name == "blk.0.attn_q.weight") | .offset')
printf '\377\377\377\177' | dd of=x.gguf bs=1 seek="$((at + 40))" conv=notrunc 2>/dev/null
refused 1 "a weight that is no number" gguf-quantize --type Q8_0 -o no.gguf x.gguf
grep -q "blk.0.attn_q.weight: row 0 has a weight that is NaN or infinite" err
ok $? "says which"
cp tiny.gguf x.gguf
printf '\377\377\177\177' | dd of=x.gguf bs=1 seek="$((at + 40))" conv=notrunc 2>/dev/null
refused 1 "one that is too large for F16" gguf-quantize --type F16 -o no.gguf x.gguf
gguf-quantize --type Q8_0 -o y.gguf x.gguf && gguf-inspect --check y.gguf >/dev/null
ok $? "cut to what Q8_0 can hold"
refused 1 "the model itself is the output" gguf-quantize --type Q8_0 -o tiny.gguf tiny.gguf
refused 1 "importance of nothing" gguf-quantize --type Q8_0 --imatrix tiny.gguf -o no.gguf tiny.gguf
refused 2 "no type" gguf-quantize -o no.gguf tiny.gguf
refused 2 "no file" gguf-quantize --type Q8_0 -o no.gguf
refused 2 "an unknown type" gguf-quantize --type Q9_0 -o no.gguf tiny.gguf
refused 2 "a type that cannot be made" gguf-quantize --type IQ1_S -o no.gguf tiny.gguf
if [ -e /dev/full ]; then
	refused 1 "a full disk" sh -c "gguf-quantize --type Q8_0 tiny.gguf >/dev/full"
fi
is "$(ls no.gguf 2>/dev/null)" "" "nothing half written"

# -- memory: some rows, not the model
if [ -z "$QPIPE_SAN" ] && [ -r /proc/self/status ]; then
	(ulimit -v 600000 && gguf-quantize --type Q4_K_M -t 2 -o m.gguf big.gguf)
	ok $? "within 600 MB of addresses"
fi
done_testing
