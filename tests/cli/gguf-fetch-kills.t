#!/bin/sh
# gguf-fetch that is killed, interrupted, there twice, or without room: the file is
# right or not there, and the next run goes on where this one was.
. "$TOP/tests/cli/tap.sh"

# inside: mounts are seen by this process alone, and go with it
if [ "$1" = inside ]; then
	. ./hubs/addresses
	mkdir -p "$HOME"
	size=$(wc -c <whole)
	for k in 8 $((size * 99 / 100 / 1024)); do
		mount -t tmpfs -o size=${k}k none "$HOME" || exit 77
		gguf-fetch org/Tiny:Q8_0 >out 2>err
		echo "$? $(wc -c <out) $(wc -l <err) $(find "$HOME" \
		    -name '*.gguf' | wc -l)" >>full
		cat err >>full.err
		mount -o remount,size=64m "$HOME"
		gguf-fetch org/Tiny:Q8_0 >out 2>err
		echo "$? $(cmp whole "$(cat out)" 2>&1)" >>full
		umount "$HOME"
	done
	exit 0
fi
. "$TOP/tests/cli/hubs.sh"
start_hubs
repo org/Tiny
gguf "$R/Tiny-Q8_0.gguf" 8000000 1
cp "$R/Tiny-Q8_0.gguf" whole
blobs=$HFCACHE/models--org--Tiny/blobs
file=$HFCACHE/models--org--Tiny/snapshots/$C1/Tiny-Q8_0.gguf

# killed COMMAND...: 20 times, each after a random part of the time that it takes;
# the file, FILE, is right or not there; then once to its end
killed() {
	i=0 bad=0 there=0
	rules "cdn:GET:* slow 16000000"
	for ms in $(ids 20 "$SEED" 400); do
		i=$((i + 1))
		"$@" >out 2>err &
		p=$!
		sleep "$(printf '0.%03d' "$ms")"
		kill -9 $p 2>/dev/null
		wait $p 2>/dev/null
		[ -e "$file" ] || continue
		there=$((there + 1))
		cmp -s whole "$file" || bad=$((bad + 1))
		rm -rf home to
		mkdir to
	done
	rm -f hubs/rules
	"$@" >out 2>err
	is "$? $bad $(cmp whole "$file" 2>&1)" "0 0 " "$what: whole files are right ($there were)"
	resumed=$(grep -c '^cdn.* Range:bytes=[1-9]' hubs/log)
	[ "$resumed" -ge 3 ]
	ok $? "and others go on ($resumed times)"
	is "$(find home to -name '*incomplete*' | wc -l)" 0 "nothing is left beside it"
}
mkdir to
what="20 kills" killed gguf-fetch org/Tiny:Q8_0
forget
file=to/Tiny-Q8_0.gguf
what="20 kills, --to" killed gguf-fetch --to to org/Tiny:Q8_0
file=$HFCACHE/models--org--Tiny/snapshots/$C1/Tiny-Q8_0.gguf

# -- signals that it can catch
for s in INT TERM HUP; do
	if ignored $s; then
		skip "SIG$s" "it is ignored here"
		continue
	fi
	forget
	rules "cdn:GET:* stall 3500000"
	# a shell's background job would ignore SIGINT
	env --default-signal=INT gguf-fetch org/Tiny:Q8_0 >out 2>err &
	p=$!
	i=0
	until [ "$(cat "$blobs"/*.incomplete 2>/dev/null | wc -c)" -ge 3000000 ] ||
	    [ $i -ge 100 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	kill -s $s $p
	wait $p
	rc=$?
	is "$((rc != 0)) $(wc -c <out) $(find "$HFCACHE" -name '*.gguf' | wc -l)" \
	    "1 0 0" "SIG$s: status $rc, no file"
	rm -f hubs/rules
	fetched "SIG$s, then once more" whole org/Tiny:Q8_0
	is "$(grep '^cdn' hubs/log | sed 1d | grep -c 'Range:bytes=[1-9]')" 1 \
	    "goes on where it was"
done

# -- two at once
two() {	# WHAT ARG...
	what=$1
	shift
	forget
	rules "cdn:GET:* slow 16000000"
	gguf-fetch "$@" >out1 2>err1 &
	p=$!
	sleep 0.15
	gguf-fetch "$@" >out2 2>err2
	b=$?
	wait $p
	a=$?
	is "$a $b $(cmp whole "$(cat out1)" 2>&1)" "0 $b " "$what: the first has it"
	if [ $b = 0 ]; then
		cmp -s out1 out2
	else
		[ "$(wc -l <err2) $(wc -c <out2)" = "1 0" ]
	fi
	ok $? "the second has it too, or says why not"
	is "$(asked cdn)" 1 "one transfer"
}
two "two at once" org/Tiny:Q8_0
rm -rf to
mkdir to
two "two at once, --to" --to to org/Tiny:Q8_0
# the first is killed, and the second has waited for it
forget
rules "1*cdn:GET:* stall 3500000"
gguf-fetch org/Tiny:Q8_0 >out1 2>err1 &
p=$!
sleep 0.4
gguf-fetch org/Tiny:Q8_0 >out2 2>err2 &
q=$!
sleep 0.2
kill -9 $p
wait $p 2>/dev/null
wait $q
rc=$?
if [ $rc = 0 ]; then
	cmp whole "$(cat out2)"
else
	[ "$(wc -l <err2) $(wc -c <out2)" = "1 0" ]
fi
ok $? "the first of two is killed: the other ends (status $rc)"

# -- progress, of what takes long
forget
rules "cdn:GET:* slow 2900000"
fetched "one that takes 2.7 s" whole org/Tiny:Q8_0
[ "$(tr '\r' '\n' <err | grep -c '%\|MiB\|MB\|KiB\|kB')" -ge 1 ]
ok $? "shows how far it is"

# -- no room
forget
(
	trap '' XFSZ
	ulimit -f 6000	# blocks of 512 bytes
	exec gguf-fetch org/Tiny:Q8_0
) >out 2>err
is "$? $(wc -c <out) $(wc -l <err) $(find home -name '*.gguf' | wc -l)" "1 0 1 0" \
    "a file that may not be so large: $(cat err)"
fetched "and may again" whole org/Tiny:Q8_0
forget
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	skip "a full disk" "not root, or no unshare"
else
	unshare -m --propagation private sh "$TOP/tests/cli/gguf-fetch-kills.t" inside
	if [ $? = 77 ]; then
		skip "a full disk" "mount may not"
	else
		is "$(xargs <full)" "1 0 1 0 0 1 0 1 0 0" \
		    "a full disk: one line, no file; with room, the file"
		is "$(grep -ci 'space\|room\|full' full.err)" 2 "and says what is missing"
	fi
fi
done_testing
