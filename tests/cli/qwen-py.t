#!/bin/sh
# The Python module gives the same ids, bits, tokens, stages and states as the
# tools.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ]; then
	skip "qwen.py" "Python is not built with a sanitizer"
	done_testing
fi
for python in python3 /usr/bin/python3 ''; do
	[ -n "$python" ] && $python -c 'import numpy' 2>/dev/null && break
done
if [ -z "$python" ]; then
	skip "qwen.py" "needs python3 with numpy"
	done_testing
fi
PYTHONPATH=$TOP/python PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# py NAME WANT: a program on stdin, whose output is WANT; it has a model m
py() {
	{
		cat <<-'EOF'
		import hashlib, os
		import numpy as np, qwen
		demo = os.environ["QWEN_MODEL"]
		text = "And God said,\nLet there be \u5149"
		def sha(a): return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()
		def show(a): print(*a)
		def code(f, *a, **k):
		    try:
		        f(*a, **k)
		    except qwen.Error as e:
		        return e.code
		    except Exception as e:
		        return type(e).__name__
		m = qwen.Model(demo)
		ids = m.encode(text)
		EOF
		cat
	} >prog.py
	is "$($python prog.py 2>err)$(cat err)" "$2" "$1"
}
sha() { sha256sum | cut -d ' ' -f 1; }

printf 'And God said,\nLet there be \345\205\211' >text
qtok <text >ids.cbor
qtok -f text <text >ids

# -- structs are as long as the library takes them to be
cat >sizes.c <<'E'
#include <stdio.h>
#include "qwen.h"
#define SIZE(s) (unsigned)sizeof(struct s)
int
main(void)
{
	printf("%u %u %u %u %u %u %u %u %u\n", SIZE(qwen_err), SIZE(qwen_str),
	    SIZE(qwen_rope), SIZE(qwen_adapter), SIZE(qwen_model_opts),
	    SIZE(qwen_eval), SIZE(qwen_trace_range), SIZE(qwen_trace_value),
	    SIZE(qwen_trace));
	return 0;
}
E
if ${CC:-cc} -I"$TOP/lib" -o sizes sizes.c 2>err; then
	py "sizes of structs" "$(./sizes)" <<'E'
show(qwen.C.sizeof(s) for s in (qwen._Err, qwen._Str, qwen._Rope, qwen._Adapter,
    qwen._ModelOpts, qwen._Eval, qwen._Range, qwen._Value, qwen._Trace))
E
else
	skip "sizes of structs" "no C compiler"
fi

# -- text
py "encode" "$(xargs <ids)" <<'E'
show(ids)
E
py "control tokens only where asked for" "$(printf 'a<|im_end|>' | qtok -f text | xargs)
$(printf 'a<|im_end|>' | qtok --special -f text | xargs)" <<'E'
show(m.encode("a<|im_end|>"))
show(m.encode(b"a<|im_end|>", special=True))
E
py "decode" "True True True a a<|im_end|>" <<'E'
print(m.decode(ids) == text, b"".join(map(m.piece, ids)) == text.encode(),
      "".join(m.decode_each(iter(ids))) == text,
      m.decode(m.encode("a<|im_end|>", special=True)),
      m.decode(m.encode("a<|im_end|>", special=True), special=True))
E
py "a chat's prompt" "$(qtok --chat --system Brief --user Hello -f text | xargs)
$(qtok --chat --system Brief --user Hello -f prompt | sha)" <<'E'
chat = [{"role": "system", "content": "Brief"}, {"role": "user", "content": "Hello"}]
show(m.chat(chat))
print(hashlib.sha256(m.chat_text(chat).encode()).hexdigest())
E

# -- rows; what the model is opened with, and the tool's options
rows() {
	py "rows of all tokens: $2" \
	    "$(qprefill -q $2 --logits all -f raw <ids.cbor | sha)" <<-E
	m = qwen.Model(demo, $1)
	print(sha(m.session().eval(ids, logits="all", batch=5)))
	E
}
rows "" ""
rows "n_threads=3" "-t 1"
rows "numerics=4" "--numerics 4"
rows 'kv="q8_0"' "--kv q8_0"
rows 'kv=("f32", "q4_0")' "--kv-k f32 --kv-v q4_0"
rows 'rope="linear=2"' "--rope-scaling linear=2"
gguf-synth -q -o adapter.gguf --lora "$QWEN_MODEL" --rank 2
rows 'adapters=[("adapter.gguf", 0.5)]' "--lora adapter.gguf=0.5"
py "of the last one, in one call or two, and of the session" "True True True True" <<'E'
all, s = m.session().eval(ids, logits="all"), m.session()
none = s.eval(ids[:-1], logits="none")
print(none is None, (s.eval(ids[-1]) == all[-1]).all(), (s.logits == all[-1]).all(),
      (s.tokens == ids).all() and len(s) == len(ids))
E
py "log-probabilities of a text" "$(qscore --each text | awk -F '\t' '$1 > 0 { print $3 }' | xargs)" <<'E'
show("%.6f" % x for x in m.session().score(ids)[1:])
E
py "in two calls, and of rows" "True True True" <<'E'
one, s = m.session().score(ids), m.session()
two = np.concatenate([s.score(ids[:4]), s.score(ids[4:])])
rows = qwen.logprobs(m.session().eval(ids, logits="all"))
print(np.isnan(one[0]), (one[1:] == two[1:]).all(),
      (one[1:] == rows[np.arange(len(ids) - 1), ids[1:]]).all())
E
model qwen3-embed
printf 'a header' >header
py "hidden states: the vector of qembed" "True" <<E
m = qwen.Model("$MODEL")
want = np.array("""$(qembed -m "$MODEL" -f text header)""".split(), float)
eos = $(gguf-inspect "$MODEL" | awk '$2 == "tokenizer.ggml.eos_token_id" { print $5 }')
h = m.session().eval(list(m.encode("a header")) + [eos], hidden=True)
print(abs(h / np.linalg.norm(h) - want).max() < 1e-6)
E

# -- generating; the arguments, and the tool's options
generated() {
	py "generate: $2" "$(qdecode -n 30 $2 -f text <ids.cbor | xargs)" <<-E
	s = m.session()
	s.eval(ids)
	show(s.generate(30, $1))
	E
}
generated "" ""
generated "temp=0.7, seed=1" "--temp 0.7 --seed 1"
generated "temp=0.9, top_k=40, top_p=0.9, repeat_penalty=1.2, penalty_prompt=True, seed=3" \
    "--temp 0.9 --top-k 40 --top-p 0.9 --repeat-penalty 1.2 --penalty-prompt --seed 3"
generated 'temp=1, dry_multiplier=0.8, dry_breaker=["x", "y"], seed=3' \
    "--temp 1 --dry-multiplier 0.8 --dry-breaker x --dry-breaker y --seed 3"
generated 'stop=["e"]' "--stop e"
generated "until_end=False" "--ignore-eos"
py "a fork goes the same way, and so does what was cut" "True True" <<'E'
s = m.session()
s.eval(ids)
f = s.fork()
a = list(s.generate(8))
b = list(f.generate(8))
n = s.rewind(len(ids) - 1)
s.eval(ids[n:])
print(a == b, a == list(s.generate(8)))
E

# -- stages and states
qprefill --trace '*' --trace-at 1,3-last -f npz --trace-out t.npz -o s.cbor <ids.cbor >ready
py "trace: the arrays of -f npz" "True True $(gguf-inspect --graph | wc -l)" <<'E'
m = qwen.Model(demo, draft=True)
s = m.session()
got, want = s.trace(ids, "*", at=[1, (3, len(ids) - 1)]), np.load("t.npz")
print(list(got) == want.files == s.stages(),
      all(got[k].dtype == want[k].dtype and (got[k] == want[k]).all() for k in got), len(got))
s.save("py.cbor")
E
qdecode -s py.cbor -n 9 -f text </dev/null >a
qdecode -s s.cbor -n 9 -f text </dev/null >b
cmp -s a b && qstate diff -q py.cbor s.cbor
ok $? "save: the state that qprefill writes"
is "$(ls -A | grep -c '^\(.*tmp.*\|\..*\)$')" 0 "and nothing beside it"
py "load: what a tool wrote" "True
$(xargs <b)" <<'E'
s = m.load("s.cbor")
print((s.tokens == ids).all())
show(s.generate(9))
E

# -- structs: members, and where they lie, are those of the headers
cat >members.py <<'E'
# prints C that checks each struct of the module, from the module's own classes
import ctypes as C, qwen
print("#include <stddef.h>\n#include <qwen.h>\n#include <qwentext.h>")
for cls, name in ((qwen._Err, "err"), (qwen._Str, "str"), (qwen._Rope, "rope"),
    (qwen._Adapter, "adapter"), (qwen._ModelOpts, "model_opts"), (qwen._Eval, "eval"),
    (qwen._Range, "trace_range"), (qwen._Value, "trace_value"), (qwen._Trace, "trace")):
    s = "struct qwen_" + name
    print("_Static_assert(sizeof(%s) == %d, \"size of %s\");" % (s, C.sizeof(cls), name))
    for f, _ in cls._fields_:
        print("_Static_assert(offsetof(%s, %s) == %d, \"%s.%s\");"
            % (s, f, getattr(cls, f).offset, name, f))
E
if command -v "${CC:-cc}" >/dev/null 2>&1; then
	$python members.py >members.c
	${CC:-cc} -std=c11 -I"$TOP/lib" -c members.c -o members.o 2>err
	is "$? $(cat err)" "0 " "the structs of the module are those of the headers"
	is "$(grep -c Static_assert members.c)" 59 "all of their members"
else
	skip "structs" "no compiler"
fi

# -- what goes wrong
py "errors are exceptions" "5 5 2 1 ValueError KeyError" <<'E'
s = m.session()
print(code(s.eval, [m.n_vocab]), code(s.trace, ids, "blk.99.ffn"), code(qwen.Model, "ids"),
      code(qwen.Model, "/nonexistent"), code(qwen.Model, demo, rope="twice"),
      code(qwen.Model, demo, kv="q3"))
E
py "one in a callback, too; of options; of a file" "stop 5 OSError" <<'E'
def row(pos, numbers):
    if pos == 2:
        raise RuntimeError("stop")
try:
    m.session()._eval(ids, row, "all")
except RuntimeError as e:
    print(e, end=" ")
try:
    list(m.session().generate(3, temp=-1))
except qwen.Error as e:
    print(e.code, end=" ")
try:
    m.session().save("/nonexistent/x")
except OSError as e:
    print("OSError")
E
py "what is no id is an error, and changes nothing" \
    "5 TypeError 0 0 ValueError ValueError 0 True" <<'E'
s = m.session()
print(code(s.eval, [-1]), code(s.eval, [1.5, 2]), code(s.eval, [2**40]), code(m.decode, [2**32]),
      code(s.eval, [[1, 2], [3, 4]]), code(s.eval, []), len(s),
      (s.eval(ids) == m.session().eval(ids)).all())
E
py "nor is another file, or text, used than the one named" "ValueError 3 ValueError ValueError 3" <<'E'
def kind(f, *a, **k):
    try:
        return f(*a, **k)
    except Exception as e:
        return type(e).__name__
s = m.session()
print(kind(qwen.Model, demo + "\0x"), len(s.eval(ids[:3], logits="all")),
      kind(s.rewind, -1), kind(s.trace, ids, "embed", at=[-1]), s.rewind(3))
E
py "what is closed raises" "closed closed closed closed
closed closed closed" <<'E'
def kind(f, *a):
    try:
        f(*a)
    except qwen.Error as e:
        return str(e).split()[-1]
s = m.session()
s.eval(ids)
g, d = s.generate(5), m.decode_each(iter([1, 2, 3]))
next(g), next(d)
s.close()
show([kind(next, g), kind(s.eval, ids), kind(len, s), kind(s.fork)])
m.close()
show([kind(next, d), kind(m.encode, "a"), kind(m.chat, [])])
E
py "closing a model closes its sessions, in any order" "done" <<'E'
s, t = m.session(), m.session()
s.eval(ids)
g = t.fork().generate(3)
m.close()
m.close()
s.close()
del s, t, g, m
with qwen.Model(demo) as n, n.session() as u:
    u.eval(ids)
print("done")
E
done_testing
