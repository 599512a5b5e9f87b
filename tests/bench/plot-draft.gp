# SPDX-License-Identifier: ISC
# plot-draft.gp - what guessing gains, by how often a guess is right and how many
# are made, from the CSV of qbench:
#   qbench --draft lookup:1,2,3,4 --accept 0,0.2,0.4,0.6,0.8,1 --csv >draft.csv
#   gnuplot -e "csv='draft.csv'; out='draft.svg'" plot-draft.gp
# A point is the median of the rounds, the bar goes from the worst to the best.
if (!exists("csv")) csv = "draft.csv"
if (!exists("out")) out = "draft.svg"
set datafile separator ","
set terminal svg size 800,500 background "white"
set output out
set xlabel "simulated acceptance"
set ylabel "times as fast as without guesses"
set xrange [0:1]
set yrange [0:*]
set key left top
set grid

ways = system(sprintf("awk -F, 'NR > 1 && $6 != \"\" && !seen[$5]++ { print $5 }' '%s'", csv))
plot 1 title "none", for [w in ways] csv skip 1 \
    using (strcol(5) eq w ? column(6) : NaN):13:14:15 with yerrorlines title w
