#!/bin/sh
# A state saved over an older one: if the tool is killed at any moment, or the
# disk is full at any byte, the file is the old state or the new one.
. "$TOP/tests/cli/tap.sh"

# run N FILE: writes FILE, which is to hold then what is in new.N; it runs
# under the command $under
run() {
	case $1 in
	1) $under qprefill -s old.cbor -o "$2" <more >/dev/null ;;
	2) $under qprefill --no-compress -t 2 -o "$2" <ids >/dev/null ;;
	3) $under qstate pack --no-compress -o "$2" long.cbor ;;
	4) $under qstate slice -n 100 -o "$2" long.cbor ;;
	5) $under qdecode -s long.cbor -n 3 -o "$2" </dev/null >/dev/null ;;
	esac
}
N=5 under=

# full: S is written until there is no room; what comes of it, a line each:
# which command, its status, the lines it said, which state there is, litter
full() {
	cp old.cbor "$1/S" || return
	run $c "$1/S" 2>"$2"
	status=$?
	if cmp -s "$1/S" old.cbor; then
		state=old
	elif cmp -s "$1/S" new.$c; then
		state=new
	else
		state=wrong
	fi
	echo "$c $status $(wc -l <"$2") $state $(ls -A "$1" | grep -c tmp)"
}

# inside: mounts are seen by this process alone, and go with it
if [ "$1" = inside ]; then
	mkdir -p disk
	for c in 1 2 3 4 5; do
		# the old state, and a part of the new one
		a=$(($(wc -c <old.cbor) / 4096 + 1))
		b=$(($(wc -c <new.$c) / 4096 + 1))
		i=0
		while [ $i -le "$sizes" ]; do
			mount -t tmpfs -o size=$(((a + b * i / sizes) * 4))k \
			    none disk || exit 77
			full disk warnings
			umount disk
			i=$((i + 1))
		done
	done
	exit 0
fi

model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
tr ' ' '\n' <"$TOP/tests/golden/models/qwen35moe-ud/tokens-n600.txt" >all
head -n 150 all >ids
tail -n 20 all >more
head -n 40 all | qprefill -o old.cbor >/dev/null
qprefill --checkpoint-at 100 -o long.cbor <ids >/dev/null
c=1
while [ $c -le $N ]; do
	run $c new.$c
	ok $? "command $c: $(wc -c <new.$c) bytes"
	c=$((c + 1))
done

# --- signals, in a time that shrinks with each run that ended first; what was
# killed by KILL leaves a temporary, which the next run takes over
kills=${QPIPE_LONG:+20}
kills=${kills:-2}
ids $((2 * N * 20 * kills)) "$SEED" 1000 >moments
killed=0 ended=0 old=0 wrong=0 ms=60
exec 3<moments
for c in 1 2 3 4 5; do
	for sig in KILL TERM; do
		row=0
		while [ $row -lt $kills ] && read -r part <&3; do
			cp old.cbor S
			at=$(printf %03d $((1 + ms * part / 1000)))
			under="timeout --foreground -s $sig 0.$at"
			run $c S 2>err
			case $?,$sig in
			137,KILL | 124,TERM)
				killed=$((killed + 1)) row=$((row + 1))
				ms=$((ms * 9 / 8 + 1)) ;;
			0,* | 124,KILL)
				ended=$((ended + 1)) ms=$((ms * 3 / 4)) ;;
			*)	wrong=$((wrong + 1)); cat err >&2 ;;
			esac
			[ $ms -lt 900 ] || ms=900
			[ $sig = KILL ] || [ ! -e .S.qpipe-tmp ] || {
				echo "a temporary is left" >&2
				wrong=$((wrong + 1))
			}
			if cmp -s S old.cbor; then
				old=$((old + 1))
			else
				cmp -s S new.$c || wrong=$((wrong + 1))
			fi
		done
		under=
		run $c S
		cmp -s S new.$c && [ ! -e .S.qpipe-tmp ]
		ok $? "command $c, when nobody kills it, after SIG$sig"
	done
done
is "$killed killed, $wrong wrong" "$((2 * N * kills)) killed, 0 wrong" \
    "$ended ended, $old times the old state was there"

# --- a file that may not grow beyond any size
mkdir here
steps=${QPIPE_LONG:+100}
c=1
while [ $c -le $N ]; do
	blocks=$(($(wc -c <new.$c) / 512 + 1))
	i=0
	while [ $i -lt "${steps:-8}" ]; do
		# what is said goes through a pipe: the limit is for files
		(trap '' XFSZ; cp old.cbor here/S
		    ulimit -f $((blocks * i / ${steps:-8}))
		    run $c here/S 2>&1; echo "status $?") | cat >said
		[ "$(wc -l <said)" = 2 ] && grep -q 'status 1' said &&
		    cmp -s here/S old.cbor && [ "$(ls -A here)" = S ] ||
		    cat said
		i=$((i + 1))
	done
	c=$((c + 1))
done >bad
is "$(cat bad)" "" "no room for more than $((N * ${steps:-8})) sizes: one \
line, the old state, no litter"

# --- a disk that is full
sizes=${QPIPE_LONG:+100}; sizes=${sizes:-7}; export sizes
if ! unshare -rm true 2>/dev/null; then
	skip "a full disk" "no mounts of one's own here"
	done_testing
fi
unshare -rm sh "$TOP/tests/cli/save-faults.t" inside >log
rc=$?
if [ $rc = 77 ]; then
	skip "a full disk" "no tmpfs here"
	done_testing
fi
is "$rc $(wc -l <log)" "0 $((N * (sizes + 1)))" "commands on disks of many sizes"
is "$(grep -v -e '^[0-9] 1 1 old 0$' -e '^[0-9] 0 0 new 0$' log)" "" \
    "an error and the old state, or the new state"
[ "$(grep -c old log)" -ge $((N * sizes / 2)) ]
ok $? "$(grep -c old log) times it was full"
done_testing
