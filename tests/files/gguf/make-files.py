#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Makes the GGUF files of this folder and INDEX.tsv; needed only to change them.
Each bad file differs from a good one in one point, which its line in INDEX.tsv
names."""
import os
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FMT = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f",
       BOOL: "B", U64: "Q", I64: "q", F64: "d"}
SIZES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22),
         7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84), 11: (256, 110),
         12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
         16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50),
         20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
         24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8),
         29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66),
         39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18)}
MAX = 2**64 - 1


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def text(s, length=None):
    b = s if isinstance(s, bytes) else s.encode()
    return u64(len(b) if length is None else length) + b


def kv(key, kind, value):
    if kind == STR:
        return text(key) + u32(kind) + text(value)
    return text(key) + u32(kind) + struct.pack("<" + FMT[kind], value)


def arr(key, elem, values, count=None):
    head = text(key) + u32(ARR) + u32(elem)
    head += u64(len(values) if count is None else count)
    if elem == STR:
        return head + b"".join(text(v) for v in values)
    return head + b"".join(struct.pack("<" + FMT[elem], v) for v in values)


def info(name, ne, kind=0, offset=0, n_dims=None):
    return (text(name) + u32(len(ne) if n_dims is None else n_dims) +
            b"".join(u64(n) for n in ne) + u32(kind) + u64(offset))


def gguf(kvs=(), infos=(), data=b"", magic=b"GGUF", version=3, n_kv=None,
         n_tensors=None, align=32, pad=True):
    b = magic + u32(version)
    b += u64(len(infos) if n_tensors is None else n_tensors)
    b += u64(len(kvs) if n_kv is None else n_kv)
    b += b"".join(kvs) + b"".join(infos)
    if pad:
        b += bytes(-len(b) % align)
    return b + data


ARCH = kv("general.architecture", STR, "qwen3")
ONE = [info("a.weight", [8])]           # 32 bytes of F32


def tensor(ne, kind=0, offset=0, data=bytes(32), name="a.weight", **kw):
    return gguf([ARCH], [info(name, ne, kind, offset, **kw)], data)


def vocab(tokens=("a", "b", "ab", "<|im_end|>"), types=(1, 1, 1, 3),
          merges=("a b",), more=(), rows=4):
    kvs = [ARCH, arr("tokenizer.ggml.tokens", STR, tokens),
           arr("tokenizer.ggml.token_type", I32, types),
           arr("tokenizer.ggml.merges", STR, merges),
           kv("tokenizer.ggml.eos_token_id", U32, 3), *more]
    return gguf(kvs, [info("token_embd.weight", [8, rows])], bytes(32 * rows))


def split(no, count, infos, data, total=2, **kw):
    kvs = [ARCH] if no == 0 else []
    kvs += [kv("split.no", U16, no), kv("split.count", U16, count),
            kv("split.tensors.count", I32, total)]
    return gguf(kvs, infos, data, **kw)


def swapped():
    b = b"GGUF" + struct.pack(">IQQ", 3, 1, 1)
    b += struct.pack(">Q", 20) + b"general.architecture"
    b += struct.pack(">IQ", STR, 5) + b"qwen3"
    return b + bytes(64)


INF16, NAN16 = b"\x00\x7c", b"\x00\x7e"
SCALARS = [kv("s.u8", U8, 255), kv("s.i8", I8, -128), kv("s.u16", U16, 65535),
           kv("s.i16", I16, -32768), kv("s.u32", U32, 2**32 - 1),
           kv("s.i32", I32, -2**31), kv("s.f32", F32, 0.1),
           kv("s.bool", BOOL, 1), kv("s.str", STR, "caf\u00e9 \"\\\n\0\x1b[31m"),
           kv("s.u64", U64, MAX), kv("s.i64", I64, -2**63),
           kv("s.f64", F64, 0.1), kv("s.nan", F32, float("nan")),
           kv("s.inf", F64, float("-inf")), kv("s.bytes", STR, b"a\xff\xc3z"),
           kv("s.\u202eodd key", STR, "\u202eright to left")]
ARRAYS = [arr("a.u8", U8, range(10)), arr("a.i16", I16, [-1, 2, -3]),
          arr("a.f32", F32, [0.5, float("inf")]), arr("a.bool", BOOL, [1, 0]),
          arr("a.str", STR, ["one", "", "two words"]),
          arr("a.u64", U64, [MAX, 0]), arr("a.none", STR, [])]


def all_types():
    infos, data = [], b""
    for kind, (n, size) in SIZES.items():
        data += bytes(-len(data) % 32)
        infos.append(info("t%d.weight" % kind, [n, 2], kind, len(data)))
        data += bytes(2 * size)
    return gguf([ARCH], infos, data)


GOOD = {
    "good-v3": gguf([ARCH] + SCALARS + ARRAYS, ONE,
                    struct.pack("<8f", *range(8))),
    "good-v2": gguf([ARCH], ONE, bytes(32), version=2),
    "good-types": all_types(),
    "good-align": gguf([ARCH, kv("general.alignment", U32, 128)],
                       [info("a.weight", [8]), info("b.weight", [2, 2, 1, 1],
                                                    0, 128)],
                       bytes(128 + 16), align=128),
    "good-no-tensors": gguf([ARCH], pad=False),
    "good-empty": gguf(),
    "good-vocab": vocab(),
    "good-split-00001-of-00003": split(0, 3, [], b""),
    "good-split-00002-of-00003": split(1, 3, ONE, bytes(32)),
    "good-split-00003-of-00003": split(2, 3, [info("b.weight", [8])],
                                       b"\0\0\x80?" * 8),
}

# name: (bytes, option, what the message must say, what is wrong)
BAD = {
    "empty": (b"", "", "0 bytes", "nothing in it"),
    "magic-cut": (b"GGU", "", "3 bytes", "ends inside the magic"),
    "header-cut": (gguf()[:23], "", "23 bytes", "one byte short of a header"),
    "magic": (gguf([ARCH], magic=b"GGML"), "", "not a GGUF file",
              "another magic"),
    "version-0": (gguf(version=0), "", "version 0", ""),
    "version-1": (gguf(version=1), "", "version 1", "the old layout"),
    "version-4": (gguf(version=4), "", "version 4", "from the future"),
    "version-max": (gguf(version=2**32 - 1), "", "version 4294967295", ""),
    "big-endian": (swapped(), "", "byte order", "every number swapped"),
    "n-kv-huge": (gguf([ARCH], n_kv=2**60), "", "1152921504606846976 keys",
                  "times any record size it wraps"),
    "n-kv-max": (gguf([ARCH], n_kv=MAX), "", "18446744073709551615 keys",
                 "-1 as a signed number"),
    "n-kv-more": (gguf([ARCH], ONE, bytes(32), n_kv=2), "", "tensor record 0",
                  "one key more than there is: the tensor is read as one"),
    "n-tensors-huge": (gguf([ARCH], n_tensors=2**59), "", "tensors", "wraps"),
    "n-tensors-max": (gguf([ARCH], n_tensors=MAX), "", "tensors", ""),
    "n-tensors-more": (gguf([ARCH], ONE, bytes(32), n_tensors=2), "",
                       "tensor record 1", "one more than there is"),
    "kv-none-left": (gguf([ARCH], n_kv=2, pad=False), "", "metadata record 1",
                     "the file ends after the first key"),
    "key-empty": (gguf([kv("", U32, 1), ARCH]), "", "empty key", ""),
    "key-length-max": (gguf([text("k", MAX) + u32(U32) + u32(1)]), "",
                       "needs 18446744073709551615 bytes",
                       "length + 1 wraps to 0"),
    "key-length-over": (gguf([text("key", 4096) + u32(U32) + u32(1)]), "",
                        "needs 4096 bytes", "longer than the file"),
    "key-duplicate": (gguf([ARCH, kv("a.b", U32, 1), kv("a.b", U32, 2)]), "",
                      "duplicate", ""),
    "value-type-13": (gguf([text("k") + u32(13) + bytes(8)]), "",
                      "value type 13", "first unknown type"),
    "value-type-max": (gguf([text("k") + u32(2**32 - 1) + bytes(8)]), "",
                       "value type 4294967295", "an index far outside"),
    "value-cut": (gguf([ARCH, kv("k", U64, 1)], pad=False)[:-1], "",
                  "needs 8 bytes", "ends inside a number"),
    "string-length-max": (gguf([text("k") + u32(STR) + text("v", MAX)]), "",
                          "needs 18446744073709551615 bytes", ""),
    "string-length-over": (gguf([text("k") + u32(STR) + text("v", 99999)]),
                           "", "needs 99999 bytes", ""),
    "array-type-13": (gguf([text("k") + u32(ARR) + u32(13) + u64(1) +
                            bytes(8)]), "", "unknown type 13", ""),
    "array-of-arrays": (gguf([text("k") + u32(ARR) + u32(ARR) + u64(1) +
                              u32(U8) + u64(1) + bytes(8)]), "",
                        "arrays of arrays", ""),
    "array-nested-deep": (gguf([text("k") + u32(ARR) + (u32(ARR) + u64(1)) *
                                500]), "", "arrays of arrays",
                          "500 deep: a reader that recurses would go down"),
    "array-count-wraps": (gguf([arr("k", U32, [1], 2**62)]), "",
                          "array of 4611686018427387904 UINT32",
                          "count * 4 is 0 in 64 bits"),
    "array-count-max": (gguf([arr("k", U8, [1], MAX)]), "",
                        "array of 18446744073709551615", ""),
    "array-count-over": (gguf([arr("k", F64, [1.0], 100)], pad=False), "",
                         "array of 100 FLOAT64", ""),
    "array-strings-many": (gguf([arr("k", STR, ["a"], 2**61)]), "",
                           "array of 2305843009213693952 STRING",
                           "count * 8 is 0 in 64 bits"),
    "array-string-max": (gguf([text("k") + u32(ARR) + u32(STR) + u64(2) +
                               text("a") + text("b", MAX - 8)]), "",
                         "string 1 of 2", "length + 8 wraps"),
    "array-string-cut": (gguf([arr("k", STR, ["aaaa", "bbbb", "cccc"])],
                              pad=False)[:-9] + bytes(4), "", "string 2 of 3",
                         "the last string is not there"),
    "align-type": (gguf([kv("general.alignment", U64, 32)]), "",
                   "must be UINT32", ""),
    "align-0": (gguf([kv("general.alignment", U32, 0)], ONE, bytes(32)), "",
                "power of two", "a division by it would trap"),
    "align-33": (gguf([kv("general.alignment", U32, 33)], ONE, bytes(64)), "",
                 "power of two", ""),
    "align-4": (gguf([kv("general.alignment", U32, 4)], ONE, bytes(64)), "",
                "power of two", "the format wants a multiple of 8"),
    "align-huge": (gguf([kv("general.alignment", U32, 2**31)], ONE,
                        bytes(64)), "", "power of two", ""),
    "name-empty": (tensor([8], name=""), "", "empty name", ""),
    "name-64": (tensor([8], name="n" * 64), "", "name of 64 bytes", ""),
    "name-length-max": (gguf([ARCH], [text("a", MAX) + bytes(40)]), "",
                        "needs 18446744073709551615 bytes", ""),
    "name-nul": (tensor([8], name="a\0b"), "", "NUL",
                 "two names that differ after the NUL would be the same"),
    "name-duplicate": (gguf([ARCH], [info("a.weight", [8]),
                                     info("b.weight", [8], 0, 32),
                                     info("a.weight", [8], 0, 64)],
                            bytes(96)), "", "duplicate", ""),
    "name-escape": (tensor([8], 99, name="a\x1b[2J\n"), "", "type 99",
                    "control characters must not reach the terminal"),
    "dims-0": (tensor([]), "", "0 dimensions", ""),
    "dims-5": (tensor([1, 1, 1, 1, 8]), "", "5 dimensions",
               "past the end of ne[4]"),
    "dims-max": (tensor([8], n_dims=2**32 - 1), "", "4294967295 dimensions",
                 ""),
    "ne-0": (tensor([8, 0]), "", "dimension 1 is 0", ""),
    "ne-max": (tensor([8, MAX]), "", "dimension 1 is 18446744073709551615",
               ""),
    "ne-sign": (tensor([2**63]), "", "dimension 0 is 9223372036854775808",
                "negative as a signed number"),
    "shape-wraps": (tensor([2**32, 2**32]), "", "overflows",
                    "the product is 0 in 64 bits"),
    "shape-wraps-4": (tensor([2**16 + 1] * 4), "", "overflows",
                      "the product wraps to a small number"),
    "shape-bytes-wrap": (tensor([2**62]), "", "overflows",
                         "elements fit 64 bits, bytes do not"),
    "shape-over": (tensor([2**40]), "", "ends at", "larger than the file"),
    "type-4": (tensor([32], 4), "", "type Q4_2 (4) was removed", ""),
    "type-31": (tensor([32], 31), "", "type Q4_0_4_4 (31) was removed", ""),
    "type-38": (tensor([32], 38), "", "type IQ4_NL_8_8 (38) was removed", ""),
    "type-144": (tensor([256], 144), "", "type IQ4_KS (144) exists only",
                 "of ik_llama.cpp"),
    "type-97": (tensor([32], 97), "", "type 97", "of a fork"),
    "type-42-fork": (gguf([ARCH], [info("a.weight", [128, 64], 42),
                                   info("b.weight", [8], 0, 2176)],
                          bytes(2208)), "", "this file has blocks of 128",
                     "Q2_0 as a fork had it under the same number"),
    "type-42-last": (tensor([128, 64], 42, data=bytes(2176)), "",
                     "this file has blocks of 128", "the same, as last tensor"),
    "type-max": (tensor([32], 2**32 - 1), "", "type 4294967295",
                 "an index far outside"),
    "row-not-whole": (tensor([128], 12, data=bytes(144)), "",
                      "not a multiple of 256", "half a block of Q4_K"),
    "row-not-whole-2": (tensor([8, 4], 8, data=bytes(64)), "",
                        "not a multiple of 32",
                        "32 elements, but blocks do not cross rows"),
    "offset-unaligned": (tensor([8], 0, 4, bytes(64)), "",
                         "not a multiple of the alignment", ""),
    "offset-max": (tensor([8], 0, MAX - 31), "", "overflows",
                   "offset + size wraps into the file"),
    "offset-wraps": (tensor([8], 0, 2**64 - 128), "", "overflows",
                     "data section + offset wraps into the header"),
    "offset-outside": (tensor([8], 0, 4096), "", "ends at", ""),
    "data-cut": (tensor([8])[:-1], "", "ends at", "one byte short"),
    "data-missing": (gguf([ARCH], ONE), "", "ends at",
                     "ends where the data should begin"),
    "padding-missing": (gguf([ARCH], ONE, pad=False), "", "ends at",
                        "ends before the data should begin"),
    "info-cut": (gguf([ARCH], ONE, pad=False)[:-1], "", "needs 8 bytes",
                 "ends inside the directory"),
    "overlap": (gguf([ARCH], [info("a.weight", [16]),
                              info("b.weight", [8], 0, 32)], bytes(64)), "",
                "overlap", "b begins inside a"),
    "overlap-same": (gguf([ARCH], [info("b.weight", [8]),
                                   info("a.weight", [8])], bytes(32)), "",
                     "overlap", "two tensors, one place"),
    "split-second-00002-of-00002": (split(1, 2, ONE, bytes(32), 1), "",
                                    "open part 1", "not the first part"),
    "split-name": (split(0, 2, ONE, bytes(32)), "", "name", "part 1 of 2 in a"
                   " file that is not called so"),
    "split-alone-00001-of-00002": (split(0, 2, ONE, bytes(32)), "",
                                   "split-alone-00002-of-00002.gguf",
                                   "the second part is missing"),
    "split-count-00001-of-00002": (split(0, 2, ONE, bytes(32)), "",
                                   "its keys say", "parts that disagree"),
    "split-count-00002-of-00002": (split(1, 3, [info("b.weight", [8])],
                                         bytes(32)), None, "", ""),
    "split-total-00001-of-00002": (split(0, 2, ONE, bytes(32), 3), "",
                                   "split.tensors.count is 3", "one tensor"
                                   " less than promised"),
    "split-total-00002-of-00002": (split(1, 2, [info("b.weight", [8])],
                                         bytes(32), 3), None, "", ""),
    "split-same-00001-of-00002": (split(0, 2, ONE, bytes(32)), "",
                                  "duplicate", "a tensor in both parts"),
    "split-same-00002-of-00002": (split(1, 2, ONE, bytes(32)), None, "", ""),
    "split-bad-00001-of-00002": (split(0, 2, ONE, bytes(32)), "",
                                 "split-bad-00002-of-00002.gguf: not a GGUF",
                                 "a damaged second part"),
    "split-bad-00002-of-00002": (split(1, 2, ONE, bytes(32), magic=b"XXXX"),
                                 None, "", ""),
    "split-no": (gguf([ARCH, kv("split.no", U16, 7),
                       kv("split.count", U16, 2)]), "", "contradict each other",
                 "part 8 of 2"),
    "split-type": (gguf([ARCH, kv("split.count", STR, "2")]), "",
                   "must be an integer", ""),
    "split-negative": (gguf([ARCH, kv("split.count", I32, -2)]), "",
                       "negative", ""),
    "nan-f32": (tensor([8], data=bytes(28) + b"\0\0\xc0\x7f"), "--check",
                "not finite: row 0, block 7", ""),
    "inf-f16": (tensor([8, 2], 1, data=bytes(16) + INF16 + bytes(14)),
                "--check", "row 1, block 0", ""),
    "nan-bf16": (tensor([8], 30, data=bytes(2) + b"\xc0\x7f" + bytes(12)),
                 "--check", "row 0, block 1", ""),
    "inf-q8_0": (tensor([64], 8, data=bytes(34) + INF16 + bytes(32)),
                 "--check", "row 0, block 1", ""),
    "nan-q4_k-d": (tensor([256], 12, data=NAN16 + bytes(142)), "--check",
                   "not finite", ""),
    "nan-q4_k-dmin": (tensor([256], 12, data=bytes(2) + NAN16 + bytes(140)),
                      "--check", "not finite", ""),
    "inf-q5_k": (tensor([256], 13, data=INF16 + bytes(174)), "--check",
                 "not finite", ""),
    "nan-q6_k": (tensor([256, 2], 14, data=bytes(418) + NAN16), "--check",
                 "row 1, block 0", "in the last two bytes of the file"),
    "bool-2": (gguf([ARCH, kv("k", BOOL, 2)]), "--check", "is 2", ""),
    "vocab-types": (vocab(types=(1, 1, 1)), "--check", "has 3 entries", ""),
    "vocab-type-7": (vocab(types=(1, 7, 1, 3)), "--check", "type 7", ""),
    "vocab-scores": (vocab(more=[arr("tokenizer.ggml.scores", F32,
                                     [0.0] * 5)]), "--check",
                     "has 5 entries", ""),
    "vocab-rows": (vocab(rows=5), "--check", "5 rows", ""),
    "vocab-id": (vocab(more=[kv("tokenizer.ggml.bos_token_id", U32, 4)]),
                 "--check", "is 4, there are 4", ""),
    "vocab-id-type": (vocab(more=[kv("tokenizer.ggml.bos_token_id", F32,
                                     1.0)]), "--check", "must be an integer",
                      ""),
    "vocab-merge-none": (vocab(merges=("ab",)), "--check", "entry 0", ""),
    "vocab-merge-two": (vocab(merges=("a b", "a b c")), "--check", "entry 1",
                        ""),
    "vocab-merge-left": (vocab(merges=(" b",)), "--check", "entry 0",
                         "nothing on the left"),
    "vocab-merge-right": (vocab(merges=("a ",)), "--check", "entry 0",
                          "nothing on the right"),
    "vocab-token-empty": (vocab(tokens=("a", "", "b", "c")), "--check",
                          "token 1", ""),
    "vocab-tokens-type": (gguf([ARCH, arr("tokenizer.ggml.tokens", U32,
                                          [1, 2])]), "--check",
                          "must be an ARRAY of STRING", ""),
}


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    for name, data in GOOD.items():
        with open(name + ".gguf", "wb") as f:
            f.write(data)
    with open("INDEX.tsv", "w") as index:
        for name, (data, option, message, why) in BAD.items():
            with open("bad-" + name + ".gguf", "wb") as f:
                f.write(data)
            if option is not None:
                print("bad-" + name + ".gguf", option or "-", message,
                      why or "as its name says", sep="\t", file=index)


main()
