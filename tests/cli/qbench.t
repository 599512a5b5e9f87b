#!/bin/sh
# qbench: the forms of its output, its counts against those made by hand, and
# refused options.  Speed does not matter here.
. "$TOP/tests/cli/tap.sh"
model qwen3
QWEN_MODEL=$MODEL; export QWEN_MODEL
Q="qbench -p 8 -n 4 -r 3 -t 1"
ONE="qbench -p 8 -n 4 -r 1 -t 1"

# -- JSON
$Q --json >one.json 2>err
is "$? $(cat err) $(wc -l <one.json | tr -d ' ')" "0  1" "--json is one line"
is "$(jq -r 'keys_unsorted | join(" ")' one.json)" \
    "prefill decode machine kernels purposes totals start memory faults rounds model setting" "its parts"
is "$(jq -c '[.prefill.n, .decode.n, (.prefill.tok_s | keys), .setting]' one.json)" \
    '[8,4,["max","median","min"],{"threads":1,"batch":0,"depth":0,"sequences":1,"numerics":1}]' "counts and settings"
jq -e '[.prefill.tok_s, .decode.tok_s, .start.first_kernel_ms, .start.first_token_ms] |
    all(.min > 0 and .min <= .median and .median <= .max)' one.json >out
ok $? "median between minimum and maximum"
jq -e '[.rounds[] | select(.phase == "prefill").tok_s] as $r | .prefill.tok_s |
    .min == ($r | min) and .max == ($r | max) and .median == ($r | sort[1])' one.json >out
ok $? "of the rounds"
jq -e '.start.first_kernel_ms.min < .start.first_token_ms.max' one.json >out
ok $? "the first kernel comes before the first token"
jq -e '.machine | .read_gb_s > 0 and .copy_gb_s > 0 and .int8_gmac_s > 0
    and .f32_gmac_s > 0 and .threads == 1' one.json >out
ok $? "the machine was measured"
if [ -r /proc/self/status ]; then
	jq -e '.memory | .peak > 1 and .peak < 1000 and .private > 0 and .mapped > 0.5' one.json >out
	ok $? "memory: $(jq -c .memory one.json)"
else
	skip "memory" "no /proc"
fi
jq -e '[.kernels[] | select(.phase == "decode").share_percent] | add | . > 99.9 and . < 100.1' one.json >out
ok $? "shares make a whole"

# A decoded token goes through every matrix once, a prompt of eight with one row
# of logits does so eight times, but once for the output and for what nobody
# reads of the last block: all but keys and values.
gguf-inspect | awk '$1 == "tensor" && ($2 == "output.weight" ||
    $2 ~ /^blk\..*\.(attn_[qkv]|attn_output|ffn_gate|ffn_up|ffn_down)\.weight$/) {
	split($4, d, "x"); split($2, part, "."); m = d[1] * d[2]; b += $5; all += m
	if ($2 == "output.weight")
		last = -1
	else
		last = part[2]
	n[last, part[3] ~ /^attn_[kv]$/] += m; if (last > most) most = last }
    END { once = n[-1, 0] + n[most, 0]
	printf "%d %d %d\n", 4 * b, 4 * all, 8 * (all - once) + once }' >want
is "$(jq -r '[.kernels[] | select(.name | test("^(matmul|gemm)"))] |
    [(map(select(.phase == "decode").bytes) | add), (map(select(.phase == "decode").macs) | add),
    (map(select(.phase == "prefill").macs) | add)] | join(" ")' one.json)" \
    "$(cat want)" "bytes and multiply-adds, counted from the file"
# the same by purpose
gguf-inspect | awk '$1 == "tensor" && $2 ~ /^(output|blk\..*\.(attn_[qkv]|attn_output|ffn_gate|ffn_up|ffn_down))\.weight$/ {
	split($4, d, "x"); m = 4 * d[1] * d[2]
	if ($2 ~ /attn/) a += m; else if ($2 ~ /ffn/) f += m; else h += m }
    END { printf "attn_projections %d head %d mlp %d\n", a, h, f }' >want
is "$(jq -r '[.purposes[] | select(.phase == "decode" and (.name | test("^(attn_proj|mlp|head)")))] |
    sort_by(.name)[] | "\(.name) \(.macs)"' one.json | xargs)" "$(cat want)" \
    "multiply-adds by purpose, counted from the file"
is "$(jq -c '[.kernels, .purposes | map(select(.phase == "decode")) |
    [(map(.calls) | add), (map(.bytes) | add), (map(.macs) | add)]] | unique | length' one.json)" 1 \
    "kernels and purposes add up to the same"
is "$(jq -r '[.purposes[] | select(.phase == "decode").name] | sort | join(" ")' one.json)" \
    "attention attn_prepare attn_projections embedding head kv_append mlp norm" "the purposes of a dense model"
jq -e '[.purposes, .kernels | group_by(.phase)[] | map(.ms)] | all(. == (sort | reverse))' one.json >out
ok $? "the longest first"
jq -e '.decode | (.seconds.median * .tok_s.median / .n | . > 0.999 and . < 1.001) and
    (.ms_token.median * .tok_s.median | . > 999 and . < 1001) and .seconds.min <= .seconds.max' one.json >out
ok $? "seconds and milliseconds a token"
jq -e '([.purposes[] | select(.phase == "decode").ms_token] | add) as $sum |
    ([.purposes[] | select(.phase == "decode").ms] | add / 4) as $ms | $sum / $ms | . > 0.99 and . < 1.01' one.json >out
ok $? "and of each row"
jq -e '.start.load_ms > 0' one.json >out
ok $? "how long loading took"
qbench -m "$TOP/demo/demo.gguf" -p 20 -n 3 -r 1 -t 2 --json >moe.json
is "$(jq -r '[.purposes[] | select(.phase == "prefill").name] | sort | join(" ")' moe.json)" \
    "attention attn_prepare attn_projections delta_conv delta_finish delta_prepare delta_projections delta_rule embedding head kv_append norm routed_experts router shared_expert" \
    "those of a mixture with recurrent blocks"
# three tokens, with a block for each layer: the last one predicts (MTP)
gguf-inspect "$TOP/demo/demo.gguf" | awk -v n="$(jq .model.n_layer moe.json)" '
    $1 == "tensor" && $2 ~ /_shexp\.weight$/ && $2 !~ /gate_inp/ {
	split($2, part, "."); split($4, d, "x")
	if (part[2] < n) m += 3 * d[1] * d[2]
	if (part[2] < n && $2 ~ /down/) m += 3 * d[2] }
    END { print m }' >want
is "$(jq -r '[.purposes[] | select(.phase == "decode" and .name == "shared_expert").macs] | add' moe.json)" \
    "$(cat want)" "the shared expert: its matrices, and its part of the sum"
is "$(jq -r '[.kernels[] | select(.calls > 0 and .bytes == 0) | .name] |
    join(" ")' one.json)" "" "each kernel says how many bytes it goes through"
jq -e '([.kernels[] | select(.phase == "decode").bytes] | add) as $b |
    .totals.decode.gb_s / ($b / 4 * .decode.tok_s.median * 1e-9) |
    . > 0.999 and . < 1.001' one.json >out
ok $? "bytes a second, by the clock"
jq -e '.machine as $m | [.kernels[] | select(.ms > 0 and .bytes > 0) |
    (.bytes / .ms * 1e-6 / .gb_s), (.gb_s / $m.read_gb_s * 100 / .read_percent)] |
    all(. > 0.999 and . < 1.001)' one.json >out
ok $? "and of each kernel"
QWEN_CPU=scalar $ONE --json >scalar.json
is "$(jq -r '[.kernels[].variant] + [.machine.variant] | unique | join(" ")' scalar.json)" \
    "scalar" "QWEN_CPU=scalar"

# -- tables
$Q >text 2>err
is "$? $(cat err)" "0 " "tables"
is "$(awk '$2 == "speed" { print $1, ($3 > 0), ($4 <= $3 && $3 <= $5), $6 }' text | xargs)" \
    "prefill 1 1 tok/s decode 1 1 tok/s" "speed"
is "$(awk '$2 == "time" || $2 == "per_token" { print $1, $2, ($3 > 0), $6 }' text | xargs)" \
    "prefill time 1 s prefill per_token 1 ms decode time 1 s decode per_token 1 ms" "time"
is "$(awk 'NF == 6 && $1 == "machine" || $1 == "memory" || $1 == "start" { print $2 }' text | xargs)" \
    "load first_kernel first_token peak mapped private read copy int8 f32" "the other lines"
$ONE --by kernel >kernels
for row in purpose kernel; do
	file=text
	[ $row = kernel ] && file=kernels
	is "$(awk -v row=$row '$1 == "part" { n = NF; on = $2 == row; next } on && NF != n' $file)" "" \
	    "the lines by $row have the columns of the heading"
	is "$(awk -v row=$row '$2 == row { on = 1; next } on && $2 != "total" { print $1, $2 }' $file | sort | xargs)" \
	    "$(jq -r ".${row}s[] | \"\(.phase) \(.name)\"" one.json | sort | xargs)" "all are there"
	is "$(awk -v row=$row '$2 == row { on = 1; next } on && $1 == was && $2 != "total" && $at > ms { print }
	    on { was = $1; at = row == "kernel" ? 5 : 4; ms = $at }' $file)" "" "the longest first"
	is "$(awk '$2 == "total" { print $1 }' $file | xargs)" "prefill decode all" "with totals"
	awk -v row=$row '$2 == row { on = 1; at = row == "kernel" ? 4 : 3; next }
	    on && $2 != "total" { n[$1] += $at; n["all"] += $at }
	    on && $2 == "total" && $at != n[$1] { bad = 1 } END { exit bad }' $file
	ok $? "which are the sums"
done

# -- CSV and sweeps
qbench -p 4,8 -n 2 -r 1 -t 1,2 --depth 0,3 --batch 0,4 --csv >sweep.csv 2>err
is "$? $(cat err) $(wc -l <sweep.csv | tr -d ' ')" "0  17" "a line for each combination"
is "$(awk -F , '{ print NF }' sweep.csv | sort -u)" 33 "of equal width"
is "$(awk -F , 'NR > 1 { print $2, $3, $4, $5, $6 }' sweep.csv | sort -u | wc -l | tr -d ' ')" 16 \
    "no setting twice"
is "$(awk -F , 'NR > 1 { print ($7 > 0), ($11 > 0), ($24 > 0) }' sweep.csv | sort -u)" "1 1 1" \
    "all with figures"
is "$(awk -F , 'NR == 1 { print $28, $29, $30, $33 } NR > 1 { print ($29 > 0), ($31 * $7 > 999 && $31 * $7 < 1001) }' sweep.csv |
    sort -u | xargs)" "1 1 sequences load_ms prefill_s decode_ms_token" "times too"
qbench -p 0,4 -n 0 -r 1 -t 1 --csv >out
is "$(awk -F , '{ print ($7 != ""), ($11 != "") }' out | tail -n 2 | xargs)" "0 0 1 0" \
    "what was not measured is empty"
ln -s "$MODEL" 'ü "q".gguf'
qbench -m 'ü "q".gguf' -p 0 -n 2 -r 1 -t 1 --json >none.json
is "$(jq -r .model.name none.json)" 'ü "q".gguf' "the model's name, of any letters"
jq -c <none.json '[.prefill, .decode.n, (.kernels | map(.phase) | unique)]' >out
is "$(cat out)" '[null,2,["decode"]]' "or null"
qbench -p 0 -n 3 -r 1 -t 1,2 --depth 0,20 --sequences 1,3 --csv >out 2>err
is "$? $(cat err) $(awk -F , 'NR > 1 && $11 > 0 { print $2, $5, $28 }' out | sort -u | wc -l | tr -d ' ')" \
    "0  8" "several timelines"
qbench -p 0 -n 3 -r 1 -t 2 --depth 20 --sequences 4 --json >out 2>err
is "$? $(cat err) $(jq -c '[.decode.n, .totals.decode.tokens, .setting.sequences]' out)" \
    "0  [3,12,4]" "with the tokens of all of them"
if command -v gnuplot >/dev/null 2>&1; then
	gnuplot -e "csv='sweep.csv'; out='sweep.svg'" "$TOP/tests/bench/plot.gp" 2>err
	is "$? $(cat err) $(grep -c '</svg>' sweep.svg)" "0  1" "a plot"
else
	skip "a plot" "no gnuplot"
fi

# -- the machine alone
qbench --machine -t 2 >out 2>err
is "$? $(cat err) $(awk '{ print $1 }' out | xargs)" "0  threads 1 2" "--machine"
is "$(qbench --machine -t 1 --json | jq -r 'keys[], (.machine | .threads)' | xargs)" \
    "machine 1" "--machine --json"
is "$(qbench --machine -t 1 --csv | awk -F , '{ print NF }' | xargs)" "7 7" "--machine --csv"

# -- the faster of instruction sets
XDG_CACHE_HOME=$PWD/cache qbench --tune >out 2>err
is "$? $(cat err) $(awk 'NR > 1 && (NF != 5 || $4 <= 0)' out)" "0  " "--tune"
if [ -e /dev/full ]; then
	XDG_CACHE_HOME=$PWD/other qbench --tune >/dev/full 2>err
	is "$? $(cat err)" "1 qbench: stdout: No space left on device" \
	    "a disk that was full before the end is called that"
fi
is "$(awk 'NR > 1 && $5 == "yes" { n[$1 $2]++ } END { for (i in n) s += n[i] != 1; print s + 0 }' out)" 0 \
    "one is chosen for a format and a number of tokens"
if [ "$(wc -l <out)" -gt 1 ]; then
	is "$(awk 'NR > 1 && $5 == "yes" { print $2, $3 }' out | xargs)" \
	    "$(sed 1d cache/qpipe/kernels | awk '{ print $2, $3 }' | xargs)" "which is kept"
	mkdir home
	is "$(HOME=$PWD/home qbench --tune --json 2>err | jq -s 'map(select(.chosen)) | length > 0')" \
	    true "--json, with the folder in the home folder"
	[ -s home/.cache/qpipe/kernels ]
	ok $? "which is made"
	XDG_CACHE_HOME=/dev/null qbench --tune --csv >out 2>err
	is "$? $(cat err) $(awk -F , 'NF != 5' out)" "0  " "where it cannot be kept it is shown, --csv"
else
	skip "choosing" "there is one set alone"
fi

# -- choosing tokens
is "$(qbench --sampling -r 2 --vocab-size 1000 2>&1 | awk 'NR > 1 { print $NF }' | sort | uniq -c | xargs)" \
    "28 ms" "--sampling"
is "$(qbench --sampling -r 2 --vocab-size 1000 --json | jq -s -c '[length,
    (map(select(.rows == "sure" and .ms.min > 0 and .ms.max >= .ms.median)) | length)]')" \
    "[28,14]" "--sampling --json"
is "$(qbench --sampling -r 2 --vocab-size 1 --csv | sed 's|"[^"]*"|x|' |
    awk -F , '{ print NF }' | sort | uniq -c | xargs)" \
    "29 5" "--sampling --csv, of one token"
is "$(qbench --sampling -r 2 -m "$TOP/demo/demo.gguf" --json | jq -s -c '[length,
    (map(select(.rows == "json" and .ms.min > 0 and .ms.max >= .ms.median)) | length)]')" \
    "[31,3]" "--sampling -m: with a schema"

# -- guesses: counts follow from what is asked for
D="qbench -n 12 -r 2 -t 1"
$D --draft mtp:1,3,lookup:3 --accept 0,1 -m "$TOP/demo/demo.gguf" --json >out 2>err
is "$? $(cat err) $(jq -r '[.draft, .simulated_acceptance, .guessed, .right, .passes] | join(" ")' out | xargs)" \
    "0  none 0 0 24 mtp:1 0 22 0 24 mtp:1 1 12 12 12 mtp:3 0 60 0 24 mtp:3 1 18 18 6 lookup:3 0 60 0 24 lookup:3 1 18 18 6" \
    "--draft --accept: passes"
jq -s -e 'all(.tok_s.min > 0 and .times.min > 0 and .setting.n == 12) and (.[0].times | .min == 1 and .max == 1) and
    (.[4] | .tokens_a_pass == 4 and .times.min <= .times.median and .times.median <= .times.max)' out >ok
ok $? "speed, and as often as without"
$D -n 64 --draft lookup:4 --accept 0.8,0.2 --json >once 2>&1
$D -n 64 --draft lookup:4 --accept 0.8,0.2 --json >again 2>&1
jq -c '[.guessed, .right]' again >want
is "$(jq -c '[.guessed, .right]' once | xargs)" "$(xargs <want)" "chance is the same in each run"
$D -n 40 --draft lookup:1 --accept 0.8,0.5 --json >out 2>&1
is "$(jq -s '.[1:] | all(.right / .guessed / .simulated_acceptance | . > 0.9 and . < 1.1)' out)" true "as often as is asked for"
is "$(jq -s '.[1].right > .[2].right and .[2].right > 0' once)" true "and more guesses are right where p is higher"
$D -n 64 --draft mtp:1,2,auto,lookup:2 -m "$TOP/demo/demo.gguf" --json >out 2>err
is "$? $(cat err) $(jq -s -c '[.[].simulated_acceptance] | unique' out) $(jq -s '.[1].right > 20 and .[1].guessed >= .[1].right' out)" \
    "0  [null] true" "real guesses of a model's block, some of which are right"
$D --draft none --csv --depth 0,5 -t 1,2 >out 2>err
is "$? $(cat err) $(awk -F , '{ print NF }' out | uniq -c | xargs)" "0  5 16" "--csv, none alone"
$D --draft lookup:2 --accept 0.5 >out 2>err
is "$? $(cat err) $(grep -c 'simulated acceptance' out) $(tail -n 2 out | awk '{ print $1, $2, NF }' | xargs)" \
    "0  1 none - 11 lookup:2 0.50 11" "a table, which says that it is simulated"
if command -v gnuplot >/dev/null 2>&1; then
	$D --draft lookup:1,2 --accept 0,1 --csv >draft.csv
	gnuplot -e "csv='draft.csv'; out='draft.svg'" "$TOP/tests/bench/plot-draft.gp" 2>err
	is "$? $(cat err) $(grep -c '</svg>' draft.svg) $(grep -o 'lookup:[12]' draft.svg | sort -u | xargs)" \
	    "0  1 lookup:1 lookup:2" "a plot of them"
else
	skip "a plot of them" "no gnuplot"
fi
$D --draft lookup:2 >out 2>err
is "$? $(grep -c 'simulated acceptance' out)" "0 0" "and says so only then"
refused 1 "no block" $D --draft mtp
refused 1 "no block, simulated" $D --draft mtp:2 --accept 0.8
refused 1 "no such file with a block" $D --draft mtp --draft ./none.gguf

# -- tokens
echo 1 2 3 >ids
$ONE --tokens ids --json >out 2>err
is "$? $(cat err)" "0 " "--tokens, which are repeated"
echo 1 2 99999999 >ids
refused 1 "a token beyond the vocabulary" $ONE --tokens ids
: >ids
refused 1 "no token" $ONE --tokens ids
refused 1 "no file of tokens" $ONE --tokens none

# -- a model of its own
S="--synthetic qwen3-0.6b --layers 1 --vocab-size 64"
qbench $S -p 4 -n 2 -r 1 -t 1 --json >out 2>err
is "$? $(cat err) $(jq -c .model out)" \
    '0  {"name":"Qwen3-0.6B-Q4_K_M","arch":"qwen3","n_layer":1}' "--synthetic, in TMPDIR"
is "$(find "$TMPDIR" -name 'qbench.*')" "" "which leaves nothing"
qbench --synthetic qwen3.6 --layers 4 --experts 8 --vocab-size 64 -n 4 -r 1 -t 2 --draft mtp:1 --accept 1 --json >out 2>err
is "$? $(cat err) $(jq -c '[.draft, .guessed, .right, .passes]' out | xargs)" \
    "0  [none,0,0,4] [mtp:1,2,2,2]" "with a block where one is asked for"
(unset TMPDIR; qbench $S -p 4 -n 0 -r 1 -t 1 --csv) >out 2>err
is "$? $(cat err) $(wc -l <out | tr -d ' ')" "0  2" "and in memory"
qbench $S --recipe ud-iq3_xxs -p 4 -n 1 -r 1 -t 1 --json >out 2>err
is "$? $(cat err) $(jq -r .model.name out)" "0  Qwen3-0.6B-UD-IQ3_XXS" "--recipe"
TMPDIR=/nowhere refused 1 "no such TMPDIR" qbench $S

# -- what is wrong
refused 1 "no such model" qbench -m none.gguf
printf 'GGUF' >bad.gguf
refused 1 "no model" qbench -m bad.gguf
refused 1 "more than the context" qbench -p 16777216 -r 1
for args in "-p 0 -n 0" "-p 1,,2" "-p 4x" "-p ," "-r 0" "--sequences 0" "-t -1" "--json --csv" "--layers 2" \
    "--recipe Q4_0" "--synthetic qwen3-8b --recipe Q4_" \
    "--synthetic qwen9" "--synthetic qwen3-" "--synthetic qwen3-8b --experts 2" \
    "--accept 0.5" "--draft lookup:2 --accept 1.5" "--draft lookup:2 --accept 0.5," "--draft lookup --accept 0.5" \
    "--draft auto --accept 0.5" "--draft lookup:17" "--draft lookup:1,,2" "--draft" "--draft 3" "--draft none:1" "--draft x" \
    "--draft lookup -p 4" "--draft lookup --sequences 2" "--draft lookup -n 0" \
    "--draft ./a.gguf" "--draft lookup --draft a.gguf" "--draft lookup --machine" \
    "-m a --synthetic qwen3-8b" "--machine --since 1" "--sampling --machine" "--sampling -m a --vocab-size 9" "--since 99999999999999999" "x"; do
	# shellcheck disable=SC2086
	refused 2 "$args" qbench $args
done
if [ -c /dev/full ]; then
	$ONE --json >/dev/full 2>err
	is "$? $(wc -l <err | tr -d ' ')" "1 1" "a full disk"
fi
done_testing
