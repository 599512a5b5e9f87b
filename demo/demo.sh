#!/bin/sh
# demo.sh - what "make demo" shows: the pipeline, stage by stage, on the demo
# model, in a folder that goes away.
BIN=${BIN:-bin}
PATH=$(cd "$BIN" && pwd):$PATH
QWEN_MODEL=$PWD/demo/demo.gguf
export PATH QWEN_MODEL
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1

# Show a command, then run it.
show() {
	printf '\n$ %s\n' "$*"
	sh -c "$*" || { echo "demo: this command failed: $*" >&2; exit 1; }
}

echo "Text to tokens, tokens to a state, the state to new tokens, and to text:"
show 'echo hi | qtok | qprefill -o state.cbor | qdecode -s state.cbor | qtok -d'
printf '\n\n%s\n' "That was always the likeliest token. The state is kept, so continue from it with sampling,"
show 'qdecode -s state.cbor -n 80 --temp 1 --seed 1 </dev/null | qtok -d'
printf '\n\n%s\n' "or after a text of your own:"
show 'printf "Then David" | qtok | qdecode -s state.cbor -n 40 --temp 0.7 --seed 3 | qtok -d'
printf '\n\n%s\n' "The data between the programs can be read. Tokens, and the best ones after 'hi':"
show 'echo "In the beginning" | qtok -f text | xargs'
show 'qdecode --logits -s state.cbor </dev/null | qsample --top 3'
printf '\n%s\n' "Speculative decoding: the model's MTP block drafts tokens. The text stays the same; each pass gives more tokens:"
show 'echo "In the beginning" | qtok | qdecode -v --draft mtp:4 -n 60 2>&1 >/dev/null | grep drafts'
printf '\n%s\n' "The model is demo/demo.gguf. Use -m for any other Qwen model, a GGUF file or a name.
The tools are in $BIN/. To read their manual: man man/qwen.7"
