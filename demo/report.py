# SPDX-License-Identifier: ISC
"""Numbers and samples for README.md: the trained weights next to the exported file."""
import os

import torch

import corpus
import gguf_import
import model
import train

PROMPTS = ("hi\n", "In the beginning", "Psalm 151\n\n", "And it came to pass",
           corpus.chat("hello", "").removesuffix("<|im_end|>\n"))


@torch.no_grad()
def sample(cfg, params, tokenizer, prompt, n, temperature, generator):
    ids = tokenizer.encode(prompt)
    for _ in range(n):
        hidden, _ = model.forward(cfg, params, torch.tensor([ids]))
        logits = model.linear(hidden[0, -1], params["output.weight"])
        if temperature == 0:
            ids.append(int(logits.argmax()))
        else:
            ids.append(int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)))
        if ids[-1] in (tokenizer.eot, tokenizer.im_end):
            break
    return tokenizer.decode(ids)


def report(work, path):
    tokenizer, stream, held, sizes = corpus.prepare(work)
    ck = train.load_checkpoint(work)
    cfg, params = gguf_import.load(path)
    print(f"characters: {sizes[0]} books, {sizes[1]} conversations and greetings, {sizes[2]} held out")
    print(f"tokens: {len(stream)} training, {len(held)} held out; {ck['step']} steps, {ck['spent'] / 60:.1f} minutes, "
          f"finished: {ck.get('finished')}; tokens seen: {ck['tokens']}")
    full = train.held_out_loss(cfg, ck["params"], held)
    packed = train.held_out_loss(cfg, params, held)
    print(f"held-out loss: f32 {full:.4f}, {os.path.basename(path)} {packed:.4f} nats/token "
          f"({100 * (packed / full - 1):+.2f} %)")
    generator = torch.Generator().manual_seed(1)
    for temperature in (0.0, 0.7):
        for prompt in PROMPTS:
            print(f"--- temperature {temperature}, prompt {prompt!r}")
            print(sample(cfg, params, tokenizer, prompt, 80, temperature, generator))
