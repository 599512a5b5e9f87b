#!/bin/sh
# Files with two lists that refer to each other: time is linear in their length,
# or a limit ends the tool.  Comparing all pairs would take more than half a
# minute for each of them; the limits leave room for a slow machine.
. "$TOP/tests/cli/tap.sh"
if ! command -v python3 >/dev/null 2>&1; then
	skip "long lists" "no python3"
	done_testing
fi
cat >make.py <<'E2'
import json, os, struct

CONFIG = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 64, "num_attention_heads": 1, "num_key_value_heads": 1,
    "intermediate_size": 64, "vocab_size": 64, "rms_norm_eps": 1e-6,
    "max_position_embeddings": 64, "head_dim": 64}

def dump(what, path):
    with open(path, "w") as f:
        json.dump(what, f, separators=(",", ":"))

def tensors(path, shapes):
    """A file of F32 tensors, all zero."""
    head, at = {}, 0
    for name, shape in shapes:
        n = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        head[name] = {"dtype": "F32", "shape": shape,
            "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head, separators=(",", ":")).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + bytes(at))

names = ["t%07d" % i for i in range(1 << 17)]
os.makedirs("index")
dump(CONFIG | {"num_hidden_layers": 1}, "index/config.json")
tensors("index/model.safetensors", [(k, [0]) for k in names])
dump({"weight_map": {k: "model.safetensors" for k in names[:-1][::-1]}},
    "index/model.safetensors.index.json")

n = 1000
os.makedirs("adapter/base")
dump(CONFIG | {"num_hidden_layers": n}, "adapter/base/config.json")
tensors("adapter/adapter_model.safetensors", [
    ("base_model.model.model.layers.%d.self_attn.q_proj.lora_%s.weight" %
    (i, c), s) for i in range(n) for c, s in (("A", [1, 64]), ("B", [64, 1]))])
dump({"peft_type": "LORA", "lora_alpha": 1, "r": 1,
    "base_model_name_or_path": "adapter/base", "alpha_pattern":
    {"layers.%d.self_attn.k_proj" % i: 2 for i in range(1 << 18)} |
    {"layers.7.self_attn.q_proj": 2}}, "adapter/adapter_config.json")

os.makedirs("rope")
dump(CONFIG | {"num_hidden_layers": 1, "rope_parameters":
    {k: 1 for k in names}, "rope_scaling": {k: 1 for k in names[::-1]}},
    "rope/config.json")
tensors("rope/model.safetensors", [("model." + k + ".weight", s) for k, s in
    [(k, [64]) for k in ("norm", "layers.0.input_layernorm",
    "layers.0.post_attention_layernorm", "layers.0.self_attn.q_norm",
    "layers.0.self_attn.k_norm")] + [(k, [64, 64]) for k in
    ["embed_tokens"] + ["layers.0.self_attn.%s_proj" % k for k in "qkvo"] +
    ["layers.0.mlp.%s_proj" % k for k in ("gate", "up", "down")]]])

os.makedirs("config")
dump(CONFIG | {"num_hidden_layers": 1, "quantization": {k: 1 for k in names} |
    {"group_size": 32, "bits": 4}}, "config/config.json")
tensors("config/model.safetensors", [(k + ".weight", [0]) for k in names])

names = names[:1 << 16]
back = names[::-1]
dump({"allOf": [{"const": {k: 1 for k in names}},
    {"const": {k: 1 for k in back}}]}, "const.json")
names = names[:36000]
back = names[::-1]
dump({"oneOf": [{"type": "object", "required": l, "properties":
    {k: {"const": 1} for k in l}} for l in (names, back)]}, "one-of.json")
dump({"oneOf": [{"type": "object", "properties": {k: {"const": 1}
    for k in names}}, {"type": "object", "properties": {"a": {"const": 1}},
    "required": ["z" + k for k in names]}]}, "required.json")
dump({"$defs": {k: {"const": 1} for k in names},
    "anyOf": [{"$ref": "#/$defs/" + k} for k in names]}, "defs.json")
E2
python3 make.py
ok $? "the files are made"

# Ended in time, with this on stderr and this status.
ended() { # STATUS WORDS COMMAND...
	want=$1 words=$2
	shift 2
	timeout 10 "$@" >out 2>err
	rc=$?
	[ "$rc" -eq "$want" ] && { [ -z "$words" ] || grep -qF -e "$words" err; } &&
	    return
	echo "# status $rc, wanted $want: $words" >&2
	head -n 3 err >&2
	return 1
}

ended 1 "tensor t0131071 is in the files, but not listed" \
    gguf-convert -o x.gguf index
ok $? "an index of 131,071 tensors, of 131,072 in the files"
ended 1 "rope_parameters has more than 100 keys" gguf-convert -o x.gguf rope
ok $? "two objects of 131,072 keys that must say the same"
ended 1 "config.json: an object with more than 4096 keys" gguf-convert -o x.gguf config
ok $? "a config of 131,072 keys, in which each tensor is looked for"
[ ! -e x.gguf ]
ok $? "nothing is written of them"
ended 0 "" gguf-convert -o x.gguf adapter
ok $? "an adapter with 262,145 patterns and 1,000 pairs"
for f in const one-of required defs; do
	ended 1 "the schema has too many combinations of alternatives" \
	    qsample --json-schema $f.json </dev/null
	ok $? "a schema, $f.json"
done
done_testing
