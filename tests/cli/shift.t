#!/bin/sh
# --shift: the continuation after a full context is bit for bit that of the
# shortened text.
. "$TOP/tests/cli/tap.sh"

# --- qdecode: 4080 tokens and 16 more fill it; 8 first ones and 2044 stay
full=4096 keep=8 newer=2044
ids 4080 "$SEED" 400 >ids
for m in qwen3 qwen35moe-ud; do
	model $m
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	qdecode -q -n 60 --ignore-eos --shift $keep -o far -f text <ids >out
	is "$? $(wc -l <out | tr -d ' ')" "0 60" "$m: generation goes on"
	qdecode -n 60 --ignore-eos -f text <ids >short
	is "$(wc -l <short | tr -d ' ') $(head -n 16 out | cmp - short)" "16 " \
	    "$m: up to there, what comes without --shift"
	cat ids short >all
	{ head -n $keep all; tail -n $newer all; } >stays
	# the token after the last that fitted was chosen by what is dropped
	sed -n 17p out >>stays
	qprefill -o begun <stays >/dev/null
	qdecode -n 43 --ignore-eos -s begun -o want -f text </dev/null >rest
	is "$(sed 1,17d out | cmp - rest)" "" "$m: then, what comes after what stays"
	qstate diff far want >&2
	ok $? "$m: the state is of what stays and came then"
	for how in none lookup:4; do
		qdecode -q -n 60 --ignore-eos --draft $how --shift $keep -t 1 \
		    -o again -f text <ids | cmp -s - out &&
		    qstate diff again far
		ok $? "$m: with --draft $how"
	done
	qdecode -n 60 --ignore-eos -f text <ids 2>err >/dev/null
	is "$(cat err)" "qdecode: the context of $full tokens is full; --shift continues" \
	    "$m: without it, that it ends there is said"
	qdecode -n 60 --ignore-eos --shift $keep -f text <ids 2>err >/dev/null
	is "$(cat err)" "qdecode: the context is full: $((full - keep - newer)) tokens after the first $keep are dropped, $((keep + newer)) are read again" \
	    "$m: that is said"
	is "$(qstate show far | awk '$1 == "generated" { print $2, $3 }')" "2036 60" \
	    "$m: what was generated is noted at its new place"
done
qdecode -q -n 2100 --ignore-eos --shift 0 -f text <ids >out 2>err
is "$? $(wc -l <out | tr -d ' ')" "0 2100" "twice"
refused 2 "a beginning that fills it" qdecode --shift 4095 -n 3 -s far
refused 2 "with --logits" qdecode --shift 4 --logits -s far
refused 2 "with --save-every" qdecode --shift 4 --save-every 1 -o x -s far
{ cat ids; cat ids; } >long
refused 1 "a prompt that does not fit" sh -c 'qdecode --shift 4 <long'

# --- a state with images: what the kept text has of them is dropped
for python in python3 /usr/bin/python3 ''; do
	[ -n "$python" ] && $python -c 'import numpy' 2>/dev/null && break
done
if [ -n "$QPIPE_SAN" ] || [ -z "$python" ]; then
	skip "a state with images" "needs python3 with numpy, and no sanitizer"
else
	model qwen3
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	PYTHONPATH=$TOP/python PYTHONDONTWRITEBYTECODE=1 $python - <<'E'
import ctypes as C, os
import numpy as np, qwen
class Span(C.Structure):
    _fields_ = [("start", C.c_uint64), ("n", C.c_uint64), ("grid", C.c_uint64),
                ("hash", C.c_ubyte * 16)]
class Rows(C.Structure):
    _fields_ = [("span", Span), ("rows", C.c_void_p)]
m = qwen.Model(os.environ["QWEN_MODEL"])
ids = np.loadtxt("ids", np.int32)
row = np.full((12, m.n_embd), 0.01, np.float32)
spans = (Rows * 3)(*[Rows(Span(start, n, 0, (C.c_ubyte * 16)(n)), row.ctypes.data)
                     for start, n in ((4, 9), (2047, 12), (3000, 6))])
for p in spans:
    for i in range(p.span.n):
        ids[p.span.start + i] = C.CDLL(None).qwen_span_id(C.byref(p.span), C.c_uint64(i))
s = m.session()
how = qwen._Eval(spans=C.addressof(spans), n_spans=3)
qwen._q.session_eval(s._s, ids.ctypes.data, len(ids), C.byref(how))
s.save("images")
np.savetxt("all", ids, "%d")
E
	qdecode -n 60 --ignore-eos --shift $keep -s images -o far -f text </dev/null \
	    2>err >out
	is "$? $(wc -l <out | tr -d ' ') $(sed -n 2p err)" \
	    "0 60 qdecode: 17 of these are rows of images and are dropped too: a state does not hold images" \
	    "a state with images: generation continues without them, and says so"
	head -n 16 out >>all
	{ head -n $keep all; tail -n $newer all; sed -n 17p out; } | grep -v - >stays
	qprefill -o begun <stays >/dev/null
	qdecode -n 43 --ignore-eos -s begun -o want -f text </dev/null >rest
	is "$(sed 1,17d out | cmp - rest)" "" "then, what comes after the kept text"
	qstate diff far want >&2
	ok $? "the state is of that text"
	is "$(qstate show far | awk '$1 == "generated" { print $2, $3 }')" "2019 60" \
	    "what was generated is noted at its new place"
fi

# --- qchat: a context of 320 tokens, by --mem
for m in qwen3 qwen35moe-ud; do
	model $m
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	mem=$(qchat --mem 1 --template qwen3 </dev/null 2>&1 | sed -n 's/.*give at least \([0-9]*\).*/\1/p')
	state=$(qbatch -v --mem 1G </dev/null 2>&1 |
	    sed -n 's/.* and \([0-9.]*\) KiB for each 16 tokens.*/\1/p')
	mem=$(awk -v m="$mem" -v k="$state" 'BEGIN { printf "%d", m + 19 * k * 1024 }')
	is "$(echo /tokens | qchat --mem "$mem" --template qwen3 2>&1)" "0 of 320 tokens" \
	    "$m: --mem $mem has room for 320 tokens"
	said='Some thirty words that are said again and again, so that what is said fills the context'
	{ for i in 1 2 3 4 5 6 7; do echo "$i. $said"; done; echo '/save chat.json'; } >in
	qchat --mem "$mem" -n 12 --shift --template qwen3 --system 'Be brief.' <in >out 2>err
	is "$? $(wc -l <out | tr -d ' ')" "0 7" "$m: qchat --shift answers all"
	dropped=$(sed -n 's/.*the oldest \([0-9]*\) messages are dropped.*/\1/p' err |
	    awk '{ s += $1 } END { print s + 0 }')
	is "$(jq '.messages | length' chat.json)" $((15 - dropped)) "$m: $dropped messages are dropped"
	[ "$dropped" -gt 0 ]
	ok $? "$m: some are: $(cat err)"
	is "$(jq -r '.messages[:2] | map(.role + " " + .content[:9]) | join(", ")' chat.json)" \
	    "system Be brief., user $((dropped / 2 + 1)). Some t" "$m: by whole turns, after the system's text"
	jq -c '.messages |= .[:-1]' chat.json >asked
	is "$(jq -c '.messages[-1] | del(.role)' chat.json)" \
	    "$(qtok --chat --template qwen3 asked | qdecode -n 12 | qtok -d |
	    qtok --parse --template qwen3 | jq -c 'del(.role)')" \
	    "$m: the answer is that to a conversation of what stays"
	qchat --mem "$mem" -n 12 --template qwen3 <in >out 2>err
	is "$(grep -c 'which take [0-9.]* MiB of memory, but [0-9.]* are available' err)" \
	    "$((7 - $(wc -l <out)))" "$m: without, what does not fit is refused with both numbers"
done
done_testing
