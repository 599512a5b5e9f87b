# SPDX-License-Identifier: ISC
"""mmproj_folder.py - Hugging Face folders of models with an image encoder.

usage: mmproj_folder.py make FOLDER TYPE [DEEP ...]
       mmproj_folder.py tiny FOLDER
       mmproj_folder.py of MMPROJ.gguf FOLDER

"make" writes a small folder, always with the same numbers, in F32, F16 or BF16;
DEEP are the layers with a deepstack merger.  "tiny" writes tests/files/hub/image.
"of" writes the folder that an
mmproj file (in F32) was made of.  Both have no text model, only its config.
"""
import json
import os
import random
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hub_forms import save  # noqa: E402


def sizes(D, F, L, E, heads, deep, patch=16, side=48):
    """Names and shapes as transformers has them."""
    yield "patch_embed.proj.weight", [D, 3, 2, patch, patch]
    yield "patch_embed.proj.bias", [D]
    yield "pos_embed.weight", [side * side, D]

    def module(name, out, n=None):
        yield name + ".weight", [out, n] if n else [out]
        yield name + ".bias", [out]
    for i in range(L):
        b = "blocks.%d." % i
        yield from module(b + "norm1", D)
        yield from module(b + "norm2", D)
        yield from module(b + "attn.qkv", 3 * D, D)
        yield from module(b + "attn.proj", D, D)
        yield from module(b + "mlp.linear_fc1", F, D)
        yield from module(b + "mlp.linear_fc2", D, F)
    for m, norm in [("merger", D)] + [("deepstack_merger_list.%d" % k, 4 * D) for k in range(len(deep))]:
        yield from module(m + ".norm", norm)
        yield from module(m + ".linear_fc1", 4 * D, 4 * D)
        yield from module(m + ".linear_fc2", E, 4 * D)


def config(D, F, L, E, heads, deep, patch=16, side=48):
    name = "Qwen3VL" if deep else "Qwen3_5"
    return {"architectures": [name + "ForConditionalGeneration"],
            "text_config": {"hidden_size": E, "rms_norm_eps": 1e-6},
            "vision_config": {
                "depth": L, "hidden_size": D, "intermediate_size": F, "num_heads": heads, "in_channels": 3,
                "hidden_act": "gelu_pytorch_tanh", "patch_size": patch, "spatial_merge_size": 2,
                "temporal_patch_size": 2, "out_hidden_size": E, "num_position_embeddings": side * side,
                "deepstack_visual_indexes": list(deep)}}


def write(folder, shape, tensors):
    os.makedirs(folder)
    json.dump(config(*shape), open(folder + "/config.json", "w"), indent=1)
    json.dump({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}, open(folder + "/preprocessor_config.json", "w"))
    save(folder + "/model.safetensors", {"model.visual." + k: v for k, v in tensors.items()})


def packed(kind, x):
    if kind == "F16":
        return struct.pack("<%de" % len(x), *x)
    b = struct.pack("<%df" % len(x), *x)
    if kind == "F32":
        return b
    return b"".join(b[i + 2:i + 4] for i in range(0, len(b), 4))


def make(folder, kind, *shape):
    r = random.Random(5)
    tensors = {}
    for name, dims in sizes(*shape):
        n = 1
        for d in dims:
            n *= d
        tensors[name] = (kind, dims, packed(kind, [r.uniform(-1, 1) for _ in range(n)]))
    write(folder, shape, tensors)


class Gguf:
    """Keys and F32 tensors of a file."""
    FORM = dict(enumerate(["<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?", None, None, "<Q", "<q", "<d"]))

    def __init__(self, path):
        self.b, self.at, self.keys, self.tensors = open(path, "rb").read(), 8, {}, {}
        n, kv = self.take("<Q"), self.take("<Q")
        for _ in range(kv):
            key = self.text()
            self.keys[key] = self.value(self.take("<I"))
        where = []
        for _ in range(n):
            name = self.text()
            ne = [self.take("<Q") for _ in range(self.take("<I"))]
            where.append((name, ne, self.take("<I"), self.take("<Q")))
        start = (self.at + 31) // 32 * 32
        for name, ne, kind, at in where:
            assert kind == 0, name
            n = 4
            for d in ne:
                n *= d
            self.tensors[name] = self.b[start + at:start + at + n]

    def take(self, form):
        v, = struct.unpack_from(form, self.b, self.at)
        self.at += struct.calcsize(form)
        return v

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.b[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind = self.take("<I")
            return [self.value(kind) for _ in range(self.take("<Q"))]
        return self.take(self.FORM[kind])


PARTS = {"norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out",
         "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down"}


def of(path, folder):
    g = Gguf(path)
    k = lambda s: g.keys["clip.vision." + s]
    deep = [i for i, d in enumerate(k("is_deepstack_layers")) if d]
    shape = (k("embedding_length"), k("feed_forward_length"), k("block_count"), k("projection_dim"),
             k("attention.head_count"), deep, k("patch_size"), k("image_size") // k("patch_size"))
    out = {}
    for name, dims in sizes(*shape):
        part, ending = name.rsplit(".", 1)
        if name == "patch_embed.proj.weight":
            n = 4 * dims[3] * dims[4]
            a, b = g.tensors["v.patch_embd.weight"], g.tensors["v.patch_embd.weight.1"]
            data = b"".join(a[i:i + n] + b[i:i + n] for i in range(0, len(a), n))
        elif part.startswith("blocks."):
            _, i, rest = part.split(".", 2)
            data = g.tensors["v.blk.%s.%s.%s" % (i, PARTS[rest], ending)]
        elif part.startswith("deepstack"):
            _, i, rest = part.split(".")
            data = g.tensors["v.deepstack.%d.%s.%s" % (deep[int(i)], rest.replace("linear_", ""), ending)]
        else:
            part = {"patch_embed.proj": "v.patch_embd", "pos_embed": "v.position_embd", "merger.norm": "v.post_ln",
                    "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2"}[part]
            data = g.tensors[part + "." + ending]
        out[name] = ("F32", dims, data)
    write(folder, shape, out)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3], 32, 48, 2, 32, 2, [int(s) for s in sys.argv[4:]], 16, 4)
    elif sys.argv[1] == "tiny":
        make(sys.argv[2], "BF16", 8, 12, 2, 32, 2, [1], 4, 2)
    else:
        of(sys.argv[2], sys.argv[3])
