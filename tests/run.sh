#!/bin/sh
# Run every test program and script, count their TAP lines, and close with
# "N passed, N failed".  A program that dies, or breaks its plan, is a failure.
#   tests/run.sh [NAME...]     only those whose path contains a NAME
#   SEED=N tests/run.sh        what is drawn at random is drawn from N
#   SLOW=N tests/run.sh        at the end, the N that took longest: seconds by
#                              the clock, and of processor time
B=${B:-build}; BIN=${BIN:-bin}
case $B in /*) ;; *) B=$PWD/$B ;; esac
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
export B BIN
TOP=$PWD; export TOP
PATH=$BIN:$PATH; export PATH
unset QWEN_MODEL QWEN_STORE QWEN_CPU
# A service manager may have SIGPIPE ignored, which a shell cannot take back.
[ -n "$RUN_PIPE" ] || ! env --default-signal=PIPE true 2>/dev/null ||
    RUN_PIPE=1 exec env --default-signal=PIPE sh "$0" "$@"
# What else of the caller's the tests could meet: the order of names, the modes
# of files, what cd prints.
LC_ALL=C; export LC_ALL
unset CDPATH ENV BASH_ENV GREP_OPTIONS POSIXLY_CORRECT
umask 022
# The same choices in every check, other ones in every long check.
[ -n "$QPIPE_LONG" ] && SEED=${SEED:-$(date +%s)}
SEED=${SEED:-1}; export SEED
pass=0 fail=0 skip=0
log=$(mktemp -d) || exit 1
trap 'rm -rf "$log"' EXIT
: >"$log/slow"
for t in tests/unit/*.c tests/kernel/*.c tests/golden/*.c tests/cli/*.t; do
	[ -e "$t" ] || continue
	if [ $# -gt 0 ]; then
		hit=
		for n; do case $t in *"$n"*) hit=1 ;; esac; done
		[ -n "$hit" ] || continue
	fi
	scratch=$log/scratch
	rm -rf "$scratch"; mkdir "$scratch"
	date +%s >"$log/times"; times >>"$log/times"
	case $t in
	*.c) TMPDIR=$scratch "$B/${t%.c}" </dev/null >"$log/out" 2>"$log/err" ;;
	*) (cd "$scratch" && TMPDIR=$scratch sh "$TOP/$t" </dev/null) >"$log/out" 2>"$log/err" ;;
	esac
	rc=$?
	date +%s >>"$log/times"; times >>"$log/times"
	# each time: the clock; the shell's own; that of processes that ended
	awk -v t="$t" '{ gsub(/[ms]/, " ") } NR % 3 == 1 { clock = $1 - clock }
	    NR % 3 == 0 { used = 60 * ($1 + $3) + $2 + $4 - used }
	    END { printf "%5d s %7.1f s  %s\n", clock, used, t }' \
	    "$log/times" >>"$log/slow"
	ok=$(grep -c '^ok ' "$log/out")
	sk=$(grep -c '^ok .*# [Ss][Kk][Ii][Pp]' "$log/out")
	bad=$(grep -c '^not ok ' "$log/out")
	plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log/out" | tail -n 1)
	note=
	if [ -z "$plan" ] || [ "$plan" != $((ok + bad)) ]; then
		bad=$((bad + 1)); note=" (plan ${plan:-missing}, ran $((ok + bad - 1)), status $rc)"
	elif [ $rc != 0 ] && [ "$bad" = 0 ]; then
		bad=1; note=" (exit status $rc)"
	fi
	printf '%-40s %4d ok' "$t" "$ok"
	[ "$sk" = 0 ] || printf ', %d skipped' "$sk"
	[ "$bad" = 0 ] || printf ', %d FAILED%s' "$bad" "$note"
	echo
	if [ "$bad" != 0 ]; then
		grep '^not ok ' "$log/out" | head -n 20
		head -n 40 "$log/err" | sed 's/^/    /'
	fi
	grep '^ok .*# [Ss][Kk][Ii][Pp]' "$log/out" | sed 's/^/    /'
	pass=$((pass + ok - sk)); fail=$((fail + bad)); skip=$((skip + sk))
done
[ -z "$SLOW" ] || sort -k 1,1nr -k 3,3nr "$log/slow" | head -n "$SLOW"
[ "$SEED" = 1 ] || echo "seed: SEED=$SEED"
[ "$skip" = 0 ] && echo "$pass passed, $fail failed" ||
    echo "$pass passed, $fail failed, $skip skipped"
[ "$fail" = 0 ]
