#!/bin/sh
# Measures qpipe and other engines, in turn in each round, so that a disturbance
# affects all; prints median, minimum and maximum of each, and the ratio to each
# other engine's median.
#   BIN=bin sh tests/bench/peers.sh [-p TOKENS] [-n COUNT] [-d DEPTH] [-t THREADS]
#       [-r ROUNDS] MODEL NAME=LLAMA-BENCH...
# LLAMA-BENCH is the path of that program as built by llama.cpp or ik_llama.cpp,
# with options after it if needed.  Prefill reads -p tokens, decode generates -n
# tokens after -d tokens (0 leaves one out).
BIN=${BIN:-bin}
p=512 n=32 d=0 t=2 r=3
usage() {
	sed -n '5,7s/^# *//p' "$0" >&2
	exit 2
}
while getopts p:n:d:t:r: c; do
	case $c in
	p) p=$OPTARG ;; n) n=$OPTARG ;; d) d=$OPTARG ;; t) t=$OPTARG ;;
	r) r=$OPTARG ;; *) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
model=$1; shift
command -v jq >/dev/null 2>&1 || { echo "peers.sh: needs jq" >&2; exit 1; }
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 1' HUP INT TERM

# NAME STAGE TOK/S for each row
peer() { # NAME COMMAND
	name=$1 depth=
	if [ "$n" -gt 0 ] && [ "$d" -gt 0 ]; then
		# ik_llama.cpp has -gp, llama.cpp has -d
		if $2 --help 2>&1 | grep -q '^ *-gp '; then
			depth="-n 0 -gp $d,$n"
		else
			depth="-n $n -d $d"
		fi
	fi
	for part in ${p:+"-p $p -n 0"} "${depth:--n $n} -p 0"; do
		case $part in "-p 0 "* | "-n 0 -p 0") continue ;; esac
		$2 -m "$model" $part -t "$t" -r 1 -o json 2>/dev/null |
		    jq -r --arg name "$name" '.[] | select(.n_prompt > 0 or
			.n_gen > 0) | [$name, (if .n_gen > 0 then "decode" else
			"prefill" end), .avg_ts] | @tsv'
	done
}

ours() {
	"$BIN/qbench" -q -m "$model" -p "$p" -n "$n" --depth "$d" -t "$t" \
	    -r 1 --json | jq -r '["prefill", "decode"][] as $s |
		select(.[$s].tok_s) | ["qpipe", $s, .[$s].tok_s.median] |
		@tsv'
}

cat "$model" >/dev/null || exit 1
i=0
while [ $i -lt "$r" ]; do
	i=$((i + 1))
	for peer; do
		peer "${peer%%=*}" "${peer#*=}" || exit 1
	done
	ours || exit 1
done | tee "$log" | awk '{ printf "%-8s %-8s %10.2f\n", $1, $2, $3 }' >&2

sort -k 2,2r -k 1,1 -k 3,3n "$log" | awk '
function flush() {
	if (k == 0) return
	m = k % 2 ? v[(k + 1) / 2] : (v[k / 2] + v[k / 2 + 1]) / 2
	stage[++rows] = s; who[rows] = w
	med[rows] = m; lo[rows] = v[1]; hi[rows] = v[k]
	if (w == "qpipe") own[s] = m
	k = 0
}
{ if ($1 != w || $2 != s) flush(); w = $1; s = $2; v[++k] = $3 }
END {
	flush()
	printf "%-8s %-8s %9s %9s %9s  %s\n", "stage", "program",
	    "median", "min", "max", "qpipe is"
	for (i = 1; i <= rows; i++) {
		times = who[i] == "qpipe" ? "" : \
		    sprintf("%.2f times", own[stage[i]] / med[i])
		printf "%-8s %-8s %9.2f %9.2f %9.2f  %s\n", stage[i],
		    who[i], med[i], lo[i], hi[i], times
	}
}'
