#!/bin/sh
# qdecode --store: text read before is not read again, and the tokens are the
# same.
. "$TOP/tests/cli/tap.sh"
DEMO=$TOP/demo/demo.gguf
taken() {
	sed -n 's/^qdecode: \([0-9]*\) tokens\{0,1\} from store .*/\1/p' err
}
# --- a model with recurrent layers and one without
model qwen3
for m in "$DEMO" "$MODEL"; do
	QWEN_MODEL=$m; export QWEN_MODEL
	ids 200 3 500 >doc
	for i in 1 2 3; do
		{ cat doc; ids 8 $i 500; } >ids
		qdecode -v --store "S" -n 6 --ignore-eos -f text <ids >got 2>err
		# the demo model needs a checkpoint, which is before the end
		least=200
		[ "$m" = "$MODEL" ] || least=100
		if [ $i = 1 ]; then
			is "$(taken)" 0 "${m##*/}: the first text is not in the store"
		else
			[ "$(taken)" -ge $least ]
			ok $? "${m##*/}: $(taken) of 208 from the store"
		fi
		qdecode --no-store -n 6 --ignore-eos -f text <ids >want
		cmp -s got want
		ok $? "the same tokens"
	done
done
QWEN_MODEL=$DEMO
# --- a document with its mark: the second question reads what is its own
for i in 1 2 3 4 5 6 7 8 9 10; do
	echo "And the lot of number $i came forth unto Levi."
done >text
for q in 'Who?' 'And what?'; do
	qtok --chat --data text --user "$q" --mark document >ids
	qdecode -v --store M -n 6 <ids >got 2>err
	all=$(qtok -d -c ids)
	if [ "$q" = 'Who?' ]; then
		is "$(taken)" 0 "the first question reads all of it"
	else
		[ "$(taken)" -ge $((all - 12)) ]
		ok $? "the next one what is new: $(taken) of $all"
	fi
	qdecode --no-store -n 6 <ids | cmp -s - got
	ok $? "the same answer"
done
# --- qprefill and qdecode share it
{ cat doc; ids 4 9 500; } >ids
qprefill --store P -o s.cbor <ids >/dev/null
ids 3 10 500 >more
cat ids more >whole
qdecode -v --store P -n 4 --ignore-eos -f text <whole >got 2>err
is "$(taken)" 204 "what qprefill put there"
qdecode -n 4 --ignore-eos -f text <whole | cmp -s - got
ok $? "the same tokens"
qdecode -v -s s.cbor --store P -n 4 --ignore-eos -f text <more >got 2>err
qdecode -n 4 --ignore-eos -f text <whole | cmp -s - got
ok $? "after a state"
files=$(find P -type f | wc -l)
qdecode -s s.cbor --store P -n 4 </dev/null >/dev/null
is "$(find P -type f | wc -l)" "$files" "without tokens it is left alone"
QWEN_STORE=E qdecode -n 1 <ids >/dev/null
[ -d E ]
ok $? "\$QWEN_STORE"
# --- a run that is gone on with
for n in 1 2; do
	qdecode --store P -o run.cbor --save-every 0 -n 9 --ignore-eos -f text \
	    <whole >run.$n
done
qdecode -n 9 --ignore-eos -f text <whole >want
cmp -s run.1 want && cmp -s run.2 want
ok $? "--save-every: the same run"
# --- whatever is wrong with it
: >file
qdecode --store file -n 4 --ignore-eos -f text <whole >got 2>err
is "$? $(wc -l <err)" "0 1" "no folder: one warning: $(cat err)"
qdecode -n 4 --ignore-eos -f text <whole | cmp -s - got
ok $? "and the same tokens"
refused 2 "--logits" qdecode --logits -s s.cbor --store P <more
refused 2 "--store-max without a store" qdecode --store-max 1G -n 1 <ids
done_testing
