#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Write lib/text/token/unicode.c: the class of every code point, as the
pre-tokenizers ask for it.

    python3 lib/text/token/mkunicode.py > lib/text/token/unicode.c

Needed only to move to another version of Unicode; the result is committed.
The data is that of Python's unicodedata, or of the package unicodedata2 where
that is installed (Python 3.14, and unicodedata2 16.0.0, have the version pinned
here).  16.0.0 agrees on every code point with \\p{L}, \\p{M}, \\p{N} and \\s of
the tokenizers library (0.23) that published the vocabularies.
"""
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
BLOCK = 256                 # code points a block, 2 bits each
CLASS = {"L": 1, "M": 2, "N": 3}


def classes():
    """Two bits a code point; surrogates cannot occur and are "other"."""
    return [CLASS.get(unicodedata.category(chr(c))[0], 0)
            for c in range(0x110000)]


def pack(block):
    return bytes(block[i] | block[i + 1] << 2 | block[i + 2] << 4 |
                 block[i + 3] << 6 for i in range(0, BLOCK, 4))


def rows(data, fmt, width):
    for i in range(0, len(data), width):
        print("\t" + ",".join(fmt % x for x in data[i:i + width]) + ",")


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit("mkunicode.py: Unicode %s wanted, Python has %s" %
                 (VERSION, unicodedata.unidata_version))
    cls = classes()
    blocks, index = {}, []
    for start in range(0, len(cls), BLOCK):
        packed = pack(cls[start:start + BLOCK])
        index.append(blocks.setdefault(packed, len(blocks)))
    assert len(blocks) <= 256
    print("/* SPDX-License-Identifier: ISC */")
    print("/*")
    print(" * unicode.c - letters, marks and numbers of Unicode %s." % VERSION)
    print(" * Written by mkunicode.py: change that.")
    print(" */")
    print('#include "text/token/unicode.h"')
    print()
    print("/* Which block of bits holds the 256 code points from 256 * i. */")
    print("const unsigned char qwen_unicode_index[%d] = {" % len(index))
    rows(index, "%d", 24)
    print("};")
    print()
    print("/* 0 other, 1 letter, 2 mark, 3 number; the lowest bits first. */")
    print("const unsigned char qwen_unicode_bits[%d][%d] = {" %
          (len(blocks), BLOCK // 4))
    for packed in blocks:
        print("{")
        rows(packed, "%d", 22)
        print("},")
    print("};")


main()
