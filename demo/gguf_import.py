# SPDX-License-Identifier: ISC
"""Reads a qwen35moe GGUF back into the parameters of model.py (weights dequantised to f32)."""
import gguf
import numpy as np
import torch

from model import Config, shapes

PREFIX = "qwen35moe."


def tokens(path):
    return gguf.GGUFReader(path).fields["tokenizer.ggml.tokens"].contents()


def load(path):
    reader = gguf.GGUFReader(path)

    def key(name):
        return reader.fields[PREFIX + name].contents()

    n_mtp = key("nextn_predict_layers") if PREFIX + "nextn_predict_layers" in reader.fields else 0
    cfg = Config(
        n_vocab=len(reader.fields["tokenizer.ggml.tokens"].data), n_layer=key("block_count") - n_mtp, n_mtp=n_mtp,
        n_embd=key("embedding_length"), n_head=key("attention.head_count"),
        n_head_kv=key("attention.head_count_kv"), head_dim=key("attention.key_length"),
        rope_dim=key("rope.dimension_count"), rope_base=key("rope.freq_base"),
        rms_eps=key("attention.layer_norm_rms_epsilon"),
        full_attention_interval=key("full_attention_interval"), conv_kernel=key("ssm.conv_kernel"),
        ssm_state=key("ssm.state_size"), ssm_k_heads=key("ssm.group_count"),
        ssm_v_heads=key("ssm.time_step_rank"), n_expert=key("expert_count"),
        n_expert_used=key("expert_used_count"), n_ff_exp=key("expert_feed_forward_length"),
        n_ff_shexp=key("expert_shared_feed_forward_length"), context_length=key("context_length"))
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    params = {}
    for name, shape in shapes(cfg):
        if name.endswith("ssm_a_log"):
            value = np.log(-tensors[name[:-len("_log")]])
        else:
            value = tensors[name]
        params[name] = torch.from_numpy(np.array(value, dtype=np.float32)).reshape(shape)
    return cfg, params
