#!/bin/sh
# gguf-fetch that is killed or interrupted, that runs twice at once, or that has no
# room: the file is right or absent, and the next run resumes where this one stopped.
. "$TOP/tests/cli/tap.sh"

# inside: mounts are seen by this process alone, and go with it
if [ "$1" = inside ]; then
	. ./hubs/addresses
	mkdir -p "$HOME"
	mount -t tmpfs -o size=2000k none "$HOME" || exit 77
	(cd "$HOME" && exec gguf-fetch -q --to new/folder org/Tiny:Q8_0) >out 2>err
	echo "$? $(find "$HOME" -type f | wc -l)" >full
	cat err >full.err
	umount "$HOME"
	# with how many KiB, and whether more is taken while the file comes
	for k in "2000" "8200" "16000 fill"; do
		mount -t tmpfs -o size="${k% *}k" none "$HOME" || exit 77
		echo "cdn:GET:* slow 16000000" >hubs/rules
		gguf-fetch -q org/Tiny:Q8_0 >out 2>err &
		p=$!
		if [ "${k#* }" = fill ]; then
			until find "$HOME" -name '*.incomplete' -size +1M | grep -q . ||
			    ! kill -0 $p 2>/dev/null; do
				sleep 0.02
			done
			cat /dev/zero >"$HOME/fill" 2>/dev/null
		fi
		wait $p
		echo "$? $(wc -c <out) $(wc -l <err) $(find "$HOME" \
		    -name '*.gguf' | wc -l)" >>full
		cat err >>full.err
		[ "${k#* }" != fill ] || [ -n "$(find "$HOME" -name '*.incomplete' \
		    -size +1M)" ] || echo "nothing stays" >>full
		rm -f "$HOME/fill"
		mount -o remount,size=64m "$HOME"
		gguf-fetch -q org/Tiny:Q8_0 >out 2>err
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
tiny=$R
file=$HFCACHE/models--org--Tiny/snapshots/$C1/Tiny-Q8_0.gguf

# begun NAME: waits until a partial file has a MiB, ten seconds at most
begun() {
	i=0
	until [ -n "$(find home to -name '*.incomplete' -size +1023k 2>/dev/null)" ] ||
	    [ $i -ge 500 ]; do
		sleep 0.02
		i=$((i + 1))
	done
}
# killed N COMMAND...: N times, each at a random moment, every second time of those
# when some of the file is there; FILE is right or not there; then once to its end
killed() {
	n=0 bad=0 there=0 times=$1
	shift
	rules "cdn:GET:/org/Tiny/* slow 28000000"
	for ms in $(ids "$times" "$SEED" 280); do
		n=$((n + 1))
		"$@" >out 2>err &
		p=$!
		[ $((n % 2)) = 0 ] || begun
		sleep "$(printf '0.%03d' "$ms")"
		kill -9 $p 2>/dev/null
		wait $p 2>/dev/null
		[ -e "$file" ] || continue
		there=$((there + 1))
		cmp -s whole "$file" || bad=$((bad + 1))
		rm -rf home to
		mkdir home to
	done
	rm -f hubs/rules
	"$@" >out 2>err
	is "$? $bad $(cmp whole "$file" 2>&1)" "0 0 " \
	    "$what: whole files are right ($there were)"
	resumed=$(grep -c '^cdn.* Range:bytes=[1-9]' hubs/log)
	[ "$resumed" -ge 2 ]
	ok $? "a killed run is resumed ($resumed times)"
	is "$(find home to ! -type d -name '*incomplete*' | wc -l)" 0 \
	    "nothing is left beside it"
}
# what a terminal is shown takes time: it goes along
repo org/Slow
ln "$tiny/Tiny-Q8_0.gguf" "$R"
rules "cdn:GET:/org/Slow/* slow 2900000"
mkdir to slow
HOME=$PWD/slow TERM=xterm python3 "$TOP/tests/cli/terminal.py" \
    '[["", " MiB/s"], ["", ".gguf"]]' gguf-fetch org/Slow:Q8_0 >slow.out &
slow=$!
until [ "$(asked 'cdn GET /org/Slow')" != 0 ]; do
	sleep 0.02
done
what="20 kills" killed 20 gguf-fetch org/Tiny:Q8_0
forget
file=to/Tiny-Q8_0.gguf
what="10 kills, --to" killed 10 gguf-fetch --to to org/Tiny:Q8_0
file=$HFCACHE/models--org--Tiny/snapshots/$C1/Tiny-Q8_0.gguf
wait $slow
ok $? "a terminal is shown how far it is"

# -- signals that it can catch
# a shell has SIGINT ignored in what it runs beside itself
unignored="env --default-signal=INT"
$unignored true 2>/dev/null || unignored=
for s in INT TERM HUP; do
	if ignored $s || [ "$s$unignored" = INT ]; then
		skip "SIG$s" "it is ignored here"
		continue
	fi
	forget
	rules "cdn:GET:/org/Tiny/* stall 3500000"
	$unignored gguf-fetch org/Tiny:Q8_0 >out 2>err &
	p=$!
	begun
	kill -s $s $p
	wait $p
	rc=$?
	is "$((rc != 0)) $(wc -c <out) $(find "$HFCACHE" -name '*.gguf' | wc -l)" \
	    "1 0 0" "SIG$s: status $rc, no file"
	rm -f hubs/rules
	fetched "SIG$s, then once more" whole org/Tiny:Q8_0
	is "$(grep '^cdn' hubs/log | sed 1d | grep -c 'Range:bytes=[1-9]')" 1 \
	    "resumes where it stopped"
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
until [ "$(asked cdn)" != 0 ]; do
	sleep 0.02
done
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

# -- no room
forget
(
	trap '' XFSZ
	ulimit -f 6000	# blocks of 512 bytes
	exec gguf-fetch -q org/Tiny:Q8_0
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
		is "$(xargs <full)" "1 0 1 0 1 0 0 1 0 1 0 0 1 0 1 0 0" \
		    "a full disk: one line, no file; with room, the file"
		is "$(grep -ci 'space\|room\|full' full.err)" 4 "and says what is missing"
		is "$(grep -c 'this folder has .* free, but' full.err)" 1 \
		    "--to a folder below this one"
	fi
fi

# -- system calls that fail
if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
	skip "system calls that fail" "no strace"
	done_testing
fi
# a tracer cannot be followed by another, which looks for leaks
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0; export ASAN_OPTIONS
failing() {	# CALLS ERROR ARG...
	what="$1: $2"
	inject=inject=$1:error=$2
	shift 2
	rm -rf home to
	mkdir to
	strace -f -o trace -e "$inject" gguf-fetch -q "$@" >out 2>err
	rc=$?
	grep -q INJECTED trace
	ok $? "$what: it is called"
}
failing symlink,symlinkat EPERM org/Tiny:Q8_0
is "$rc $(cmp whole "$(cat out)" 2>&1) $(readlink "$file")" "0  " \
    "$what: the file itself is where the link would be"
fetched "and is found there" whole --offline org/Tiny:Q8_0
: >hubs/log
fetched "and is not fetched again" whole org/Tiny:Q8_0
is "$(asked cdn)" 0 "no byte of it"
failing flock ENOLCK org/Tiny:Q8_0
is "$rc $(cmp whole "$(cat out)" 2>&1)" "0 " "$what: goes without"
for call in fsync,fdatasync rename,renameat,renameat2 ftruncate pwrite64; do
	failing $call EIO org/Tiny:Q8_0
	is "$rc $(wc -c <out) $(wc -l <err) $(find home -name '*.gguf' | wc -l)" \
	    "1 0 1 0" "$what: $(cut -c1-60 err)"
done
done_testing
