#!/bin/sh
# Where results go: a FIFO must have a reader before results are written; with
# two runs, or a program that removes the file, no result is lost without a
# message.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
seq 6 | sed 's/.*/{"prompt":"And God said","max_tokens":2,"seed":&}/' >in
qbatch -q -o want in

# --- a FIFO
mkfifo fifo
qbatch -q -o fifo in &
p=$!
sleep 1
cat fifo >got
wait $p
is "$? $(cmp got want)" "0 " "a FIFO whose reader comes late gets all results"
seq 400 | sed 's/.*/{"prompt":"And God said","max_tokens":1,"seed":&}/' >many
(sh -c 'exec timeout 60 qbatch -q -o fifo many'; echo $? >rc) 2>err &
p=$!
head -n 1 fifo >got
wait $p
cmp -s got want
is "$(wc -l <got) $(cat rc)" "1 141" "a reader that leaves early ends the run, as on stdout"

# --- a run that waits for another one's lock
# late FILE COMMAND...: the command starts while another run writes the file
late() {
	f=$1
	shift
	mkfifo feed
	qbatch -q -o "$f" <feed 2>/dev/null &
	p=$!
	exec 7>feed
	rm feed
	head -n 1 in >&7
	while [ ! -s "$f" ]; do sleep 0.01; done
	"$@" 7>&- &
	q=$!
	sleep 0.5
	tail -n +2 in >&7
	exec 7>&-
	wait $p
	first=$?
	wait $q
	second=$?
}
late both qbatch -q -n 1 -o both in 2>err
is "$first $second $(cmp both want) $(grep -c 'has results already; --resume' err)" "0 1  1" \
    "results that came while it waited are not overwritten: $(cat err)"
late both2 qbatch -q --resume -o both2 in 2>err
is "$first $second $(cmp both2 want) $(cat err)" "0 0  " "--resume then has nothing to do"

# --- the file is removed, or replaced
for how in "rm gone" "cp want new; mv new gone"; do
	rm -f gone
	mkfifo feed
	qbatch -q -o gone <feed 2>err &
	p=$!
	exec 7>feed
	rm feed
	head -n 1 in >&7
	while [ ! -s gone ]; do sleep 0.01; done
	sh -c "$how"
	tail -n +2 in >&7 2>/dev/null
	exec 7>&-
	wait $p
	is "$? $(grep -c 'gone: another program removed or replaced this file' err)" "1 1" \
	    "$how: $(cat err)"
done

# --- a result may be longer than a request: log probabilities of many answers
head -n 5 want | awk 'NR == 2 {
	x = "0123456789abcdef"
	for (i = 0; i < 20; i++) x = x x
	sub(/"text":/, "\"logprobs\":\"" x "\",&") }
	{ print }' >wide
is "$(awk '{ m = length($0) > m ? length($0) : m } END { print (m > 16777216) }' wide)" 1 \
    "a result of 16 MiB and more"
cp wide wider
is "$(qbatch --status wide in 2>/dev/null | awk '{ printf "%s ", $2 }')" "6 5 0 5 1 " "is counted,"
qbatch -q --resume -o wider in
is "$? $(sed 2d wider >got; sed 2d want | cmp - got; sed -n 1,5p wider | cmp - wide)" "0 " \
    "resumed after,"
qbatch --merge --of in wider | cmp - wider
ok $? "and merged"

# --- parts of a merge: pipes, stdin, and more of them than files may be open
sed -n 1,3p want >a; sed -n 4,6p want >b
mkfifo pa
cat a >pa &
is "$(qbatch --merge --of in pa - <b | cmp - want) $?" " 0" "a FIFO and a file on stdin"
is "$(cat b a | qbatch --merge - | cmp - want) $?" " 0" "a pipe"
is "$(cat want | qbatch --status - in | awk '{ printf "%s ", $2 }')" "6 6 0 6 0 " \
    "--status of a pipe"
mkdir parts
for i in $(seq 80); do sed "1!d;s/\"line\":1,/\"line\":$i,/" want >parts/$i; done
(ulimit -S -n 64; qbatch --merge -o all parts/*)
is "$? $(wc -l <all)" "0 80" "80 parts where 64 files may be open"
done_testing
