#!/bin/sh
# --nfc: text is normalised to NFC as by Python's unicodedata, however it is
# divided.
. "$TOP/tests/cli/tap.sh"
model qwen3
printf 'e\314\201' >nfd
printf '\303\251' >nfc
if ! qtok --nfc nfd >ids 2>err; then
	is "$? $(grep -c 'built without libunistring' err)" "1 1" "a build without libunistring says so"
	skip "--nfc" "built without libunistring"
	done_testing
fi
qtok nfc >want
cmp -s ids want
ok $? "e and an accent are one character"
[ "$(qtok -f text nfd)" != "$(qtok -f text nfc)" ]
ok $? "which they are not without --nfc"

# what combines with > is no part of a control token before it
printf '<|im_end|>\314\270e\314\201<|im_end|>' >special
qtok --special --nfc -f text special >ids
printf '<|im_end|>\314\270\303\251<|im_end|>' | qtok --special -f text >want
is "$(cat ids)" "$(cat want)" "control tokens are found before"
printf '<|im_end|>\314\270' >s
printf '<|im_end|\342\211\257' | qtok -f text >want
is "$(qtok --nfc -f text s)" "$(cat want)" "where they are not control tokens, > combines"
for chat in '[{"role":"user","content":"cafe\u0301"}]' '[{"role":"user","content":"\u0301a\u0308"}]'; do
	c=$(printf %s "$chat" | python3 -c 'import json, sys, unicodedata as u
m = json.load(sys.stdin)
m[0]["content"] = u.normalize("NFC", m[0]["content"])
print(json.dumps(m))' 2>/dev/null) || continue
	is "$(printf %s "$chat" | qtok --chat --template qwen3 --nfc -f text)" \
	    "$(printf %s "$c" | qtok --chat --template qwen3 -f text)" "in a chat: $chat"
done

# bytes that are no UTF-8 stay, at the end and between
printf 'e\314' | qtok --nfc | qtok -d --bytes >out
is "$(od -An -c out | xargs)" 'e 314' "a character cut off at the end"
printf '\377e\314\201\300\200\355\240\200e\314' | qtok --nfc | qtok -d --bytes >out
printf '\377\303\251\300\200\355\240\200e\314' | cmp -s - out
ok $? "bytes that are not UTF-8"
: >empty
is "$(qtok --nfc -c empty)" "$(qtok -c empty)" "an empty text"

# -- many random texts, beside Python; each in one write, and byte after byte
if ! command -v python3 >/dev/null 2>&1; then
	skip "random texts" "no python3"
	done_testing
fi
cat >texts.py <<'E'
import random, sys, unicodedata as u
r = random.Random(int(sys.argv[1]))
n = int(sys.argv[2])
old = u.ucd_3_2_0	# what all versions of Unicode since have the same
chars = [c for c in map(chr, range(1, 0x110000)) if not 0xd800 <= ord(c) < 0xe000
    and old.category(c) != "Cn" and c != "\0"]
marks = [c for c in chars if u.combining(c)]
parts = [c for c in chars if u.decomposition(c) and u.normalize("NFD", c) != c]
jamo = list(map(chr, list(range(0x1100, 0x1113)) + list(range(0x1161, 0x1176)) + list(range(0x11a8, 0x11c3))))
hangul = list(map(chr, range(0xac00, 0xd7a4)))
def piece():
    k = r.randrange(9)
    if k == 0: return r.choice(chars)
    if k == 1: return u.normalize("NFD", r.choice(parts))
    if k == 2: return "".join(r.choice(marks) for _ in range(r.randrange(1, 5)))
    if k == 3: return "".join(r.choice(jamo) for _ in range(r.randrange(1, 5)))
    if k == 4: return u.normalize("NFD", r.choice(hangul))
    if k == 5: return r.choice(parts)
    if k == 6: return r.choice("aeiouAEIOUncs") + r.choice(marks)
    return r.choice(("the ", " ", "\n", "x = 1", ".", "<", ">", "42"))
a, b = open("as-is", "wb"), open("normal", "wb")
for _ in range(n):
    s = "".join(piece() for _ in range(r.randrange(1, 30)))
    a.write(s.encode() + b"\0")
    b.write(u.normalize("NFC", s).encode() + b"\0")
# and long ones: marks without end, in every order
s = "e" + "".join(r.choice(marks) for _ in range(20000)) + "\uac00\u11a8" * 9000
a.write(s.encode() + b"\0")
b.write(u.normalize("NFC", s).encode() + b"\0")
E
n=2000
[ -z "$QPIPE_LONG" ] || n=50000
python3 texts.py "$SEED" $n
qtok -0 --nfc -f text as-is >got
qtok -0 -f text normal >want
cmp -s got want
ok $? "$n random texts"
is "$(qtok -0 -f text as-is | cmp - want >/dev/null 2>&1; echo $?)" 1 "which differ without --nfc"
qtok -0 --nfc -f text normal >got
cmp -s got want
ok $? "what is in NFC stays"
head -c 20000 as-is | tr '\000' '\n' >one
qtok --nfc -f text one >want
python3 -c 'import os
d = open("one", "rb").read()
for i in range(len(d)):
    os.write(1, d[i:i + 1])' | qtok --nfc -f text >got
cmp -s got want
ok $? "byte after byte"
done_testing
