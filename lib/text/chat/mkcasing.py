#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""mkcasing.py - writes casing_table.c: upper and lower case of Unicode."""
import sys
import unicodedata

def kind(c):
    return 1 if c.islower() else 2 if c.isupper() else 3 if c.istitle() else 0

rows, odd, last = [], [], {}
for n in range(0x80, 0x110000):
    c = chr(n)
    up, low, title = c.upper(), c.lower(), c.title()
    if max(len(up), len(low), len(title)) > 1:
        odd.append((n, up, low, title, kind(c)))
        continue
    new = (ord(up) - n, ord(low) - n, ord(title) - n, kind(c))
    if new == (0, 0, 0, 0):
        continue
    row = last.get(new)     # first, last, step: letters of a case come in twos
    if row and n - row[1] <= 2 and row[2] in (0, n - row[1]):
        row[1:3] = n, n - row[1]
    else:
        last[new] = [n, n, 0, *new]
        rows.append(last[new])
rows.sort()
back = max(sum(s[0] <= r[1] for s in rows[i + 1:]) for i, r in enumerate(rows))
print(f"""/* SPDX-License-Identifier: ISC */
/*
 * casing_table.c - upper and lower case of Unicode {unicodedata.unidata_version}.
 * Written by mkcasing.py: change that.
 */
#include "text/chat/casing.h"

/* Of rows that begin before a character this many may have it. */
const size_t qwen_case_overlap = {back + 1};

const struct qwen_case_range qwen_case_ranges[] = {{""")
for r in rows:
    print("\t{ 0x%x, 0x%x, %d, { %d, %d, %d }, %d }," % (r[0], r[1], max(r[2], 1), *r[3:]))
print("};\nconst size_t qwen_case_n_ranges = sizeof qwen_case_ranges /\n"
      "    sizeof qwen_case_ranges[0];\n\n"
      "const struct qwen_case_odd qwen_case_odds[] = {")
def text(s):
    return '"' + "".join("\\%03o" % b for b in s.encode()) + '"'
for n, up, low, title, k in odd:
    print("\t{ 0x%x, %d, { %s,\n\t    %s,\n\t    %s } }," % (n, k, text(up), text(low), text(title)))
print("};\nconst size_t qwen_case_n_odds = sizeof qwen_case_odds /\n"
      "    sizeof qwen_case_odds[0];")
sys.stderr.write(f"{len(rows)} ranges, {len(odd)} odd ones\n")
