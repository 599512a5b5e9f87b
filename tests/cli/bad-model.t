#!/bin/sh
# A damaged model gives one line that says where, status 1, no state, no logits.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
good=$MODEL

# bad FROM TO: a copy whose first FROM (text, of the same length) is TO
bad() {
	at=$(LC_ALL=C grep -obUaF -m 1 -e "$1" "$good" | head -n 1 | cut -d: -f1)
	cp "$good" bad.gguf
	printf '%s' "$2" | dd of=bad.gguf bs=1 seek="$at" conv=notrunc 2>/dev/null
}

# spoil TENSOR BYTE OCTAL...: a copy with these bytes from BYTE of the tensor
spoil() {
	at=$(gguf-inspect "$good" | awk -v t="$1" '$1 == "tensor" && $2 == t { print $6 }')
	at=$((at + $2))
	shift 2
	cp "$good" bad.gguf
	printf "$(printf '\\%s' "$@")" |
	    dd of=bad.gguf bs=1 seek="$at" conv=notrunc 2>/dev/null
}

# says WORDS NAME COMMAND...: refused, and the line has the words
says() {
	says_words=$1
	shift
	refused 1 "$@"
	grep -qF -e "$says_words" err
	ok $? "  says: $says_words"
}

echo 1 2 3 | qprefill -m "$good" -o s.cbor >/dev/null
ok $? "the model is good before"

# --- found when it is opened
bad qwen35moe llama70xx
says 'unknown architecture "llama70xx"; supported: qwen2, qwen2moe, qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, qwen3vl, qwen3vlmoe' \
    "an unknown architecture" sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'
bad blk.1.ssm_out.weight blk.1.ssm_0ut.weight
says 'tensor blk.1.ssm_out.weight is missing' "a tensor by another name" \
    sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'
says 'tensor blk.1.ssm_out.weight is missing' "the same with qdecode" \
    qdecode -m bad.gguf -s s.cbor -n 1 </dev/null
bad qwen35moe.expert_count qwen35moe.expert_c0unt
says 'key qwen35moe.expert_count is missing' "a key by another name" \
    sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'
head -c 100000 "$good" >bad.gguf
says 'file has 100000 bytes' "a download that stopped" \
    sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'
: >bad.gguf
says 'not a GGUF file' "an empty file" \
    sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'
cp "$TOP/tests/files/gguf/good-vocab.gguf" bad.gguf
says bad.gguf "a vocabulary alone" \
    sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'

# --- met on the way: NaN is 0x7fc00000 as F32 and 0x7e00 as f16
for t in blk.0.attn_qkv.weight blk.0.ssm_beta.weight blk.2.ssm_out.weight \
    blk.3.attn_q.weight blk.3.attn_v.weight blk.1.ffn_down_shexp.weight; do
	spoil $t 0 000 176
	layer=${t#blk.}
	says "layer ${layer%%.*}: " "NaN in $t" \
	    sh -c 'echo 1 2 3 | qprefill -m bad.gguf -o x.cbor'
done
for t in blk.3.attn_norm.weight blk.0.ssm_a blk.2.ffn_gate_inp.weight \
    blk.1.ffn_gate_inp_shexp.weight; do
	spoil $t 0 000 000 300 177
	layer=${t#blk.}
	says "layer ${layer%%.*}: " "NaN in $t" \
	    sh -c 'echo 1 2 3 | qprefill -m bad.gguf -o x.cbor'
done
spoil output.weight 208 000 176
says 'a logit is NaN or infinite' "NaN in output.weight" \
    sh -c 'echo 1 2 3 | qprefill -m bad.gguf --logits=all -f raw'
says 'tensor output.weight: not finite: row 0' "gguf-inspect --check finds it" \
    sh -c 'gguf-inspect --check bad.gguf 2>&1 >/dev/null | grep . >&2; exit 1'
spoil token_embd.weight 272 000 176
says 'the embedding' "NaN in the embedding of token 1" \
    sh -c 'echo 1 | qprefill -m bad.gguf -o x.cbor'
echo 0 2 | qprefill -m bad.gguf -o y.cbor >/dev/null
ok $? "which does no harm where token 1 is not used"

says 'the embedding' "qdecode, which meets it after a good state" \
    sh -c 'echo 1 | qdecode -m bad.gguf -s s.cbor -n 1 -o x.cbor'
[ ! -e x.cbor ]
ok $? "none of them left a state"

# --- qdecode meets it when a token has left
first=$(qdecode -m "$good" -s s.cbor -n 1 --ignore-eos -f text </dev/null)
# after the 64 bytes that the fingerprint of the model covers
spoil token_embd.weight $((first * 272 + 34 * 3)) 000 176
qdecode -m bad.gguf -s s.cbor -n 5 --ignore-eos -f text -o x.cbor \
    </dev/null >out 2>err
is "$?, $(cat out), $(grep -c 'the embedding' err)" "1, $first, 1" \
    "the first token leaves, feeding it fails"
[ ! -e x.cbor ]
ok $? "and no state is left"
done_testing
