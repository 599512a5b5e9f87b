#!/bin/sh
# Runs the tools with faults of all kinds, chosen at random, for a given time;
# then prints a table of runs and failures.  make audit runs this, and builds
# before in the same time.
#   AUDIT_MINUTES=N    minutes in all (20)
#   AUDIT_SEED=N       repeat the choices of an earlier audit
#   JOBS=N             runs at a time; default: one per processor
# build/audit/found keeps the failures: for each its input and results, and a
# script that repeats it.
#
#   part     fault                                          under
#   fuzz     seeds of the fuzzers, changed                  ASan, UBSan
#   model    a model, changed (these: see hammer.c)         ASan, UBSan, leaks
#   wire     a stream or a state, changed                   the same
#   text     a request, template, grammar, ..., changed     the same
#   store    a file of a store, changed, while gc runs      the same
#   signal   a signal that kills the tool                   the same
#   threads  none                                           TSan
#   races    a store, changed, while gc runs                TSan
#   call     a system call that fails, by strace            -
#   memory   an allocation or map that fails (inject.c)     -
#   unset    streams, states, text, changed                 valgrind
#   serve    qserve: an allocation or a system call that    -
#            fails, during requests of all kinds
#   engines  qserve: events of its engines, changed; they   ASan, UBSan
#            stop, are killed and start again
#   many     the same with engines and server               TSan
minutes=${AUDIT_MINUTES:-20}
seed=${AUDIT_SEED:-$(date +%s)}
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}
end=$((${AUDIT_BEGUN:-$(date +%s)} + 60 * minutes - 10))
TOP=$PWD; export TOP
case $B in /*) ;; *) B=$TOP/${B:-build} ;; esac
case $BIN in /*) ;; *) BIN=$TOP/${BIN:-bin} ;; esac
export B
asan=$TOP/build/asan tsan=$TOP/build/tsan
work=$TOP/build/audit
FOUND=$work/found; export FOUND
list=$TOP/tests/faults/commands
hammer=$B/tests/faults/hammer
unset QWEN_MODEL QWEN_STORE QWEN_CPU
LC_ALL=C; export LC_ALL
umask 022
rm -rf "$work"
mkdir -p "$FOUND" || exit 1
ASAN_OPTIONS=exitcode=99:hard_rss_limit_mb=3000:quarantine_size_mb=32
UBSAN_OPTIONS=exitcode=99:print_stacktrace=1
TSAN_OPTIONS=exitcode=99
export ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS

left=$((end - $(date +%s)))
if [ "$left" -lt 30 ]; then
	echo "audit: $minutes minutes are over, all went into building" >&2
	exit 1
fi
echo "audit: AUDIT_SEED=$seed, $jobs at a time, $left s after building"

# inputs: what the commands read, in this folder, and more of the kind
inputs() (
	PATH=$BIN:$PATH
	. "$TOP/tests/cli/tap.sh"
	. "$TOP/tests/faults/inputs.sh"
	F=$TOP/tests/files
	mkdir -p more/model more/template.jinja more/schema.json \
	    more/chat.json more/batch.jsonl more/state.cbor more/small.cbor &&
	cp "$TOP"/tests/fuzz/seeds/model/* more/model &&
	cp "$F"/state/*.gguf more/model &&
	cp "$TOP"/lib/text/chat/templates/*.jinja more/template.jinja &&
	cp "$F"/state/*.state more/state.cbor &&
	cp more/state.cbor/* more/small.cbor || exit
	# these begin with a byte of options
	for f in "$TOP"/tests/fuzz/seeds/schema/*; do
		tail -c +2 "$f" >"more/schema.json/${f##*/}"
	done
	for f in "$TOP"/tests/fuzz/seeds/batch/*; do
		tail -c +2 "$f" >"more/batch.jsonl/${f##*/}"
	done
)

# part NAME SHARE COMMAND...: for SHARE of 100 of the time; it prints its line
part() {
	name=$1
	FAULT_SECONDS=$((left * $2 / 100)); export FAULT_SECONDS
	shift 2
	"$@" >"$work/$name.$lane" 2>&1
	grep '^#' "$work/$name.$lane" | cut -c1-500
	last=$(tail -n 1 "$work/$name.$lane")
	line=$(echo "$last" | sed -n "s/^[a-z]*\( [0-9]* [0-9]* [0-9.]* [0-9]*\)$/$name\1/p")
	[ -n "$line" ] || echo "# $name: it broke off: $last"
	echo "${line:-$name 0 1 0 0}" >>"$work/table"
}

# under FOLDER KIND: the hammer with the tools there
under() {
	PATH=$1:$PATH "$hammer" "$2" "$list"
}

fuzz() {
	until=$(($(date +%s) + FAULT_SECONDS)) n=0
	while [ "$(date +%s)" -lt "$until" ]; do
		s=$((seed + lane + jobs * n))
		n=$((n + 1))
		SEED=$s "$asan/tests/unit/fuzz_seeds" ||
		    echo "# fuzz: SEED=$s build/asan/tests/unit/fuzz_seeds"
	done >fuzz.out 2>&1
	awk '/^ok / { n += $5 * (1 + $9) }
	    /^# fuzz:/ { print; bad++ }
	    /ERROR: |runtime error:/ { print "# " $0 }
	    END { print "fuzz", n + 0, bad + 0, 0, 0 }' fuzz.out
}

memory() {
	case $(uname -s) in Linux) ;; *) echo "memory 0 0 0 0"; return ;; esac
	PATH=$BIN:$PATH "$B/tests/faults/inject" "$B/tests/faults/preload.so" \
	    "$list" >memory.out 2>&1
	awk '/^#/ { print }
	    /^(not )?ok / { for (i = 1; i <= NF; i++)
		if ($i == "of" && $(i + 2) ~ /places/) n += $(i - 1) }
	    /^not ok / { bad++; print "# " $0 }
	    END { print "memory", n + 0, bad + 0, 0, 0 }' memory.out
}

unset_bytes() {
	WRAP="valgrind -q --error-exitcode=99" QWEN_CPU=avx2 LIMIT_S=50
	export WRAP QWEN_CPU LIMIT_S
	all=$FAULT_SECONDS
	for kind in wire text model; do
		FAULT_SECONDS=$((all / 3)) under "$BIN" $kind
	done >unset.out 2>&1
	grep '^#' unset.out
	awk '/^[a-z]* [0-9]* [0-9]* [0-9.]* [0-9]*$/ { n += $2; bad += $3
		if ($4 > slow) slow = $4; if ($5 > most) most = $5; parts++ }
	    END { print "unset", n + 0, bad + (parts != 3), slow + 0, most + 0 }' \
	    unset.out
}

# server KINDS FOLDER ENGINE: server.py with qserve of FOLDER, for each of KINDS an
# equal part of the time; its runs as one line
server() {
	kinds=$1 n=0
	for kind in $kinds; do n=$((n + 1)); done
	FAULT_SECONDS=$((FAULT_SECONDS / n))
	for kind in $kinds; do
		PATH=$2:$PATH ENGINE=$3 ENGINES_SECONDS=12 \
		    QWEN_MODEL=$TOP/demo/demo.gguf \
		    ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 \
		    PYTHONDONTWRITEBYTECODE=1 SEED=$((seed + lane)) python3 \
		    "$TOP/tests/faults/server.py" $kind "$B/tests/faults/preload.so"
	done >server.out 2>&1
	grep '^#' server.out
	awk -v n=$n '/^[a-z]* [0-9]* [0-9]* [0-9.]* [0-9]*$/ { runs += $2; bad += $3
		if ($4 > slow) slow = $4; parts++ }
	    END { print "serve", runs + 0, bad + (parts != n), slow + 0, 0 }' \
	    server.out
}

# All parts in a folder of its own: runs LANE, LANE + JOBS, ...
lane() {
	lane=$1
	mkdir "$work/$lane" && cd "$work/$lane" && inputs >inputs.out 2>&1 || {
		echo "# no inputs:"; cat inputs.out; echo "inputs 0 1 0 0" \
		    >>"$work/table"
		return
	}
	QWEN_MODEL=$PWD/qwen35moe-ud.gguf
	SEED=$seed FIRST=$lane STEP=$jobs LIMIT_MB=600
	export QWEN_MODEL SEED FIRST STEP LIMIT_MB
	part fuzz 8 fuzz
	for kind in model wire text; do
		part $kind 11 under "$asan/bin" $kind
	done
	part store 10 under "$asan/bin" store
	part signal 11 under "$asan/bin" signal
	part call 9 under "$BIN" call
	SEED=$((seed + lane)) part memory 8 memory
	LIMIT_MB=2000
	part threads 5 under "$tsan/bin" none
	part races 3 under "$tsan/bin" store
	part unset 4 unset_bytes
	part serve 4 server "memory call" "$BIN" "qengine -t 1"
	part engines 3 server engines "$asan/bin" "qengine -t 1"
	ENGINES=4; export ENGINES
	part many 2 server engines "$tsan/bin" "qengine -t 2"
}

: >"$work/table"
pids=
trap 'kill $pids 2>/dev/null; exit 130' INT TERM
i=0
while [ "$i" -lt "$jobs" ]; do
	lane "$i" &
	pids="$pids $!"
	i=$((i + 1))
done
wait
echo
awk -v seed="$seed" '
    !($1 in runs) { order[++n] = $1 }
    { runs[$1] += $2; bad[$1] += $3
      if ($4 > slow[$1]) slow[$1] = $4; if ($5 > most[$1]) most[$1] = $5 }
    END {
	printf "%-8s %8s %7s %9s %9s\n", "part", "runs", "failed",
	    "slowest", "memory"
	for (i = 1; i <= n; i++) {
		p = order[i]
		printf "%-8s %8d %7d %8.1fs %8dM\n", p, runs[p], bad[p],
		    slow[p], most[p]
		all += runs[p]; failed += bad[p]
		if (runs[p] == 0) failed++
	}
	if (n < 14) failed++
	printf "AUDIT_SEED=%s\n%d passed, %d failed\n", seed, (all > failed) * (all - failed),
	    failed
	exit failed > 0
    }' "$work/table"
