# SPDX-License-Identifier: ISC
"""state_reader.py - a reader of states, written from qwen-state(5) alone.

usage: state_reader.py FOLDER STATE...

Reads a state, or a chain of parts, block by block, with all possible checks, then
once more by the index, and writes its contents to FOLDER:

    tokens              int32
    kv.LAYER.k, .v      float16 [position][head][dim]
    delta.LAYER.AT      float32 [head][dk][dv]
    conv.LAYER.AT       float32 [row][channel]
    logits.AT           float32 [id]
    about               everything else, as text

For tests only: it keeps everything in memory, and errors are assertions.
"""
import io
import os
import struct
import sys

import cbor2
import xxhash
import zstandard

KINDS = {"info", "tokens", "kv", "mtp", "mtp-kv", "delta", "conv",
         "logits", "hidden", "checkpoint", "generated", "sampler", "run", "index", "end"}
NO_DATA = {"info", "mtp", "checkpoint", "sampler", "run", "end"}
FIELDS = {
    "info": {"format", "writer", "n_tokens", "kv_block", "layers", "from",
             "prefix"},
    "tokens": set(), "generated": set(), "index": set(), "kv": {"layer"},
    "delta": {"layer", "at"}, "conv": {"layer", "at"}, "logits": {"at"},
    "mtp": {"heads", "size", "embd", "first", "model"}, "mtp-kv": set(),
    "hidden": {"at"}, "checkpoint": {"at", "named"}, "sampler": {"options", "pending"},
    "run": {"start", "count", "input", "options", "finished", "again",
            "base"},
    "end": {"records", "bytes", "raw", "total", "index"},
}


class Block:
    pass


def decode(fields, body):
    """The bytes that the data of a block stands for."""
    codec, size = fields["codec"], fields["len"]
    if codec != "none":
        body = zstandard.ZstdDecompressor().decompress(
            body, max_output_size=size)
    assert len(body) == size and 1 <= size <= 524288
    width = {"none": 1, "zstd": 1, "zstd2": 2, "zstd4": 4}[codec]
    assert size % width == 0
    out, n = bytearray(size), size // width
    for i in range(width):
        out[i::width] = body[i * n:(i + 1) * n]
    return bytes(out)


def read_blocks(data):
    """The header and all blocks of a file, each checked."""
    f, blocks = io.BytesIO(data), []
    header = cbor2.load(f)
    assert list(header)[0] == "qwen" and header["qwen"] == 1
    assert header["kind"] == "state" and header["numerics"] >= 1
    assert len(header["model"]) == 16 and len(header["vocabulary"]) == 16
    head, checks, raw = data[:f.tell()], b"", 0
    assert len(head) <= 8192
    while f.tell() < len(data):
        b = Block()
        b.offset = f.tell()
        b.number, b.kind, b.fields, b.body, b.check = cbor2.load(f)
        b.bytes = f.tell() - b.offset
        assert b.number == len(blocks) and b.bytes <= 1 << 20
        seen = data[b.offset:b.offset + b.bytes - 8]
        assert seen[-1] == 0x48
        if b.number == 0:
            seen = head + seen
        assert xxhash.xxh3_64(seen).digest() == b.check
        if b.kind not in KINDS:
            assert b.fields["skip"] is True
        else:
            check_fields(b)
        blocks.append(b)
        raw += b.fields.get("len", 0)
        if b.kind == "end":
            break
        checks += b.check
    end = blocks[-1]
    assert f.tell() == len(data) and end.kind == "end"
    assert end.fields["records"] == end.number
    assert end.fields["bytes"] == end.offset
    assert end.fields["raw"] == raw
    assert end.fields["total"] == xxhash.xxh3_128(checks).digest()
    return header, blocks


def check_fields(b):
    want = set(FIELDS[b.kind])
    if b.kind not in NO_DATA:
        want |= {"off", "len", "codec"}
        b.data = decode(b.fields, b.body)
        if "pad" in b.fields and b.fields["codec"] == "none":
            b.aligned = (b.offset + b.bytes - 9 - len(b.body)) % 64 == 0
    else:
        assert b.body == b""
    assert set(b.fields) <= want | {"pad", "skip"}
    assert not any(b.fields.get("pad", b""))
    assert b.kind == "info" or b.number > 0
    if b.kind in {"run", "mtp", "mtp-kv", "hidden"}:
        assert b.fields["skip"] is True


def objects(blocks):
    """Pieces of one object put together: (kind, layer, at) -> bytes."""
    out, at = {}, -1
    for b in blocks:
        if b.kind in NO_DATA or b.kind not in KINDS:
            continue
        key = b.kind, b.fields.get("layer"), b.fields.get("at")
        assert b.fields["off"] == len(out.get(key, b""))
        out[key] = out.get(key, b"") + b.data
        if "at" in b.fields and b.kind != "checkpoint":
            assert b.fields["at"] >= at
            at = b.fields["at"]
    return out


def check_index(data, blocks, index):
    """The index, found from the end, tells of the blocks before it."""
    at = blocks[-1].fields.get("index")
    if at is None:
        assert index is None
        return
    n, kind, end, body, check = cbor2.loads(data[-160:])
    assert kind == "end" and end["index"] == at
    before = [b for b in blocks if b.offset < at]
    assert {b.kind for b in blocks if b.offset >= at} == {"index", "end"}
    assert len(index) == 88 * len(before)
    place = None
    for b, e in zip(before, struct.iter_unpack("<24s8s6q8s", index)):
        assert e[0].rstrip(b"\0").decode() == b.kind
        assert e[1].rstrip(b"\0").decode() == b.fields.get("codec", "")
        assert e[2] == b.fields.get("layer", -1)
        assert e[3] == b.fields.get("at", -1)
        if b.kind not in NO_DATA:
            assert e[4] == b.fields["off"] and e[5] == b.fields["len"]
        assert e[6] == b.offset and e[7] == b.bytes and e[8] == b.check
        assert place is None or place == b.offset
        place = b.offset + b.bytes


def read_file(path):
    s = Block()
    with open(path, "rb") as f:
        data = f.read()
    s.header, s.blocks = read_blocks(data)
    s.info = s.blocks[0].fields
    assert s.blocks[0].kind == "info"
    assert s.info["format"] == 1 and s.info["kv_block"] == 16
    s.objects = objects(s.blocks)
    check_index(data, s.blocks, s.objects.pop(("index", None, None), None))
    s.begin, s.end = s.info.get("from", 0), s.info["n_tokens"]
    s.tokens = s.objects.pop(("tokens", None, None), b"")
    assert len(s.tokens) == 4 * (s.end - s.begin)
    return s


def kv_rows(layer, shape, parts):
    """K and V of a chain as rows, and what is after the last as zeros."""
    n_head, dim = shape
    size = 2 * n_head * dim * 16
    cache = {}
    for s in parts:
        data = s.objects.pop(("kv", layer, None), b"")
        first = s.begin // 16
        n = 0 if s.begin == s.end else (s.end + 15) // 16 - first
        assert len(data) == n * size * 2
        for i in range(n):
            cache[first + i] = data[i * size * 2:(i + 1) * size * 2]
    k, v = [], []
    for pos in range((parts[-1].end + 15) // 16 * 16):
        block = struct.unpack("<%dH" % size, cache[pos // 16])
        lane, half = pos % 16, size // 2
        rk = [block[(h * dim + i) * 16 + lane]
              for h in range(n_head) for i in range(dim)]
        rv = [block[half + (h * 16 + lane) * dim + i]
              for h in range(n_head) for i in range(dim)]
        if pos >= parts[-1].end:
            assert not any(rk) and not any(rv)
            continue
        k.append(struct.pack("<%dH" % len(rk), *rk))
        v.append(struct.pack("<%dH" % len(rv), *rv))
    return b"".join(k), b"".join(v)


def check_chain(parts):
    before = b""
    for s in parts:
        assert s.header == parts[0].header
        assert s.info["layers"] == parts[0].info["layers"]
        assert s.begin == len(before) // 4
        if "from" in s.info:
            assert s.info["prefix"] == xxhash.xxh3_128(before).digest()
        before += s.tokens
    return before


def about(parts):
    """What is no array, a line each."""
    last = parts[-1]
    out = ["n_tokens %d" % last.end]
    for s in parts:
        out += ["named %d" % b.fields["at"] for b in s.blocks
                if b.kind == "checkpoint" and b.fields["named"] and
                b.fields["at"] < last.end]
    pairs = last.objects.pop(("generated", None, None), b"")
    out += ["generated %d %d" % p for p in struct.iter_unpack("<QQ", pairs)]
    for b in last.blocks:
        if b.kind == "sampler":
            out.append("sampler %s" % b.fields["options"])
            out.append("pending %s" % b.fields["pending"].hex())
        if b.kind == "run":
            f = b.fields
            assert f["start"] + f["count"] == last.end
            out.append("run %d %d %d %d %d %s" % (
                f["start"], f["count"], f["input"], f["finished"],
                f["again"], f["options"]))
    return out


def main(folder, *paths):
    parts = [read_file(p) for p in paths]
    os.makedirs(folder, exist_ok=True)

    def put(name, data):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)

    put("tokens", check_chain(parts))
    put("about", "".join(s + "\n" for s in about(parts)).encode())
    for layer, shape in enumerate(parts[0].info["layers"]):
        if shape[0] == "kv":
            k, v = kv_rows(layer, shape[1:], parts)
            put("kv.%d.k" % layer, k)
            put("kv.%d.v" % layer, v)
            continue
        assert shape[0] == "delta"
        heads, dk, dv, rows, channels = shape[1:]
        assert len(parts[-1].objects["delta", layer, parts[-1].end]) == \
            4 * heads * dk * dv
        assert len(parts[-1].objects["conv", layer, parts[-1].end]) == \
            4 * rows * channels
    for s in parts:
        for (kind, layer, at), data in s.objects.items():
            # tests/unit/state prints nothing of the MTP block
            if kind in ("mtp", "mtp-kv", "hidden"):
                continue
            put("%s.%d" % (kind, at) if layer is None else
                "%s.%d.%d" % (kind, layer, at), data)
    mapped = [b for s in parts for b in s.blocks if b.kind == "kv"]
    form = {b.fields["codec"] for b in mapped}
    print(len(mapped), "kv", "/".join(sorted(form)),
          sum(getattr(b, "aligned", False) for b in mapped), "aligned")


if __name__ == "__main__":
    main(*sys.argv[1:])
