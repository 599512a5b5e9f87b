# SPDX-License-Identifier: ISC
# vision_vocab.py IN OUT: gives a model of 256 tokens a vocabulary: 0 is "!", 1 the
# next one, to 93, which is "~"; 250, 252 and 253 stand for images.  A vocabulary
# needs a token for each byte, so 8 more with weights 0 are at the end.
import sys

import gguf_odd

keys, tensors = gguf_odd.read(sys.argv[1])
keys = [k for k in keys if not k[0].startswith(b"tokenizer.")]


def letter(b):
	"""The letter of a byte in GPT-2's vocabulary."""
	plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
	if b in plain:
		return chr(b)
	return chr(256 + [x for x in range(256) if x not in plain].index(b))


order = list(range(33, 127)) + [b for b in range(248) if not 33 <= b < 127]
names = [letter(b).encode() for b in order]
names += [b"<|endoftext|>", b"<|im_start|>", b"<|image_pad|>", b"<|im_end|>",
    b"<|vision_start|>", b"<|vision_end|>", b"<|video_pad|>", b"<|x|>"]
names += [letter(b).encode() for b in range(248, 256)]
for t in tensors:
	if t[0] in (b"token_embd.weight", b"output.weight"):
		t[3] += bytes(len(t[3]) // 256 * 8)
		t[1][1] += 8
for k in keys:
	if k[0].endswith(b".vocab_size"):
		k[2] += 8
keys += [[b"tokenizer.ggml.model", 8, b"gpt2"],
    [b"tokenizer.ggml.pre", 8, b"qwen2"],
    [b"tokenizer.ggml.tokens", 9, (8, names)],
    [b"tokenizer.ggml.token_type", 9, (5, [1] * 248 + [3] * 8 + [1] * 8)],
    [b"tokenizer.ggml.merges", 9, (8, [])],
    [b"tokenizer.ggml.eos_token_id", 4, 251]]
gguf_odd.write(sys.argv[2], keys, tensors)
