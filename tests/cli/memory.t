#!/bin/sh
# A model that does not fit in memory is refused before anything begins; --force
# runs anyway.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ] || ! grep -q MemAvailable /proc/meminfo 2>/dev/null; then
	skip "memory" "a sanitizer takes more, or nobody knows how much is free"
	done_testing
fi
# says WORDS NAME COMMAND...: refused, and the line has the words
says() {
	says_words=$1
	shift
	refused 1 "$@"
	grep -q -e "$says_words" err
	ok $? "  says: $says_words"
}
# limited COMMAND...: with 100 MB of memory of its own
limited() {
	(ulimit -d 100000 && exec "$@")
}

# --- weights that no machine has memory for: a hole, and its shape
gguf-synth -q --sparse --layers 1000 --experts 4000 --vocab "$TOP/demo/demo.gguf" \
    -o huge.gguf Qwen3-30B 2>err
if [ -s huge.gguf ]; then
	disk='needs [0-9.]* GiB including the weights, and [0-9.]* are free: weights would be read from disk for every token; --force runs anyway'
	says "$disk" "qprefill" sh -c 'echo 1 2 | qprefill -m huge.gguf'
	says "$disk" "qdecode" sh -c 'echo 1 2 | qdecode -m huge.gguf -n 1'
	says "$disk" "qscore" sh -c 'echo 1 2 | qscore -m huge.gguf --tokens'
	says "$disk" "qbatch" sh -c 'echo {} | qbatch -m huge.gguf'
	says "$disk" "qbench" qbench -m huge.gguf -p 1 -n 1 -r 1
	says "$disk" "qchat" sh -c 'echo | qchat --template qwen3 -m huge.gguf'
	rm huge.gguf
else
	skip "weights" "the file system has no such file: $(cat err)"
fi

# --- a cache beyond the limit of the process
gguf-synth -q --layers 4 --vocab-size 4096 -o m.gguf qwen3-0.6b
beside='needs 0\.[0-9] GiB besides the weights, and 0\.[0-9] are free; --force runs anyway'
ids 8000 1 1000 >many
qprefill -v -m m.gguf -o S <many 2>&1 >/dev/null | grep ': memory: ' >told
is "$(sed 's/[0-9][0-9.]*/N/g' told)" \
    "qprefill: memory: N GiB besides the weights, which take N, N free" "-v says what is needed"
awk '{ exit !($3 > 0.122 && $3 < 0.3) }' told	# 16 KiB a token, and scratch
ok $? "8000 tokens of 4 layers: $(cut -d' ' -f3 told) GiB"
ids 10 1 1000 >few
(ulimit -v 48000; qbatch -m "$TOP/demo/demo.gguf" </dev/null >out 2>err)
is "$? $(grep -c 'demo.gguf: needs [1-9][0-9.]* MiB besides the weights, and [0-9.]* are free' err)" \
    "1 1" "a small model in less memory: $(cut -d: -f3- err)"
says "$beside" "a long prompt for qprefill" limited sh -c 'qprefill -t 1 -m m.gguf <many'
limited qprefill -t 1 -m m.gguf -o s.cbor <few >ready 2>err
ok $? "a short one has room"
says "$beside" "-n for qdecode" limited sh -c 'qdecode -t 1 -m m.gguf -n 30000 <few'
limited qdecode -t 1 -m m.gguf -n 2 --ignore-eos -f text <few >out 2>err
is "$? $(grep -c . out)" "0 2" "few have room"
limited qprefill --force -t 1 -m m.gguf <many >out 2>err
is "$? $(grep -c 'out of memory' err)" "1 1" "--force runs anyway, as far as it comes"
gguf-synth -q --layers 3 --no-mtp --experts 8 --vocab-size 4096 -o h.gguf Qwen3.6-35B
limited qprefill -t 1 -m h.gguf -o s.cbor <few >ready 2>err
ok $? "a recurrent model has room"
ids 600 1 1000 >some
at=$(awk 'BEGIN { for (i = 20; i < 590; i += 20) print i }' | paste -s -d , -)
says "$beside" "but not for many checkpoints" \
    limited sh -c 'qprefill -t 1 --checkpoint-at $0 -m h.gguf -o s.cbor <some' "$at"
says "$beside" "many timelines for qbench" \
    limited qbench -t 1 -m m.gguf -p 0 -n 8 --depth 500 --sequences 32 -r 1

# --- many texts have what is there, one after another if need be
awk 'BEGIN { for (k = 0; k < 12; k++) { printf "{\"n\":1,\"prompt\":[%d", k
	for (i = 1; i < 1200; i++) printf ",%d", (i * 7 + k) % 1000
	print "]}" } }' >lines
limited qbatch -v -n 1 -t 1 --max-sequences 12 -m m.gguf <lines >out 2>err
is "$? $(grep -c '"error"' out) $(grep -c . out)" "0 0 12" "12 texts, for 230 MB of cache in one of 100"
grep -q 'memory: [0-9.]* MiB for all of these' err
ok $? "$(grep 'MiB for all' err)"
qbatch -q -n 1 -t 1 --max-sequences 12 --mem 1G -m m.gguf <lines >other
cmp -s out other
ok $? "the same answers as with room for all"

# --- the limit of a control group: a real one, where one may be made
# in_group GROUP COMMAND...
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$@"
}
group=$(sed -n 's|^[0-9]*:memory:|/sys/fs/cgroup/memory|p' /proc/self/cgroup)
[ -n "$group" ] || group=$(sed -n 's|^0::|/sys/fs/cgroup|p' /proc/self/cgroup)
group=$group/qpipe-test-$$
limit=$group/memory.limit_in_bytes
if [ -n "${group%/qpipe*}" ] && [ -e "${group%/*}/cgroup.procs" ] && mkdir "$group" 2>/dev/null; then
	[ -e "$limit" ] || limit=$group/memory.max
fi
if [ -e "$limit" ] && (echo 200000000 >"$limit") 2>/dev/null &&
    in_group "$group" true 2>/dev/null; then
	says "needs 0\.5 GiB besides the weights, and 0\.2 are free" "the limit of a control group" \
	    in_group "$group" qdecode -t 1 -m m.gguf -n 30000 <few
	in_group "$group" qdecode -t 1 -m m.gguf -n 2 --ignore-eos -f text <few >out 2>err
	is "$? $(grep -c . out)" "0 2" "few have room in it"
else
	skip "the limit of a control group" "none can be made here"
fi
rmdir "$group" 2>/dev/null

# and files as version 2 has them, with the limit of the group around it
cat >v2 <<'E'
mount -t tmpfs none /sys/fs/cgroup || exit 99
d=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
mkdir -p "$d"
echo max >"$d/memory.max"
cd /sys/fs/cgroup || exit 99
echo 200000000 >memory.max
echo 150000000 >memory.current
printf 'anon 50000000\ninactive_file 40000000\nactive_file 60000000\n' >memory.stat
cd "$OLDPWD" && exec "$@"
E
if grep -q '^0::' /proc/self/cgroup && unshare -rm sh v2 true 2>/dev/null; then
	says "needs 0\.5 GiB besides the weights, and 0\.1 are free" "version 2, files that can be dropped" \
	    unshare -rm sh v2 qdecode -t 1 -m m.gguf -n 30000 <few
	unshare -rm sh v2 qdecode -t 1 -m m.gguf -n 2 --ignore-eos -f text <few >out 2>err
	is "$? $(grep -c . out)" "0 2" "few have room in it"
else
	skip "control groups of version 2" "no namespace to put one in"
fi
done_testing
