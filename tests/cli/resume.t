#!/bin/sh
# qdecode --save-every: if it is killed at any moment, the same command resumes,
# and the last run prints what an uninterrupted run prints.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
n=300 m=600 kills=50
[ -z "$QPIPE_LONG" ] || kills=200
[ -z "$QPIPE_SAN" ] || n=60 m=300 kills=10
# hot enough for characters of several tokens, and with memory
hot="--temp 3 --seed 5 --repeat-penalty 1.1
    --frequency-penalty 0.02 --penalty-last-n 100 --penalty-prompt"
printf 'Gr\303\274\303\237 Gott \342\202\254\360\237\230\200 and said' |
    qtok | qprefill -o base >/dev/null

# go ARGUMENTS...: the command that is killed and given again
go() {
	# shellcheck disable=SC2086
	qdecode -n $n --ignore-eos --save-every 0.01 -f text $hot "$@"
}
# shellcheck disable=SC2086
qdecode -s base -n $n --ignore-eos -f text $hot -o want.end -v </dev/null \
    >want 2>err
time=$(sed -n 's/.*generated in \([0-9.]*\) s.*/\1/p' err)
is "$(wc -l <want) of $n" "$n of $n" "a run that nobody kills, $time s"
more=$(qtok -d <want | LC_ALL=C tr -d '\000-\177' | wc -c)
[ -n "$QPIPE_SAN" ] || [ "$more" -gt 0 ]
ok $? "with $more bytes that are not ASCII"

# --- kill -9 at random moments: before it starts, while it reads, generates or
# saves, after the end.  No two machines take the same time, nor does one twice:
# the moments are parts of a time that shrinks with each run that ended first.
# In the foreground, timeout waits for what it has killed.
ms=$(awk -v t="$time" 'BEGIN { print int(30 + 1500 * t) }')
killed=0 ran=0 wrong=0 failed=0 longest=0 row=0
cp base S
ids $((20 * kills)) "$SEED" 1000 >moments
while [ $killed -lt $kills ] && read -r part; do
	at=$((1 + ms * part / 1000))
	timeout --foreground -s KILL $((at / 1000)).$(printf %03d $((at % 1000))) \
	    qdecode -s S -o S -n $n --ignore-eos --save-every 0.01 -f text \
	    $hot </dev/null >got 2>err
	case $? in
	0 | 124) # the latter: it ended while it was about to be killed
		ran=$((ran + 1)) ms=$((ms * 3 / 4))
		cmp -s got want || wrong=$((wrong + 1))
		cp base S; row=0 ;;
	137)	killed=$((killed + 1)) row=$((row + 1)) ms=$((ms * 17 / 16 + 1))
		[ $row -le $longest ] || longest=$row
		head -c "$(wc -c <got)" want | cmp -s - got ||
		    wrong=$((wrong + 1)) ;;
	*)	failed=$((failed + 1)); cat err >&2 ;;
	esac
done <moments
is "$wrong wrong, $failed failed, $killed killed" \
    "0 wrong, 0 failed, $kills killed" \
    "up to $longest in a row, $ran at the end"
go -s S -o S </dev/null >got
cmp got want >&2
ok $? "the one after the last"
is "$(ls -A | grep -c qpipe-tmp)" 0 "no temporary is left"
qdecode -s S -n 40 --resume -f text </dev/null >got
qdecode -s want.end -n 40 --resume -f text </dev/null >more
cmp -s got more
ok $? "and its state goes on like that of the whole run"

# --- finished: printed, and nothing computed or written
before=$(ls -i S) && cp S S.copy
go -s S -o S -v </dev/null >got 2>err
cmp -s got want
ok $? "a finished run is printed again"
is "$(grep -c -e ' tok/s' -e saved -e GMAC err)" 0 "nothing is computed"
[ "$(ls -i S)" = "$before" ] && cmp -s S S.copy && [ ! -e .S.qpipe-tmp ]
ok $? "the file is not touched"
go -s S -o S </dev/null 2>/dev/null | head -n 3 >got
head -n 3 want | cmp -s - got
ok $? "also for a reader who wants three tokens"
go -s S -o S -t 1 --no-compress </dev/null >got
cmp -s got want
ok $? "threads and form of the file make no other run"
qdecode -s S -o S -n $n --ignore-eos --save-every 0.01 -f json \
    $hot </dev/null | jq -r '.tokens[]?' >got
cmp -s got want
ok $? "nor does the form of what is printed"
qdecode -s S -o S -n $n --ignore-eos --save-every 9 --resume -f text </dev/null >got
cmp -s got want
ok $? "nor how the options were given"

# --- another one
qdecode -s base -n $((2 * n)) --ignore-eos -f text $hot </dev/null |
    tail -n $n >second
go -s S -o S --new-run </dev/null >got
cmp got second >&2
ok $? "--new-run goes on after the finished one"
go -s S -o S </dev/null >got
cmp -s got second
ok $? "and is the one that is there from then on"
qdecode -s S -o T -n 9 -f text </dev/null >ninth
qdecode -s S -o S -n 9 --save-every 1 -f text </dev/null >got
cmp -s got ninth
ok $? "with other options, a finished run is the past"
qdecode -s S -o S -n 9 -f text </dev/null >next
cmp -s next ninth
[ $? = 1 ]
ok $? "without --save-every, every run is a new one"
qdecode -s S -o S -n 9 --save-every 1 -f text </dev/null >got
cmp -s next got
[ $? = 1 ]
ok $? "which is not taken for one that was recorded"

# --- unfinished
# broken FILE STDIN ARGUMENTS...: killed once it has saved, and not too late
broken() {
	file=$1 stdin=$2 tries=0
	shift 2
	rm -f old
	cp "$file" old
	while [ $tries -lt 50 ]; do
		before=$(ls -i "$file")
		qdecode -n $m --ignore-eos --save-every 0 -f text "$@" \
		    <"$stdin" >/dev/null &
		p=$!
		for _ in first second; do
			while [ "$(ls -i "$file")" = "$before" ]; do
				kill -0 $p || break
				sleep 0.01
			done
			before=$(ls -i "$file")
		done
		kill -9 $p
		wait $p
		LC_ALL=C grep -aq "finished$(printf '\364')" "$file" && return
		rm -f "$file"
		[ ! -e old ] || cp old "$file"
		tries=$((tries + 1))
	done
	echo "never broken off in time" >&3
} 3>&2 2>/dev/null
cp base S
broken S /dev/null -s S -o S --temp 2
cp S unfinished
go2() {
	qdecode -n $m --ignore-eos --save-every 9 --temp 2 -f text "$@"
}
refused 1 "an unfinished run with other options" \
    qdecode -s S -o S -n 5 --save-every 1 --temp 0.5 </dev/null
grep -q "'n=$m ignore-eos temp=2'.*'n=5 temp=0.5'.*--new-run" err
ok $? "the message names both, and the way out"
refused 1 "with other tokens on stdin" sh -c "echo 5 |
    qdecode -n $m --ignore-eos --temp 2 -s S -o S --save-every 1"
cmp -s S unfinished
ok $? "it stays as it was"
k=$(qprefill -s S -o T -f json </dev/null | jq -s '.[-1].n_tokens')
qdecode -s S -n 5 --temp 0.5 -f text </dev/null >five
qdecode -s S -o S -n 5 --temp 0.5 --save-every 1 --new-run -f text \
    </dev/null >got
cmp -s got five
ok $? "--new-run begins after it"
is "$(qprefill -s S -o T -f json </dev/null | jq -s '.[-1].n_tokens')" \
    $((k + $(wc -l <five))) "and its tokens stay"
cp unfinished S
qdecode -s base -n $m --ignore-eos --temp 2 -f text </dev/null >want2
go2 -s S -o S </dev/null >got
cmp -s got want2
ok $? "without it, it is gone on with"
go2 -s base -o whole </dev/null >got
cmp -s S whole
ok $? "and leaves the bytes that an undisturbed one leaves"
broken S /dev/null -s S -o S --temp 2 --new-run
cp S T
go2 -s S -o S --new-run </dev/null >got
go2 -s T -o T </dev/null >got2
[ "$(wc -l <got)" = $m ] && cmp -s got got2
ok $? "a command with --new-run can be killed and given again"
cp unfinished S
echo 9 | qprefill -s S -o S >/dev/null
qdecode -s S -n 5 -f text </dev/null >five
qdecode -s S -o S -n 5 --save-every 1 -f text </dev/null >got
cmp -s got five
ok $? "tokens read after it make it the past"

# --- tokens on stdin are read once
echo 11 22 33 >three
qdecode -s base -n $n --ignore-eos -f text $hot <three >want3
size=$(qprefill -s base -o T -f json <three | jq -s '.[-1].n_tokens')
cp base S
timeout --foreground -s KILL "$time" qdecode -s S -o S -n $n --ignore-eos \
    --save-every 0.01 -f text $hot <three >got 2>/dev/null
for stdin in file pipe; do
	case $stdin in
	file) go -s S -o S <three >got ;;
	pipe) cat three | go -s S -o S >got ;;
	esac
	cmp -s got want3
	ok $? "tokens on stdin, in a $stdin"
	is "$(qprefill -s S -o T -f json </dev/null | jq -s '.[-1].n_tokens')" \
	    $((size + n)) "are not appended twice"
done
qdecode -s S -n $n --ignore-eos -f text $hot <three >next
go -s S -o S --new-run <three >got
cmp -s got next
ok $? "but --new-run reads them again"
echo 11 22 34 | go -s S -o S >got
cmp -s got next
[ $? = 1 ]
ok $? "and other tokens are another run"

# --- -o is another file
rm -f S
broken S /dev/null -s base -o S --temp 2
cp S unfinished
go2 -s base -o S -v </dev/null >got 2>err
cmp -s got want2 && grep -q 'resuming its unfinished run' err
ok $? "-s A -o B: gone on with from B"
go2 -s base -o S -v </dev/null >got 2>err
cmp -s got want2 && ! grep -q ' tok/s' err
ok $? "a finished one is printed"
qdecode -s base -o S -n 5 --save-every 0 -v --new-run </dev/null 2>err >/dev/null
grep -q -e "saved 1 time during the run" -e "saved [2-5] times during the run" err
ok $? "-v tells how often it was saved"
cp unfinished S
go2 -s base -o S </dev/null >/dev/null
go2 -s base -o S -v --new-run </dev/null >got 2>err
cmp -s got want2 && grep -q ' tok/s' err
ok $? "--new-run: from A once more"
cp unfinished S
qdecode -s base -o S -n 5 --save-every 1 -f text </dev/null >got
qdecode -s base -n 5 -f text </dev/null >five
cmp -s got five
ok $? "other options: from A"
cp unfinished S; cp base other
echo 5 | qprefill -s base -o other >/dev/null
qdecode -s other -n $m --ignore-eos --temp 2 -f text </dev/null >want4
go2 -s other -o S </dev/null >got
cmp -s got want4
ok $? "another A: from that"
for damage in cut none text; do
	case $damage in
	cut) head -c 5000 unfinished >S ;;
	none) rm S ;;
	text) echo hello >S ;;
	esac
	go2 -s base -o S </dev/null >got 2>err
	cmp -s got want2
	ok $? "B damaged ($damage): from A"
done
refused 1 "A that is not there" qdecode -s nothing -o S -n $m --save-every 1

# --- from a pipe
printf 'And God said' | qtok >prompt
qdecode -n $m --ignore-eos --temp 2 -f text <prompt >want5
rm -f S
broken S prompt -o S --temp 2
go2 -o S -v <prompt >got 2>err
cmp -s got want5 && grep -q 'resuming' err && ! grep -q 'tokens read' err
ok $? "a prompt on stdin and no state"
rm -f S
qprefill <prompt >inband
broken S inband -o S --temp 2
cat inband | go2 -o S -v >got 2>err
cmp -s got want5 && grep -q 'resuming' err
ok $? "a state on stdin"
rm -f S
i=0
while [ $i -lt 4 ]; do
	qprefill -o P <prompt | timeout --foreground -s KILL "$time" qdecode -s P -o S \
	    -n $m --ignore-eos --save-every 0.01 --temp 2 >/dev/null
	i=$((i + 1))
done 2>/dev/null
qprefill -o P <prompt | go2 -s P -o S -v >got 2>err
cmp -s got want5 && grep -q ' its [a-z]* run of ' err
ok $? "qprefill upstream, again with each command"
qprefill -o S <prompt >ready
broken S ready -s S -o S --temp 2
cp S unfinished
go2 -s S -o S -v <ready >got 2>err
cmp -s got want5 && grep -q 'resuming' err
ok $? "the ready record of the state that it began with"
cp unfinished S
refused 1 "which is not there for another run" qdecode -s S -o S -n 5 \
    --save-every 1 <ready
grep -q 'was announced' err
ok $? "the message says so"
qprefill -o S <prompt | go2 -s S -o S -v >got 2>err
cmp -s got want5 && ! grep -q 'resuming' err
ok $? "upstream wrote over it: from the prompt"
cp unfinished S
refused 1 "upstream failed" sh -c "false | qdecode -s S -o S -n $m \
    --ignore-eos --temp 2 --save-every 1"

# --- other ends
# stopped once it has saved: from then on it holds the lock.  Should it be done
# before, again.
p=
while [ -z "$p" ]; do
	cp unfinished S
	before=$(ls -i S)
	qdecode -n $m --ignore-eos --temp 2 -s S -o S --save-every 0 <ready \
	    >/dev/null 2>&1 &
	p=$!
	while [ "$(ls -i S)" = "$before" ] && kill -0 $p 2>/dev/null; do
		sleep 0.01
	done
	kill -STOP $p 2>/dev/null
	sleep 0.1
	kill -0 $p 2>/dev/null || p=
done
refused 1 "two at the same time" qdecode -s S -o S -n $m --save-every 1 \
    </dev/null
grep -q 'another process is writing it' err
ok $? "the message says so"
kill -9 $p; wait $p 2>/dev/null
for sig in TERM HUP; do
	if ignored $sig; then
		skip "SIG$sig" "it is ignored here"
		continue
	fi
	cp base S
	broken S /dev/null -s S -o S --temp 2
	qdecode -n $m --ignore-eos -f text --save-every 0 --temp 2 \
	    -s S -o S </dev/null >/dev/null &
	p=$!
	sleep 0.1
	kill -$sig $p 2>/dev/null
	wait $p 2>/dev/null
	[ ! -e .S.qpipe-tmp ] && go2 -s S -o S </dev/null >got
	cmp -s got want2
	ok $? "SIG$sig: no temporary, and the run is gone on with"
done
cp base S
refused 1 "a damaged S" sh -c 'head -c 9999 base >S
    exec qdecode -s S -o S -n 5 --save-every 1 </dev/null'
refused 1 "-o that is no regular file" qdecode -s base -o /dev/null -n 5 \
    --save-every 1 </dev/null
cp base S
is "$(qdecode -s S -o S -n 0 --save-every 1 -f text <three | wc -l)" 0 "-n 0"
is "$(qdecode -s S -o S -n 0 --save-every 1 -f text <three | wc -l)" 0 "-n 0 again"
is "$(qprefill -s S -o T -f json </dev/null | jq -s '.[-1].n_tokens')" $size \
    "reads what is on stdin once"
cp base S
qdecode -s S -o S --temp 1 --seed 8 --save-every 0 -f text </dev/null >got
qdecode -s base --temp 1 --seed 8 -f text </dev/null >end
cmp -s got end && [ "$(wc -l <end)" -lt 3500 ]
ok $? "it ends where the text does"
qdecode -s S -o S --temp 1 --seed 8 --save-every 0 -f text </dev/null >got
cmp -s got end
ok $? "and stays ended"

# --- a full disk
mkdir disk
size=$(wc -c <want.end)
if [ "$(id -u)" = 0 ] &&
    mount -t tmpfs -o size="$((size * 6 / 4096 * 4))k" none disk 2>/dev/null
then
	cp base disk/S
	# room for half a state; with checkpoints it is up to three times this
	head -c "$((size * 9 / 2))" /dev/zero >disk/ballast
	go -s disk/S -o disk/S </dev/null >got 2>err
	status=$?
	cmp -s got want
	is "$?, $status, $(grep -c 'No space left' err)" "0, 1, 2" \
	    "a full disk: the tokens all the same, one note, and an error"
	go -q -s disk/S -o disk/S </dev/null >got 2>err
	is "$?, $(wc -l <err) line" "1, 1 line" "with -q one line"
	is "$(ls -A disk | xargs)" "S ballast" "nothing half-written"
	rm disk/ballast
	go -s disk/S -o disk/S </dev/null >got
	is "$?" 0 "with room again it is saved"
	cmp -s got want
	ok $? "and has the same tokens"
	go -s disk/S -o disk/S -v </dev/null 2>&1 >/dev/null |
	    grep -q 'finished run'
	ok $? "and is there"
	umount disk
else
	skip "a full disk" "no tmpfs can be mounted"
fi

# --- the command line
refused 2 "--save-every without -o" qdecode -s base --save-every 1
refused 2 "--new-run without --save-every" qdecode -s base -o S --new-run
refused 2 "--save-every and --logits" qdecode --logits -s base -o S \
    --save-every 1
refused 2 "--save-every that is no number" qdecode -s base -o S --save-every x
refused 2 "--save-every below 0" qdecode -s base -o S --save-every -1
done_testing
