#!/bin/sh
# Compares recipes with the mixes of formats that --size finds for the same number
# of bytes: KL divergence of the small file from MODEL, on a text used for neither.
#   BIN=bin sh tests/bench/sizes.sh MODEL CALIBRATION-TEXT TEXT [TYPE...]
BIN=${BIN:-bin}
[ $# -ge 3 ] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
model=$1 own=$2 text=$3
shift 3
[ $# -gt 0 ] || set -- Q6_K Q5_K_M Q4_K_M IQ4_XS Q3_K_M IQ3_M IQ3_XXS Q2_K
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

make_one() { # NAME OPTIONS...
	name=$1; shift
	"$BIN/gguf-quantize" -q --imatrix "$dir/imatrix" "$@" -o "$dir/$name" "$model"
}
kl() { # NAME
	"$BIN/qscore" -q -m "$dir/$1" --base "$model" "$text" | awk '/^KL/ { print $4 }'
}
"$BIN/qtok" -m "$model" <"$own" >"$dir/own" &&
    "$BIN/qprefill" -q -m "$model" --imatrix "$dir/imatrix" -o "$dir/state" <"$dir/own" >"$dir/ready" || exit 1
printf 'type\tbytes\tKL\t--size\t--size --calibration\n'
for t; do
	make_one type --type "$t" || exit 1
	bytes=$(wc -c <"$dir/type")
	make_one size --size "$bytes" && make_one own.gguf --size "$bytes" --calibration "$dir/own" || exit 1
	printf '%s\t%s\t%s\t%s\t%s\n' "$t" "$bytes" "$(kl type)" "$(kl size)" "$(kl own.gguf)"
done
