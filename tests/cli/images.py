# SPDX-License-Identifier: ISC
"""images.py - token streams with images.

usage: images.py HEAD ITEM...

Writes the header of the stream in the file HEAD, then each item:

    1,2,3           tokens
    span:HxW:C      a span whose hash has 16 bytes C; H 0: W rows in a line
    rows:C:FILE     the numbers in FILE, in records of at most 1000
    rows:C:FILE:N   the first N numbers
"""
import struct
import sys


def head(major, n):
    for size, form in ((24, "B"), (1 << 8, "B"), (1 << 16, ">H"), (1 << 32, ">I")):
        if n < size:
            break
    if n < 24:
        return bytes([major << 5 | n])
    return bytes([major << 5 | {"B": 24, ">H": 25, ">I": 26}[form]]) + \
        struct.pack(form, n)


def text(s):
    return head(3, len(s)) + s.encode()


def typed(tag, data):
    return head(6, tag) + head(2, len(data)) + data


def skip(data, at):
    """Where the item at a place ends."""
    major, n = data[at] >> 5, data[at] & 31
    at += 1
    if n >= 24:
        size = 1 << (n - 24)
        n = int.from_bytes(data[at:at + size], "big")
        at += size
    if major in (2, 3):
        return at + n
    for _ in range({4: n, 5: 2 * n, 6: 1}.get(major, 0)):
        at = skip(data, at)
    return at


out = sys.stdout.buffer
with open(sys.argv[1], "rb") as f:
    begin = f.read()
out.write(begin[:skip(begin, 0)])
for item in sys.argv[2:]:
    word = item.split(":")
    if word[0] == "span":
        h, w = map(int, word[1].split("x"))
        grid = struct.pack("<2i", h, w) if h > 0 else b""
        out.write(head(5, 3) + text("span") + head(0, h * w if h > 0 else w) +
                  text("grid") + typed(78, grid) +
                  text("hash") + head(2, 16) + bytes([int(word[2])] * 16))
    elif word[0] == "rows":
        with open(word[2], "rb") as f:
            x = f.read(4 * int(word[3]) if len(word) > 3 else -1)
        for i in range(0, len(x), 4000):
            out.write(head(5, 2) + text("rows") + typed(85, x[i:i + 4000]) +
                      text("hash") + head(2, 16) + bytes([int(word[1])] * 16))
    else:
        ids = [int(i) for i in item.split(",")]
        out.write(head(5, 1) + text("tokens") +
                  typed(78, struct.pack("<%di" % len(ids), *ids)))
