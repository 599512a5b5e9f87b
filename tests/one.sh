#!/bin/sh
# Runs one test for run.sh: prints its result, and appends the numbers of passed,
# skipped and failed checks to $LOG/tally, and its times to $LOG/took.
[ $# = 1 ] || exit 0
t=$1
d=$(mktemp -d "$LOG/XXXXXX") || exit 1
scratch=$d/scratch
mkdir "$scratch"
date +%s >"$d/times"; times >>"$d/times"
# A driver for machines without a card.
case $t in
tests/cuda/* | tests/cli/cuda*)
	[ -n "$CARD" ] || { LD_LIBRARY_PATH=$B/tests/cuda; export LD_LIBRARY_PATH; } ;;
esac
case $t in
*.c) TMPDIR=$scratch "$B/${t%.c}" </dev/null >"$d/out" 2>"$d/err" ;;
*) (cd "$scratch" && TMPDIR=$scratch sh "$TOP/$t" </dev/null) >"$d/out" 2>"$d/err" ;;
esac
rc=$?
date +%s >>"$d/times"; times >>"$d/times"
# each time: the clock; the shell's own; that of processes that ended
awk -v t="$t" '{ gsub(/[ms]/, " ") } NR % 3 == 1 { clock = $1 - clock }
    NR % 3 == 0 { used = 60 * ($1 + $3) + $2 + $4 - used }
    END { printf "%5d s %7.1f s  %s\n", clock, used, t }' \
    "$d/times" >>"$LOG/took"
ok=$(grep -c '^ok ' "$d/out")
sk=$(grep -c '^ok .*# [Ss][Kk][Ii][Pp]' "$d/out")
bad=$(grep -c '^not ok ' "$d/out")
plan=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$d/out" | tail -n 1)
note=
if [ -z "$plan" ] || [ "$plan" != $((ok + bad)) ]; then
	bad=$((bad + 1)); note=" (plan ${plan:-missing}, ran $((ok + bad - 1)), status $rc)"
elif [ $rc != 0 ] && [ "$bad" = 0 ]; then
	bad=1; note=" (exit status $rc)"
fi
{
	printf '%-40s %4d ok' "$t" "$ok"
	[ "$sk" = 0 ] || printf ', %d skipped' "$sk"
	[ "$bad" = 0 ] || printf ', %d FAILED%s' "$bad" "$note"
	echo
	if [ "$bad" != 0 ]; then
		grep -E '^(not ok |# )' "$d/out" | head -n 40
		head -n 40 "$d/err" | sed 's/^/    /'
	fi
	grep '^ok .*# [Ss][Kk][Ii][Pp]' "$d/out" | sed 's/^/    /'
} >"$d/said"
cat "$d/said"
[ "$bad" = 0 ] || cat "$d/said" >>"$LOG/failed"
echo "$((ok - sk)) $sk $bad" >>"$LOG/tally"
rm -rf "$d"
