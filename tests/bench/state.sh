#!/bin/sh
# Measures the cost of a state of -p tokens: bytes of each kind of block, time to
# save it and time of a plain write of the same bytes (both with fsync), time to
# the next token and time of a decode step, memory.  Medians of 9 rounds, in turn.
#   BIN=bin sh tests/bench/state.sh [-p TOKENS] [-t THREADS] [-d FOLDER] MODEL...
# The tokens are those of the manual if the model has a vocabulary for it; the file
# is in FOLDER (default: .), whose disk is measured.
BIN=${BIN:-bin} B=${B:-build}
p=4096 t=2 d=.
usage() {
	sed -n '5s/^# *//p' "$0" >&2
	exit 2
}
while getopts p:t:d: c; do
	case $c in p) p=$OPTARG ;; t) t=$OPTARG ;; d) d=$OPTARG ;; *) usage ;; esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
TOP=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
file=$(mktemp "$d/state-bench-XXXXXX") || exit 1
trap 'rm -f "$file" "$file.ids" "$file.copy"' EXIT
trap 'exit 1' HUP INT TERM
for model; do
	cat "$TOP"/man/*.[0-9] | "$BIN/qtok" -m "$model" -f text 2>/dev/null |
	    head -n "$p" >"$file.ids"
	"$B/tests/bench/state" "$t" "$p" "$file" "$BIN/qdecode" "$model" \
	    <"$file.ids" || exit 1
done
