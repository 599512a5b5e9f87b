#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""rope.py - writes rope.tsv: sines and cosines of RoPE's angles, computed with 60
digits from the papers (Su et al. 2021; Peng et al. 2023, section 3.4).
Columns: base, rotated dimensions, kind, factor, trained length; position, pair,
cosine, sine."""
from mpmath import mp, mpf, pi, ln, exp, cos, sin, floor, ceil

mp.dps = 60


def frequency(base, n, kind, factor, orig, j):
    f = exp(-mpf(2 * j) / n * ln(mpf(base)))
    if kind == 'linear':
        return f / factor
    if kind != 'yarn':
        return f
    # the pair that turns so many times within the trained length
    pair = lambda turns: n * ln(mpf(orig) / (turns * 2 * pi)) / (2 * ln(mpf(base)))
    low, high = max(floor(pair(32)), 0), min(ceil(pair(1)), n - 1)
    t = min(max((j - low) / max(high - low, mpf('0.001')), 0), 1)
    return f * ((1 - t) + t / factor)


print('# rope.py wrote this: base n_rot kind factor orig pos pair cos sin')
for base, n, kind, factor, orig in (
        (10000000, 64, 'none', 1, 262144), (10000000, 64, 'yarn', 4, 262144),
        (1000000, 128, 'yarn', 32, 32768), (1000000, 128, 'linear', 4, 262144)):
    scale = 1 + ln(mpf(factor)) / 10 if kind == 'yarn' else mpf(1)
    for pos in (0, 1, 32767, 262143, 1048575):
        for j in range(0, n // 2, 3):
            a = pos * frequency(base, n, kind, factor, orig, j)
            print(base, n, kind, factor, orig, pos, j,
                  mp.nstr(scale * cos(a), 17), mp.nstr(scale * sin(a), 17))
