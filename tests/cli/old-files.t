#!/bin/sh
# Files of earlier versions (tests/files/state) are read as they were then: the
# contents of a state, whether it is complete, its continuation; a store, a
# token stream and a stream of logits.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/state

# look MODEL: everything that there is to see, on stdout
look() {
	awk 'BEGIN { for (i = 0; i < 40; i++) print 7 * i % 60 }' >ids
	for kind in packed mapped marks run slice; do
		echo "--- $kind"
		qstate verify "$1.$kind.state" || echo "damaged"
		qstate show "$1.$kind.state"
		qstate show --tokens "$1.$kind.state" | xargs
		qdecode -s "$1.$kind.state" -n 8 --ignore-eos -f text \
		    </dev/null | xargs
	done
	echo "--- a run is printed again, and gone on with"
	qdecode -s "$1.run.state" -o "$1.run.state" -n 12 --save-every 60 \
	    --ignore-eos --temp 1 --seed 3 --repeat-penalty 1.1 \
	    --penalty-prompt -f text </dev/null | xargs
	qdecode -s "$1.run.state" -n 8 --resume -f text </dev/null | xargs
	echo "--- cut at a checkpoint"
	head -n 23 ids | qprefill -v --reuse "$1.marks.state" --logits=last \
	    --top 3 -f json 2>err
	sed -n 's/^qprefill: \([0-9]* tokens from\).*/\1/p' err
	echo "--- the store"
	qstate verify --store "$1.store" || echo "damaged"
	{ cat ids; echo 3; } | qprefill -v --store "$1.store" --logits=last \
	    --top 3 -f json 2>err
	sed -n 's/^qprefill: \([0-9]* tokens from store\).*/\1/p' err
	head -n 32 ids | qprefill -v --store "$1.store" --logits=last \
	    --top 3 -f json 2>err
	sed -n 's/^qprefill: \([0-9]* tokens from store\).*/\1/p' err
	echo "--- streams"
	qprefill -v -o again.state <"$1.tokens.cbor" >/dev/null 2>err
	qstate show --tokens again.state | xargs
	qsample -f text <"$1.logits.cbor" | xargs
	qsample --top 3 -f json <"$1.logits.cbor"
}

for name in qwen3 qwen35moe; do
	cp -R "$F/$name".* .
	QWEN_MODEL=$PWD/$name.gguf; export QWEN_MODEL
	look "$name" >got 2>&1
	diff "$F/$name.expected" got >&2
	ok $? "$name: $(wc -l <got) lines are those of then"

	# what is written today is the same state
	head -n 20 ids | qprefill -o packed >/dev/null
	head -n 20 ids | qprefill --no-compress -o mapped >/dev/null
	qprefill --checkpoint-every 32 --checkpoint-at 5,21 -o marks <ids \
	    >/dev/null
	qstate slice -n 5 -o slice "$name.marks.state"
	for kind in packed mapped marks slice; do
		qstate diff "$kind" "$name.$kind.state" >diff
		is "$?$(cat diff)" 0 "$name: $kind"
	done
done
done_testing
