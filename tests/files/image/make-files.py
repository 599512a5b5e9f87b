#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Write the images of this folder, and INDEX.tsv: what Pillow reads in them.

Needs numpy, Pillow and xxhash.  Other versions of Pillow may write other bytes
of JPEG and WebP; then the new files belong to the new INDEX.tsv.
"""
import io
import struct
import zlib

import numpy as np
import xxhash
from PIL import Image

H, W = 22, 37
index = []


def pattern(channels, seed=0):
    """Waves, with some noise and a sharp edge."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:H, 0:W]
    a = np.stack([128 + 110 * np.sin(x / (4 + k) + y / (7 - k) + seed)
                  for k in range(channels)], -1)
    a += rng.normal(0, 9, a.shape)
    a[5:9, 10:20, 0] = 255
    return np.clip(a, 0, 255).astype(np.uint8)


def on_white(image):
    """RGB of an image, transparent pixels laid on white."""
    a = np.asarray(image.convert("RGBA")).astype(int)
    alpha = a[..., 3:]
    return ((a[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255).astype(
        np.uint8)


def good(name, data, rgb=None):
    """A file, with the pixels that Pillow reads, or these."""
    open(name, "wb").write(data)
    if rgb is None:
        rgb = on_white(Image.open(io.BytesIO(data)))
    index.append(f"{name}\t{rgb.shape[1]}\t{rgb.shape[0]}\t"
                 + xxhash.xxh3_64_hexdigest(rgb.tobytes()))


def bad(name, data, message):
    open(name, "wb").write(data)
    index.append(f"{name}\t-\t-\t{message}")


def save(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def chunk(name, data):
    return (struct.pack(">I", len(data)) + name + data
            + struct.pack(">I", zlib.crc32(name + data)))


def png(a, depth, kind, interlace=False, extra=b"", size=None):
    """A PNG of samples a [height][width][channels]; kind as in its header."""
    passes = [(0, 0, 1, 1)]
    if interlace:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4),
                  (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    rows = b""
    for y, x, dy, dx in passes:
        part = a[y::dy, x::dx]
        if part.size == 0:
            continue
        for row in part.astype(">u2" if depth == 16 else np.uint8):
            rows += b"\0" + (np.packbits(row.reshape(-1, 1), axis=0).tobytes()
                             if depth == 1 else row.tobytes())
    width, height = size or (a.shape[1], a.shape[0])
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind,
                                         0, 0, int(interlace)))
            + extra + chunk(b"IDAT", zlib.compress(rows, 9))
            + chunk(b"IEND", b""))


def lzw(indices, bits):
    """GIF's compression without any: each index after a clear code."""
    number = n = 0
    for i in indices:
        for code in (1 << bits, int(i)):
            number |= code << n
            n += bits + 1
    number |= (1 << bits) + 1 << n
    data = number.to_bytes((n + bits + 8) // 8, "little")
    out = bytes([bits])
    for i in range(0, len(data), 255):
        out += bytes([len(data[i:i + 255])]) + data[i:i + 255]
    return out + b"\0"


COLOURS = bytes([10, 20, 30, 200, 0, 0, 0, 200, 0, 0, 0, 200])


def gif(canvas, at, size, indices, colours=COLOURS, transparent=None):
    """A GIF of one frame, of 4 colours or none."""
    out = b"GIF89a" + struct.pack("<HHBBB", *canvas,
                                  0x81 if colours else 0, 2, 0)
    out += colours
    if transparent is not None:
        out += b"\x21\xf9\x04\x01\0\0" + bytes([transparent]) + b"\0"
    return (out + b"\x2c" + struct.pack("<HHHHB", *at, *size, 0)
            + lzw(indices, 2) + b";")


rgb, rgba = Image.fromarray(pattern(3)), Image.fromarray(pattern(4))
grey = Image.fromarray(pattern(1)[..., 0])
other = Image.fromarray(pattern(4, 5))

# JPEG
for name, chroma in (("420", "4:2:0"), ("422", "4:2:2"), ("444", "4:4:4")):
    good(f"good-{name}.jpg", save(rgb, "JPEG", subsampling=chroma, quality=70))
good("good-progressive.jpg", save(rgb, "JPEG", progressive=True, quality=60))
good("good-grey.jpg", save(grey, "JPEG"))
good("good-cmyk.jpg", save(rgb.convert("CMYK"), "JPEG", quality=60))
exif = Image.Exif()
exif[0x112] = 6
good("good-orientation.jpg", save(rgb, "JPEG", exif=exif, quality=50))
jpeg = save(rgb, "JPEG")
bad("bad-truncated.jpg", jpeg[:len(jpeg) * 2 // 3], "JPEG: the file is truncated")
bad("bad-progressive.jpg", save(rgb, "JPEG", progressive=True)[:700],
    "JPEG: the file is truncated")
bad("bad-header.jpg", jpeg[:3], "JPEG: ")
at = jpeg.index(b"\xff\xc0")
bad("bad-depth.jpg", jpeg[:at + 4] + b"\x0c" + jpeg[at + 5:], "JPEG: ")
bad("bad-size.jpg", jpeg[:at + 5] + b"\xff\xdc\xff\xdc" + jpeg[at + 9:],
    "JPEG: 65500 x 65500 pixels: more than 100000000")

# PNG
good("good-rgb.png", save(rgb, "PNG"))
good("good-rgba.png", save(rgba, "PNG"))
good("good-grey-alpha.png", save(rgba.convert("LA"), "PNG"))
good("good-grey1.png", save(grey.convert("1"), "PNG"))
good("good-palette.png", save(rgb.quantize(12), "PNG"))
good("good-palette-alpha.png",
     save(rgb.quantize(12), "PNG", transparency=bytes([0, 100, 200, 7])))
key = tuple(int(v) for v in np.asarray(rgb)[3, 4])
good("good-key.png", save(rgb, "PNG", transparency=key))
good("good-interlaced.png", png(pattern(3), 8, 2, True))
fine = np.random.default_rng(8).integers(0, 1 << 16, (H, W, 4))
good("good-rgb16.png", png(fine[..., :3], 16, 2))
good("good-rgba16-interlaced.png", png(fine, 16, 6, True))
# Pillow clips 16-bit grey instead
top = (fine[..., :1] >> 8).astype(np.uint8)
good("good-grey16.png", png(fine[..., :1], 16, 0), np.repeat(top, 3, 2))
# ignored, as all references do
good("good-gamma.png", png(pattern(3), 8, 2,
                           extra=chunk(b"gAMA", struct.pack(">I", 100000))))
file = save(rgb, "PNG")
bad("bad-truncated.png", file[:len(file) // 2], "PNG: the file is truncated")
bad("bad-header.png", file[:20], "PNG: the file is truncated")
bad("bad-crc.png", file[:300] + bytes([file[300] ^ 1]) + file[301:], "PNG: ")
bad("bad-width.png", png(pattern(3), 8, 2, size=(1 << 31, 1)), "PNG: ")
bad("bad-area.png", png(pattern(3), 8, 2, size=(20000, 5001)),
    "PNG: 20000 x 5001 pixels: more than 100000000")
bad("bad-long.png", png(np.zeros((201, 1, 3)), 8, 2),
    "1 x 201 pixels: one side is more than 200 times the other")

# WebP
good("good-lossy.webp", save(rgb, "WEBP", quality=60))
good("good-lossless.webp", save(rgb, "WEBP", lossless=True))
good("good-lossy-alpha.webp", save(rgba, "WEBP", quality=60))
good("good-lossless-alpha.webp", save(rgba, "WEBP", lossless=True))
good("good-animation.webp",
     save(rgba, "WEBP", save_all=True, append_images=[other], lossless=True))
# its first frame covers a part: the offset is 4, 2 and in units of 2 pixels
still = save(rgba, "WEBP", lossless=True)
at = still.index(b"VP8L")
frame = struct.pack("<I", 2)[:3] + struct.pack("<I", 1)[:3] + \
    struct.pack("<I", W - 1)[:3] + struct.pack("<I", H - 1)[:3] + \
    struct.pack("<I", 100)[:3] + b"\0" + still[at:]
body = b"WEBP" + b"VP8X" + struct.pack("<IB", 10, 0x12) + b"\0\0\0" + \
    struct.pack("<I", W + 5)[:3] + struct.pack("<I", H + 5)[:3] + \
    b"ANIM" + struct.pack("<IIH", 6, 0xff0000ff, 0) + \
    b"ANMF" + struct.pack("<I", len(frame)) + frame
good("good-offset.webp", b"RIFF" + struct.pack("<I", len(body)) + body)
bad("bad-truncated.webp", still[:len(still) // 2], "WebP: ")
at = still.index(b"VP8L") + 60
bad("bad-data.webp", still[:at] + bytes(200) + still[at + 200:], "WebP: ")
bad("bad-header.webp", b"RIFF\x04\0\0\0WEBP", "WebP: ")

# GIF
good("good-interlaced.gif", save(rgb.quantize(16), "GIF", interlace=1))
good("good-animation.gif",
     save(rgb.quantize(16), "GIF", save_all=True, append_images=[grey]))
good("good-transparent.gif", save(rgb.quantize(9), "GIF", transparency=3))
good("good-offset.gif", gif((9, 7), (2, 1), (3, 2), [1, 2, 3, 3, 0, 1]))
good("good-offset-transparent.gif",
     gif((9, 7), (2, 1), (3, 2), [1, 2, 3, 3, 0, 1], transparent=3))
good("good-outside.gif", gif((3, 2), (2, 1), (3, 2), [1, 2, 3, 3, 0, 1]))
good("good-no-colours.gif", gif((3, 2), (0, 0), (3, 2), [1, 2, 3, 3, 0, 1], b""))
file = save(rgb.quantize(16), "GIF")
bad("bad-truncated.gif", file[:len(file) // 2], "GIF: the file is truncated")
bad("bad-frame.gif", gif((3, 2), (0, 0), (0, 0), []),
    "GIF: the frame has no pixels")
bad("bad-none.gif", b"GIF89a" + bytes(7) + b";", "GIF: the file has no frame")
bad("bad-size.gif", gif((65535, 65535), (0, 0), (1, 1), [1]),
    "GIF: 65535 x 65535 pixels: more than 100000000")

# others
bad("bad-empty", b"", "empty: no image")
bad("bad-text", b"<svg></svg>\n", "not an image: neither JPEG, PNG, WebP nor GIF")
bad("bad-heic", b"\0\0\0\x1cftypheic\0\0\0\0", "HEIC files are not supported")
bad("bad-tiff", b"II*\0\x08\0\0\0", "TIFF files are not supported")

open("INDEX.tsv", "w").write("\n".join(sorted(index)) + "\n")
