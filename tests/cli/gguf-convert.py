# SPDX-License-Identifier: ISC
"""gguf-convert.py - small checkpoints as hubs have them, for gguf-convert-long.t.

usage: gguf-convert.py make ARCH FOLDER SEED [TYPE [tiny]]
       gguf-convert.py adapt FOLDER ADAPTER SEED [rslora | experts | names]
       gguf-convert.py apart FOLDER ADAPTER OUT
       gguf-convert.py older FOLDER ADAPTER OUT
       gguf-convert.py logits FOLDER IDS OUT [ADAPTER]
       gguf-convert.py scores FOLDER PAIRS OUT
       gguf-convert.py agree GOT WANT LIMIT
       gguf-convert.py peer CONVERTER FOLDER OUT [OPTION...]
       gguf-convert.py same OURS THEIRS

"make" has transformers write a model of an architecture, of random sizes and
weights ("tiny": the smallest, as those in tests/files/hub), in float32, bfloat16
or float16, or in fp8, nvfp4 or mxfp4, quantised here; "logits" has its class
compute them in float32; "scores" is how well documents answer queries (PAIRS: a
query, a tab and a document a line) by a model that ranks, qwen3_rank by yes and
no, or qwen3_score by a classifier of its own, qwen3_score2 by one of two classes,
of which the second is yes;
"adapt" has peft write an adapter of random changes to all matrices and the
embedding of such a model, with which "logits" computes then, too, "experts" all
experts of each block in one parameter, which "apart" takes to pieces, and
"older" writes as peft did before 0.20;
"agree" compares them: all within LIMIT;
"peer" runs llama.cpp's converter, and "same" compares two GGUF files.
"""
import json
import os
import random
import runpy
import struct
import sys

import numpy as np

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
          r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


RERANK = """<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: Given a web search query, retrieve relevant passages that answer the query
<Query>: %s
<Document>: %s<|im_end|>
<|im_start|>assistant
<think>

</think>

"""


def ranks(arch):
    return arch.startswith(("qwen3_rank", "qwen3_score"))


def tokenizer(folder, arch, n_vocab):
    """256 bytes, a few merges, and added tokens; some ids are nothing."""
    byte = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    text = {b: chr(b) for b in byte}
    for i, b in enumerate(b for b in range(256) if b not in text):
        text[b] = chr(256 + i)
    vocab = {text[b]: b for b in range(256)}
    merges = [["Ġ", "t"], ["h", "e"], ["Ġt", "he"]]
    if ranks(arch):
        merges += [["y", "e"], ["ye", "s"], ["n", "o"]]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    added = [("<|endoftext|>", True), ("<|im_start|>", True), ("<|im_end|>", True),
             ("<think>", False), ("<|looks|>", False)]
    added = [{"id": len(vocab) + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": special} for i, (s, special) in enumerate(added)]
    assert len(vocab) + len(added) < n_vocab
    pre = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": QWEN35 if "qwen3_5" in arch else QWEN2},
         "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
             "normalizer": {"type": "NFC"}, "pre_tokenizer": pre, "post_processor": level, "decoder": level,
             "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                       "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                       "ignore_merges": False, "vocab": vocab, "merges": merges}}
    json.dump(whole, open(folder + "/tokenizer.json", "w"))
    json.dump({"add_bos_token": False, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None,
               "tokenizer_class": "PreTrainedTokenizerFast"}, open(folder + "/tokenizer_config.json", "w"))
    json.dump({"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05,
               "eos_token_id": [len(vocab) + 2, len(vocab)]}, open(folder + "/generation_config.json", "w"))
    with open(folder + "/chat_template.jinja", "w") as f:
        f.write("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")


class Smallest:
    choice = min

    def random(self):
        return 0


def config(arch, r, tiny):
    """The class of the model, and the sizes of this one."""
    import transformers as T
    head, kv = 16 if tiny else 32, r.choice([1, 2])
    if tiny:
        r = Smallest()
    c = dict(vocab_size=r.choice([300, 320, 352]), hidden_size=r.choice([64, 96, 128]), num_hidden_layers=4,
             intermediate_size=r.choice([64, 128, 160]), num_attention_heads=kv * r.choice([1, 2]),
             num_key_value_heads=kv, max_position_embeddings=2048, rms_norm_eps=r.choice([1e-6, 1e-5]),
             tie_word_embeddings=r.random() < .5, bos_token_id=None, eos_token_id=261, pad_token_id=None,
             rope_parameters={"rope_theta": r.choice([1e4, 1e6, 1e7]), "rope_type": "default"})
    if arch != "qwen2" and arch != "qwen2_moe":
        c["head_dim"] = head
    else:
        c["hidden_size"] = head * c["num_attention_heads"]
    if "moe" in arch or arch == "qwen3_next":
        c.update(num_experts=r.choice([4, 6, 12]), num_experts_per_tok=2, moe_intermediate_size=r.choice([32, 64]),
                 decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=arch != "qwen2_moe")
    if arch in ("qwen2_moe", "qwen3_next", "qwen3_5_moe"):
        c["shared_expert_intermediate_size"] = r.choice([32, 64, 96])
    if arch in ("qwen3_next", "qwen3_5", "qwen3_5_moe"):
        keys = r.choice([1, 2])
        c.update(linear_num_key_heads=keys, linear_num_value_heads=keys * r.choice([1, 2, 3]),
                 linear_key_head_dim=32, linear_value_head_dim=32, linear_conv_kernel_dim=4,
                 full_attention_interval=r.choice([2, 4]))
        c["rope_parameters"]["partial_rotary_factor"] = 0.5
    if arch in ("qwen3_5", "qwen3_5_moe"):
        c["rope_parameters"].update(mrope_section=[2, 1, 1] if tiny else [3, 3, 2], mrope_interleaved=True)
    if arch in ("qwen3_vl", "qwen3_vl_moe"):
        c["rope_parameters"].update(mrope_section=[4, 2, 2] if tiny else [6, 5, 5], mrope_interleaved=True)
    if tiny:
        c.update(vocab_size=272, num_hidden_layers=2)
        for key in [k for k in c if k.endswith(("hidden_size", "intermediate_size", "head_dim"))]:
            c[key] = 32 if key == "hidden_size" else 16
        c["num_attention_heads"] = c["hidden_size"] // head
        if "linear_num_key_heads" in c:
            c.update(linear_num_key_heads=2, linear_num_value_heads=4)
        if "num_experts" in c:
            c["num_experts"] = 4
    if ranks(arch):
        c["eos_token_id"] = 264
    if arch.startswith("qwen3_score"):
        c["num_labels"] = 2 if arch == "qwen3_score2" else 1
        return T.Qwen3ForSequenceClassification, T.Qwen3Config(**c)
    name = {"qwen2": "Qwen2", "qwen2_moe": "Qwen2Moe", "qwen3": "Qwen3", "qwen3_rank": "Qwen3", "qwen3_moe": "Qwen3Moe",
            "qwen3_next": "Qwen3Next", "qwen3_5": "Qwen3_5", "qwen3_5_moe": "Qwen3_5Moe", "qwen3_vl": "Qwen3VL",
            "qwen3_vl_moe": "Qwen3VLMoe"}[arch]
    if "vl" not in arch:
        text = "Text" if "3_5" in arch else ""
        return getattr(T, name + "ForCausalLM"), getattr(T, name + text + "Config")(**c)
    seen = dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=c["hidden_size"],
                deepstack_visual_indexes=[0], num_position_embeddings=16)
    if tiny:
        seen.update(hidden_size=16, intermediate_size=16, num_heads=1, patch_size=2, temporal_patch_size=1,
                    spatial_merge_size=1, num_position_embeddings=4)
    tie = c.pop("tie_word_embeddings")
    return getattr(T, name + "ForConditionalGeneration"), getattr(T, name + "Config")(
        text_config=c, vision_config=seen, tie_word_embeddings=tie)


def randomise(model, torch):
    """Weights whose logits differ: initial ones are near 0."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("A_log", "dt_bias")):
                continue
            noise = torch.randn_like(p)
            if p.ndim == 1:
                p.add_(noise, alpha=0.1)
            else:
                p.copy_(noise * 0.5 / p.shape[-1] ** 0.5)


def mtp(arch, state, conf, torch):
    """The block for drafts, which the classes leave out."""
    n = conf.num_hidden_layers - 1
    out = {}
    for name, t in state.items():
        at = name.find("layers.%d." % n)
        if at >= 0 and "linear_attn" not in name:
            out["mtp.layers.0." + name[at + len("layers.%d." % n):]] = torch.randn_like(t.float()).to(t.dtype)
    h = conf.hidden_size
    out["mtp.fc.weight"] = torch.randn(h, 2 * h) / (2 * h) ** 0.5
    for s in "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden":
        out["mtp.%s.weight" % s] = torch.randn(h) * 0.1
    return out


def quantise(folder, how, torch):
    """Matrices of the blocks as fp8 with scales, or as codes of 4 bits."""
    from safetensors.torch import load_file, save_file
    state = load_file(folder + "/model.safetensors")
    out, q = {}, {}
    for name, t in state.items():
        last = name.split(".")[-2]
        if t.ndim != 2 or not last.endswith("proj") and not last.startswith("in_proj") or not name.endswith(".weight"):
            out[name] = t if t.ndim < 2 or name.endswith("gate.weight") else t.to(torch.bfloat16)
            continue
        t = t.float()
        if how == "fp8":
            rows, cols = [(n + 31) // 32 for n in t.shape]
            s = torch.rand(rows, cols) * 0.01 + 0.001
            big = s.repeat_interleave(32, 0)[:t.shape[0]].repeat_interleave(32, 1)[:, :t.shape[1]]
            out[name] = (t / big).clamp(-448, 448).to(torch.float8_e4m3fn)
            out[name + "_scale_inv"] = s
        elif t.shape[1] % 64 == 0:
            code = torch.randint(0, 256, (t.shape[0], t.shape[1] // 2), dtype=torch.uint8)
            if how == "nvfp4":
                out[name] = code
                out[name + "_scale"] = (torch.rand(t.shape[0], t.shape[1] // 16) * 2 + .1).to(torch.float8_e4m3fn)
                out[name + "_scale_2"] = torch.tensor(random.uniform(.01, .02))
                out[name[:-6] + "input_scale"] = torch.tensor(random.uniform(.01, .1))
            else:
                out[name + "_packed"] = code
                out[name + "_scale"] = torch.randint(118, 122, (t.shape[0], t.shape[1] // 32), dtype=torch.uint8)
        else:
            out[name] = t.to(torch.bfloat16)
    save_file(out, folder + "/model.safetensors", {"format": "pt"})
    c = json.load(open(folder + "/config.json"))
    c["quantization_config"] = {
        "fp8": {"quant_method": "fp8", "weight_block_size": [32, 32]},
        "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        "mxfp4": {"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "config_groups": {}}}[how]
    json.dump(c, open(folder + "/config.json", "w"))


def make(arch, folder, seed, kind="float32", tiny=None):
    import torch
    from safetensors.torch import load_file, save_file
    random.seed(int(seed))
    torch.manual_seed(int(seed))
    cls, conf = config(arch, random, tiny)
    packed = kind in ("fp8", "nvfp4", "mxfp4")
    model = cls(conf).eval()
    randomise(model, torch)
    model = model.to(getattr(torch, "float32" if packed else kind))
    os.makedirs(folder, exist_ok=True)
    text = conf.get_text_config()
    draft = arch in ("qwen3_next", "qwen3_5", "qwen3_5_moe")
    parts = not packed and not draft and (arch == "qwen3" if tiny else random.random() < .5)
    model.save_pretrained(folder, max_shard_size="5GB" if not parts else "20KB" if tiny else "200KB")
    if draft:
        state = load_file(folder + "/model.safetensors")
        state.update(mtp(arch, state, text, torch))
        save_file(state, folder + "/model.safetensors", {"format": "pt"})
        c = json.load(open(folder + "/config.json"))
        c["mtp_num_hidden_layers"] = 1
        json.dump(c, open(folder + "/config.json", "w"))
    if packed:
        quantise(folder, kind, torch)
    if arch == "qwen3_rank":
        with open(folder + "/README.md", "w") as f:
            f.write("# Qwen3-Reranker\n")
    tokenizer(folder, arch, text.vocab_size)


def load(folder):
    import torch
    import transformers
    c = transformers.AutoConfig.from_pretrained(folder)
    cls = getattr(transformers, c.architectures[0])
    return cls.from_pretrained(folder, dtype=torch.float32).eval()


def scores(folder, pairs, out):
    import tokenizers
    import torch
    model, tok = load(folder), tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
    yes, no = tok.token_to_id("yes"), tok.token_to_id("no")
    with open(out, "w") as f, torch.no_grad():
        for line in open(pairs):
            ids = tok.encode(RERANK % tuple(line.rstrip("\n").split("\t"))).ids
            x = model(input_ids=torch.tensor([ids])).logits[0]
            x = x[-1, yes] - x[-1, no] if x.ndim > 1 else x[0] if len(x) == 1 else x[1] - x[0]
            print("%s\t%.6f" % (line.rstrip("\n"), torch.sigmoid(x.double()).item()), file=f)


def adapt(folder, out, seed, how=None):
    import torch
    from peft import LoraConfig, get_peft_model
    random.seed(int(seed))
    torch.manual_seed(int(seed))
    model = load(folder)
    # with a shared expert's matrices peft would take all experts' parameters
    skip = ".mlp." if how == "experts" or model.config.model_type == "qwen3_next" else "lm_head"
    names = [n for n, m in model.named_modules() if n != "lm_head" and skip not in n and
             isinstance(m, (torch.nn.Linear, torch.nn.Embedding)) and "visual.pos_embed" not in n]
    if how == "names":  # of experts, all of which peft takes then, with other ranks and alphas
        names = ["q_proj", "gate_proj", "up_proj", "down_proj"]
    model = get_peft_model(model, LoraConfig(r=random.choice((2, 4)), lora_alpha=random.choice((3, 8)),
                                             target_modules=names, use_rslora=how == "rslora",
                                             target_parameters=["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]
                                             if how == "experts" else None))
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.normal_(std=.1)
    model.save_pretrained(out, save_embedding_layers=False)
    os.remove(out + "/README.md")
    c = json.load(open(out + "/adapter_config.json"))
    c["base_model_name_or_path"] = None
    json.dump(c, open(out + "/adapter_config.json", "w"), indent=2)


def apart(folder, adapter, out):
    """All experts' pairs as those of each one, which older transformers had."""
    from safetensors.torch import load_file, save_file
    c = json.load(open(folder + "/config.json"))
    n = c.get("num_local_experts") or c["num_experts"]
    state = load_file(adapter + "/adapter_model.safetensors")
    os.mkdir(out)
    for a in [name for name in state if ".mlp.experts." in name and ".lora_A." in name]:
        b = a.replace("lora_A", "lora_B")
        base, up = a[:a.index(".experts.") + 9], "base_layer" in a
        a, b = state.pop(a), state.pop(b)
        a = a.reshape(n, -1, a.shape[1])
        b = b.reshape(b.shape[0], -1, n).permute(2, 0, 1)
        for e in range(n):
            halves = zip(("gate_proj", "up_proj"), b[e].chunk(2)) if up else [("down_proj", b[e])]
            for what, rows in halves:
                state["%s%d.%s.lora_A.weight" % (base, e, what)] = a[e].clone()
                state["%s%d.%s.lora_B.weight" % (base, e, what)] = rows.clone().contiguous()
    save_file(state, out + "/adapter_model.safetensors")
    c = json.load(open(adapter + "/adapter_config.json"))
    c["target_parameters"] = None
    json.dump(c, open(out + "/adapter_config.json", "w"), indent=2)


def older(folder, adapter, out):
    """The same as peft wrote it before 0.20, which took the rows of experts for inputs."""
    from safetensors.torch import load_file, save_file
    c = json.load(open(folder + "/config.json"))
    n = c.get("num_local_experts") or c["num_experts"]
    state = load_file(adapter + "/adapter_model.safetensors")
    os.mkdir(out)
    for name in [name for name in state if ".mlp.experts." in name and ".lora_A." in name]:
        a, b = state[name], state[name.replace("lora_A", "lora_B")]
        rank = a.shape[0] // n
        state[name] = b.reshape(-1, rank, n).permute(2, 1, 0).reshape(n * rank, -1).contiguous()
        state[name.replace("lora_A", "lora_B")] = a.reshape(n, rank, -1).permute(2, 1, 0).reshape(
            -1, rank * n).contiguous()
    save_file(state, out + "/adapter_model.safetensors")
    c = json.load(open(adapter + "/adapter_config.json"))
    c["peft_version"] = "0.18.0"
    json.dump(c, open(out + "/adapter_config.json", "w"), indent=2)


def logits(folder, ids, out, adapter=None):
    import torch
    model = load(folder)
    if adapter:
        from peft import PeftModel
        model = PeftModel.from_pretrained(model, adapter)
    ids = [int(i) for i in open(ids).read().split()]
    with torch.no_grad():
        x = model(input_ids=torch.tensor([ids])).logits[0]
    x.float().numpy().astype("<f4").tofile(out)


def agree(got, want, limit):
    a, b = np.fromfile(got, "<f4"), np.fromfile(want, "<f4")
    assert a.size == b.size and a.size > 0, "%d and %d numbers" % (a.size, b.size)
    d = np.abs(a.astype(np.float64) - b)
    print("largest difference %.3g, of logits up to %.3g" % (d.max(), np.abs(b).max()))
    return 0 if np.isfinite(a).all() and d.max() <= float(limit) else 1


def peer(converter, folder, out, *options):
    sys.argv = [converter, folder, "--outfile", out, *options]
    sys.path.insert(0, os.path.dirname(os.path.abspath(converter)))
    from conversion import base
    # it tells vocabularies by what they make of a text, and knows none so small
    name = "qwen35" if "qwen3_5" in open(folder + "/config.json").read() else "qwen2"
    base.TextModel.get_vocab_base_pre = lambda self, tok: name
    runpy.run_path(converter, run_name="__main__")


def read_gguf(path):
    """Keys and tensors, as bytes, in order."""
    data = open(path, "rb").read()
    at = 24
    n_tensors, n_kv = struct.unpack_from("<QQ", data, 8)
    size = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text(at):
        n, = struct.unpack_from("<Q", data, at)
        return data[at + 8:at + 8 + n].decode(), at + 8 + n

    def skip(kind, at):
        if kind == 8:
            return text(at)[1]
        if kind != 9:
            return at + size[kind]
        elem, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n):
            at = skip(elem, at)
        return at
    keys, tensors = {}, {}
    for _ in range(n_kv):
        key, at = text(at)
        end = skip(struct.unpack_from("<I", data, at)[0], at + 4)
        keys[key] = data[at:end]
        at = end
    for _ in range(n_tensors):
        name, at = text(at)
        n, = struct.unpack_from("<I", data, at)
        tensors[name] = struct.unpack_from("<%dQIQ" % n, data, at + 4)
        at += 4 + 8 * n + 12
    start = (at + 31) // 32 * 32
    ends = sorted(t[-1] for t in tensors.values()) + [len(data) - start]
    return keys, {name: (t[:-1], data[start + t[-1]:start + min(e for e in ends if e > t[-1])])
                  for name, t in tensors.items()}


def same(ours, theirs):
    (k, t), (k2, t2) = read_gguf(ours), read_gguf(theirs)
    bad = 0
    if list(t) != list(t2):
        print("tensors:", [n for n in t if n not in t2], [n for n in t2 if n not in t], "or their order")
        bad += 1
    for name in t:
        if name not in t2 or t[name] == t2[name]:
            continue
        if t[name][0] == t2[name][0] and name.endswith(".ssm_a"):
            # exp(): theirs depends on the machine, by a unit in the last place
            a, b = [np.frombuffer(x[1][:4 * x[0][0]], "<i4") for x in (t[name], t2[name])]
            if np.abs(a - b).max() <= 1:
                continue
        print("tensor", name, t[name][0], t2[name][0])
        bad += 1
    for name in dict.fromkeys(list(k) + list(k2)):
        if k.get(name) != k2.get(name):
            print("key", name, k.get(name, b"none")[:60], k2.get(name, b"none")[:60])
            bad += 1
    if not bad and list(k) != list(k2):
        print("keys in another order:", list(k), list(k2))
        bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit({"make": make, "adapt": adapt, "apart": apart, "older": older, "logits": logits, "scores": scores, "agree": agree, "peer": peer, "same": same}[sys.argv[1]](*sys.argv[2:]))
