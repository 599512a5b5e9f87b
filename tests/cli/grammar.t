#!/bin/sh
# --grammar: generated text matches the grammar, in qdecode, in the loop, and in
# a run that was interrupted; a bad grammar gives one line.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
qprefill -o p.cbor <"$G/tokens-n65.txt" >/dev/null
mkfifo loop
# this model knows nothing of thoughts, and would begin one now and then
NO=--logit-bias=$(printf '<think>' | qtok --special -f text)=-1000
cat >list.gbnf <<'E'
# a list of numbers, as JSON
root   ::= "[" number ( "," number ){1,3} "]"
number ::= "-"? ( "0" | [1-9] [0-9]{0,3} ) ( "." [0-9]{1,2} )?
E

for how in "" "--temp 1 --seed 1" "--temp 9 --seed 2" \
    "--temp 3 --seed 3 --top-k 5" "--mirostat 3 --seed 4"; do
	# shellcheck disable=SC2086
	{
		qdecode -s p.cbor -n 60 --grammar list.gbnf "$NO" $how </dev/null >want
		qtok -d want | jq -e -c 'length >= 2 and length <= 4 and
		    all(type == "number")' >out
	}
	is "$?$(cat out)" 0true "${how:-greedy}: $(qtok -d want)"
	# shellcheck disable=SC2086
	NO=$NO timeout 60 sh -c 'qdecode --logits -s p.cbor <loop |
	    qsample -s p.cbor -n 60 --grammar list.gbnf $NO $1 | tee loop >got' \
	    sh "$how"
	cmp -s want got
	ok $? "${how:-greedy}: the loop's are the same"
	# shellcheck disable=SC2086
	{
		qdecode -s p.cbor -n 60 --grammar list.gbnf "$NO" $how -f text \
		    </dev/null >want
		qdecode -s p.cbor -n 3 --grammar list.gbnf "$NO" $how -f text \
		    -o a.cbor </dev/null >got
		qdecode -s a.cbor -n 57 --grammar list.gbnf --resume -f text \
		    </dev/null >>got
	}
	cmp -s want got
	ok $? "${how:-greedy}: divided, too"
done
qdecode -s p.cbor -n 9 --temp 9 --grammar list.gbnf --save-every 0 -o r.cbor \
    </dev/null >a
qdecode -s p.cbor -n 9 --temp 9 --grammar list.gbnf --save-every 0 -o r.cbor \
    </dev/null >b
cmp -s a b
ok $? "the same run again"

# token 0 is one like any other, and ends nothing
printf 'root ::= "!!!a"' >x.gbnf
is "$(qdecode -s p.cbor -n 9 --grammar x.gbnf "$NO" </dev/null | qtok -d)" '!!!a' \
    "the first of all tokens"

printf 'root ::= "a' >bad.gbnf
refused 1 "a quote" qdecode -f text -s p.cbor --grammar bad.gbnf
printf 'root ::= root "a" | "b"' >bad.gbnf
refused 1 "left recursion" qsample -f text --grammar bad.gbnf
refused 1 "no such file" qdecode -f text -s p.cbor --grammar none.gbnf
refused 2 "with --logits" qdecode --logits -s p.cbor --grammar list.gbnf
head -c 1100000 /dev/zero >bad.gbnf
refused 1 "too large" qdecode -f text -s p.cbor --grammar bad.gbnf
printf 'root ::= "x"' >x.gbnf
printf '88 89' | qprefill -s p.cbor -o q.cbor >/dev/null
is "$(qdecode -s q.cbor -n 5 --grammar x.gbnf "$NO" </dev/null | qtok -d)" x \
    "it ends where the grammar does"
qdecode -s q.cbor -n 5 --grammar x.gbnf "$NO" -f text </dev/null >want
for how in --ignore-eos "--min-tokens 4" "--temp 2 --min-tokens 4 --ignore-eos"; do
	# shellcheck disable=SC2086
	qdecode -s q.cbor -n 5 --grammar x.gbnf "$NO" $how -f text </dev/null >got
	is "$?$(cmp got want)" 0 "and so with $how"
	# shellcheck disable=SC2086
	timeout 60 sh -c 'qdecode --logits -s q.cbor <loop |
	    qsample -s q.cbor -n 5 --grammar x.gbnf "$@" | tee loop >got' \
	    sh "$NO" $how
	is "$?$(qtok -d got)" 0x "in the loop as well"
done
# while something else may come, it does not end
printf 'root ::= "x"+' >x.gbnf
END=--logit-bias=$(printf '<|im_end|>' | qtok --special -f text)=1000
for how in --min-tokens=0 --min-tokens=4; do
	qdecode -s q.cbor -n 9 --grammar x.gbnf "$NO" "$END" $how </dev/null |
	    qtok -d | wc -c
done >got
is "$(xargs <got)" "1 4" "while something else may come"
done_testing
