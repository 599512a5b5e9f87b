#!/bin/sh
# qprefill --save-every: killed or interrupted at any moment, -o holds a state
# whose continuation has the same bits.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
n=4000 kills=12
[ -z "$QPIPE_LONG" ] || kills=100
[ -z "$QPIPE_SAN" ] || n=2000 kills=3
ids $n "$SEED" 500 >ids

qprefill -o want <ids >/dev/null
qprefill -o S --save-every 0 -v <ids 2>err >/dev/null
cmp S want >&2
ok $? "at the end the bytes are those of a run without"
grep -q 'saved [0-9]* times during the run, in [0-9.]* s, [0-9.]* MB$' err
ok $? "and -v tells how often it was saved: $(grep 'during the run' err)"
qprefill --no-compress -o want.raw <ids >/dev/null
qprefill --no-compress -o S --save-every 0 <ids >/dev/null
cmp S want.raw >&2
ok $? "also without compression"

# goes_on NAME: S, which was broken off, and the same tokens
goes_on() {
	qstate verify S >&2 && qstate pack -o packed S >&2
	ok $? "$1: it is whole, $(qstate show S | awk '/^tokens/ { print $2 }') tokens"
	qprefill --reuse S -o rest <ids >/dev/null
	qstate diff rest want >&2
	ok $? "and goes on to the same state"
	qprefill --reuse packed -o rest.packed <ids >/dev/null
	cmp rest rest.packed >&2
	ok $? "as what qstate pack makes of it does"
	qprefill -s rest --logits=last -f raw </dev/null >l1
	qprefill -s want --logits=last -f raw </dev/null >l2
	[ -s l1 ] && cmp l1 l2 >&2
	ok $? "with the same logits"
}

# start OPTIONS: in the background; then what it is after two saves or the end
start() {
	rm -f S
	qprefill -o S "$@" <ids >/dev/null 2>err &
	pid=$!
	while kill -0 $pid 2>/dev/null && [ ! -s S ]; do
		sleep 0.01
	done
	first=$(wc -c <S)
	while kill -0 $pid 2>/dev/null && [ "$(wc -c <S)" = "$first" ]; do
		sleep 0.01
	done
}

# --- what was saved in steps stands there until the end takes its place
got=0
for i in 1 2 3 4 5; do
	start --save-every 0
	kill -KILL $pid 2>/dev/null
	wait $pid
	if [ $? = 137 ]; then
		got=1
		break
	fi
done
if [ $got = 1 ]; then
	goes_on "kill -9"
	cat S | qdecode -n 1 >/dev/null 2>err
	is "$?, $(grep -c 'saved in steps' err)" "1, 1" "through a pipe it is refused"
	[ ! -e .S.qpipe-tmp ] || rm .S.qpipe-tmp
	size=$(wc -c <S)
	head -c $((size - 1)) S >T && mv T S
	goes_on "and with its last byte missing"
else
	skip "kill -9" "it always ended first"
fi

# --- Ctrl-C; a shell's background ignores SIGINT, so something else starts it
cat >interrupt.py <<'P'
import os, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
p = subprocess.Popen(sys.argv[3:], stdin=open("ids"), stderr=open("err", "w"),
    stdout=subprocess.DEVNULL, restore_signals=False)
if sys.argv[1] == "saved":	# or at once
    while p.poll() is None and not os.path.exists("S"):
        time.sleep(.01)
else:
    while p.poll() is None and not os.path.exists(".S.qpipe-tmp"):
        time.sleep(.01)
p.send_signal(getattr(signal, "SIG" + sys.argv[2]))
if sys.argv[1] == "twice":
    p.send_signal(signal.SIGTERM)
print(p.wait())
P
python3 -c '' 2>/dev/null && for sig in INT TERM; do
	want=-2
	[ $sig = INT ] || want=-15
	rm -f S
	got=$(python3 interrupt.py draft $sig qprefill -o S --save-every 1000)
	if [ "$got" = 0 ]; then
		skip "SIG$sig" "it ended first"
		continue
	fi
	is "$got" "$want" "SIG$sig ends it by that"
	is "$(grep -c 'tokens is saved; --reuse S resumes$' err)" 1 \
	    "one line says what there is: $(cat err)"
	is "$(ls -A | grep -c qpipe-tmp)" 0 "and no draft is left"
	goes_on "SIG$sig"
done
if python3 -c '' 2>/dev/null; then
	cp want S
	got=$(python3 interrupt.py twice INT qprefill -o S --save-every 1000)
	case $got in
	0) skip "two signals" "it ended first" ;;
	-2) skip "two signals" "it was saved in between" ;;
	*)	is "$got, $(ls -A | grep -c qpipe-tmp)" "-15, 0" \
		    "the second signal ends it at once, and no draft is left"
		cmp S want
		ok $? "and the file is what it was" ;;
	esac
fi
if python3 -c '' 2>/dev/null; then
	cp want S
	got=$(python3 interrupt.py draft INT qprefill -o S)
	case $got in
	0) skip "without" "it ended first" ;;
	*)	is "$got, $(ls -A | grep -c qpipe-tmp)" "-2, 0" \
		    "without --save-every SIGINT ends it at once"
		cmp S want
		ok $? "and the file is what it was" ;;
	esac
fi

# --- killed at random moments: what is there is a state, or nothing is
ids $kills "$SEED" 1000 >moments
bad=0 there=0
rm -f S
while read -r part; do
	timeout --foreground -s KILL 0.$(printf %03d $((part / 2 + 1))) \
	    qprefill -o S --save-every 0 <ids >/dev/null 2>&1
	[ -e S ] || continue
	there=$((there + 1))
	qstate verify S >&2 || bad=$((bad + 1))
	[ $((there % 3)) != 0 ] || rm S
done <moments
is "$bad" 0 "killed $kills times, $there states were there and whole"

# --- a disk that is full: the run ends as it would
if [ -w /dev/full ]; then
	refused 1 "no regular file" qprefill -o /dev/full --save-every 0 <ids
fi
(ulimit -f 100; trap '' XFSZ; qprefill -o S2 --save-every 0 <ids 2>err >/dev/null)
is "$?, $(grep -c 'not saved: .*; continuing$' err), $(ls -A | grep -c '^S2\|S2.qpipe')" "1, 1, 0" \
    "no room: noted once, and nothing is left: $(head -n 1 err)"

if python3 -c '' 2>/dev/null; then
	rm -f S .S.qpipe-tmp
	got=$(ulimit -f 100; trap '' XFSZ; python3 interrupt.py draft TERM \
	    qprefill -o S --save-every 0.2)
	[ "$got" = 1 ] && skip "no room at the end" "it ended first" ||
	    is "$got, $(tail -n 1 err | grep -c 'S: not saved: [^;]*$'), $(ls -A |
	    grep -c '^S$\|S.qpipe')" "-15, 1, 0" \
	    "nor when a signal asks for it, which is said"
fi

refused 2 "no -o" qprefill --save-every 1 <ids
refused 2 "-s and -o the same file" qprefill -s want -o want --save-every 1 <ids
done_testing
