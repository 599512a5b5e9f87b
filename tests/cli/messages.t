#!/bin/sh
# Messages of the tools: "1 token", "2 tokens"; paths; the words of an option.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

printf a >a
qtok -v -c a 2>err >out
is "$(cut -d, -f 1,2 err)" "qtok: 1 byte, 1 token" "one is one"
printf 'a b c' | qtok -v -c 2>err >out
is "$(cut -d, -f 1,2 err)" "qtok: 5 bytes, $(cat out) tokens" "five are five"
qtok a | qprefill -v -t 1 2>err >s.cbor
is "$(grep -c -e ' 1 token read in' -e 'state of 1 token saved' -e ' 1 thread,' err)" 3 \
    "qprefill, of one token on one thread"
qdecode -v -n 1 --ignore-eos -s s.cbor </dev/null 2>err >out
is "$(grep -c ' 1 token generated in' err)" 1 "qdecode"
echo '{"custom_id":"x"}' | qbatch 2>err >out
is "$(grep -c '1 of 1 item failed' err)" 1 "qbatch"

unset QWEN_MODEL
qtok -m "$TOP/demo/none.gguf" -c a 2>err
is "$(gguf-inspect | sed -n 's/^file .* //p')" "$(cd "$TOP" && pwd -P)/demo/demo.gguf" \
    "the demo model's path has no .. in it"

# every word that an option takes is in --help, and every small number
for tool in qtok qprefill qdecode qsample qscore qbatch qembed qrerank qengine qchat qbench qstate; do
	$tool --help >help
	$tool --help=list | awk -F '\t' '$1 != "operands" && $4 ~ /^words / { print $2, substr($4, 7) }' |
	while read -r name words; do
		awk -v o="$name" '$0 ~ "(^|[ ,])" o "( |$)" { on = 1; print; next }
		    /^ *-|^$/ { on = 0 } on' help | tr -d '\n' >row
		for w in $words; do
			grep -qF -e "$w" row || echo "$tool $name: $w"
		done
	done
done >missing
[ ! -s missing ]
ok $? "--help lists the words of options"
sed 's/^/# /' missing >&2
qbench --help | tr -s ' \n' '  ' >help
is "$(grep -c 'second table (purpose or kernel; default purpose) ' help) $(grep -c 'each setting (default 5) ' help)" \
    "1 1" "a default stands with the choices, and alone"
for o in temperature max-tokens; do
	for tool in qdecode qchat qbatch; do
		$tool --$o 1 </dev/null 2>err
		is "$? $(grep -c 'did you mean -' err)" "2 1" "$tool knows what --$o is"
	done
done
for o in '--port 8081=--listen' '--addr x=--listen' '--slots 4=--max-sequences' \
    '-np 4=--max-sequences' '-c 4096=--mem' '--max-model-len=1=--mem' '-ngl 99=--device cuda:0'; do
	qserve ${o%=*} 2>err
	is "$? $(grep -c "unknown option .*${o##*=}" err)" "2 1" "qserve ${o%=*}"
done
qprefill --max-tokens 1 2>err
is "$?" 2 "where there is no such thing, it is unknown"
done_testing
