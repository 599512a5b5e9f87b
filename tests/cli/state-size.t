#!/bin/sh
# Compressed states of a trained model are at least a tenth smaller than their
# data, for all kinds of text, and so is each kind of large block.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
for text in README.md man/qstate.1 lib/engine/state/codec.c; do
	head -c 4000 "$TOP/$text" | qtok | qprefill -o S >/dev/null
	qstate show --json S >show
	is "$(jq -c '[(.kinds[] | select(.kind == "kv" or .kind == "delta" or
	    .kind == "conv" or .kind == "logits")), .] |
	    map(.stored <= 0.9 * .raw)' show)" \
	    "[true,true,true,true,true]" "$text: $(jq -r '(.kinds[] |
	    select(.raw > 0) | "\(.kind) \(.stored * 100 / .raw | round) %"),
	    "all \(.stored * 100 / .raw | round) %"' show | tr '\n' ' ')"
done
done_testing
