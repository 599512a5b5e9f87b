#!/bin/sh
# Memory in addition to the model's: the state, and at most 300 MiB for a batch
# of 512 tokens, whatever the shape.  Layers share their scratch memory, so one
# layer of each kind is enough to measure; more layers add only their state,
# here less than 16 MiB.
. "$TOP/tests/cli/tap.sh"

if [ -n "$QPIPE_SAN" ] || [ ! -r /proc/self/status ]; then
	skip "memory of a batch" "a sanitizer's own memory, or not Linux"
	done_testing
	exit
fi
while read -r shape rest; do
	# shellcheck disable=SC2086
	qbench -q -p 512 --batch 512 -n 0 -r 1 --synthetic "$shape" $rest \
	    --vocab-size 1024 >out 2>err </dev/null
	rc=$?
	mib=$(awk '$1 == "memory" && $2 == "private" { print int($3) }' out)
	[ $rc = 0 ] && [ "${mib:-0}" -gt 10 ] && [ "$mib" -lt 316 ]
	ok $? "$shape: $mib MiB for 512 tokens"
	cat err >&2
done <<'END'
qwen3.6 --layers 4 --experts 8
qwen3-30b --layers 1 --experts 8
qwen3-8b --layers 1
qwen3-0.6b --layers 1
END
done_testing
