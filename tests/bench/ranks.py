#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""ranks.py - what to expect of --device mpi before there are hosts: the schedule
of pass/pieces.c, simulated.

A rank computes pieces in order, each in BASE + ROW * rows seconds.  A link
carries a piece in LATENCY + bytes / BANDWIDTH seconds, and one at a time.
    ranks.py [--ranks 3] [--base MS] [--row MS] [--latency MS] [--gbit N]
             [--embd N] [--prompt N] [--pass N]
BASE and ROW are of the whole model on one host: of qbench's times for decoding
(BASE + ROW) and for a prompt of N (BASE + N * ROW)."""
import argparse


def run(passes, a, ranks):
    """Returns the seconds until the last piece of all passes is at rank 0."""
    free = [0.0] * ranks        # when a rank is idle again
    link = [0.0] * ranks        # when the link behind it is
    done = 0.0
    for pieces in passes:       # a pass begins when the one before has ended
        begin = done
        for rows in pieces:
            at = begin
            for r in range(ranks):
                free[r] = max(free[r], at) + \
                    (a.base + a.row * rows) / 1e3 / ranks
                at = free[r]
                if ranks > 1:
                    sent = 4 * a.embd * rows * 8 / (a.gbit * 1e9)
                    link[r] = max(link[r], at) + sent
                    at = link[r] + a.latency / 1e3
            done = max(done, at)
    return done


def pieces(n):
    """The pieces of a pass of n rows."""
    k = max(1, min(16, n // 64))
    want = -(-n // k)
    return [min(want, n - i) for i in range(0, n, want)]


p = argparse.ArgumentParser(description=__doc__,
                            formatter_class=argparse.RawTextHelpFormatter)
for name, kind, default in (("ranks", int, 3), ("base", float, 100),
                            ("row", float, 2), ("latency", float, 0.2),
                            ("gbit", float, 1), ("embd", int, 2048),
                            ("prompt", int, 4096), ("pass", int, 4096)):
    p.add_argument("--" + name, type=kind, default=default)
a = p.parse_args()
size = getattr(a, "pass")
print("ranks  prompt, s  tok/s  times  whole passes  token, ms  beyond one, ms")
for n in sorted({1, 2, a.ranks, 2 * a.ranks}):
    cuts = [min(size, a.prompt - i) for i in range(0, a.prompt, size)]
    t = run([pieces(c) if n > 1 else [c] for c in cuts], a, n)
    whole = run([[c] for c in cuts], a, n)
    one = run([[c] for c in cuts], a, 1)
    token = run([[1]], a, n)
    print("%5d %10.3f %6.0f %6.2f %13.2f %10.2f %15.2f" % (
        n, t, a.prompt / t, one / t, one / whole, token * 1e3,
        token * 1e3 - a.base - a.row))
