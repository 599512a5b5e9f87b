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
import itertools
import sys
import textwrap

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
CLASS = {"L": 1, "M": 2, "N": 3}
SPACE = 4
# White_Space above ASCII: all of it is Z* or Cc, so none of the others.
SPACES = {0x85, 0xa0, 0x1680, *range(0x2000, 0x200b), 0x2028, 0x2029, 0x202f,
          0x205f, 0x3000}


def class_of(c):
    """As in enum qwen_class; surrogates cannot occur and are "other"."""
    return SPACE if c in SPACES else \
        CLASS.get(unicodedata.category(chr(c))[0], 0)


def main():
    if unicodedata.unidata_version != VERSION:
        sys.exit("mkunicode.py: Unicode %s wanted, Python has %s" %
                 (VERSION, unicodedata.unidata_version))
    runs = [8 * len(list(run)) + c for c, run in
            itertools.groupby(class_of(c) for c in range(0x80, 0x110000))]
    print("""\
/* SPDX-License-Identifier: ISC */
/*
 * unicode.c - the classes of the characters of Unicode %s.
 * Written by mkunicode.py: change that.
 */
#include "text/token/unicode.h"

const uint32_t qwen_unicode_run[] = {""" % VERSION)
    # a tab counts as eight columns
    for line in textwrap.wrap(", ".join(map(str, runs + [0])), 72):
        print("\t" + line.rstrip(","), end=",\n")
    print("};")


main()
