#!/bin/sh
# Memory runs out anywhere in any tool: one line that says so, status 1, nothing
# half-done.  tests/faults/inject.c does this, and prints the results.
. "$TOP/tests/cli/tap.sh"
inject=$B/tests/faults/inject preload=$B/tests/faults/preload.so
case $QPIPE_SAN in
asan | tsan)
	skip "out of memory" "the sanitizer has an allocator of its own"
	done_testing ;;
esac
case $(${CC:-cc} -dumpmachine) in
*-linux-gnu*) ;;
*)
	skip "out of memory" "not glibc"
	done_testing ;;
esac
if [ ! -e "$preload" ] || [ ! -e "$inject" ]; then
	ok 1 "$preload and inject are there: make tests"
	done_testing
fi
. "$TOP/tests/faults/inputs.sh"
FAULTS=${QPIPE_LONG:+8192}
FAULTS=${FAULTS:-12}; export FAULTS
exec "$inject" "$preload" "$TOP/tests/faults/commands"
