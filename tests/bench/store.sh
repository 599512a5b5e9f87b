#!/bin/sh
# Measures the time to find a prefix among many, with the demo model: a prompt that
# is not in the store, and one of 3,800 tokens that are all stored and are restored,
# in a store of many files and in one with only this prefix.  Medians of nine
# commands, in ms, as printed by qprefill -v.
#   BIN=bin sh tests/bench/store.sh [FILES [STORE]]
# FILES is 10000 by default.  STORE is filled with other prompts up to FILES files,
# which takes minutes, and is kept; by default it is made and removed.
files=${1:-10000} store=$2
BIN=${BIN:-bin}
TOP=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
QWEN_MODEL=${QWEN_MODEL:-$TOP/demo/demo.gguf}; export QWEN_MODEL
unset QWEN_STORE
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
[ -n "$store" ] || store=$work/store

# text N SEED: token ids
text() {
	awk -v n="$1" -v x="$2" 'BEGIN {
		for (; n > 0; n--) {
			x = x * 16807 % 2147483647
			print x % 500
		}
	}'
}

count() {
	find "$store" -type f -name '*-*' 2>/dev/null | wc -l
}

# took STORE PROMPT...: tokens found, and how long it took
took() {
	folder=$1
	shift
	for p; do
		"$BIN/qprefill" -v --store "$folder" -o /dev/null <"$p" \
		    2>&1 >/dev/null |
		    sed -n 's/.*: \([0-9]*\) tokens from .* in \([0-9.]*\) s.*/\1 \2/p'
	done | sort -k 2 | awk '{ n = $1; t[NR] = $2 }
	    END { printf "%d tokens in %.0f ms\n", n, 1000 * t[int((NR + 1) / 2)] }'
}

i=$(count)
while [ $((i % 100)) != 0 ] || [ "$(count)" -lt "$files" ]; do
	i=$((i + 1))
	text 7 $((100000 + i)) | "$BIN/qprefill" -q -t 1 --store "$store" \
	    -o /dev/null >/dev/null || exit 1
done
text 3800 77 >"$work/old"
for s in "$work/alone" "$store"; do
	"$BIN/qprefill" -q --store "$s" -o /dev/null <"$work/old" >/dev/null
done
for i in 1 2 3 4 5 6 7 8 9; do
	text 20 $(($(date +%s) * 10 % 1000000000 + i)) >"$work/new.$i"
done
old="$work/old $work/old $work/old"
# shellcheck disable=SC2086
for s in "$work/alone" "$store"; do
	n=$(find "$s" -type f -name '*-*' | wc -l)
	echo "$n files, nothing of the prompt: $(took "$s" "$work"/new.*)"
	echo "$n files, all of it: $(took "$s" $old $old $old)"
done
