# SPDX-License-Identifier: ISC
"""The forward pass of the block that drafts (multi-token prediction, "nextn").

A row at position p takes the id at p and the trunk's hidden state after
output_norm of p-1, and predicts the id at p+1, as the trunk does at p.  Such
a row is of depth 1.  A row of depth 2 takes the block's own output of the
depth-1 row before it instead, one of depth 3 that of a depth-2 row, and so on:
with them a chain of drafts is made.  Here all rows of a depth are computed at
once, each as if the ids of the text were the drafts before it.

There is no row for position 0; index r of a tensor is position r + 1.
"""
import math

import torch
import torch.nn.functional as F

import model


def later(x, n):
    """Rows moved by n places to the right along dimension -2; zeros come in."""
    return F.pad(x, (0, 0, n, 0))[..., :x.shape[-2], :] if n else x


class Drafter:
    """Rows of a batch, depth by depth: tokens [B, T], the trunk's hidden states [B, T, E]."""

    def __init__(self, cfg, p, tokens, hidden):
        self.cfg, self.w, self.depth = cfg, model.block(p, cfg.n_layer), 0      # depth: rows made so far
        e = F.embedding(tokens[:, 1:], p["token_embd.weight"])
        self.e = model.rms(e, self.w["nextn.enorm.weight"], cfg.rms_eps)
        self.h = hidden[:, :-1].float()
        self.cos, self.sin = (t[1:] for t in model.rope_tables(cfg, tokens.shape[1]))
        self.keys, self.values = [], []

    def attention(self, x):
        """A row of depth j sees the true rows (of depth 1) at least j-1 before it, and its own chain after them."""
        cfg, w, j = self.cfg, self.w, self.depth
        B, T, _ = x.shape
        H, Hkv, D = cfg.n_head, cfg.n_head_kv, cfg.head_dim
        x = model.rms(x, w["attn_norm.weight"], cfg.rms_eps)
        q, gate = model.linear(x, w["attn_q.weight"]).view(B, T, H, 2, D).unbind(3)
        k = model.linear(x, w["attn_k.weight"]).view(B, T, Hkv, D)
        v = model.linear(x, w["attn_v.weight"]).view(B, T, Hkv, D).transpose(1, 2)
        q = model.rope(model.rms(q, w["attn_q_norm.weight"], cfg.rms_eps).transpose(1, 2), self.cos, self.sin)
        k = model.rope(model.rms(k, w["attn_k_norm.weight"], cfg.rms_eps).transpose(1, 2), self.cos, self.sin)
        q, k, v = (t.to(v.dtype) for t in (q, k, v))
        self.keys.append(k.repeat_interleave(H // Hkv, 1))
        self.values.append(v.repeat_interleave(H // Hkv, 1))
        own = [(later(self.keys[i], j - i), later(self.values[i], j - i)) for i in range(1, j + 1)]
        seen = torch.ones(T, T, dtype=torch.bool).tril(-j)
        scores = [(q @ self.keys[0].mT).float().masked_fill(~seen, -math.inf)]
        scores += [(q * k).float().sum(-1, keepdim=True) for k, _ in own]
        prob = (torch.cat(scores, -1) * D ** -0.5).softmax(-1).to(v.dtype)
        o = prob[..., :T] @ self.values[0]
        for i, (_, v) in enumerate(own):
            o = o + prob[..., T + i, None] * v
        o = o.transpose(1, 2).reshape(B, T, H * D) * torch.sigmoid(gate.reshape(B, T, H * D))
        return model.linear(o, w["attn_output.weight"])

    def next(self):
        """The rows one depth further: output after the last norm [B, T-1, E], load-balancing loss.

        Of depth j the first j-1 rows are of no use.
        """
        cfg, w = self.cfg, self.w
        g = model.rms(self.h, w["nextn.hnorm.weight"], cfg.rms_eps)
        x = model.linear(torch.cat([self.e, g], -1), w["nextn.eh_proj.weight"]).float()
        x = x + self.attention(x).float()
        y, balance = model.moe(cfg, w, x)
        f = model.rms(x + y.float(), w["nextn.shared_head_norm.weight"], cfg.rms_eps)
        self.h = later(f, 1)
        self.depth += 1
        return f, balance
