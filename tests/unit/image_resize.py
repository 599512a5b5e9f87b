#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Write image_resize.tsv: sizes and pixels of 200 random images.

This is Pillow's bicubic filter written again, in numpy.  With --pillow, also
compare it with Pillow, called once for each direction, and write nothing.
"""
import math
import os
import random
import sys

import numpy as np

UNIT = 32


def fit(w, h, low, high):
    """The size of an image of low to high tokens, as image.h has it."""
    area = UNIT * UNIT
    W, H = round(w / UNIT), round(h / UNIT)
    if W * H < low:
        b = math.sqrt(low * area / (h * w))
        W, H = math.ceil(w * b / UNIT), math.ceil(h * b / UNIT)
    if W * H > high:
        b = math.sqrt(h * w / (high * area))
        W = max(1, math.floor(w / b / UNIT))
        H = max(1, math.floor(h / b / UNIT))
    if W * H > high:
        W, H = (high, 1) if W > H else (1, high)
    return W * UNIT, H * UNIT


def cubic(x):
    x = abs(x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * -0.5 if x < 2 else 0.0


def resize_axis(a, n_out):
    """The first axis of a."""
    n_in = len(a)
    scale = n_in / n_out
    stretch = max(scale, 1.0)
    out = np.empty((n_out,) + a.shape[1:], np.uint8)
    for o in range(n_out):
        c = (o + 0.5) * scale
        lo = max(int(c - 2 * stretch + 0.5), 0)
        hi = min(int(c + 2 * stretch + 0.5), n_in)
        k = [cubic((i - c + 0.5) * (1 / stretch)) for i in range(lo, hi)]
        total = 0.0
        for v in k:
            total += v
        k = [v / total for v in k]
        k = [int(v * (1 << 22) + (-0.5 if v < 0 else 0.5)) for v in k]
        s = np.full(a.shape[1:], 1 << 21, np.int64)
        for i, w in enumerate(k):
            s += a[lo + i].astype(np.int64) * w
        out[o] = np.clip(s >> 22, 0, 255)
    return out


def resize(a, W, H):
    rows = resize_axis(a.transpose(1, 0, 2), W).transpose(1, 0, 2)
    return resize_axis(rows, H)


def pixels(case, w, h):
    """Noise, noise of 0 and 255, or waves with jumps."""
    i = np.arange(3 * w * h, dtype=np.uint64)
    if case % 3 == 2:
        v = i // 3 % w * (case + i % 3 + 1) + i // (3 * w) * 5
        return (v % 256).astype(np.uint8).reshape(h, w, 3)
    v = (i * 2654435761 + case * 40503) & 0xffffffff
    v = (v ^ v >> np.uint64(15)) * 2246822519 & 0xffffffff
    v ^= v >> np.uint64(13)
    v = v & 255 if case % 3 == 0 else (v & 1) * 255
    return v.astype(np.uint8).reshape(h, w, 3)


def cases():
    draw = random.Random(7)
    for case in range(200):
        w = h = 0
        while not h or max(w, h) > 200 * min(w, h):
            w = int(math.exp(draw.uniform(0, math.log(1500))))
            h = int(math.exp(draw.uniform(0, math.log(1000))))
        low = draw.randint(8, 64)
        yield case, w, h, low, draw.randint(low, 500)


def main():
    lines = []
    for case, w, h, low, high in cases():
        a, (W, H) = pixels(case, w, h), fit(w, h, low, high)
        b = resize(a, W, H)
        if sys.argv[1:] == ["--pillow"]:
            from PIL import Image
            p = Image.fromarray(a).resize((W, h), Image.Resampling.BICUBIC)
            p = p.resize((W, H), Image.Resampling.BICUBIC)
            assert (np.asarray(p) == b).all(), (case, w, h, W, H)
            continue
        import xxhash
        lines.append("\t".join(map(str, (case, w, h, low, high, W, H,
                     xxhash.xxh3_64_hexdigest(b.tobytes())))) + "\n")
    if lines:
        path = os.path.splitext(os.path.abspath(__file__))[0] + ".tsv"
        open(path, "w").writelines(lines)


main()
