#!/bin/sh
# SPDX-License-Identifier: ISC
# plots.sh - draw the figures of qwen-speed(7), which says how they were
# measured, for README.md: speed.svg, beside other programs, and length.svg,
# what a token costs after a long text.  Needs gnuplot.
#
#   sh tests/bench/plots.sh [FOLDER]     from the top of the tree
out=${1:-tests/bench}
page=man/qwen-speed.7
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# Stage, model, threads, and tokens a second of the three, by tabs.
sed -n 's/^\.It \(prefill of [0-9]*\|decode\( at [0-9]*\)*\) Ta /\1\t/p' "$page" |
    sed 's/ Ta */\t/g; s/ ([0-9.]*)//g' >"$dir/all"

# Of one length and two threads: each as a part of the first.
awk -F '\t' '$3 == 2 && ($1 == "prefill of 512" || $1 == "decode") {
	printf "\"%s\\n%s\"\t%s\t%s\t%s\t%s\t%s\n",
	    substr($1, 1, 7) == "prefill" ? "prefill" : "decode", $2,
	    1, $4, $5 / $4, $5, $6 == "" ? "\"\"\t\"\"" : $6 / $4 "\t" $6
}' "$dir/all" >"$dir/peers"
# Milliseconds of a token that is decoded after so many others.
awk -F '\t' '$3 == 2 && $2 == "35B-A3B" && /^decode/ {
	n = $1
	sub(/.* /, "", n)
	printf "%d\t%.1f\t%.1f\n", n, 1000 / $4, 1000 / $5
}' "$dir/all" >"$dir/length"

gnuplot <<E || exit 1
set terminal svg size 840,330 font 'sans-serif,13' background '#ffffff'
set datafile separator '\t'
set border 3 lc rgb '#606060'
set tics nomirror textcolor rgb '#303030'
set key top right horizontal outside

set output '$dir/speed.svg'
set style data histograms
set style histogram clustered gap 1
set style fill solid
set boxwidth 0.9
set bmargin 3.5
set yrange [0:1.15]
set ytics 0, 0.25
set ylabel 'speed, that of qpipe = 1'
set xtics scale 0
plot '$dir/peers' using 2:xtic(1) title 'qpipe' lc rgb '#2a6f97', \
    '' using 4 title 'ik\\_llama.cpp' lc rgb '#e09f3e', \
    '' using 6 title 'llama.cpp' lc rgb '#9e9e9e', \
    '' using (\$0 - 0.25):2:3 with labels font ',9' offset 0,0.6 notitle, \
    '' using (\$0):4:5 with labels font ',9' offset 0,0.6 notitle, \
    '' using (\$0 + 0.25):6:7 with labels font ',9' offset 0,0.6 notitle

set terminal svg size 840,300
set bmargin 4
set rmargin 4
set output '$dir/length.svg'
set yrange [0:*]
set ytics 10
set ylabel 'milliseconds a token'
set xlabel 'tokens before it'
set xtics (0, 8192, 16384, 24576, 32768)
set grid y lc rgb '#e0e0e0'
plot '$dir/length' using 1:3 with linespoints lw 2 pt 7 ps 0.7 \
        lc rgb '#e09f3e' title 'ik\\_llama.cpp', \
    '' using 1:2 with linespoints lw 2 pt 7 ps 0.7 \
        lc rgb '#2a6f97' title 'qpipe'
E
mv "$dir/speed.svg" "$dir/length.svg" "$out"
