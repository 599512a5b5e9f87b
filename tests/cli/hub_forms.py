# SPDX-License-Identifier: ISC
# hub_forms.py KIND FROM TO: for gguf-convert-forms.t.  Makes a folder TO from the
# folder FROM in another program's format: weights as packed by quantisers, models
# and adapters as saved by MLX.
import json
import os
import random
import shutil
import struct
import sys


def load(path):
	data = open(path, "rb").read()
	n, = struct.unpack_from("<Q", data)
	head = json.loads(data[8:8 + n])
	head.pop("__metadata__", None)
	at = 8 + n
	return {k: (v["dtype"], v["shape"], data[at + v["data_offsets"][0]:
	    at + v["data_offsets"][1]]) for k, v in head.items()}


def save(path, tensors):
	head, at = {}, 0
	for k, (dtype, shape, data) in tensors.items():
		head[k] = {"dtype": dtype, "shape": shape,
		    "data_offsets": [at, at + len(data)]}
		at += len(data)
	text = json.dumps(head).encode()
	with open(path, "wb") as f:
		f.write(struct.pack("<Q", len(text)) + text)
		for _, _, data in tensors.values():
			f.write(data)


def weights(folder):
	out = {}
	for name in sorted(os.listdir(folder)):
		if name.startswith("model") and name.endswith(".safetensors"):
			out.update(load(os.path.join(folder, name)))
	return out


def zeros(dtype, *shape):
	size = {"I32": 4, "U32": 4, "U8": 1, "F16": 2, "F32": 4, "I64": 8,
	    "F8_E4M3": 1}[dtype]
	n = size
	for d in shape:
		n *= d
	return (dtype, list(shape), bytes(n))


def pack(tensors, make):
	"""make(base, rows, columns) replaces each projection of a block."""
	out = {}
	for k, (dtype, shape, data) in tensors.items():
		if "_proj.weight" in k:
			out.update(make(k[:-len(".weight")], *shape))
		else:
			out[k] = (dtype, shape, data)
	return out


def floats(t):
	dtype, _, data = t
	if dtype == "F16":
		return list(struct.unpack("<%de" % (len(data) // 2), data))
	if dtype == "BF16":
		data = b"".join(b"\0\0" + data[i:i + 2]
		    for i in range(0, len(data), 2))
	return list(struct.unpack("<%df" % (len(data) // 4), data))


def f32(v, *shape):
	return ("F32", list(shape), struct.pack("<%df" % len(v), *v))


gptq = lambda b, r, c: {b + ".qweight": zeros("I32", c // 8, r),
    b + ".qzeros": zeros("I32", 1, r // 8), b + ".scales": zeros("F16", 1, r),
    b + ".g_idx": zeros("I32", c)}
awq = lambda b, r, c: {b + ".qweight": zeros("I32", c, r // 8),
    b + ".qzeros": zeros("I32", 1, r // 8), b + ".scales": zeros("F16", 1, r)}
bnb = lambda b, r, c: {b + ".weight": zeros("U8", r * c // 2, 1),
    b + ".weight.absmax": zeros("U8", r), b + ".weight.quant_map":
    zeros("F32", 16), b + ".weight.quant_state.bitsandbytes__nf4":
    zeros("U8", 80)}
mlx4 = lambda b, r, c: {b + ".weight": zeros("U32", r, c // 8),
    b + ".scales": zeros("F16", r, 1), b + ".biases": zeros("F16", r, 1)}
ct4 = lambda b, r, c: {b + ".weight_packed": zeros("I32", r, c // 8),
    b + ".weight_scale": zeros("F16", r, 1), b + ".weight_shape":
    zeros("I64", 2)}

QUANTISED = {
	"gptq": (gptq, {"quant_method": "gptq", "bits": 4}),
	"awq": (awq, {"quant_method": "awq", "bits": 4, "version": "gemm"}),
	"bitsandbytes": (bnb, {"quant_method": "bitsandbytes",
	    "load_in_4bit": True}),
	"mlx": (mlx4, {"group_size": 32, "bits": 4}),
	"compressed-tensors": (ct4, {"quant_method": "compressed-tensors",
	    "format": "pack-quantized"}),
	"modelopt": (awq, {"quant_method": "modelopt",
	    "quant_algo": "W4A16_AWQ"}),
	"hqq": (gptq, {"quant_method": "hqq"}),
	"something-new": (mlx4, {"quant_method": "something-new"}),
	"mlx-older": (mlx4, None),
	"rotated": (None, {"quant_method": "compressed-tensors", "format":
	    "float-quantized", "transform_config": {"config_groups":
	    {"u": {"type": "hadamard"}}}}),
	"left-over": (None, {"quant_method": "bitsandbytes",
	    "load_in_4bit": True}),
}


def quantised(kind, src, to):
	make, config = QUANTISED[kind]
	shutil.copytree(src, to)
	os.chmod(to, 0o755)
	for name in os.listdir(to):
		os.chmod(os.path.join(to, name), 0o644)
		if name.startswith("model"):
			os.remove(os.path.join(to, name))
	t = weights(src)
	save(to + "/model.safetensors", pack(t, make) if make else t)
	c = json.load(open(src + "/config.json"))
	if config:
		c["quantization_config"] = config
	else:
		c["quantization"] = {"group_size": 32, "bits": 4}
	json.dump(c, open(to + "/config.json", "w"))


def rounded(x, dtype):
	"""The number of the type that is x, without its last bits."""
	if dtype == "F16":
		return struct.unpack("<e", struct.pack("<e", x))[0]
	b = struct.pack("<f", x)
	return struct.unpack("<f", b"\0\0" + b[2:])[0]


def as_bytes(v, dtype):
	if dtype == "F16":
		return struct.pack("<%de" % len(v), *v)
	return b"".join(struct.pack("<f", x)[2:] for x in v)


def affine(t, bits, group, dtype):
	"""weight, scales and biases as MLX has them, and what they stand for."""
	_, (rows, columns), _ = t
	x, most = floats(t), (1 << bits) - 1
	words, scales, biases, plain = [], [], [], []
	for at in range(0, rows * columns, group):
		part = x[at:at + group]
		low = rounded(min(part), dtype)
		step = rounded(max((max(part) - low) / most, 1e-3), dtype)
		codes = [min(max(round((v - low) / step), 0), most)
		    for v in part]
		scales.append(step)
		biases.append(low)
		plain += [step * c + low for c in codes]
		for i in range(0, group, 32 // bits):
			words.append(sum(c << bits * k for k, c in
			    enumerate(codes[i:i + 32 // bits])))
	shape = [rows, columns // group]
	return (("U32", [rows, columns * bits // 32],
	    struct.pack("<%dI" % len(words), *words)),
	    (dtype, shape, as_bytes(scales, dtype)),
	    (dtype, shape, as_bytes(biases, dtype)), f32(plain, rows, columns))


def widen(tensors, config, k):
	"""All sizes but that of the vocabulary times k, numbers repeated."""
	for key in ("hidden_size", "intermediate_size", "head_dim"):
		if key in config:
			config[key] *= k
	out = {}
	for name, (dtype, shape, data) in tensors.items():
		rows = shape[0] if len(shape) > 1 else 1
		n = len(data) // rows
		data = b"".join(data[i:i + n] * k
		    for i in range(0, len(data), n))
		shape = shape[:-1] + [shape[-1] * k]
		if len(shape) > 1 and "embed_tokens" not in name:
			shape, data = [k * shape[0]] + shape[1:], data * k
		out[name] = (dtype, shape, data)
	return out


def stack_experts(tensors, n):
	"""As MLX keeps those of a layer: one tensor, one after the other."""
	out = {}
	for k, (dtype, shape, data) in tensors.items():
		if ".mlp.experts." not in k:
			out[k] = (dtype, shape, data)
		elif ".mlp.experts.0." in k:
			all = b"".join(tensors[k.replace(".experts.0.",
			    ".experts.%d." % i)][2] for i in range(n))
			out[k.replace("experts.0.", "switch_mlp.")] = (dtype,
			    [n] + shape, all)
	return out


def mlx_codes(kind, src, to):
	"""mlx-BITS-GROUP-DTYPE: quantised by MLX; TO-plain: the same as F32."""
	_, bits, group, dtype = kind.split("-")
	bits, group = int(bits), int(group)
	if "linear_num_value_heads" in open(src + "/config.json").read():
		mlx_model(src, to)
	else:
		shutil.copytree(src, to)
	os.chmod(to, 0o755)
	out, plain, own, all = {}, {}, {}, weights(to)
	c = json.load(open(src + "/config.json"))
	if group > 32:
		all = widen(all, c, group // 32)
	for k, t in all.items():
		if len(t[1]) == 2 and t[1][1] % group == 0 and (
		    "_proj" in k or "embed_tokens" in k or "lm_head" in k):
			base = k[:-len(".weight")]
			out[k], out[base + ".scales"], out[base + ".biases"], \
			    plain[k] = affine(t, bits, group, dtype)
		elif k.endswith("mlp.gate.weight"):
			# routers have 8 bits, and the config says so
			base = k[:-len(".weight")]
			out[k], out[base + ".scales"], out[base + ".biases"], \
			    plain[k] = affine(t, 8, group, dtype)
			own[base] = {"group_size": group, "bits": 8}
		else:
			out[k] = plain[k] = t
	for name in os.listdir(to):
		os.chmod(os.path.join(to, name), 0o644)
		if name.startswith("model"):
			os.remove(os.path.join(to, name))
	json.dump(c, open(to + "/config.json", "w"))
	shutil.copytree(to, to + "-plain")
	save(to + "/model.safetensors", stack_experts(out,
	    c.get("num_experts") or c.get("num_local_experts")))
	save(to + "-plain/model.safetensors", plain)
	c["quantization"] = {"group_size": group, "bits": bits} | own
	c["quantization_config"] = c["quantization"]
	json.dump(c, open(to + "/config.json", "w"))


def mlx_model(src, to):
	"""As mlx_lm saves Qwen3.5 and Qwen3-Next: norms with their 1."""
	norms = ("input_layernorm.weight", "post_attention_layernorm.weight",
	    "model.norm.weight", ".q_norm.weight", ".k_norm.weight")
	shutil.copytree(src, to)
	os.chmod(to, 0o755)
	os.chmod(to + "/model.safetensors", 0o644)
	out = {}
	for k, t in weights(src).items():
		if ".conv1d.weight" in k:
			c, one, width = t[1]
			assert one == 1
			t = (t[0], [c, width, 1], t[2])
		elif k.endswith(norms):
			t = f32([struct.unpack("<f", struct.pack("<f", 1 + x))[0]
			    for x in floats(t)], *t[1])
		if not k.startswith("mtp."):
			out[k] = t
	save(to + "/model.safetensors", out)


def untied(kind, src, to):
	"""An output beside embeddings that are said to be tied to it."""
	shutil.copytree(src, to)
	os.chmod(to, 0o755)
	t = weights(src)
	name = [k for k in t if "embed_tokens" in k][0]
	dtype, shape, data = t[name]
	if kind == "untied":
		data = data[:-2] + bytes(2)
	t["lm_head.weight"] = (dtype, shape, data)
	for n in os.listdir(to):
		os.chmod(os.path.join(to, n), 0o644)
		if n.startswith("model"):
			os.remove(os.path.join(to, n))
	save(to + "/model.safetensors", t)
	c = json.load(open(src + "/config.json"))
	c["tie_word_embeddings"] = True
	json.dump(c, open(to + "/config.json", "w"))


def transposed(v, rows, columns):
	return [v[r * columns + c] for c in range(columns) for r in range(rows)]


RANK, ALPHA = 3, 6


def adapter(kind, src, to):
	"""A random adapter of src, the same in each form."""
	rnd = random.Random(5)
	os.mkdir(to)
	out = {}
	for k, (_, shape, _) in weights(src).items():
		text = "visual" not in k
		if kind == "visual" and not text and len(shape) == 2 and \
		    ".attn." in k and k.endswith(".weight"):
			pass
		elif not text or ("_proj.weight" not in k and
		    "embed_tokens" not in k):
			continue
		elif kind == "visual-only":
			continue
		base = k[:-len(".weight")]
		embed = "embed_tokens" in k
		rows, columns = (shape[1], shape[0]) if embed else shape
		a = [rnd.gauss(0, 1) for _ in range(RANK * columns)]
		b = [rnd.gauss(0, 1) for _ in range(RANK * rows)]
		if kind == "mlx":
			out[base + ".lora_a"] = f32(transposed(a, RANK, columns),
			    columns, RANK)
			out[base + ".lora_b"] = f32(transposed(b, rows, RANK),
			    RANK, rows)
			continue
		base = "base_model.model." + base
		mid = ".default" if kind == "default" else ""
		names = (".lora_embedding_A%s", ".lora_embedding_B%s") if embed \
		    else (".lora_A%s.weight", ".lora_B%s.weight")
		out[base + names[0] % mid] = f32(a, RANK, columns)
		out[base + names[1] % mid] = f32(b, rows, RANK)
	if kind == "visual-only":
		out = {"base_model.model.visual.blocks.0.attn.qkv.lora_A.weight":
		    zeros("F32", 2, 8), "base_model.model.visual.blocks.0.attn."
		    "qkv.lora_B.weight": zeros("F32", 24, 2)}
	config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA}
	if kind == "mlx":
		config = {"fine_tune_type": "lora", "num_layers": 2,
		    "lora_parameters": {"rank": RANK, "scale": ALPHA / RANK,
		    "dropout": 0.0, "keys": ["self_attn.q_proj"]}, "model": src}
	save(to + ("/adapters.safetensors" if kind == "mlx" else
	    "/adapter_model.safetensors"), out)
	json.dump(config, open(to + "/adapter_config.json", "w"))


if __name__ == "__main__":
	kind, src, to = sys.argv[1:]
	if kind in QUANTISED:
		quantised(kind, src, to)
	elif kind in ("untied", "tied-twice"):
		untied(kind, src, to)
	elif kind.startswith("mlx-") and kind.count("-") == 3:
		mlx_codes(kind, src, to)
	elif kind == "mlx-model":
		mlx_model(src, to)
	else:
		adapter(kind[len("lora-"):], src, to)
