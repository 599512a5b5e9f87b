#!/bin/sh
# A batch in 4 parts, whose processes are killed at random, some with the end of
# their file lost as in a crash: resumed and merged it is complete, byte for
# byte. If results are missing, --merge names their lines.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
n=400 kills=8 hits=4
[ -z "$QPIPE_LONG" ] || n=10000 kills=50 hits=45
seq $n | awk '{ printf "{\"prompt\":\"And God said\",\"temperature\":1," \
    "\"max_tokens\":%d,\"seed\":%d}\n", 1 + $1 % 5, $1 }' >in
qbatch -q in >want
is "$?, $(wc -l <want)" "0, $n" "$n lines, in one process"

# go I: run part I, or run it again
go() {
	qbatch -q -t 1 --shard "$1/4" --resume -o "part.$1" in 2>"err.$1" &
	eval "pid$1=$!"
}
# lines: how many results there are
lines() {
	cat part.1 part.2 part.3 part.4 2>/dev/null | wc -l
}
for i in 1 2 3 4; do
	: >part.$i
	go $i
done
# when, whom, and what is lost: a kill is due when so many results are there
ids $kills "$SEED" $((n * 9 / 10)) | sort -n >when
ids $kills $((SEED + 1)) 4 >whom
ids $kills $((SEED + 2)) 900 >loss
paste when whom loss >plan
killed=0 early=0 torn=0
while read -r at i loss <&3; do
	i=$((i + 1)) tries=0
	while [ "$(lines)" -lt "$at" ] && [ $tries -lt 6000 ]; do
		sleep 0.05
		tries=$((tries + 1))
		# results that were lost may leave nobody at work
		[ "$tries" != 200 ] || break
	done
	# a part that is not done
	for k in 1 2 3; do
		[ "$(wc -l <part.$i)" -ge $((n / 4)) ] || break
		i=$((i % 4 + 1))
	done
	eval "pid=\$pid$i"
	kill -9 $pid 2>/dev/null
	wait $pid
	case $? in
	137) killed=$((killed + 1)) ;;
	0) early=$((early + 1)) ;;
	*) ok 1 "part $i failed: $(cat err.$i)" ;;
	esac
	# a third as it is; a third without its end; a third with zeros there
	size=$(wc -c <part.$i)
	if [ "$loss" -ge 300 ] && [ "$size" -gt "$loss" ]; then
		head -c $((size - loss)) part.$i >cut && mv cut part.$i
		[ "$loss" -lt 600 ] || head -c "$loss" /dev/zero >>part.$i
		torn=$((torn + 1))
	fi
	go $i
done 3<plan
for i in 1 2 3 4; do
	eval "wait \$pid$i" || ok 1 "part $i does not end well: $(cat err.$i)"
done
is "$((killed + early))" $kills \
    "$killed kills in the midst, $early of a part that was done; $torn ends lost"
[ $killed -ge $hits ]
ok $? "$hits of them at least hit"
qbatch --merge --of in -o all part.1 part.2 part.3 part.4 2>err
is "$?, $(cat err), $(wc -l <all), $(cmp all want && echo same)" "0, , $n, same" \
    "merged: complete, byte for byte"

# missing results are named
head -n $((n / 8)) part.2 >cut && mv cut part.2
sed -i 7d part.3
qbatch --merge --of in -o all part.1 part.2 part.3 part.4 2>err
is "$?, $(wc -l <all), $(grep -c "^qbatch: $((n / 8 + 1)) of $n lines have no result: 27, " err)" \
    "3, $((n - n / 8 - 1)), 1" "not all of it: $(cut -c1-100 err)"
qbatch -q --resume -o all in
qbatch --merge --of in -o all all 2>err
is "$?, $(cat err), $(cmp all want && echo same)" "0, , same" "and can be resumed as one"
done_testing
