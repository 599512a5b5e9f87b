#!/bin/sh
# Measures, prints each metric beside the last one of the same machine and model in
# tests/bench/history.tsv, and appends a line for each.  With -c appends nothing,
# and exits with status 1 if prefill or decode of a model became slower in all its
# ratios by more than noise explains (15 %, and the spread of the rounds of both
# runs), and again in a second measurement: the other side of a ratio may be
# disturbed, too, but hardly that of all ratios.  The kernels are only printed: one
# round each is too few to judge.
#
# All metrics are ratios, which are comparable between machines and on busy ones:
# speed over that of the scalar kernels, bytes moved over memcpy and over reading
# alone, multiply-adds over the 8-bit peak, all measured in this run.  spread is
# the best round over the median one: near 1 if the machine was quiet.
#   BIN=bin sh tests/bench/bench.sh [-c] [HISTORY]
BIN=${BIN:-bin}
TOP=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
case $BIN in /*) ;; *) BIN=$TOP/$BIN ;; esac
check=0
[ "$1" != -c ] || { check=1; shift; }
history=${1:-$TOP/tests/bench/history.tsv}
unset QWEN_CPU
command -v jq >/dev/null 2>&1 || { echo "bench.sh: needs jq" >&2; exit 1; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

commit=$(git -C "$TOP" rev-parse --short HEAD 2>/dev/null) || commit=none
[ -z "$(git -C "$TOP" status --porcelain -uno -- lib cmd Makefile \
    2>/dev/null)" ] || commit=$commit+
date=$(date -u +%Y-%m-%d)

# one for each kind of model; small, but larger than the caches
shapes() {
	cat <<-'END'
	qwen3.6 --layers 4 --experts 32 --vocab-size 16384
	qwen3-8b --layers 2 --vocab-size 8192
	END
}

# The two in turn, so that what disturbs one disturbs both.  Scalar kernels take
# as long for each token of a short prompt as of a long one.
measure() { # ARGUMENTS of qbench
	for i in 1 2; do
		"$BIN/qbench" -q -p 256 -n 16 -r 5 "$@" --json \
		    >>"$tmp/best" || return 1
		QWEN_CPU=scalar "$BIN/qbench" -q -p 8 -n 2 -r 1 "$@" --json \
		    >>"$tmp/scalar" || return 1
	done
}

# Metric, value, spread.  The faster of the two runs counts.
metrics() {
	jq -n -r --slurpfile best "$tmp/best" --slurpfile scalar "$tmp/scalar" '
	def top(f): max_by(f);
	def type: sub("^gemm"; "matmul");
	($best | top(.prefill.tok_s.max)) as $p |
	($best | top(.decode.tok_s.max)) as $d |
	($scalar | top(.prefill.tok_s.max)) as $sp |
	($scalar | top(.decode.tok_s.max)) as $sd |
	def spread: .max / .median;
	# totals are at the median: times spread, at the best
	($best | map(.machine.int8_gmac_s) | max) as $int8 |
	($best | map(.machine.copy_gb_s) | max) as $copy |
	($best | map(.machine.read_gb_s) | max) as $read |
	(["prefill/scalar", $p.prefill.tok_s.max / $sp.prefill.tok_s.max,
	    ($p.prefill.tok_s | spread)],
	["decode/scalar", $d.decode.tok_s.max / $sd.decode.tok_s.max,
	    ($d.decode.tok_s | spread)],
	["prefill/int8", $p.totals.prefill.gmac_s / $int8 *
	    ($p.prefill.tok_s | spread),
	    ($p.prefill.tok_s | spread)],
	["decode/copy", $d.totals.decode.gb_s / $copy *
	    ($d.decode.tok_s | spread),
	    ($d.decode.tok_s | spread)],
	["decode/read", $d.totals.decode.gb_s / $read *
	    ($d.decode.tok_s | spread),
	    ($d.decode.tok_s | spread)],
	# kernels with a hundredth of the time, over the scalar one
	([$p, "prefill", $sp], [$d, "decode", $sd] | . as [$b, $phase, $s] |
	    $b.kernels[] | select(.phase == $phase and .macs > 0 and
	    .share_percent > 1) | . as $k |
	    ($s.kernels[] | select(.phase == $phase and
	    .name == ($k.name | type))) as $ref |
	    [$phase + ":" + $k.name + "/scalar",
	    $k.gmac_s / $ref.gmac_s, ($b[$phase].tok_s | spread)])) |
	[.[0], (.[1] * 1000 | round / 1000), (.[2] * 1000 | round / 1000)] |
	@tsv'
}

if [ $check = 1 ]; then
	[ -r "$history" ] || { echo "bench.sh: $history: cannot read" >&2; exit 1; }
fi
[ -e "$history" ] || printf 'date\tcommit\tcpu\tthreads\tmodel\tmetric\tvalue\tspread\n' >"$history"
shapes >"$tmp/shapes"

run() {
	: >"$tmp/new"
	while read -r shape rest; do
		: >"$tmp/best"; : >"$tmp/scalar"
		# shellcheck disable=SC2086
		measure --synthetic "$shape" $rest </dev/null || exit 1
		head=$(jq -n -r --slurpfile b "$tmp/best" '$b[0] |
		    [.machine.cpu + ", " + .machine.variant, .machine.threads,
		    .model.name] | @tsv')
		metrics >"$tmp/metrics" || exit 1
		while IFS= read -r line; do
			printf '%s\t%s\t%s\t%s\n' "$date" "$commit" "$head" \
			    "$line"
		done <"$tmp/metrics" >>"$tmp/new"
	done <"$tmp/shapes"
}

# Status 1: something is slower.
compare() {
	awk -F '\t' '
	{ key = $3 FS $4 FS $5 FS $6 }
	FILENAME == ARGV[1] { last[key] = $7; spread[key] = $8; next }
	!header++ {
		printf "%-27s %-27s %9s %9s %8s %7s\n", "model", "metric",
		    "value", "last", "change", "spread"
	}
	{
		was = change = "-"; mark = ""
		if (key in last && last[key] > 0) {
			was = sprintf("%.3f", last[key])
			rate = $7 / last[key] - 1
			change = sprintf("%+.1f%%", 100 * rate)
			noise = 0.15 + $8 - 1 + spread[key] - 1
			mark = rate < -noise ? " -" : rate > noise ? " +" : ""
			split($6, part, "/")
			if (part[1] !~ /:/) {
				phase = $5 ", " part[1]
				n[phase]++
				down[phase] += rate < -noise
			}
		}
		printf "%-27s %-27s %9.3f %9s %8s %7.3f%s\n", $5, $6, $7,
		    was, change, $8, mark
	}
	END {
		for (phase in n)
			if (down[phase] == n[phase]) {
				print "SLOWER: " phase
				slower = 1
			}
		exit slower
	}' "$history" "$tmp/new"
}

run
compare
slower=$?
if [ $check = 0 ]; then
	cat "$tmp/new" >>"$history"
	exit 0
fi
if [ $slower = 1 ]; then
	echo "once more"
	run
	compare
	slower=$?
fi
[ $slower = 0 ] || echo "bench.sh: slower than in $history" >&2
exit $slower
