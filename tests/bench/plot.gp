# SPDX-License-Identifier: ISC
# plot.gp - how the cost of a token grows, from the CSV of qbench:
#   qbench -p 64,128,256,512,1024 -t 1,2 --batch 256,1024 -n 0 --csv >sweep.csv
#   gnuplot -e "csv='sweep.csv'; out='sweep.svg'" plot.gp
# A point is the median of the rounds, the bar goes from the best to the worst.
if (!exists("csv")) csv = "sweep.csv"
if (!exists("out")) out = "sweep.svg"
set datafile separator ","
set terminal svg size 800,500 background "white"
set output out
set logscale x 2
set xlabel "tokens in the prompt"
set ylabel "ms a token"
set yrange [0:*]
set key left top
set grid

# the threads and batches that there are
list(column) = system(sprintf("awk -F, 'NR > 1 && !seen[$%d]++ { print $%d }' '%s'", column, column, csv))
threads = list(2)
batches = list(3)

row(t, b) = column(2) == t && column(3) == b && strlen(strcol(7)) > 0
plot for [t in threads] for [b in batches] csv skip 1 \
    using (row(t + 0, b + 0) ? column(4) : NaN):(1000 / column(7)):(1000 / column(9)):(1000 / column(8)) \
    with yerrorlines title sprintf("%s thread%s%s", t, t + 0 > 1 ? "s" : "", b + 0 ? ", batch " . b : "")
