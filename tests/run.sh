#!/bin/sh
# Runs all test programs and scripts, counts their TAP lines, and ends with
# "N passed, N failed".  A program that dies, or breaks its plan, is a failure.
# tests/README.md says what each test tests.
#   tests/run.sh [NAME...]     only tests whose path contains a NAME
#   JOBS=N tests/run.sh        N tests at a time; default: one more than there are
#                              processors, as some tests wait
#   SEED=N tests/run.sh        the seed of all random choices
#   LEVEL=avx2 tests/run.sh    the tools with QWEN_CPU=avx2, or another level
#   CARD=y tests/run.sh        tests of cards on a real one, not on the fake driver
#   SLOW=N tests/run.sh        at the end, the N slowest tests: seconds of wall
#                              clock, and of processor time
B=${B:-build}; BIN=${BIN:-bin}
case $B in /*) ;; *) B=$PWD/$B ;; esac
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
export B BIN
TOP=$PWD; export TOP
PATH=$BIN:$PATH; export PATH
unset QWEN_STORE QWEN_CPU QWEN_DEVICE
# without this, each tool would print a note that it uses the demo model
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
[ -z "$LEVEL" ] || export QWEN_CPU="$LEVEL"
# A service manager may ignore SIGPIPE, and a shell cannot undo that.
[ -n "$RUN_PIPE" ] || ! env --default-signal=PIPE true 2>/dev/null ||
    RUN_PIPE=1 exec env --default-signal=PIPE sh "$0" "$@"
# Other settings of the caller that would change results: the order of names, the
# modes of files, the output of cd.
LC_ALL=C; export LC_ALL
unset CDPATH ENV BASH_ENV GREP_OPTIONS POSIXLY_CORRECT
umask 022
# The same random choices in every check, others in every long check.
[ -n "$QPIPE_LONG" ] && SEED=${SEED:-$(date +%s)}
SEED=${SEED:-1}; export SEED
LOG=$(mktemp -d) || exit 1
export LOG
trap 'rm -rf "$LOG"' EXIT
: >"$LOG/took"; : >"$LOG/tally"
# Slow tests start first, so that none runs alone at the end.
for t in tests/cli/arm64.t tests/cli/cuda.t tests/cli/qserve-clients.t tests/golden/guesses.c \
    tests/golden/same_bits.c tests/unit/chat_cost.c tests/cli/qbench.t \
    tests/cli/resume.t tests/cli/man.t tests/cli/install.t tests/cli/qbatch.t \
    tests/cli/memory-tables.t tests/cli/gguf-fetch-*.t \
    tests/unit/*.c tests/kernel/*.c tests/golden/*.c tests/cuda/*.c \
    tests/cli/*.t; do
	case $t in */emu.c | */fake.c) continue ;; esac
	hit=$#
	for n; do case $t in *"$n"*) hit=0 ;; esac; done
	[ $hit != 0 ] || [ ! -e "$t" ] || echo "$t"
done | awk '!seen[$0]++' >"$LOG/tests"
xargs -n 1 -P "${JOBS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}" \
    sh "$TOP/tests/one.sh" <"$LOG/tests"
[ -z "$SLOW" ] || sort -k 1,1nr -k 3,3nr "$LOG/took" | head -n "$SLOW"
[ "$SEED" = 1 ] || echo "seed: SEED=$SEED"
# repeat failures at the end, where they are seen in a truncated log
[ ! -e "$LOG/failed" ] || { echo "failed:"; cat "$LOG/failed"; }
# a test without a line in tally died with its shell
awk '{ pass += $1; skip += $2; fail += $3 }
    END {
	fail += '"$(wc -l <"$LOG/tests")"' - NR
	printf "%d passed, %d failed", pass, fail
	if (skip)
		printf ", %d skipped", skip
	print ""
	exit fail > 0
    }' "$LOG/tally"
