#!/bin/sh
# gguf-inspect: text, JSON, check, diff and values, and errors.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/gguf

# -- text
gguf-inspect "$F/good-v3.gguf" >out 2>err
ok $? "a good file"
is "$(grep -c . err)" 0 "nothing on stderr"
is "$(awk '{ print $1 }' out | sort | uniq -c | awk '{ printf "%s%s ", $2, $1 }')" \
    "chat1 file1 group1 meta24 tensor1 total1 type1 usable2 " "a record a line, its kind first"
is "$(awk '$2 == "s.u64" { print $3, $5 }' out)" \
    "UINT64 18446744073709551615" "64-bit numbers to the last digit"
is "$(awk '$2 == "s.i64" { print $5 }' out)" "-9223372036854775808" "the least integer"
is "$(awk '$2 == "s.f32" { print $5 }' out)" "0.1" "shortest float"
is "$(grep '^meta s.str ' out)" \
    'meta s.str STRING 1 café "\\\n\x00\x1b[31m' "strings are escaped"
is "$(grep '^meta s.bytes ' out)" 'meta s.bytes STRING 1 a\xff\xc3z' "bytes that are no UTF-8"
is "$(grep -c 'odd\\x20key STRING 1 \\xe2\\x80\\xaeright' out)" 1 \
    "characters that reorder text do not reach the terminal, spaces keep columns"
is "$(grep '^meta a.u8 ' out)" "meta a.u8 ARRAY/UINT8 10 0 1 2 3 4 5 ..." "a long array is cut"
is "$(gguf-inspect --full "$F/good-v3.gguf" | grep '^meta a.u8 ')" \
    "meta a.u8 ARRAY/UINT8 10 0 1 2 3 4 5 6 7 8 9" "--full prints it whole"
is "$(awk '$1 == "tensor" { print $2, $3, $4, $5, $6, $7, $8 }' out)" \
    "a.weight F32 8 32 800 1 other" "a tensor"
is "$(gguf-inspect "$F/good-split-00001-of-00003.gguf" |
    awk '$1 == "tensor" { printf "%s %s ", $2, $7 } $1 == "total" { print $3 }')" \
    "a.weight 2 b.weight 3 2" "a split model opens by its first part"
is "$(gguf-inspect "$F/good-types.gguf" | awk '$1 == "tensor" { s += $5 } $1 == "total" { print $3, $4 == s }')" \
    "35 1" "every number format is named and sized"
is "$(gguf-inspect "$F/good-types.gguf" | awk '$1 == "type" && $8 == "no" { printf "%s ", $2 }
    $1 == "type" && $8 == "yes" { n++ } END { print n }')" \
    "Q8_1 Q8_K I8 I16 I32 I64 F64 28" "and it is said which can be computed with"
is "$(gguf-inspect "$F/good-empty.gguf" | awk '$1 == "total" { print $3 }')" 0 "an empty file"
gguf-inspect "$F/good-v2.gguf" >out2 2>&1
ok $? "version 2"
QWEN_MODEL=$F/good-v2.gguf gguf-inspect >out3 2>&1
cmp -s out2 out3
ok $? "QWEN_MODEL is the file without one"
gguf-inspect -m "$F/good-v2.gguf" >out3 2>&1
cmp -s out2 out3
ok $? "so is -m"
mkdir "a folder"
cp "$F/good-v2.gguf" "a folder/a model.gguf"
chmod 444 "a folder/a model.gguf"
is "$(gguf-inspect "a folder/a model.gguf" | awk '$1 == "file" { print $6 }')" \
    'a\x20folder/a\x20model.gguf' "read-only, and spaces in the path"

# -- whether it can be used
demo=$TOP/demo/demo.gguf
is "$(gguf-inspect "$demo" | tail -n 2 | tr '\n' ' ')" "chat yes usable yes " \
    "the demo model can be used"
is "$(gguf-inspect --json "$demo" | jq -c '[.usable, .reasons, .chat, .chat_reason]')" \
    '[true,[],true,null]' "and in JSON"
is "$(gguf-inspect "$demo" | awk '$1 == "group" && $2 == "mtp" { print $3 }')" 20 \
    "and has a block that drafts"
gguf-inspect "$demo" >all
is "$(awk '$1 == "total" { t = $4 } { n[NR] = $0 } END { for (i in n) { split(n[i], f)
    if (f[1] == "group" || f[1] == "moe") { s = sprintf("%.2f", 100 * f[4] / t); if (s != f[8]) print n[i] } } }' all)" "" \
    "each group's share of the bytes"
is "$(awk '$1 == "group" { s += $8; n[$2] = $4 } $1 == "moe" { m = $4 == n["router"] + n["experts"] + n["shared-expert"] }
    $1 == "total" { t = $8 } END { print (s > 99.9 && s < 100.1), m, t }' all)" "1 1 100.00" \
    "they are all of it; the mixture of experts in one"
is "$(gguf-inspect "$TOP/tests/files/gguf/good-types.gguf" | grep -c '^moe')" 0 "no line where there is none"
at=$(LC_ALL=C grep -obUaF -m 1 qwen35moe "$demo" | head -n 1 | cut -d: -f1)
cp "$demo" other.gguf
printf llama70xx | dd of=other.gguf bs=1 seek="$at" conv=notrunc 2>/dev/null
gguf-inspect other.gguf >out 2>err
is "$? $(tail -n 1 out)" \
    '0 usable no: unknown architecture "llama70xx"; supported: qwen2, qwen2moe, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, qwen3vl, qwen3vlmoe' \
    "an architecture that is not known"
is "$(gguf-inspect --json other.gguf | jq -r '.usable, .reasons[0]' | tr '\n' ' ')" \
    'false unknown architecture "llama70xx"; supported: qwen2, qwen2moe, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, qwen3vl, qwen3vlmoe ' \
    "and in JSON"
QWEN_MODEL=other.gguf qdecode -n 1 </dev/null 2>err
is "$(sed 's/^[^:]*: [^:]*: //' err)" "$(sed -n 's/^usable no: //p' out)" \
    "it is what the tools say that open it"
gguf-inspect "$F/good-vocab.gguf" >out
is "$(grep -c '^usable no: .*block_count is missing' out) $(grep '^chat ' out | cut -c1-8)" \
    "1 chat no:" "a vocabulary alone"

# -- JSON
gguf-inspect --json "$F/good-v3.gguf" >out 2>err
ok $? "--json"
jq -e . <out >/dev/null
ok $? "it is JSON"
is "$(jq -r 'keys | join(" ")' <out)" "chat chat_reason metadata reasons tensors usable" "its members"
is "$(jq -c '.tensors[0]' <out)" \
    '{"name":"a.weight","type":"F32","shape":[8],"bytes":32,"offset":800}' "a tensor in JSON"
is "$(grep -c '"s.u64": 18446744073709551615' out)" 1 "64-bit numbers in JSON"
is "$(jq -c '.metadata | [.["s.nan"], .["s.inf"], .["a.f32"]]' <out)" \
    '[null,null,[0.5,null]]' "NaN and infinity are null"
is "$(jq -c '.metadata["s.bytes"]' <out)" '"a��z"' "bytes that are no UTF-8 in JSON"
is "$(jq -c '.metadata["a.u8"] | length' <out)" 10 "arrays are whole in JSON"
is "$(grep -c "$(printf '[\001-\011\013-\037]')" out)" 0 "no control characters in JSON"
for f in "$F"/good-*.gguf; do
	case $f in *-0000[23]-of-*) continue ;; esac
	gguf-inspect --json "$f" | jq -e . >/dev/null
	ok $? "JSON of ${f##*/}"
	gguf-inspect --check "$f" >out 2>&1 && [ ! -s out ]
	ok $? "--check of ${f##*/} is silent"
done

gguf-inspect --full --json "$F/good-v3.gguf" >out2
gguf-inspect --json "$F/good-v3.gguf" | cmp -s - out2
ok $? "--full changes nothing in JSON"

# -- check tells all problems, not the first
cat "$F/bad-vocab-types.gguf" >two.gguf
printf '\000\000\300\177' | dd of=two.gguf bs=1 conv=notrunc \
    seek=$(($(wc -c <two.gguf) - 4)) 2>/dev/null
gguf-inspect --check two.gguf 2>err
is "$? $(wc -l <err)" "1 2" "two problems, two lines"
at=$(LC_ALL=C grep -obUaF tokenizer.ggml.merges "$demo" | cut -d: -f1)
cp "$demo" merges.gguf	# "t h", the first one
printf '\001' | dd of=merges.gguf bs=1 seek=$((at + 45)) conv=notrunc 2>/dev/null
gguf-inspect --check merges.gguf 2>err
is "$? $(cat err)" "1 gguf-inspect: merges.gguf: merge 0 '? h': its left side is not a token" \
    "a merge of what is no token"
echo hi | qtok -m merges.gguf >out 2>err2
is "$? $(sed 's/^[^:]*: //' err2)" "1 $(sed 's/^[^:]*: //' err)" "which is what qtok says"
is "$(gguf-inspect -v --check "$F/good-v2.gguf" 2>&1)" \
    "gguf-inspect: $F/good-v2.gguf: good: 1 key, 1 tensor, 0.00 MiB" "-v says good"

# -- diff
gguf-inspect --diff "$F/good-v3.gguf" "$F/good-v3.gguf" >out 2>err
is "$? $(cat out err)" "0 " "no difference from itself"
gguf-inspect --diff "$F/good-v2.gguf" "$F/good-align.gguf" >out 2>err
is "$? $(cat out)" "1 + meta general.alignment UINT32 1 128
+ tensor b.weight F32 2x2x1x1 16" "what only the second has"
gguf-inspect --diff "$F/good-align.gguf" "$F/good-v2.gguf" >out 2>err
is "$? $(cat out)" "1 - meta general.alignment UINT32 1 128
- tensor b.weight F32 2x2x1x1 16" "what only the first has"
gguf-inspect --diff "$F/good-vocab.gguf" two.gguf >out 2>err
is "$? $(cat out)" "1 - meta tokenizer.ggml.token_type ARRAY/INT32 4 1 1 1 3
+ meta tokenizer.ggml.token_type ARRAY/INT32 3 1 1 1
! meta tokenizer.ggml.token_type first differs at element 3
! data token_embd.weight 126 2" "changed metadata and changed data"
gguf-inspect --diff "$F/good-v2.gguf" "$F/bad-magic.gguf" >out 2>err
is "$? $(grep -c 'bad-magic.gguf: not a GGUF' err)" "1 1" "a bad second file"

# -- one value
demo=$TOP/demo/demo.gguf
is "$(gguf-inspect --get n_vocab "$demo")" \
    "$(gguf-inspect --json "$demo" | jq '.metadata["tokenizer.ggml.tokens"] | length')" \
    "--get n_vocab"
is "$(gguf-inspect --get context_length "$demo") $(gguf-inspect --get qwen35moe.context_length "$demo")" \
    "4096 4096" "a key with and without the architecture"
is "$(gguf-inspect --get general.description "$demo")" \
    "$(gguf-inspect --json "$demo" | jq -r '.metadata["general.description"]')" "a long text, whole"
is "$(gguf-inspect --get rope.dimension_sections "$demo")" "6 5 5 0" "an array"
is "$(gguf-inspect --get tokenizer.ggml.tokens "$demo" | wc -l)" 1 "in one line"
refused 1 "no such key" gguf-inspect --get nothing "$demo"
refused 2 "--get with --json" gguf-inspect --get n_vocab --json "$demo"
# -- values
is "$(gguf-inspect --values a.weight "$F/good-v3.gguf")" "0 1 2 3 4 5 6 7" "values"
is "$(gguf-inspect --values b.weight "$F/good-align.gguf")" "0 0
0 0" "a row a line"
gguf-inspect --values nix "$F/good-v3.gguf" >out 2>err
is "$? $(cat out err)" "1 gguf-inspect: $F/good-v3.gguf: there is no tensor nix" "no such tensor"
gguf-inspect --values t15.weight "$F/good-types.gguf" >out 2>err
is "$? $(grep -c Q8_K err)" "1 1" "values of a format we cannot compute with"

# -- command line and output
gguf-inspect --help >out 2>err
is "$? $(head -c 19 out)" "0 usage: gguf-inspect" "--help"
for args in --nonsense "--json --check" "--diff a" "--full --check a" "a b" "-m a b" --values; do
	# shellcheck disable=SC2086
	gguf-inspect $args >out 2>err
	is "$? $(wc -c <out | tr -d ' ') $(wc -l <err) $(grep -c '; see gguf-inspect --help$' err)" "2 0 1 1" "usage error: $args"
done
if [ -c /dev/full ]; then
	gguf-inspect "$F/good-v3.gguf" >/dev/full 2>err
	is "$? $(wc -l <err)" "1 1" "a full disk is noticed"
else
	skip "a full disk is noticed" "no /dev/full"
fi
gguf-inspect --full "$F/good-v3.gguf" 2>err | head -n 1 >out
is "$(wc -l <out) $(wc -l <err)" "1 0" "head closes the pipe"

# -- image encoders
gguf-convert -q --mmproj -o image.gguf "$TOP/tests/files/hub/image"
gguf-inspect image.gguf >out
is "$(grep '^image ' out | cut -d' ' -f 2- | tr -s ' ' | xargs)" \
    "layers 2 embedding 8 heads 2 ffn 12 patch 4 multiple 8 positions 2 row 32 deepstack 1" "the sizes of an image encoder"
is "$(grep -e ^images -e ^usable -e ^chat out)" "images yes: for a model of embedding_length 32
chat no: the file has no tokenizer.chat_template
usable no: an image encoder (mmproj), not a model: give the model's file here, and this one with --mmproj" \
    "what it is for"
is "$(awk '$1 == "group" { printf "%s %s ", $2, $3 }' out)" \
    "embedding 4 attention 8 ffn 8 norm 10 merger 10 " "its parts"
is "$(gguf-inspect --json image.gguf | jq -c '.image, .usable')" \
    '{"layers":2,"embedding":8,"heads":2,"ffn":12,"patch":4,"multiple":8,"positions":2,"row":32,"deepstack":[1],"usable":true,"reason":null}
false' "the same as JSON"
is "$(gguf-inspect --json "$F/good-v3.gguf" | jq -c .image)" null "other files have no such field"
gguf-inspect --plan --json image.gguf >plan
# 65,536 patches of 48 numbers; two layers of 8 x (24 + 8 + 12 + 12) and
# attention; of four patches each, two mergers of 32 x 32 and 32 x 32
is "$(jq -c '[."1024x1024" | .rows, ."row-bytes", (.macs * 1e9 | round)], .memory.weights > 10000' plan | xargs)" \
    "[16384,4194304,$(awk 'BEGIN { n = 65536
	printf "%.0f", n * (48 * 8 + 2 * (8 * (24 + 8 + 24) + 2 * n * 8) + 2 * 2 * 32 * 32 / 4) }')] true" \
    "--plan counts its work"
is "$(jq -c '."1920x1080" | .rows, (.time > 0)' plan | xargs)" "$((1920 / 8 * 1080 / 8)) true" "and that of another size"
is "$(gguf-inspect --plan image.gguf | awk '{ print $1 }' | sort -u | xargs)" \
    "1024x1024 1920x1080 machine memory model" "and as text"
sed 's/clip\.vision\.patch_size/clip.vision.patch_Size/' image.gguf >damaged.gguf
is "$(gguf-inspect damaged.gguf | grep ^images)" "images no: key clip.vision.patch_size is missing" "one that lacks a key"
refused 1 "--plan of it" gguf-inspect --plan damaged.gguf
refused 1 "--check of it" gguf-inspect --check damaged.gguf
sed 's/qwen3vl_merger/qwen9vl_merger/' image.gguf >other.gguf
is "$(gguf-inspect other.gguf | grep ^images)" \
    'images no: unknown projector_type "qwen9vl_merger"; supported: qwen3vl_merger' "one of another kind"
gguf-inspect --check other.gguf 2>err
is "$? $(cat err)" "0 " "which is no damage"

# -- given as the model, in any tool: one line that says what to do
for tool in "qtok" "qprefill" "qdecode" "qchat" "qscore" "qembed" "qbatch" "qengine" "qbench" \
    "qrerank q" "gguf-inspect --graph"; do
	# shellcheck disable=SC2086
	echo x | $tool -m image.gguf >out 2>err
	is "$? $(wc -l <err) $(grep -c "image.gguf: an image encoder (mmproj), not a model: give the model's file here, and this one with --mmproj" err)" \
	    "1 1 1" "$tool: what the file is"
done
done_testing
