# SPDX-License-Identifier: ISC
"""Quantisers for the GGUF block formats Q8_0, Q4_K, Q5_K and Q6_K.

Each takes an f32 array whose last dimension is a multiple of the block length
and returns the blocks as bytes, shape [..., bytes per row].  The scales of
the K formats are searched for the least squared error; then the scale of the
256-element block is solved by least squares and the integers are rounded
again, a few times over.
"""
import numpy as np

ROUNDS = 4          # alternations of integers and block scales


def f16(x):
    return x.astype(np.float16)


def safe_inverse(x):
    return np.divide(1.0, x, out=np.zeros_like(x), where=x != 0)


def q8_0(a):
    x = a.reshape(-1, 32).astype(np.float32)
    d = np.abs(x).max(-1, keepdims=True) / 127
    q = np.rint(x * safe_inverse(d)).astype(np.int8)
    blocks = np.concatenate([f16(d).view(np.uint8), q.view(np.uint8)], -1)
    return blocks.reshape(*a.shape[:-1], -1)


def fit_affine(x, n_max):
    """Scale s and minimum m >= 0 of each row such that s*n - m, n in 0..n_max, is near x."""
    low = np.minimum(x.min(-1, keepdims=True), 0)
    span = np.maximum(x.max(-1, keepdims=True) - low, 1e-20)
    best_s, best_m = span / n_max, -low
    best = np.full_like(span, np.inf)
    k = x.shape[-1]
    for stretch in np.linspace(-0.1 * n_max, 0.1 * n_max, 21):
        n = np.clip(np.rint((n_max + stretch) / span * (x - low)), 0, n_max)
        # Least squares for x ~ s*n - m; where m would be negative, m = 0.
        sn, snn, sx, sxn = n.sum(-1, keepdims=True), (n * n).sum(-1, keepdims=True), x.sum(-1, keepdims=True), \
            (x * n).sum(-1, keepdims=True)
        s = (k * sxn - sx * sn) * safe_inverse(k * snn - sn * sn)
        m = (s * sn - sx) / k
        s = np.where(m < 0, sxn * safe_inverse(snn), s)
        m = np.maximum(m, 0)
        s = np.maximum(s, 0)
        err = ((s * n - m - x) ** 2).sum(-1, keepdims=True)
        better = err < best
        best_s, best_m, best = np.where(better, s, best_s), np.where(better, m, best_m), np.where(better, err, best)
    return best_s[..., 0], best_m[..., 0]


def affine_blocks(a, n_max):
    """Common part of Q4_K and Q5_K: f16 d and dmin, 6-bit scales and minimums, integers, per block of 256."""
    x = a.reshape(-1, 8, 32).astype(np.float32)
    s, m = fit_affine(x, n_max)
    d, dmin = s.max(-1, keepdims=True) / 63, m.max(-1, keepdims=True) / 63
    sc = np.rint(s * safe_inverse(d)).astype(np.float32)
    mn = np.rint(m * safe_inverse(dmin)).astype(np.float32)
    for _ in range(ROUNDS):
        d, dmin = (f16(t).astype(np.float32) for t in (d, dmin))
        n = np.clip(np.rint((x + (dmin * mn)[..., None]) * safe_inverse(d * sc)[..., None]), 0, n_max)
        result = f16(d), f16(dmin), sc.astype(np.uint8), mn.astype(np.uint8), n.astype(np.uint8)
        # x ~ d*u - dmin*v over the block
        u, v = sc[..., None] * n, np.broadcast_to(mn[..., None], n.shape)
        uu, vv, uv, xu, xv = ((p * q).sum((1, 2)) for p, q in ((u, u), (v, v), (u, v), (x, u), (x, v)))
        det = uu * vv - uv * uv
        solvable = det > 1e-6 * uu * vv
        inverse = np.where(solvable, safe_inverse(det), 0)
        d = np.where(solvable, (xu * vv - xv * uv) * inverse, xu * safe_inverse(uu))[:, None]
        dmin = np.where(solvable, (xu * uv - xv * uu) * inverse, dmin[:, 0])[:, None]
        d, dmin = np.maximum(d, 0), np.maximum(dmin, 0)
    return result


def pack_scales(sc, mn):
    """Eight 6-bit scales and eight 6-bit minimums in 12 bytes."""
    out = np.zeros((len(sc), 12), np.uint8)
    out[:, 0:4] = sc[:, :4] | (sc[:, 4:] >> 4) << 6
    out[:, 4:8] = mn[:, :4] | (mn[:, 4:] >> 4) << 6
    out[:, 8:12] = (sc[:, 4:] & 15) | (mn[:, 4:] & 15) << 4
    return out


def pack_nibbles(n):
    """n [blocks, 8, 32]: sub-blocks 2p and 2p+1 share 32 bytes, low and high nibble."""
    return ((n[:, 0::2] & 15) | (n[:, 1::2] & 15) << 4).reshape(len(n), 128)


def q4_k(a):
    d, dmin, sc, mn, n = affine_blocks(a, 15)
    blocks = np.concatenate([d.view(np.uint8), dmin.view(np.uint8), pack_scales(sc, mn), pack_nibbles(n)], -1)
    return blocks.reshape(*a.shape[:-1], -1)


def q5_k(a):
    d, dmin, sc, mn, n = affine_blocks(a, 31)
    high = (n >> 4) << np.arange(8, dtype=np.uint8)[:, None]
    blocks = np.concatenate([d.view(np.uint8), dmin.view(np.uint8), pack_scales(sc, mn),
                             np.bitwise_or.reduce(high, 1), pack_nibbles(n)], -1)
    return blocks.reshape(*a.shape[:-1], -1)


def fit_symmetric(x):
    """Signed scale s of each row such that s*n, n in -32..31, is near x."""
    extreme = np.take_along_axis(x, np.abs(x).argmax(-1)[..., None], -1)
    best_s = extreme / -32
    best = np.full_like(best_s, np.inf)
    for reach in np.linspace(-34, -30, 17):
        n = np.clip(np.rint(x * (reach * safe_inverse(extreme))), -32, 31)
        s = (x * n).sum(-1, keepdims=True) * safe_inverse((n * n).sum(-1, keepdims=True))
        err = ((s * n - x) ** 2).sum(-1, keepdims=True)
        better = err < best
        best_s, best = np.where(better, s, best_s), np.where(better, err, best)
    return best_s[..., 0]


def q6_k(a):
    x = a.reshape(-1, 16, 16).astype(np.float32)
    s = fit_symmetric(x)
    d = np.take_along_axis(s, np.abs(s).argmax(-1)[:, None], -1) / -128
    sc = np.clip(np.rint(s * safe_inverse(d)), -128, 127).astype(np.float32)
    for _ in range(ROUNDS):
        d = f16(d).astype(np.float32)
        n = np.clip(np.rint(x * safe_inverse(d * sc)[..., None]), -32, 31)
        result = f16(d), sc.astype(np.int8), (n + 32).astype(np.uint8)
        u = sc[..., None] * n
        d = ((x * u).sum((1, 2)) * safe_inverse((u * u).sum((1, 2))))[:, None]
    d, sc, n = result
    n = n.reshape(-1, 2, 4, 32)             # [block, half, group, lane]
    low = (n[:, :, :2] & 15) | (n[:, :, 2:] & 15) << 4
    high = np.bitwise_or.reduce((n >> 4) << (2 * np.arange(4, dtype=np.uint8)[:, None]), 2)
    blocks = np.concatenate([low.reshape(-1, 128), high.reshape(-1, 64), sc.view(np.uint8), d.view(np.uint8)], -1)
    return blocks.reshape(*a.shape[:-1], -1)
