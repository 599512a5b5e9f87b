# SPDX-License-Identifier: ISC
# gguf_odd.py SEED N FILE...: for usable.t.  Makes N files that are unusual in one
# or two ways: a key is missing, or has another value or type; a tensor is missing,
# renamed, or of another shape or type.  gguf-inspect must say of each whether the
# tools can use it: prints a line for each file where it does not, then the numbers
# of usable and unusable files.
import json
import os
import random
import struct
import subprocess
import sys

SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
    10: "Q", 11: "q", 12: "d"}
BLOCK = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22),
    7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110), 12: (256, 144),
    13: (256, 176), 14: (256, 210), 30: (1, 2)}


class Reader:
	def __init__(self, data):
		self.data, self.at = data, 0

	def take(self, fmt):
		v = struct.unpack_from("<" + fmt, self.data, self.at)
		self.at += struct.calcsize("<" + fmt)
		return v[0] if len(v) == 1 else v

	def text(self):
		n = self.take("Q")
		self.at += n
		return self.data[self.at - n:self.at]

	def value(self, t):
		if t == 8:
			return self.text()
		if t == 9:
			elem, n = self.take("IQ")
			return (elem, [self.value(elem) for _ in range(n)])
		return self.take(SCALAR[t])


def read(path):
	r = Reader(open(path, "rb").read())
	r.at = 8
	n_tensor, n_key = r.take("QQ")
	keys, tensors = [], []
	for _ in range(n_key):
		name, t = r.text(), r.take("I")
		keys.append([name, t, r.value(t)])
	for _ in range(n_tensor):
		name, n = r.text(), r.take("I")
		ne = [r.take("Q") for _ in range(n)]
		tensors.append([name, ne, *r.take("IQ")])
	base = (r.at + 31) // 32 * 32
	for t in tensors:
		n = 1
		for d in t[1]:
			n *= d
		length, size = BLOCK[t[2]]
		t[3] = r.data[base + t[3]:base + t[3] + n // length * size]
	return keys, tensors


def put(t, v):
	if t == 8:
		return struct.pack("<Q", len(v)) + v
	if t == 9:
		return struct.pack("<IQ", v[0], len(v[1])) + b"".join(
		    put(v[0], x) for x in v[1])
	return struct.pack("<" + SCALAR[t], v)


def write(path, keys, tensors):
	out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
	for name, t, v in keys:
		out += put(8, name) + struct.pack("<I", t) + put(t, v)
	body = b""
	for name, ne, t, data in tensors:
		out += put(8, name) + struct.pack("<I%dQIQ" % len(ne), len(ne),
		    *ne, t, len(body))
		body += data + bytes(-len(data) % 32)
	with open(path, "wb") as f:
		f.write(out + bytes(-len(out) % 32) + body)


ODD = [(4, 0), (4, 1), (4, 2), (4, 3), (4, 7), (4, 255), (4, 1 << 31),
    (4, (1 << 32) - 1), (5, -1), (5, -7), (10, (1 << 64) - 1), (10, 5),
    (11, -1), (2, 65535), (0, 255), (6, 0.0), (6, -1.0), (6, float("nan")),
    (6, float("inf")), (6, 1e30), (12, 1e-300), (7, True), (7, False),
    (8, b""), (8, b"\xff\xfe"), (8, b"none"), (8, b"x" * 300),
    (9, (4, [])), (9, (5, [1, 2])), (9, (8, [b"a", b""])), (9, (4, [0] * 9))]
MORE = [b"tokenizer.ggml.%s_token_id" % k for k in (b"bos", b"eos", b"eot",
    b"fim_pre", b"fim_suf", b"fim_mid", b"padding", b"seperator", b"eom",
    b"unknown")] + [b"tokenizer.ggml.add_bos_token", b"general.alignment",
    b"tokenizer.ggml.add_eos_token", b"tokenizer.ggml.pre"]
ARCH = [b"rope.scaling.type", b"rope.scaling.factor", b"pooling_type",
    b"attention.causal", b"expert_gating_func", b"rope.freq_base",
    b"ssm.v_head_reordered", b"norm_top_k_prob", b"attention.head_count_kv",
    b"full_attention_interval", b"nextn_predict_layers", b"vocab_size"]


def spoil_key(rnd, keys):
	arch = [v for k, _, v in keys if k == b"general.architecture"]
	arch = arch[0] if arch and isinstance(arch[0], bytes) else b"x"
	more = MORE + [arch + b"." + k for k in ARCH]
	names = [k for k, _, _ in keys]
	name = rnd.choice(more if rnd.random() < 0.4 else names)
	what = rnd.random()
	at = names.index(name) if name in names else -1
	if what < 0.2 and at >= 0:
		del keys[at]
		return "drop %s" % name.decode()
	t, v = rnd.choice(ODD)
	if at >= 0 and what < 0.5 and isinstance(keys[at][2], int):
		t, v = keys[at][1], max(0, keys[at][2] + rnd.choice((-1, 1)))
		if t == 7:
			v = bool(v & 1)
	if at >= 0 and what > 0.7 and isinstance(keys[at][2], tuple):
		t, (elem, v) = keys[at][1:]
		v = v[:-1] if rnd.random() < 0.5 else v + v[-1:]
		v = (elem, v)
	if at >= 0:
		keys[at] = [name, t, v]
	else:
		keys.append([name, t, v])
	return "%s type %d %.60r" % (name.decode(), t, v)


def spoil_tensor(rnd, tensors):
	i = rnd.randrange(len(tensors))
	name, ne, t, data = tensors[i]
	what = rnd.randrange(6)
	if what == 0:
		del tensors[i]
		return "drop %s" % name.decode()
	if what == 1:
		tensors[i] = [name + b"x", ne, t, data]
		return "rename %s" % name.decode()
	if what == 2 and len(ne) > 1:
		tensors[i] = [name, ne[::-1], t, data]
		return "turn %s" % name.decode()
	if what == 3:
		tensors.append([b"nothing", [0], 0, b""])
		return "a tensor of 0 elements"
	if what == 4:
		tensors.append([b"extra.weight", [4], 0, bytes(16)])
		return "one more"
	tensors[i] = [name, ne + [1], t, data]
	return "%s of one dimension more" % name.decode()


def run(*argv, ids="1\n"):
	p = subprocess.run(argv, input=ids.encode(), stdout=subprocess.PIPE,
	    stderr=subprocess.PIPE)
	return p.returncode, p.stdout, p.stderr.decode(errors="replace").strip()


def says(path):
	"""Whether gguf-inspect calls the file usable; None: it has crashed."""
	rc, out, _ = run("gguf-inspect", "--json", path)
	if rc not in (0, 1):
		return None
	return rc == 0 and json.loads(out)["usable"]


def main():
	seed, n, files = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
	good = bad = 0
	known = [read(f) for f in files]
	for i in range(n):
		rnd = random.Random(seed * 1000003 + i)
		keys, tensors = rnd.choice(known)
		keys, tensors = [list(k) for k in keys], [list(t) for t in tensors]
		what = [spoil_key(rnd, keys) if rnd.random() < 0.75 else
		    spoil_tensor(rnd, tensors) for _ in range(rnd.choice((1, 1, 2)))]
		write("odd.gguf", keys, tensors)
		usable = says("odd.gguf")
		did = {}
		for tool in (("qprefill", "-q", "-m", "odd.gguf", "--force", "-o",
		    "odd.state"), ("qdecode", "-q", "-m", "odd.gguf", "--force",
		    "-n", "1"), ("qtok", "-m", "odd.gguf", "text")):
			rc, _, err = run(*tool)
			did[tool[0]] = (rc, err)
			if rc not in (0, 1) or (rc == 1 and "\n" in err):
				usable = None
		works = all(rc == 0 for rc, _ in did.values())
		if usable is None or usable != works:
			print(i, "; ".join(what), "usable", usable, did)
		good, bad = good + works, bad + (not works)
	print(good, bad)


if __name__ == "__main__":
	main()
