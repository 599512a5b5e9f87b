#!/bin/sh
# Bytes arrive late and in pieces; each token is written as soon as it is known.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
echo 11 22 33 | qprefill -o s.cbor >/dev/null
(printf 1; sleep 0.1; printf '1 2'; sleep 0.1; printf '2 '; sleep 0.1
 printf '33') | qprefill -o t.cbor >/dev/null
cmp -s s.cbor t.cbor
ok $? "plain ids in pieces"
qdecode -s s.cbor -n 3 </dev/null >toks
(head -c 1 toks; sleep 0.1; head -c 60 toks | tail -c +2; sleep 0.1
 tail -c +61 toks) | qprefill -s s.cbor -o u.cbor >/dev/null
qprefill -s s.cbor -o v.cbor <toks >/dev/null
cmp -s u.cbor v.cbor
ok $? "records in pieces"
(head -c 1000 s.cbor; sleep 0.1; tail -c +1001 s.cbor) |
    qdecode -n 3 >got
cmp -s got toks
ok $? "a state in pieces"

# the first token is there while the second cannot be: no room in the pipe
mkfifo feedback rows
qdecode --logits -s s.cbor -f json --top 1 <feedback >rows &
p=$!
exec 4>feedback 3<rows
read -r header <&3; read -r row <&3
is "$(echo "$row" | jq .position)" 2 "the first row comes before any token"
n=0
while [ $n -lt 5 ]; do
	echo 5 >&4
	read -r row <&3
	n=$((n + 1))
done
is "$(echo "$row" | jq .position)" 7 "each row comes as its token comes"
exec 4>&-
wait $p
is $? 0 "the end of the feedback is the end"
exec 3<&-
case $header in *'"kind":"logits"'*) ok 0 header ;; *) ok 1 header ;; esac
done_testing
