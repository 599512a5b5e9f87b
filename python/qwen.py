# SPDX-License-Identifier: ISC
"""Qwen language models from Python: calls libqwen and libqwentext by ctypes.

    import qwen
    model = qwen.Model("model.gguf")
    session = model.session()
    rows = session.eval(model.encode("And God said"), logits="all")
    print(rows.shape, qwen.logprobs(rows)[-1].max())
    for text in model.decode_each(session.generate(40, temp=0.7, seed=1)):
        print(text, end="", flush=True)

Arrays are NumPy arrays.  Logits are bit for bit those of the tools: the same model,
tokens and numerics version give the same logits on every machine, with any number
of threads.

The libraries are loaded from the source tree or prefix of this file, else from the
system (LD_LIBRARY_PATH); they must have the version of this file.  Failures raise
qwen.Error.  Use a session in one thread at a time only, and let only one session
of a model compute at a time: they share the model's threads.
"""
import ctypes as C
import functools
import json
import os
import tempfile
import time

import numpy as np

__version__ = "0.2.0"
__all__ = ["Error", "Model", "Session", "logprobs"]


class Error(Exception):
    """An error of the library; code is QWEN_EIO or another of qwen/base.h."""

    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code


# --------------------------------------------------------- structs of the headers


class _Err(C.Structure):
    _fields_ = [("code", C.c_int), ("msg", C.c_char * 240)]


class _Str(C.Structure):
    _fields_ = [("s", C.c_void_p), ("len", C.c_size_t)]


class _Rope(C.Structure):
    _fields_ = [("kind", C.c_int), ("factor", C.c_uint32), ("n_orig", C.c_uint32)]


class _Adapter(C.Structure):
    _fields_ = [("path", C.c_char_p), ("scale", C.c_double)]


class _ModelOpts(C.Structure):
    _fields_ = [("n_threads", C.c_int), ("cpu", C.c_char_p),
                ("numerics", C.c_uint), ("k", C.c_int), ("v", C.c_int),
                ("rope", _Rope), ("draft", C.c_int), ("draft_file", C.c_char_p),
                ("tuning", C.c_char_p), ("adapters", C.POINTER(_Adapter)),
                ("n_adapters", C.c_size_t), ("device", C.c_char_p),
                ("share", C.c_void_p), ("note", C.c_void_p), ("note_arg", C.c_void_p)]


_ROW = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_size_t, C.POINTER(C.c_float),
                   C.POINTER(_Err))


class _Eval(C.Structure):
    _fields_ = [("logits", C.c_int), ("batch", C.c_size_t), ("row", _ROW),
                ("progress", C.c_void_p), ("arg", C.c_void_p),
                ("keep", C.c_void_p), ("hidden", C.c_int),
                ("guess", C.c_void_p), ("n_guess", C.c_size_t),
                ("within", C.c_void_p), ("spans", C.c_void_p),
                ("n_spans", C.c_size_t)]


class _Range(C.Structure):
    _fields_ = [("first", C.c_uint64), ("last", C.c_uint64)]


class _Value(C.Structure):
    _fields_ = [("stage", C.c_char_p), ("position", C.c_uint64),
                ("token", C.c_int32), ("n", C.c_size_t),
                ("row", C.POINTER(C.c_float)), ("choices", C.POINTER(C.c_int32))]


_VALUE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(_Value), C.POINTER(_Err))


class _Trace(C.Structure):
    _fields_ = [("patterns", C.POINTER(C.c_char_p)), ("n_patterns", C.c_size_t),
                ("at", C.POINTER(_Range)), ("n_at", C.c_size_t),
                ("value", _VALUE), ("arg", C.c_void_p)]


_STAGE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p)  # arg, name of the stage
_CLOCK = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)

# ------------------------------------------------------------------- the libraries

_KV = {"f16": 0, "q8_0": 1, "q4_0": 2, "f32": 3, None: 4}
_LOGITS = {"last": 0, "all": 1, "none": 2}
_EOG_MAX = 16
_ENCODE, _DECODE = 1, 2
_SPECIAL = 1
_SHOW_SPECIAL, _BYTES = 1, 2

_P, _Z, _I = C.c_void_p, C.c_size_t, C.c_int
_E = C.POINTER(_Err)
_OUT = C.POINTER(C.c_void_p)
_IDS = C.POINTER(C.POINTER(C.c_int32))

# Result and argument types; None: no result; "i": an int, -1 (raises Error) or more.
_ENGINE = {
    "qwen_model_open": ("i", _OUT, C.c_char_p, C.POINTER(_ModelOpts), _E),
    "qwen_model_close": (None, _P),
    "qwen_model_gguf": (_P, _P),
    "qwen_model_arch": (C.c_char_p, _P),
    "qwen_model_n_vocab": (_Z, _P),
    "qwen_model_n_layer": (_Z, _P),
    "qwen_model_n_ctx": (_Z, _P),
    "qwen_model_n_embd": (_Z, _P), "qwen_model_n_row": (_Z, _P),
    "qwen_model_n_threads": (_I, _P),
    "qwen_model_numerics": (C.c_uint, _P),
    "qwen_rope_parse": (_I, C.POINTER(_Rope), C.c_char_p),
    "qwen_vocab_eog": ("i", _P, C.POINTER(C.c_int32), _Z, C.POINTER(_Z), _E),
    "qwen_session_new": ("i", _OUT, _P, _E),
    "qwen_session_fork": ("i", _OUT, _P, _E),
    "qwen_session_free": (None, _P),
    "qwen_session_n_tokens": (_Z, _P),
    "qwen_session_tokens": (C.POINTER(C.c_int32), _P),
    "qwen_session_logits": (C.POINTER(C.c_float), _P),
    "qwen_session_eval": ("i", _P, _P, _Z, C.POINTER(_Eval), _E),
    "qwen_session_rewind": ("i", _P, _Z, _I, C.POINTER(_Z), _E),
    "qwen_session_trace": ("i", _P, C.POINTER(_Trace), _E),
    "qwen_session_stages": (None, _P, _STAGE, _P),
    "qwen_sampler_new": ("i", _OUT, _E),
    "qwen_sampler_free": (None, _P),
    "qwen_sampler_set": ("i", _P, C.c_char_p, C.c_char_p, _E),
    "qwen_sampler_check": ("i", _P, _E),
    "qwen_sampler_needs_pieces": (_I, _P),
    "qwen_sampler_pieces": (None, _P, _P),
    "qwen_sampler_eog": ("i", _P, C.POINTER(C.c_int32), _Z, _E),
    "qwen_sampler_begin": ("i", _P, _Z, _E),
    "qwen_sampler_accept": ("i", _P, _P, _Z, _I, _E),
    "qwen_sampler_stopped": (_I, _P),
    "qwen_sampler_sample": ("i", _P, C.POINTER(C.c_float), _P, _Z, C.c_uint64,
                            C.POINTER(C.c_int32), _E),
    "qwen_writer_open": ("i", _OUT, _I, _P, _E),
    "qwen_writer_close": ("i", _P, _E),
    "qwen_writer_free": (None, _P),
    "qwen_state_save": ("i", _P, _P, _P, _P, _P, _E),
    "qwen_state_load_file": ("i", _OUT, _P, _P, C.c_char_p, _P, _E),
}
_TEXT = {
    "qwen_tok_open": ("i", _OUT, _P, C.c_uint, _E),
    "qwen_tok_close": (None, _P),
    "qwen_tok_encode": ("i", _P, C.c_char_p, _Z, C.c_uint, _IDS, C.POINTER(_Z), _E),
    "qwen_tok_begin": ("i", _P, _IDS, C.POINTER(_Z), _E),
    "qwen_tok_decoder_new": ("i", _OUT, _P, C.c_uint, _E),
    "qwen_tok_decoder_put": ("i", _P, C.c_int32, C.POINTER(_Str), _E),
    "qwen_tok_decoder_finish": (None, _P, C.POINTER(_Str)),
    "qwen_tok_decoder_free": (None, _P),
    "qwen_pieces_open": ("i", _OUT, _P, _E),
    "qwen_pieces_close": (None, _P),
    "qwen_template_open_gguf": ("i", _OUT, _P, _E),
    "qwen_template_set_clock": (None, _P, _CLOCK, _P),
    "qwen_template_close": (None, _P),
    "qwen_template_render": ("i", _P, C.c_char_p, _Z, _OUT, _E),
    "qwen_prompt_text": (_Str, _P),
    "qwen_prompt_encode": ("i", _P, _P, _Z, _Z, _IDS, C.POINTER(_Z), _E),
    "qwen_prompt_free": (None, _P),
}
# Functions whose symbol is NAME_sized, with the size of an options struct as first
# argument (qwen/base.h), and that struct; None: no struct is passed.
_SIZED = {
    "qwen_model_open": _ModelOpts,
    "qwen_session_eval": _Eval,
    "qwen_session_trace": _Trace,
    "qwen_writer_open": None,
    "qwen_state_save": None,
}


def _load(name, mode=C.DEFAULT_MODE):
    """Load a library from the tree or prefix of this file, else by its name."""
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in ("../build", "../../../lib"):
        path = os.path.normpath(os.path.join(here, folder, name))
        if os.path.exists(path):
            return C.CDLL(path, mode=mode)
    try:
        return C.CDLL(name, mode=mode)
    except OSError as e:
        raise ImportError("%s: build and install qpipe, or say in "
                          "LD_LIBRARY_PATH where it is" % e) from None


_lib = C.CDLL(None)
_lib.free.argtypes = [_P]
_lib.localtime_r.argtypes = [C.POINTER(C.c_long), _P]
_lib.localtime_r.restype = _P


class _Calls:
    """The functions of both libraries; failures raise Error."""

    def __init__(self):
        # libqwentext needs the symbols of libqwen
        engine = _load("libqwen.so.0", C.RTLD_GLOBAL)
        for library, table in ((engine, _ENGINE), (_load("libqwentext.so.0"), _TEXT)):
            for name, (gives, *takes) in table.items():
                sized = name in _SIZED
                f = getattr(library, name + "_sized" if sized else name)
                f.argtypes = [_Z] + takes if sized else takes
                f.restype = C.c_int if gives == "i" else gives
                if sized:
                    struct = _SIZED[name]
                    f = functools.partial(f, C.sizeof(struct) if struct else 0)
                setattr(self, name[5:], self.checked(f) if gives == "i" else f)

    @staticmethod
    def checked(f):
        def call(*args):
            err = _Err()
            rc = f(*args, C.byref(err))
            if rc < 0:
                raise Error(err.msg.decode("utf-8", "replace"), err.code)
            return rc
        return call


_q = _Calls()


def _new(make, *args):
    """Call an X_new or X_open function; return the object that it makes."""
    out = C.c_void_p()
    make(C.byref(out), *args)
    return out


def _take_ids(make, *args):
    """Call a function that allocates ids; return ids, for _lib.free, and number."""
    ids, n = C.POINTER(C.c_int32)(), C.c_size_t()
    make(*args, C.byref(ids), C.byref(n))
    return ids, n


def _c(text):
    """Return a path or text as bytes for C; a NUL character is an error."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise ValueError("a NUL character in %r" % text)
    return data


def _ids(tokens):
    """Return an int32 array of ids; other numbers than int32 are an error."""
    a = np.atleast_1d(tokens)
    if a.ndim != 1:
        raise ValueError("ids are one list, and not an array of shape %s" % (a.shape,))
    if len(a) > 0 and a.dtype.kind not in "iu":
        raise TypeError("ids are integers, and not %s" % a.dtype)
    ids = np.ascontiguousarray(a, np.int32)
    wrong = np.flatnonzero(ids != a)
    if len(wrong) > 0:
        raise Error("token %d (number %d): no such id" % (a[wrong[0]], wrong[0]))
    return ids


class _Caught:
    """A C callback.  An exception in it stops the library call; _call raises it."""

    def __init__(self, kind, f):
        self.raised = None
        self.c = kind(self.guard(f))

    def guard(self, f):
        def call(arg, *args):
            try:
                f(*args)
            except BaseException as e:
                self.raised = e
                return 1
            return 0
        return call


def _call(caught, f, *args):
    try:
        return f(*args)
    except Error:
        if caught.raised is not None:
            raise caught.raised from None
        raise


def logprobs(rows):
    """Return natural log-probabilities for one row of logits, or an array of rows."""
    x = np.asarray(rows, np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


# ------------------------------------------------------------------------- a model


class Model:
    """A loaded model: a GGUF file.

    n_threads=0 means one thread per processor, numerics=0 the default version.  kv
    is the type of the KV cache, "f16", "q8_0", "q4_0" or "f32", or a pair of types
    for keys and values.  rope: RoPE scaling, such as "yarn=4".  adapters: LoRA
    files, or pairs of a file and a scale.  draft: load the MTP block of the file, so
    that its stages can be traced and saved states contain its data.  Methods return
    ids as int32 arrays.
    """

    def __init__(self, path, n_threads=0, numerics=0, kv=None, rope=None, adapters=(),
                 draft=False):
        self._made = set()  # addresses of its sessions
        self._template = None
        k, v = kv if isinstance(kv, tuple) else (kv, kv)
        opts = _ModelOpts(n_threads=n_threads, numerics=numerics, k=_KV[k], v=_KV[v],
                          draft=draft)
        if rope is not None and _q.rope_parse(C.byref(opts.rope), _c(rope)) < 0:
            raise ValueError("rope: %r is not none, linear=F or yarn=F" % rope)
        pairs = [a if isinstance(a, tuple) else (a, 1.0) for a in adapters]
        array = (_Adapter * len(pairs))(*[(_c(p), s) for p, s in pairs])
        opts.adapters, opts.n_adapters = array, len(pairs)
        self._m = _new(_q.model_open, _c(path), C.byref(opts))
        self._gguf = C.c_void_p(_q.model_gguf(self._m))
        self._tok = _new(_q.tok_open, self._gguf, _ENCODE | _DECODE)
        self.path = path
        self.arch = _q.model_arch(self._m).decode()
        self.n_vocab = _q.model_n_vocab(self._m)
        self.n_layer = _q.model_n_layer(self._m)
        self.n_ctx = _q.model_n_ctx(self._m)
        self.n_embd = _q.model_n_embd(self._m)
        self.n_threads = _q.model_n_threads(self._m)
        self.numerics = _q.model_numerics(self._m)
        eog, n = (C.c_int32 * _EOG_MAX)(), C.c_size_t()
        _q.vocab_eog(self._gguf, eog, _EOG_MAX, C.byref(n))
        self.eog = list(eog[:n.value])  # ids of end-of-generation tokens

    def close(self):
        """Free the model and its sessions; deleting the object does the same."""
        mine = self.__dict__
        while self._made:
            _q.session_free(self._made.pop())
        _q.template_close(mine.pop("_template", None))
        _q.tok_close(mine.pop("_tok", None))
        mine.pop("_gguf", None)
        _q.model_close(mine.pop("_m", None))

    __del__ = close

    def __getattr__(self, name):
        if name in ("_m", "_gguf", "_tok", "_template"):
            raise Error("the model is closed")
        raise AttributeError(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def session(self):
        """Return a new, empty session."""
        return Session(self, _new(_q.session_new, self._m))

    def load(self, path):
        """Return the session saved in a file by Session.save or a tool."""
        return Session(self, _new(_q.state_load_file, None, self._m, _c(path), None))

    # -- text

    def encode(self, text, special=False):
        """Return the ids of a str or bytes, the same as qtok(1).

        special: read names of control tokens in the text as these tokens.  Do not
        use it for untrusted text.
        """
        data = text.encode() if isinstance(text, str) else bytes(text)
        ids, n = _take_ids(_q.tok_encode, self._tok, data, len(data),
                           _SPECIAL if special else 0)
        try:
            _q.tok_begin(self._tok, C.byref(ids), C.byref(n))
            return np.array(ids[:n.value], np.int32)
        finally:
            _lib.free(ids)

    def decode(self, ids, special=False):
        """Return the text of ids; special: with the names of control tokens."""
        return "".join(self.decode_each(ids, special))

    def decode_each(self, ids, special=False):
        """Yield the text of each id: complete characters, so a str may be empty."""
        d = _new(_q.tok_decoder_new, self._tok, _SHOW_SPECIAL if special else 0)
        out = _Str()
        try:
            for i in ids:
                self._tok  # raises Error if the model was closed meanwhile
                _q.tok_decoder_put(d, int(_ids(i)[0]), C.byref(out))
                yield C.string_at(out.s, out.len).decode() if out.len else ""
            _q.tok_decoder_finish(d, C.byref(out))
            if out.len:
                yield C.string_at(out.s, out.len).decode()
        finally:
            _q.tok_decoder_free(d)

    def piece(self, token):
        """Return the bytes of a token (maybe parts of characters); control tokens: name."""
        d = _new(_q.tok_decoder_new, self._tok, _SHOW_SPECIAL | _BYTES)
        out = _Str()
        try:
            _q.tok_decoder_put(d, int(_ids(token)[0]), C.byref(out))
            return C.string_at(out.s, out.len) if out.len else b""
        finally:
            _q.tok_decoder_free(d)

    def chat(self, messages, **fields):
        """Return the ids of a chat prompt, made with the chat template of the file.

        messages and fields (tools, chat_template_kwargs, ...): as in OpenAI's API.
        """
        p = self._render(messages, fields)
        try:
            ids, n = _take_ids(_q.prompt_encode, p, self._tok, 0,
                               _q.prompt_text(p).len)
            copy = np.array(ids[:n.value], np.int32)
            _lib.free(ids)
            return copy
        finally:
            _q.prompt_free(p)

    def chat_text(self, messages, **fields):
        """Return the text of the prompt that chat encodes."""
        p = self._render(messages, fields)
        try:
            s = _q.prompt_text(p)
            return C.string_at(s.s, s.len).decode()
        finally:
            _q.prompt_free(p)

    def _render(self, messages, fields):
        if self._template is None:
            self._template = _new(_q.template_open_gguf, self._gguf)
            _q.template_set_clock(self._template, _now, None)
        request = json.dumps(dict(fields, messages=messages)).encode()
        out = C.c_void_p()
        _q.template_render(self._template, request, len(request), C.byref(out))
        return out


@_CLOCK
def _now(arg, tm):
    return 0 if _lib.localtime_r(C.byref(C.c_long(int(time.time()))), tm) else -1


# ---------------------------------------------------------------------- a session


class Session:
    """A session: the tokens read so far, with their KV cache.

    Model.session, Model.load and fork return one.  After an exception in eval,
    score, trace or generate the session cannot be used any more.
    """

    def __init__(self, model, s):
        self.model = model
        self._s = s
        model._made.add(s.value)

    def close(self):
        s = self.__dict__.pop("_s", None)
        # the model may be gone before it, and has freed it then
        if s is not None and s.value in self.model._made:
            self.model._made.remove(s.value)
            _q.session_free(s)

    __del__ = close

    def __getattr__(self, name):
        if name == "_s":
            raise Error("the session is closed")
        raise AttributeError(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        return _q.session_n_tokens(self._s)

    @property
    def tokens(self):
        """A copy of all ids read so far."""
        n = len(self)
        return np.array(_q.session_tokens(self._s)[:n] if n > 0 else [], np.int32)

    @property
    def logits(self):
        """A copy of the logits after the last token; None if not computed."""
        row = _q.session_logits(self._s)
        return np.ctypeslib.as_array(row, (self.model.n_vocab,)).copy() if row else None

    def fork(self):
        """Return a new session with the same tokens; both share their KV cache."""
        return Session(self.model, _new(_q.session_fork, self._s))

    def rewind(self, n):
        """Shorten to n tokens, or the next possible length below; return the length."""
        if n < 0:
            raise ValueError("%d tokens" % n)
        at = C.c_size_t()
        _q.session_rewind(self._s, n, 0, C.byref(at))
        return at.value

    def save(self, path):
        """Save to a file for Model.load and the tools, completely or not at all."""
        path = os.path.realpath(path)
        with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as f:
            try:
                w = _new(_q.writer_open, f.fileno(), None)
                try:
                    _q.state_save(self._s, None, w, None, None)
                except BaseException:
                    _q.writer_free(w)
                    raise
                _q.writer_close(w)
                os.fsync(f.fileno())
                os.replace(f.name, path)
            except BaseException:
                os.unlink(f.name)
                raise

    # -- reading

    def _eval(self, ids, row, logits, hidden=False, batch=0):
        ids = _ids(ids)
        caught = _Caught(_ROW, lambda pos, numbers, err: row(pos, numbers))
        how = _Eval(logits=_LOGITS[logits], batch=batch, row=caught.c, hidden=hidden)
        _call(caught, _q.session_eval, self._s, ids.ctypes.data, len(ids), C.byref(how))

    def eval(self, ids, logits="last", hidden=False, batch=0):
        """Read tokens and return the row of logits after the last one.

        logits="all": return an array of rows, one per token; "none": return
        None.  hidden: return the hidden states after the output norm instead of
        logits.  batch: number of tokens computed together; it
        does not change the results.
        """
        ids = _ids(ids)
        if len(ids) == 0 and logits == "last":
            raise ValueError("no tokens: there is no row after the last one")
        width = self.model.n_embd if hidden else self.model.n_vocab
        first = len(self) + (0 if logits == "all" else len(ids) - 1)
        out = np.empty((len(ids) if logits == "all" else 1, width), np.float32)

        def row(pos, numbers):
            out[pos - first] = np.ctypeslib.as_array(numbers, (width,))

        self._eval(ids, row, logits, hidden, batch)
        return None if logits == "none" else out if logits == "all" else out[0]

    def score(self, ids, batch=0):
        """Read tokens and return the log-probability of each, given all before it.

        The first token of an empty session has NaN.
        """
        ids = _ids(ids)
        n, first = self.model.n_vocab, len(self)
        out = np.full(len(ids), np.nan)
        if len(ids) == 0:
            return out
        if self.logits is not None:
            out[0] = logprobs(self.logits)[ids[0]]

        def row(pos, numbers):
            i = pos - first + 1
            if i < len(ids):
                out[i] = logprobs(np.ctypeslib.as_array(numbers, (n,)))[ids[i]]

        self._eval(ids, row, "all", batch=batch)
        return out

    # -- tracing

    def stages(self):
        """Return the names of the stages of qwen-trace(7), in computing order."""
        names = []

        def each(arg, name):
            names.append(name.decode())
            return 0

        _q.session_stages(self._s, _STAGE(each), None)
        return names

    def trace(self, ids, *patterns, at=(), batch=0):
        """Read tokens and return the values of stages: a dict of arrays by stage name.

        patterns: names of stages, or patterns such as "*.ffn".  at: positions, or
        pairs of a first and a last position; by default all.  An array has one row
        per position; rows of attention have zeros for tokens that the row's token
        does not see.
        """
        ids = _ids(ids)
        rows = {}

        def value(v, err):
            v = v[0]
            numbers = v.row if v.row else v.choices
            rows.setdefault(v.stage, []).append(
                np.ctypeslib.as_array(numbers, (v.n,)).copy())

        caught = _Caught(_VALUE, value)
        names = (C.c_char_p * len(patterns))(*map(_c, patterns))
        pairs = [a if isinstance(a, tuple) else (a, a) for a in at]
        n = len(self) + len(ids)
        for first, last in pairs:
            if not 0 <= first <= last < n:
                raise ValueError("at %d to %d: the tokens go from 0 to %d"
                                 % (first, last, n - 1))
        ranges = (_Range * len(pairs))(*pairs)
        t = _Trace(names, len(patterns), ranges, len(pairs), caught.c)
        _q.session_trace(self._s, C.byref(t))
        try:
            how = _Eval(batch=batch)
            _call(caught, _q.session_eval, self._s, ids.ctypes.data, len(ids),
                  C.byref(how))
        finally:
            _q.session_trace(self._s, None)
        return {name.decode(): _stack(r) for name, r in rows.items()}

    # -- generating

    def generate(self, n, until_end=True, **options):
        """Generate up to n tokens, and yield the id of each.

        options are those of qsample(1), with _ for -: temp=0.7, top_k=40, seed=1,
        stop=["\\n\\n"].  Without options the most likely token is chosen.  Ends at a
        stop text, or, unless until_end is false, after an end-of-generation token.
        """
        m = self.model
        sampler = _new(_q.sampler_new)
        pieces = None
        try:
            for name, value in options.items():
                _set(sampler, name.replace("_", "-"), value)
            _q.sampler_check(sampler)
            if _q.sampler_needs_pieces(sampler):
                pieces = _new(_q.pieces_open, m._gguf)
                _q.sampler_pieces(sampler, pieces)
            _q.sampler_eog(sampler, (C.c_int32 * len(m.eog))(*m.eog), len(m.eog))
            _q.sampler_begin(sampler, m.n_vocab)
            past = self.tokens
            _q.sampler_accept(sampler, past.ctypes.data, len(past), 0)
            token = C.c_int32()
            for _ in range(n):
                row = _q.session_logits(self._s)
                if not row:
                    raise Error("no logits: nothing was read")
                _q.sampler_sample(sampler, row, None, m.n_vocab, len(self),
                                  C.byref(token))
                _q.sampler_accept(sampler, C.addressof(token), 1, 1)
                _q.session_eval(self._s, C.addressof(token), 1, None)
                yield token.value
                if _q.sampler_stopped(sampler) or (until_end and token.value in m.eog):
                    break
        finally:
            _q.sampler_free(sampler)
            _q.pieces_close(pieces)


def _set(sampler, name, value):
    if value is True or value is None or value is False:
        if value:
            _q.sampler_set(sampler, _c(name), None)
        return
    for v in value if isinstance(value, (list, tuple)) else [value]:
        _q.sampler_set(sampler, _c(name), _c(str(v)))


def _stack(rows):
    """Return rows of different lengths as an array, padded with zeros."""
    out = np.zeros((len(rows), max(len(r) for r in rows)), rows[0].dtype)
    for to, r in zip(out, rows):
        to[:len(r)] = r
    return out
