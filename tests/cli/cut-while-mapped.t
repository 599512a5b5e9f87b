#!/bin/sh
# A model or state file that is emptied while a tool has it mapped: one line
# that names the file, status 1, no output.
. "$TOP/tests/cli/tap.sh"
model qwen3
cp "$MODEL" whole.gguf
ids 40 1 60 >ids
qprefill -m whole.gguf --no-compress -o whole.state <ids >/dev/null

# until_mapped FILE: wait until the process $pid has mapped it
until_mapped() {
	i=0
	while ! grep -q "/$1\$" "/proc/$pid/maps" && [ $i -lt 300 ]; do
		sleep 0.1
		i=$((i + 1))
	done
}

# emptied WHAT NAME COMMAND...: run it with the file first in a pipe as its
# input, empty the file WHAT as soon as it is mapped, and only then go on
emptied() {
	what=$1 name=$2
	shift 2
	cp whole.gguf m.gguf
	cp whole.state s.state
	rm -f in out.file
	mkfifo in
	"$@" <in >out 2>err &
	pid=$!
	exec 9>in
	cat first >&9
	until_mapped "$what"
	: >"$what"
	cat input >&9
	exec 9>&-
	wait "$pid"
	is "$? $(wc -l <err) $(grep -c "/$what: the file was truncated while" err)" "1 1 1" \
	    "$name: one line"
	[ ! -e out.file ] && [ ! -e .out.file.qpipe-tmp ]
	ok $? "$name: no output, and no temporary"
}

if [ -r /proc/self/maps ]; then
	head -n 1 ids >first
	tail -n +2 ids >input
	emptied m.gguf "qprefill" qprefill -m m.gguf -o out.file
	emptied m.gguf "qdecode" qdecode -m m.gguf -n 3 -o out.file
	: >first
	echo '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":[1,2,3],"max_tokens":3}}' >input
	emptied m.gguf "qbatch" qbatch -m m.gguf
	# a state is mapped once all input is there: held up by its own output
	cp whole.state s.state
	ids 1500 2 60 >input
	mkfifo full
	qprefill -m whole.gguf -s s.state --logits=all -f raw -o out.file \
	    <input >full 2>err &
	pid=$!
	exec 8<full
	until_mapped s.state
	: >s.state
	cat <&8 >/dev/null
	exec 8<&-
	wait "$pid"
	is "$? $(wc -l <err) $(grep -c '/s.state: the file was truncated while' err)" "1 1 1" \
	    "the state of qprefill: one line"
	[ ! -e out.file ] && [ ! -e .out.file.qpipe-tmp ]
	ok $? "no output, and no temporary"
else
	skip "cut while mapped" "no /proc/self/maps, which says what is mapped"
fi

# a signal that somebody sends is one, as ever
qprefill -m whole.gguf -o out.file <in >/dev/null 2>&1 &
pid=$!
exec 9>in
for _ in 1 2 3 4 5 6 7 8 9 10; do
	grep -q "/whole.gguf\$" "/proc/$pid/maps" 2>/dev/null && break
	sleep 0.1
done
kill -BUS "$pid"
exec 9>&-
wait "$pid" 2>/dev/null
is "$?" $((128 + $(kill -l BUS 2>/dev/null || echo 7))) "kill -BUS"
[ ! -e .out.file.qpipe-tmp ]
ok $? "leaves no temporary"
done_testing
