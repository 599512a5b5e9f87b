#!/bin/sh
# Run every test program and script, count their TAP lines, and close with
# "N passed, N failed".  A program that dies, or breaks its plan, is a failure.
# tests/README.md says which test is of what.
#   tests/run.sh [NAME...]     only those whose path contains a NAME
#   JOBS=N tests/run.sh        N at a time, in place of one more than processors,
#                              for some wait
#   SEED=N tests/run.sh        what is drawn at random is drawn from N
#   LEVEL=avx2 tests/run.sh    the tools with QWEN_CPU=avx2; or another level
#   SLOW=N tests/run.sh        at the end, the N that took longest: seconds by
#                              the clock, and of processor time
B=${B:-build}; BIN=${BIN:-bin}
case $B in /*) ;; *) B=$PWD/$B ;; esac
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
export B BIN
TOP=$PWD; export TOP
PATH=$BIN:$PATH; export PATH
unset QWEN_STORE QWEN_CPU
# named, for otherwise each tool would note that no model was
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
[ -z "$LEVEL" ] || export QWEN_CPU="$LEVEL"
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
LOG=$(mktemp -d) || exit 1
export LOG
trap 'rm -rf "$LOG"' EXIT
: >"$LOG/took"; : >"$LOG/tally"
# Those that take long go first, so that none is left alone at the end.
for t in tests/cli/arm64.t tests/cli/qserve-clients.t tests/golden/guesses.c \
    tests/golden/same_bits.c tests/unit/chat_cost.c tests/cli/qbench.t \
    tests/cli/resume.t tests/cli/man.t tests/cli/install.t tests/cli/qbatch.t \
    tests/cli/memory-tables.t tests/cli/gguf-fetch-*.t \
    tests/unit/*.c tests/kernel/*.c tests/golden/*.c tests/cli/*.t; do
	hit=$#
	for n; do case $t in *"$n"*) hit=0 ;; esac; done
	[ $hit != 0 ] || [ ! -e "$t" ] || echo "$t"
done | awk '!seen[$0]++' >"$LOG/tests"
xargs -n 1 -P "${JOBS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}" \
    sh "$TOP/tests/one.sh" <"$LOG/tests"
[ -z "$SLOW" ] || sort -k 1,1nr -k 3,3nr "$LOG/took" | head -n "$SLOW"
[ "$SEED" = 1 ] || echo "seed: SEED=$SEED"
# again at the end, where it is seen in a log that was cut
[ ! -e "$LOG/failed" ] || { echo "failed:"; cat "$LOG/failed"; }
# a test that left no tally died with its shell
awk '{ pass += $1; skip += $2; fail += $3 }
    END {
	fail += '"$(wc -l <"$LOG/tests")"' - NR
	printf "%d passed, %d failed", pass, fail
	if (skip)
		printf ", %d skipped", skip
	print ""
	exit fail > 0
    }' "$LOG/tally"
