#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Computes the results of qscore --base by the definitions, in double precision.

qscore-base.py BASE.f32 MODEL.f32 IDS N_VOCAB FROM GOT.json: logits of both models
after each token; those that predict tokens FROM and later count.  Prints the
figures that differ, and the number of equal ones."""
import json
import math
import struct
import sys

base_path, own_path, ids_path, n_vocab, first, got_path = sys.argv[1:]
n_vocab, first = int(n_vocab), int(first)
ids = [int(x) for x in open(ids_path).read().split()]
got = json.load(open(got_path))


def rows(path):
    with open(path, "rb") as f:
        while True:
            b = f.read(4 * n_vocab)
            if not b:
                return
            yield struct.unpack("<%df" % n_vocab, b)


def log_softmax(row):
    m = max(row)
    s = m + math.log(math.fsum(math.exp(x - m) for x in row))
    return [x - s for x in row]


def mean(x):
    n = len(x)
    m = math.fsum(x) / n
    var = math.fsum(v * v for v in x) / n - m * m
    return m, math.sqrt(max(var, 0) / (n - 1))


def quantile(x, q):
    x = sorted(x)
    at = q * (len(x) - 1)
    i = int(at)
    return (1 - (at - i)) * x[i] + (at - i) * x[min(i + 1, len(x) - 1)]


kl, dp, own, base, same = [], [], [], [], 0
for i, (p, q) in enumerate(zip(rows(base_path), rows(own_path))):
    if i + 1 >= len(ids) or i + 1 < first:
        continue
    same += p.index(max(p)) == q.index(max(q))
    p, q = log_softmax(p), log_softmax(q)
    kl.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)))
    own.append(-q[ids[i + 1]])
    base.append(-p[ids[i + 1]])
    dp.append(math.exp(-own[-1]) - math.exp(-base[-1]))

n = len(kl)
m, me = mean(own)
b, be = mean(base)
cov = (math.fsum(x * y for x, y in zip(own, base)) / n - m * b) / (n - 1)
ratio = math.exp(m - b)
error = math.sqrt(max(me * me + be * be - 2 * cov, 0))
s = same / n
rms, rms_error = mean([x * x for x in dp])
want = {
    "tokens_scored": n,
    "perplexity": math.exp(m), "perplexity_error": math.exp(m) * me,
    "base_perplexity": math.exp(b), "base_perplexity_error": math.exp(b) * be,
    "perplexity_ratio": ratio, "perplexity_ratio_error": ratio * error,
    "log_perplexity_ratio": m - b, "log_perplexity_ratio_error": error,
    "correlation": cov / (me * be),
    "same_top": s, "same_top_error": math.sqrt(s * (1 - s) / (n - 1)),
    "kl.mean": mean(kl)[0], "kl.mean_error": mean(kl)[1],
    "p_difference.mean": mean(dp)[0], "p_difference.mean_error": mean(dp)[1],
    "p_difference.rms": math.sqrt(rms),
    "p_difference.rms_error": rms_error / (2 * math.sqrt(rms)),
}
for name, q in (("max", 1), ("p99_9", .999), ("p99", .99), ("p95", .95),
                ("p90", .9), ("median", .5), ("p10", .1), ("p5", .05),
                ("p1", .01), ("p0_1", .001), ("min", 0)):
    want["kl." + name] = quantile(kl, q)
    want["p_difference." + name] = quantile(dp, q)

right = 0
for key, x in want.items():
    g = got
    for k in key.split("."):
        g = g[k]
    if abs(g - x) <= 1e-8 * max(1, abs(x)):
        right += 1
    else:
        print("%s: %.12g, should be %.12g" % (key, g, x))
print("%d of %d" % (right, len(want)))
