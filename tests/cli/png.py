# SPDX-License-Identifier: ISC
# png.py NAME WIDTH HEIGHT SEED: writes an image of a few colours.
import struct
import sys
import zlib

name, w, h, seed = sys.argv[1], *map(int, sys.argv[2:])


def chunk(kind, data):
	return struct.pack(">I", len(data)) + kind + data + struct.pack(">I",
	    zlib.crc32(kind + data))


rows = b"".join(b"\0" + bytes(v for x in range(w) for v in (x * 5 * seed & 255,
    y * 3 & 255, x * y // 7 * seed & 255)) for y in range(h))
with open(name, "wb") as f:
	f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", w, h,
	    8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) +
	    chunk(b"IEND", b""))
