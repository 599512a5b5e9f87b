#!/bin/sh
# How the files here were made: with the tools of November 2026, on the two
# models.  They stay as they are, so that what was written then is read for ever;
# this is the record of how, not something to run again.
for m in qwen3 qwen35moe; do
	QWEN_MODEL=$m.gguf; export QWEN_MODEL
	awk 'BEGIN { for (i = 0; i < 40; i++) print 7 * i % 60 }' >$m.ids
	head -n 20 $m.ids | qprefill -o $m.packed.state >/dev/null
	head -n 20 $m.ids | qprefill --no-compress -o $m.mapped.state >/dev/null
	qprefill --checkpoint-every 32 --checkpoint-at 5,21 -o $m.marks.state \
	    <$m.ids >/dev/null
	qdecode -s $m.packed.state -o $m.run.state -n 12 --save-every 60 \
	    --ignore-eos --temp 1 --seed 3 --repeat-penalty 1.1 --penalty-prompt \
	    </dev/null >$m.tokens.cbor
	printf '\241dmarkdhere\241cendhdocument' >>$m.tokens.cbor
	head -n 3 $m.ids | qprefill --logits=all >$m.logits.cbor
	qstate slice -n 5 -o $m.slice.state $m.marks.state
	qprefill --store $m.store --checkpoint-every 32 <$m.ids >/dev/null
done
rm -f ./*.ids
