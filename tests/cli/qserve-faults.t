#!/bin/sh
# qserve: allocations and system calls of the server that fail, during requests of
# all kinds, and engines that send invalid events, stop and die: no wrong answer,
# no crash.  tests/faults/server.py does this; make audit does it for longer.
#   RUNS=N SEED=N sh tests/run.sh qserve-faults     N runs of each kind
. "$TOP/tests/cli/tap.sh"
if ! command -v python3 >/dev/null 2>&1; then
	skip "qserve and what fails around it" "no python3"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
unset QSERVE_API_KEY
RUNS=${RUNS:-${QPIPE_LONG:+100}}
RUNS=${RUNS:-8}
PYTHONDONTWRITEBYTECODE=1 ENGINES_SECONDS=8
export RUNS PYTHONDONTWRITEBYTECODE ENGINES_SECONDS
# fails KIND [PRELOAD]
fails() {
	timeout 3000 python3 "$TOP/tests/faults/server.py" "$@" >got 2>told
	is "$? $(grep '^#' got | head -n 5)" "0 " "$(tail -n 1 got), of server.py $1"
	sed 's/^/# /' told >&2
}
case "$QPIPE_SAN $(uname -s)" in
' Linux')
	if [ -e "$B/tests/faults/preload.so" ]; then
		fails memory "$B/tests/faults/preload.so"
	else
		skip "memory" "no preload.so"
	fi
	if strace -o /dev/null true 2>/dev/null; then
		fails call
		# of each two calls of write(), the one of the signal's handler too
		RUNS=1 INJECT=write:error=EINTR:when=10+2 fails call
	else
		skip "system calls" "no strace, or it may not"
	fi ;;
*) skip "memory and system calls" "a sanitizer, or not Linux" ;;
esac
RUNS=$(((RUNS + 7) / 8))
fails engines
done_testing
