#!/bin/sh
# --mask-unused: ids without a token are never chosen, in qdecode and in the
# loop; qsample needs the right model to know these ids.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
G=$TOP/tests/golden/models/qwen35moe-ud
qprefill -o p.cbor <"$G/tokens-n65.txt" >/dev/null
unused=$(gguf-inspect --json "$MODEL" |
    jq '.metadata["tokenizer.ggml.token_type"] | map(. == 5) | index(true)')
ok $? "the model has unused ids, from $unused on"

# hot enough that one of the last five of 623 comes soon
hot="--temp 50 --seed 2 -n 400 --ignore-eos"
# shellcheck disable=SC2086
most=$(qdecode -s p.cbor $hot -f text </dev/null | sort -n | tail -n 1)
[ "$most" -ge "$unused" ]
ok $? "without it they are chosen ($most)"
# shellcheck disable=SC2086
qdecode -s p.cbor $hot --mask-unused -f text </dev/null >want
most=$(sort -n want | tail -n 1)
[ "$(wc -l <want)" = 400 ] && [ "$most" -lt "$unused" ]
ok $? "with it they are not ($most)"
mkfifo loop
# shellcheck disable=SC2086
timeout 900 sh -c 'qdecode --logits --ignore-eos -s p.cbor <loop |
    qsample $1 --mask-unused -f text | tee loop >got' sh "$hot"
cmp -s want got
ok $? "the loop gives the same"

qprefill -s p.cbor --logits=last </dev/null >row
model qwen3
qsample --mask-unused -m "$MODEL" <row >out 2>err
is "$?" 1 "another vocabulary: status 1"
grep -q 'vocabulary' err && [ "$(wc -l <err)" = 1 ] && [ ! -s out ]
ok $? "one line that says so"
qsample -m "$MODEL" <row >out 2>err
is "$?" 2 "-m that nothing asks for is a usage error"
qdecode --logits --mask-unused -s p.cbor </dev/null >out 2>err
is "$?" 2 "so is --mask-unused with --logits"
done_testing
