# SPDX-License-Identifier: ISC
"""The qwen35moe forward pass in torch, for training the demo model.

Parameters carry the names and the row order of the GGUF tensors, so export
and import are plain copies.  The only exception is `ssm_a`: the file holds
-exp(A_log), training works on A_log (kept under the name `ssm_a_log`).
"""
import dataclasses
import math

import torch
import torch.nn.functional as F

CHUNK = 64
# What training computes in: without instructions for bf16 it takes 60 times as long as f32.
COMPUTE = torch.bfloat16 if torch.ops.mkldnn._is_mkldnn_bf16_supported() else torch.float32


@dataclasses.dataclass
class Config:
    n_vocab: int = 4096
    n_layer: int = 8
    n_embd: int = 256
    n_head: int = 4
    n_head_kv: int = 2
    head_dim: int = 64
    rope_dim: int = 32
    rope_base: float = 1e7
    rms_eps: float = 1e-6
    full_attention_interval: int = 4
    conv_kernel: int = 4
    ssm_state: int = 64         # dk = dv
    ssm_k_heads: int = 2        # Hk
    ssm_v_heads: int = 4        # Hv; value head h reads key head h % Hk
    n_expert: int = 8
    n_expert_used: int = 2
    n_ff_exp: int = 256
    n_ff_shexp: int = 256
    context_length: int = 4096
    n_mtp: int = 0              # blocks that draft (mtp.py), after the n_layer others

    def is_attention(self, layer):
        return layer >= self.n_layer or (layer + 1) % self.full_attention_interval == 0


def shapes(cfg):
    """Yields (GGUF name, torch shape) for every parameter."""
    E, kd, vd = cfg.n_embd, cfg.ssm_k_heads * cfg.ssm_state, cfg.ssm_v_heads * cfg.ssm_state
    yield "token_embd.weight", (cfg.n_vocab, E)
    yield "output_norm.weight", (E,)
    yield "output.weight", (cfg.n_vocab, E)
    for i in range(cfg.n_layer + cfg.n_mtp):
        b = f"blk.{i}."
        if i >= cfg.n_layer:
            yield b + "nextn.eh_proj.weight", (E, 2 * E)
            yield b + "nextn.enorm.weight", (E,)
            yield b + "nextn.hnorm.weight", (E,)
            yield b + "nextn.shared_head_norm.weight", (E,)
        yield b + "attn_norm.weight", (E,)
        yield b + "post_attention_norm.weight", (E,)
        if cfg.is_attention(i):
            yield b + "attn_q.weight", (2 * cfg.n_head * cfg.head_dim, E)
            yield b + "attn_k.weight", (cfg.n_head_kv * cfg.head_dim, E)
            yield b + "attn_v.weight", (cfg.n_head_kv * cfg.head_dim, E)
            yield b + "attn_output.weight", (E, cfg.n_head * cfg.head_dim)
            yield b + "attn_q_norm.weight", (cfg.head_dim,)
            yield b + "attn_k_norm.weight", (cfg.head_dim,)
        else:
            yield b + "attn_qkv.weight", (2 * kd + vd, E)
            yield b + "attn_gate.weight", (vd, E)
            yield b + "ssm_conv1d.weight", (2 * kd + vd, cfg.conv_kernel)
            yield b + "ssm_a_log", (cfg.ssm_v_heads,)
            yield b + "ssm_dt.bias", (cfg.ssm_v_heads,)
            yield b + "ssm_alpha.weight", (cfg.ssm_v_heads, E)
            yield b + "ssm_beta.weight", (cfg.ssm_v_heads, E)
            yield b + "ssm_norm.weight", (cfg.ssm_state,)
            yield b + "ssm_out.weight", (E, vd)
        yield b + "ffn_gate_inp.weight", (cfg.n_expert, E)
        yield b + "ffn_gate_exps.weight", (cfg.n_expert, cfg.n_ff_exp, E)
        yield b + "ffn_up_exps.weight", (cfg.n_expert, cfg.n_ff_exp, E)
        yield b + "ffn_down_exps.weight", (cfg.n_expert, E, cfg.n_ff_exp)
        yield b + "ffn_gate_inp_shexp.weight", (E,)
        yield b + "ffn_gate_shexp.weight", (cfg.n_ff_shexp, E)
        yield b + "ffn_up_shexp.weight", (cfg.n_ff_shexp, E)
        yield b + "ffn_down_shexp.weight", (E, cfg.n_ff_shexp)


def init_params(cfg, seed):
    """Fresh weights.  The matrices that write to the residual stream start at zero."""
    g = torch.Generator().manual_seed(seed)
    params = {}
    for name, shape in shapes(cfg):
        base = name.split(".", 2)[-1] if name.startswith("blk.") else name
        if base.endswith("norm.weight"):
            t = torch.ones(shape)
        elif base in ("attn_output.weight", "ssm_out.weight", "ffn_down_exps.weight",
                      "ffn_down_shexp.weight", "ffn_gate_inp_shexp.weight", "output.weight"):
            t = torch.zeros(shape)
        elif base == "token_embd.weight":
            t = 0.5 * torch.randn(shape, generator=g)
        elif base == "ssm_a_log":
            t = torch.empty(shape).uniform_(1.0, 16.0, generator=g).log()
        elif base == "ssm_dt.bias":
            # softplus(bias) log-uniform in 0.001 .. 0.1
            dt = torch.exp(torch.empty(shape).uniform_(math.log(1e-3), math.log(0.1), generator=g))
            t = dt + torch.log(-torch.expm1(-dt))
        elif base == "ssm_conv1d.weight":
            t = torch.empty(shape).uniform_(-0.5, 0.5, generator=g)
        else:
            t = torch.randn(shape, generator=g) / math.sqrt(shape[-1])
        params[name] = t.requires_grad_(True)
    return params


def linear(x, weight):
    """Product in the weight's precision (f32, or bf16 while training)."""
    return F.linear(x.to(weight.dtype), weight)


def rms(x, weight, eps):
    x = x.float()
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def l2(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def rope_tables(cfg, n):
    half = cfg.rope_dim // 2
    j = torch.arange(half, dtype=torch.float64)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * cfg.rope_base ** (-j / half)
    return angle.cos().float(), angle.sin().float()


def rope(x, cos, sin):
    """x: [batch, heads, tokens, head_dim]; rotates pairs (j, j + R/2) of the first R dimensions."""
    half = cos.shape[-1]
    u, w, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([u * cos - w * sin, u * sin + w * cos, rest], -1)


def attention(cfg, w, x, cos, sin):
    """w: the block's weights by their names without "blk.i."; x: f32 residual stream."""
    B, T, _ = x.shape
    H, Hkv, D = cfg.n_head, cfg.n_head_kv, cfg.head_dim
    x = rms(x, w["attn_norm.weight"], cfg.rms_eps)
    # attn_q holds, head by head, D query rows and then D gate rows.
    q, gate = linear(x, w["attn_q.weight"]).view(B, T, H, 2, D).unbind(3)
    k = linear(x, w["attn_k.weight"]).view(B, T, Hkv, D)
    v = linear(x, w["attn_v.weight"]).view(B, T, Hkv, D)
    q = rope(rms(q, w["attn_q_norm.weight"], cfg.rms_eps).transpose(1, 2), cos, sin)
    k = rope(rms(k, w["attn_k_norm.weight"], cfg.rms_eps).transpose(1, 2), cos, sin)
    v = v.transpose(1, 2)
    k, v = (t.repeat_interleave(H // Hkv, 1) for t in (k, v))
    o = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True)
    o = o.transpose(1, 2).reshape(B, T, H * D) * torch.sigmoid(gate.reshape(B, T, H * D))
    return linear(o, w["attn_output.weight"])


def causal_conv(x, weight):
    """Depthwise convolution over tokens; the last tap multiplies the current token."""
    taps = weight.shape[1]
    T = x.shape[1]
    padded = F.pad(x, (0, 0, taps - 1, 0))
    y = padded[:, :T] * weight[:, 0]
    for j in range(1, taps):
        y = y + padded[:, j:j + T] * weight[:, j]
    return F.silu(y)


def delta_rule(q, k, v, g, b, mm_dtype):
    """Chunked gated delta rule.  q, k: [B, Hk, T, d]; v: [B, Hv, T, d]; g, b: [B, Hv, T].

    Value head h uses key head h % Hk.  Large products run in mm_dtype, the
    triangular solve and the state in f32.
    """
    B, Hk, T, d = k.shape
    Hv = v.shape[1]
    pad = -T % CHUNK
    if pad:
        q, k, v = (F.pad(t, (0, 0, 0, pad)) for t in (q, k, v))
        g, b = (F.pad(t, (0, pad)) for t in (g, b))
    n = (T + pad) // CHUNK
    rep = Hv // Hk
    q, k = (t.reshape(B, Hk, n, CHUNK, d) for t in (q, k))
    v = v.reshape(B, Hv, n, CHUNK, d)
    b = b.reshape(B, Hv, n, CHUNK)
    G = g.reshape(B, Hv, n, CHUNK).cumsum(-1)

    def mm(x, y):
        return (x.to(mm_dtype) @ y.to(mm_dtype)).float()

    tri = torch.ones(CHUNK, CHUNK, dtype=torch.bool).tril()
    M = (G[..., :, None] - G[..., None, :]).masked_fill(~tri, -math.inf).exp()
    kk = mm(k, k.transpose(-1, -2)).repeat(1, rep, 1, 1, 1)     # repeat tiles: head h -> h % Hk
    qk = mm(q, k.transpose(-1, -2)).repeat(1, rep, 1, 1, 1) * M
    k, q = k.repeat(1, rep, 1, 1, 1), q.repeat(1, rep, 1, 1, 1)
    A = (b[..., :, None] * kk * M).tril(-1)
    decay = G.exp()[..., None]
    rhs = torch.cat([b[..., None] * v, (b[..., None] * decay) * k], -1)
    UW = torch.linalg.solve_triangular(A, rhs, upper=False, unitriangular=True)
    U, W = UW.split(d, -1)
    q_in = q * decay
    k_out = (k * (G[..., -1:] - G).exp()[..., None]).transpose(-1, -2)
    end = decay[..., -1, :, None]

    S = torch.zeros(B, Hv, d, d)
    out = []
    for c in range(n):
        N = U[:, :, c] - mm(W[:, :, c], S)
        out.append(mm(q_in[:, :, c], S) + mm(qk[:, :, c], N))
        S = end[:, :, c] * S + mm(k_out[:, :, c], N)
    return torch.stack(out, 2).reshape(B, Hv, n * CHUNK, d)[:, :, :T]


def deltanet(cfg, w, x):
    B, T, _ = x.shape
    d, Hk, Hv = cfg.ssm_state, cfg.ssm_k_heads, cfg.ssm_v_heads
    x = rms(x, w["attn_norm.weight"], cfg.rms_eps)
    qkv = linear(x, w["attn_qkv.weight"])
    z = linear(x, w["attn_gate.weight"]).view(B, T, Hv, d)
    decay = F.softplus(linear(x, w["ssm_alpha.weight"]).float() + w["ssm_dt.bias"])
    g = -w["ssm_a_log"].exp() * decay
    b = torch.sigmoid(linear(x, w["ssm_beta.weight"]).float())
    q, k, v = causal_conv(qkv.float(), w["ssm_conv1d.weight"]).split([Hk * d, Hk * d, Hv * d], -1)
    q = l2(q.reshape(B, T, Hk, d)) * d ** -0.5
    k = l2(k.reshape(B, T, Hk, d))
    v = v.reshape(B, T, Hv, d)
    o = delta_rule(*(t.transpose(1, 2) for t in (q, k, v, g, b)), w["ssm_out.weight"].dtype)
    o = rms(o.transpose(1, 2), w["ssm_norm.weight"], cfg.rms_eps) * F.silu(z.float())
    return linear(o.reshape(B, T, Hv * d), w["ssm_out.weight"])


def swiglu(gate, up):
    return F.silu(gate) * up


def route(cfg, w, x):
    """Router, in f32: x normed, expert probabilities, the chosen experts, their weights, shared-expert gate."""
    x = rms(x, w["post_attention_norm.weight"], cfg.rms_eps).flatten(0, 1)
    prob = F.linear(x, w["ffn_gate_inp.weight"]).softmax(-1)
    top, idx = prob.topk(cfg.n_expert_used, -1)
    top = top / top.sum(-1, keepdim=True)
    shared_gate = torch.sigmoid((x * w["ffn_gate_inp_shexp.weight"]).sum(-1, keepdim=True))
    return x.to(w["ffn_gate_shexp.weight"].dtype), prob, top, idx, shared_gate


def moe(cfg, w, x):
    """Returns the FFN output and the load-balancing loss (1 when perfectly balanced)."""
    shape = x.shape
    x, prob, top, idx, shared_gate = route(cfg, w, x)
    idx = idx.flatten()
    order = idx.argsort()                       # (token, slot) pairs grouped by expert
    counts = torch.bincount(idx, minlength=cfg.n_expert)
    token = order // cfg.n_expert_used
    experts = zip(x.index_select(0, token).split(counts.tolist()), w["ffn_gate_exps.weight"].unbind(),
                  w["ffn_up_exps.weight"].unbind(), w["ffn_down_exps.weight"].unbind())
    routed = torch.cat([F.linear(swiglu(F.linear(xe, gate), F.linear(xe, up)), down)
                        for xe, gate, up, down in experts])
    h = swiglu(F.linear(x, w["ffn_gate_shexp.weight"]), F.linear(x, w["ffn_up_shexp.weight"]))
    y = F.linear(h, w["ffn_down_shexp.weight"]) * shared_gate
    y = y.index_add(0, token, routed * top.flatten().index_select(0, order)[:, None])
    balance = cfg.n_expert * (counts / counts.sum() * prob.mean(0)).sum()
    return y.view(shape), balance


def add_dropped(x, y, rate):
    """Residual addition with dropout on the branch."""
    return x + F.dropout(y.float(), rate, rate > 0)


def cast(params, dtype):
    """The weight matrices in dtype; norms, routers, convolution and other small tensors stay f32."""
    keep = ("norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "conv1d.weight", "a_log", "bias",
            "token_embd.weight")
    return {name: t if name.endswith(keep) else t.to(dtype) for name, t in params.items()}


def block(p, i):
    """Block i's weights by their names without "blk.i."."""
    prefix = f"blk.{i}."
    return {name[len(prefix):]: t for name, t in p.items() if name.startswith(prefix)}


def forward(cfg, p, tokens, dropout=0.0):
    """tokens [B, T] -> (f32 hidden state after output_norm, sum of the layers' balance losses)."""
    x = F.dropout(F.embedding(tokens, p["token_embd.weight"]), dropout, dropout > 0)
    cos, sin = rope_tables(cfg, tokens.shape[1])
    balance = 0.0
    for i in range(cfg.n_layer):
        w = block(p, i)
        x = add_dropped(x, attention(cfg, w, x, cos, sin) if cfg.is_attention(i) else deltanet(cfg, w, x), dropout)
        y, bal = moe(cfg, w, x)
        x = add_dropped(x, y, dropout)
        balance = balance + bal
    return rms(x, p["output_norm.weight"], cfg.rms_eps), balance


def loss_sum(hidden, weight, targets):
    """Sum of the cross entropies of hidden [N, E] under the output matrix; targets [N]."""
    return F.cross_entropy(linear(hidden, weight).float(), targets, reduction="sum")
