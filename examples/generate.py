#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Does the same as generate.c: calls the library from Python by ctypes.

    ./generate.py model.gguf 'Once upon a time' 40

The system finds the shared libraries by name.  If they are in a folder of their
own, set LD_LIBRARY_PATH to that folder.
"""
import ctypes as C
import functools
import sys

engine = C.CDLL("libqwen.so.0", mode=C.RTLD_GLOBAL)
text = C.CDLL("libqwentext.so.0")
libc = C.CDLL(None)
QWEN_TOK_ENCODE, QWEN_TOK_DECODE = 1, 2


class Err(C.Structure):
    _fields_ = [("code", C.c_int), ("msg", C.c_char * 240)]


class Str(C.Structure):
    _fields_ = [("s", C.POINTER(C.c_char)), ("len", C.c_size_t)]


err = Err()
# functions with another result than int
engine.qwen_model_gguf.restype = C.c_void_p
engine.qwen_model_n_vocab.restype = C.c_size_t
engine.qwen_session_logits.restype = C.c_void_p
engine.qwen_session_n_tokens.restype = C.c_size_t
libc.free.argtypes = [C.c_void_p]
# functions with an options struct take its size first; without a struct, any size
no_size = C.c_size_t(0)
open_model = functools.partial(engine.qwen_model_open_sized, no_size)


def check(rc):
    if rc < 0:
        sys.exit("generate.py: " + err.msg.decode("utf-8", "replace"))


def new(function, *args):
    """Call an X_new or X_open function; return the object that it makes."""
    out = C.c_void_p()
    check(function(C.byref(out), *args, C.byref(err)))
    return out


def encode(tok, data):
    ids, n = C.POINTER(C.c_int32)(), C.c_size_t()
    check(text.qwen_tok_encode(tok, data, C.c_size_t(len(data)), 0,
                               C.byref(ids), C.byref(n), C.byref(err)))
    copy = (C.c_int32 * n.value)(*ids[:n.value])
    libc.free(ids)
    return copy


def show(s):
    sys.stdout.buffer.write(s.s[:s.len])
    sys.stdout.buffer.flush()


def main(path, prompt, n_max):
    model = new(open_model, path.encode(), None)
    gguf = C.c_void_p(engine.qwen_model_gguf(model))
    n_vocab = C.c_size_t(engine.qwen_model_n_vocab(model))
    tok = new(text.qwen_tok_open, gguf, QWEN_TOK_ENCODE | QWEN_TOK_DECODE)
    decoder = new(text.qwen_tok_decoder_new, tok, 0)
    eog, n_eog = (C.c_int32 * 16)(), C.c_size_t()
    check(engine.qwen_vocab_eog(gguf, eog, C.c_size_t(16), C.byref(n_eog),
                              C.byref(err)))

    session = new(engine.qwen_session_new, model)
    sampler = new(engine.qwen_sampler_new)
    check(engine.qwen_sampler_begin(sampler, n_vocab, C.byref(err)))
    ids, chosen, out = encode(tok, prompt.encode()), 0, Str()
    while True:
        n = C.c_size_t(len(ids))
        check(engine.qwen_sampler_accept(sampler, ids, n, chosen > 0,
                                         C.byref(err)))
        check(engine.qwen_session_eval_sized(no_size, session, ids, n, None,
                                             C.byref(err)))
        if chosen == n_max:
            break
        ids = (C.c_int32 * 1)()
        check(engine.qwen_sampler_sample(
            sampler, C.c_void_p(engine.qwen_session_logits(session)), None,
            n_vocab, C.c_uint64(engine.qwen_session_n_tokens(session)), ids,
            C.byref(err)))
        if ids[0] in eog[:n_eog.value]:
            break
        chosen += 1
        check(text.qwen_tok_decoder_put(decoder, ids[0], C.byref(out),
                                        C.byref(err)))
        show(out)
    text.qwen_tok_decoder_finish(decoder, C.byref(out))
    show(out)
    print(flush=True)

    engine.qwen_sampler_free(sampler)
    engine.qwen_session_free(session)
    text.qwen_tok_decoder_free(decoder)
    text.qwen_tok_close(tok)
    engine.qwen_model_close(model)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print("usage: generate.py model.gguf text n", file=sys.stderr)
        sys.exit(2)
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
