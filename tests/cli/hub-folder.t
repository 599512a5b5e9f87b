#!/bin/sh
# -m FOLDER: a Hugging Face folder in place of a GGUF file, and unsupported
# ones.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/hub

seq 1 9 190 | tr '\n' ' ' >ids
for name in qwen2 qwen2_moe qwen3 qwen3_moe qwen3_vl; do
	gguf-convert -q -o m.gguf "$F/$name" 2>/dev/null
	for v in 1 3 4; do
		qprefill -q --numerics $v -m m.gguf --logits all -f raw <ids >want
		qprefill -q --numerics $v -m "$F/$name" --logits all -f raw \
		    <ids >got 2>err
		is "$? $(cat err)" "0 " "$name, numerics $v: it computes"
		[ -s got ] && cmp -s got want
		ok $? "the logits of the file that gguf-convert makes"
	done
	gguf-inspect --diff m.gguf "$F/$name" >diff 2>err
	is "$? $(cat diff err)" "0 " "$name: the same keys and numbers"
	gguf-inspect "$F/$name/" | grep -e '^usable' -e '^vocab' >got
	gguf-inspect m.gguf | grep -e '^usable' -e '^vocab' | cmp -s - got
	ok $? "what is said of it is the same"
	gguf-inspect --check "$F/$name" >out 2>err
	is "$?" 0 "$name: it is whole"
	qprefill -q -m "$F/$name" -o state <ids >/dev/null
	qdecode -q -m m.gguf -s state -n 4 -f text </dev/null >want 2>err
	is "$? $(cat err)" "0 " "a state by the folder is one of the file"
	qdecode -q -m "$F/$name/" -s state -n 4 -f text </dev/null >got 2>&1
	cmp -s got want
	ok $? "both go on alike"
	echo 'a b' | qtok -m m.gguf -f text >want
	echo 'a b' | qtok -m "$F/$name" -f text 2>&1 | cmp -s - want
	ok $? "$name: its tokenizer"
done
for name in qwen3 qwen3_moe; do
	gguf-convert -q -o m.gguf "$F/$name" 2>/dev/null
	gguf-quantize -q --type Q8_0 -o want.gguf m.gguf
	gguf-quantize -q --type Q8_0 -o got.gguf "$F/$name" 2>err
	is "$? $(cat err)" "0 " "$name: it can be quantised"
	cmp -s got.gguf want.gguf
	ok $? "to the same bytes"
done
for name in qwen3 qwen3_moe qwen3_5 qwen3_next qwen3-fp8; do
	gguf-convert -q --type q8_0 -o m.gguf "$F/$name" 2>/dev/null
	qprefill -q -m m.gguf --logits all -f raw <ids >want
	qprefill -m "$F/$name" --quantize q8_0 --logits all -f raw \
	    <ids >got 2>err
	is "$? $(wc -l <err)" "0 1" "$name with --quantize: one note"
	grep -q 'weights converted in [0-9.]* s, to [0-9.]* MiB of memory' err
	ok $? "of time and memory"
	[ -s got ] && cmp -s got want
	ok $? "the logits of gguf-convert --type q8_0"
done
# of a file it is what gguf-quantize makes
for name in qwen2 qwen3_moe qwen3_5 qwen3_next; do
	for type in bf16 f16 f32; do
		gguf-convert -q --type $type -o m.gguf "$F/$name" 2>/dev/null
		gguf-quantize -q --type Q8_0 -o want.gguf m.gguf
		qprefill -q -m want.gguf --logits all -f raw <ids >want
		qprefill -m m.gguf --quantize q8_0 --logits all -f raw \
		    <ids >got 2>err
		is "$? $(wc -l <err) $(grep -c 'gguf-quantize writes them' err)" \
		    "0 1 1" "$name of $type with --quantize"
		[ -s got ] && cmp -s got want
		ok $? "the logits of gguf-quantize --type Q8_0"
	done
done
qprefill -q -m m.gguf --quantize q8_0 -o state <ids >/dev/null
qdecode -q -m want.gguf -s state -n 4 -f text </dev/null >want 2>err
is "$? $(cat err)" "0 " "its state is one of that file"
cp want.gguf m.gguf
qprefill -m m.gguf --quantize q8_0 --logits all -f raw <ids >got 2>err
is "$? $(grep -c ' 0.0 MiB of memory' err)" "0 1" "a file of Q8_0 stays as it is"
gguf-quantize -q --type Q4_K_S -o small.gguf m.gguf
refused 1 "weights of fewer bits" qprefill -m small.gguf --quantize q8_0 <ids
grep -q 'only F32, F16 and BF16 weights can become Q8_0' err
ok $? "it says which weights can be made smaller"
# with a tool of each kind that opens a model by itself
gguf-convert -q --type bf16 -o m.gguf "$F/qwen3" 2>/dev/null
gguf-quantize -q --type Q8_0 -o want.gguf m.gguf
echo 'a b a b' >text
for tool in "qscore -q --each" "qembed -q -f text" "qbatch -q -n 3"; do
	in=text
	[ "$tool" = "qbatch -q -n 3" ] && in=batch.jsonl &&
	    echo '{"prompt": [1, 2, 3], "ignore_eos": true}' >batch.jsonl
	$tool -m want.gguf <$in >want 2>err
	$tool -m m.gguf --quantize q8_0 <$in >got 2>err
	is "$?" 0 "${tool%% *} --quantize"
	# qbatch's results name the model file
	sed 's/,"run":.*//' got >got.same
	sed 's/,"run":.*//' want >want.same
	[ -s got ] && cmp -s got.same want.same
	ok $? "as with the file"
done
echo '[{"role": "user", "content": "a"}]' >chat.json
gguf-convert -q -o m.gguf "$F/qwen3" 2>/dev/null
qtok --chat -m m.gguf -f prompt <chat.json >want 2>&1
qtok --chat -m "$F/qwen3" -f prompt <chat.json 2>&1 | cmp -s - want
ok $? "its chat template"
QWEN_MODEL=$F/qwen3 qprefill -v --logits last -f raw <ids 2>err >got
is "$?" 0 "by the environment"
grep -q 'weights are used as stored; .* MiB of norms' err
ok $? "-v tells what is in memory"

# -- the weights are not copied
if [ -r /proc/self/status ]; then
	mkdir big
	python3 - "$F/qwen3" <<'END' 2>err
import json, os, shutil, struct, sys
src = sys.argv[1]
for f in os.listdir(src):
    if "safetensors" not in f:
        shutil.copy(os.path.join(src, f), "big")
# a hundred layers with feed-forward weights of zeros, 75 MiB of them
tensors, wide, layers = {}, 4096, 100
c = json.load(open("big/config.json"))
os.chmod("big/config.json", 0o644)
for f in sorted(os.listdir(src)):
    if not f.endswith(".safetensors"):
        continue
    b = open(os.path.join(src, f), "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    for k, t in json.loads(b[8:8 + n]).items():
        if k == "__metadata__":
            continue
        lo, hi = t["data_offsets"]
        tensors[k] = [t, b[8 + n + lo:8 + n + hi]]
old = c["intermediate_size"]
c["intermediate_size"] = wide
c["num_hidden_layers"] = layers
c["layer_types"] = ["full_attention"] * layers
json.dump(c, open("big/config.json", "w"))
for k, (t, d) in tensors.items():
    if ".mlp." not in k:
        continue
    t["shape"] = [wide if x == old else x for x in t["shape"]]
    size = 1
    for x in t["shape"]:
        size *= x
    tensors[k][1] = bytes(size * {"BF16": 2, "F16": 2, "F32": 4}[t["dtype"]])
for k in [k for k in tensors if ".layers.1." in k]:
    for i in range(2, layers):
        tensors[k.replace(".layers.1.", ".layers.%d." % i)] = tensors[k]
at, head, data = 0, {}, []
for k, (t, d) in tensors.items():
    head[k] = dict(t, data_offsets=[at, at + len(d)])
    at += len(d)
    data.append(d)
h = json.dumps(head).encode()
h += b" " * (-len(h) % 8)
with open("big/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(h)) + h)
    for d in data:
        f.write(d)
END
	size=$(($(wc -c <big/model.safetensors) >> 20))
	qprefill -q -m big --logits last -f raw <ids >got 2>err
	is "$? $(cat err)" "0 " "a folder of $size MiB"
	if [ -n "$QPIPE_SAN" ]; then
		skip "less memory than weights" "a sanitizer's memory is more"
	elif [ "$size" -gt 60 ]; then
		(ulimit -d 60000; exec qprefill -q -t 1 -m big --logits last \
		    -f raw <ids >got 2>err)
		is "$? $(cat err)" "0 " "with less memory than it has weights"
	else
		skip "less memory than weights" "they are $size MiB"
	fi
fi

# -- what is no such folder, or needs more
refused() { # WHAT FOLDER WANTED
	qprefill -q -m "$2" <ids >out 2>err
	is "$? $(wc -l <err) $(wc -c <out)" "1 1 0" "$1: one line"
	grep -q -e "$3" err
	ok $? "it says: $3"
}
for name in qwen3_5 qwen3_5_moe qwen3_next qwen3-fp8; do
	refused "$name" "$F/$name" "gguf-convert .*$name\" to make a GGUF file"
done
mkdir empty
refused "a folder without a model" empty "give the GGUF file in it"
copy() {
	rm -rf bad
	cp -r "$F/qwen3" bad
	chmod -R u+w bad
}
copy; : >bad/config.json
refused "an empty config" bad "config.json"
copy; rm bad/model-00002-of-00002.safetensors
refused "a file of weights that is missing" bad "model-00002-of-00002"
copy; head -c 900 bad/model-00001-of-00002.safetensors >x
mv x bad/model-00001-of-00002.safetensors
refused "one that is cut" bad "model-00001-of-00002"
copy; sed 's/"hidden_size": *[0-9]*/"hidden_size": 65536/' bad/config.json >x
mv x bad/config.json
refused "a size that is not the weights'" bad "bad: "
copy; rm bad/tokenizer.json
qprefill -q -m bad --logits last -f raw <ids >got 2>err
is "$? $(cat err)" "0 " "without a tokenizer ids are computed with"
echo a | qtok -m bad >out 2>err
is "$? $(wc -l <err) $(wc -c <out)" "1 1 0" "text is not: one line"

# -- a server whose engine makes weights of its own
if command -v curl >/dev/null 2>&1; then
	. "$TOP/tests/cli/qserve.sh"
	serve -m "$F/qwen3" --quantize q8_0
	is "$(post /v1/completions '{"prompt":[1,2,3],"max_tokens":5,"ignore_eos":true,"temperature":0}' |
	    jq -c '.usage.completion_tokens'), $(cat code)" "5, 200" "qserve --quantize"
	end_server
	is "$gone, $(grep -c 'weights converted' log)" "0, 1" "they are made once"
	gguf-convert -q --type bf16 -o m.gguf "$F/qwen3" 2>/dev/null
	serve -m m.gguf --quantize q8_0
	is "$(post /v1/completions '{"prompt":[1,2,3],"max_tokens":5,"ignore_eos":true,"temperature":0}' |
	    jq -c '.usage.completion_tokens'), $(cat code)" "5, 200" "qserve --quantize of a file"
	end_server
else
	skip "qserve --quantize" "no curl"
fi
done_testing
