# SPDX-License-Identifier: ISC
"""Writes the parameters of model.py as a qwen35moe GGUF with the tensor types of a real Q4_K_M file."""
import os

import gguf
import numpy as np

import kquant
import model

NAME = "qpipe demo 18M"
CHAT_TEMPLATE = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}"""

TYPE = gguf.GGMLQuantizationType
QUANTISE = {TYPE.Q8_0: kquant.q8_0, TYPE.Q4_K: kquant.q4_k, TYPE.Q5_K: kquant.q5_k, TYPE.Q6_K: kquant.q6_k}
Q8_0_SUFFIXES = ("token_embd.weight", "attn_qkv.weight", "attn_gate.weight", "ssm_out.weight", "attn_q.weight",
                 "attn_k.weight", "attn_v.weight", "attn_output.weight", "ffn_gate_shexp.weight",
                 "ffn_up_shexp.weight", "ffn_down_shexp.weight", "nextn.eh_proj.weight")


def tensor_type(cfg, name):
    if name == "output.weight":
        return TYPE.Q6_K
    if name.endswith(Q8_0_SUFFIXES):
        return TYPE.Q8_0
    if name.endswith(("ffn_gate_exps.weight", "ffn_up_exps.weight")):
        return TYPE.Q4_K
    if name.endswith("ffn_down_exps.weight"):
        first_or_last = name.startswith(("blk.0.", f"blk.{cfg.n_layer - 1}."))
        return TYPE.Q6_K if first_or_last else TYPE.Q5_K
    return TYPE.F32


def add_metadata(w, cfg, tokenizer, file_type):
    w.add_type("model")
    w.add_name(NAME)
    w.add_description("Small language model trained on the King James Bible, for demonstration and tests")
    w.add_license("isc")
    w.add_size_label("18M")
    w.add_quantization_version(2)
    w.add_file_type(file_type)
    w.add_block_count(cfg.n_layer)
    w.add_context_length(cfg.context_length)
    w.add_embedding_length(cfg.n_embd)
    w.add_head_count(cfg.n_head)
    w.add_head_count_kv(cfg.n_head_kv)
    w.add_key_length(cfg.head_dim)
    w.add_value_length(cfg.head_dim)
    w.add_layer_norm_rms_eps(cfg.rms_eps)
    pairs = cfg.rope_dim // 2
    w.add_rope_dimension_sections([pairs - 2 * (pairs // 3), pairs // 3, pairs // 3, 0])
    w.add_rope_freq_base(cfg.rope_base)
    w.add_rope_dimension_count(cfg.rope_dim)
    w.add_expert_count(cfg.n_expert)
    w.add_expert_used_count(cfg.n_expert_used)
    w.add_expert_feed_forward_length(cfg.n_ff_exp)
    w.add_expert_shared_feed_forward_length(cfg.n_ff_shexp)
    w.add_ssm_conv_kernel(cfg.conv_kernel)
    w.add_ssm_state_size(cfg.ssm_state)
    w.add_ssm_group_count(cfg.ssm_k_heads)
    w.add_ssm_time_step_rank(cfg.ssm_v_heads)
    w.add_ssm_inner_size(cfg.ssm_v_heads * cfg.ssm_state)
    w.add_uint32("qwen35moe.full_attention_interval", cfg.full_attention_interval)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen35")
    w.add_token_list(tokenizer.tokens)
    w.add_token_types(tokenizer.types)
    w.add_token_merges([" ".join(m) for m in tokenizer.merges])
    w.add_eos_token_id(tokenizer.eot)
    w.add_pad_token_id(tokenizer.eot)
    w.add_add_bos_token(False)
    w.add_chat_template(CHAT_TEMPLATE)


def add_param(w, cfg, name, x):
    kind = tensor_type(cfg, name)
    if kind == TYPE.F32:
        w.add_tensor(name, x)
    else:
        w.add_tensor(name, QUANTISE[kind](x), raw_dtype=kind)


def write(w, path):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.replace(path + ".new", path)
    print(f"{path}: {os.path.getsize(path)} bytes")


def export(path, cfg, params, tokenizer, f32=False):
    """Writes the model with the types of tensor_type(), or all in F32: what a quantiser starts from."""
    w = gguf.GGUFWriter(path + ".new", "qwen35moe")
    add_metadata(w, cfg, tokenizer, gguf.LlamaFileType.ALL_F32 if f32 else gguf.LlamaFileType.MOSTLY_Q4_K_M)
    for name, _ in model.shapes(cfg):
        x = params[name].detach().numpy().astype(np.float32)
        if name.endswith("ssm_a_log"):
            name, x = name[:-len("_log")], -np.exp(x)
        if f32:
            w.add_tensor(name, x)
        else:
            add_param(w, cfg, name, x)
    write(w, path)


def add_mtp(source, path, cfg, block):
    """Writes the model in `source` with this block after its others, which are copied as they lie there."""
    reader = gguf.GGUFReader(source)
    w = gguf.GGUFWriter(path + ".new", "qwen35moe")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "qwen35moe.nextn_predict_layers"):
            continue
        value = field.contents()
        if name == "qwen35moe.block_count":
            value = cfg.n_layer + cfg.n_mtp
        w.add_key_value(name, value, field.types[0], field.types[1] if len(field.types) > 1 else None)
    w.add_nextn_predict_layers(cfg.n_mtp)
    for t in reader.tensors:
        if not t.name.startswith(f"blk.{cfg.n_layer}."):
            w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    for name, x in block.items():
        add_param(w, cfg, name, x.numpy())
    write(w, path)
