#!/bin/sh
# qbatch: ten thousand requests in constant memory; killed at any moment,
# repeatedly, it loses no result and repeats none.
. "$TOP/tests/cli/tap.sh"
if [ -z "$QPIPE_LONG" ]; then
	skip "10,000 items, kills at random" "make check-long has them"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# items FROM TO
items() {
	seq "$1" "$2" | awk '{ printf "{\"custom_id\":\"i%d\",\"body\":" \
	    "{\"prompt\":\"And it came to pass in the days of %d\"," \
	    "\"temperature\":0.9,\"max_tokens\":%d,\"seed\":%d}}\n",
	    $1, $1, 1 + $1 * 7 % 5, $1 }'
}

# grown PID LINES: when so many lines are answered, its memory, in KiB
grown() {
	n=0
	while [ "$(wc -l <out)" -lt "$2" ] && [ $n -lt 6000 ]; do
		sleep 0.1
		n=$((n + 1))
	done
	sed -n 's/^RssAnon:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

# --- memory
if grep -q RssAnon /proc/self/status 2>/dev/null && [ -z "$QPIPE_SAN" ]; then
	mkfifo fifo
	: >out
	qbatch -q -o out --mem 8M fifo &
	pid=$!
	exec 3<>fifo
	# until its caches are as large as they may be
	items 1 3000 >&3
	first=$(grown $pid 3000)
	items 3001 10000 >&3
	last=$(grown $pid 10000)
	exec 3>&-
	wait $pid
	is "$?, $(wc -l <out)" "0, 10000" "10,000 items"
	[ "$last" -le $((first + 4096)) ]
	ok $? "$first KiB after 3,000, $last KiB after 10,000"
	is "$(sed 's/.*custom_id":"i\([0-9]*\).*/\1/' out | awk '$1 != NR' | wc -l)" 0 \
	    "in order, each once"
else
	skip "10,000 items" "no RssAnon in /proc, or a sanitizer"
fi

# --- kills
items 1 600 >in
qbatch in >want
: >part
kills=0
i=0
while [ $i -lt 200 ]; do
	i=$((i + 1))
	qbatch --resume -o part in &
	pid=$!
	# from before it has begun to when it is well under way
	sleep "$(awk -v s="$SEED" -v i=$i \
	    'BEGIN { srand(s * 1000 + i); printf "%.3f", rand() * 0.5 }')"
	kill -9 $pid 2>/dev/null && kills=$((kills + 1))
	wait $pid 2>/dev/null && break
done
qbatch --resume -o part in
cmp -s part want
ok $? "killed $kills times, with the bytes of a run that was not"

# --- a log, as of a job: a line a minute, and a summary
items 1 40 >logged
qbatch --arrivals 0.55 --seed 1 -o logged.out logged 2>err
is "$?, $(grep -c '^qbatch: [0-9]*/40 items, [0-9.]* items/s, [0-9.]* tok/s, [0-9:]* left$' err)" \
    "0, 1" "a line of progress after a minute: $(head -n 1 err)"
is "$(sed 1d err | cut -d ' ' -f 2-3)" "40 done," "and a summary: $(tail -n 1 err)"
done_testing
