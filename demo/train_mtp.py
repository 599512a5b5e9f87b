#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Trains the block that drafts (mtp.py) for a finished model, whose other weights stay as they are.

  train_mtp.py --work DIR --model FILE --out FILE [--minutes M] [--bin DIR]
  train_mtp.py --work DIR --report FILE [--bin DIR]

Four fifths of the text are what the model itself writes, by qbatch in --bin,
after the beginnings of corpus.Mixture's rows, the rest are such rows.  The trunk's hidden
states for it are computed once.  Then the block learns to say what the trunk
says, at DEPTHS depths at once.  What is in DIR already (train.py's text, the
texts written, the hidden states, the checkpoint) is not made again.

--report says how many drafts would be accepted on held-out text and on what
the model writes after held-out beginnings.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import corpus
import gguf_export
import gguf_import
import model
import mtp
import train

SEQ = train.SEQ
REQUESTS = 4000             # texts that the model writes, of at most MAX_TOKENS
MAX_TOKENS = 320
PROMPTS = (2, 4, 8, 16, 32, 64)
TEMPERATURES = (0.0, 0.5, 0.7, 1.0)
BATCH = 4                   # rows of a step
DEPTHS = (1.0, 0.8, 0.6)    # weights of their losses
REJECTED = 0.3              # weight of a row in whose chain an earlier draft is not the trunk's choice
SHARPEN = 0.7               # temperature of the trunk's probabilities that are learned
CHECK_PROMPT, CHECK_TOKENS, CHECK_ROWS, CHECK_DEPTHS = 64, 192, 96, 4


def write(args, name, requests, n_tokens):
    """The model's answers of at most n_tokens to requests (prompt, temperature): lists of ids, the prompt's in front.
    The texts are kept in --work under this name."""
    tokenizer, path = corpus.prepare(args.work)[0], os.path.join(args.work, name)
    if not os.path.exists(path):
        lines = "".join(json.dumps({"prompt": prompt, "temperature": temperature, "seed": i}) + "\n"
                        for i, (prompt, temperature) in enumerate(requests))
        command = [os.path.join(args.bin, "qbatch"), "-m", args.model, "-q", "-t", str(args.threads),
                   "-n", str(n_tokens), "--max-sequences", "128", "--resume", "-o", path + ".new"]
        subprocess.run(command, input=lines, text=True, check=True)
        os.replace(path + ".new", path)
    with open(path) as f:
        texts = [json.loads(line)["text"] for line in f]
    return [prompt + tokenizer.encode(text) for (prompt, _), text in zip(requests, texts, strict=True)]


def training_rows(args, seed=7):
    """Ids [rows, SEQ]."""
    tokenizer, rng = corpus.prepare(args.work)[0], random.Random(seed)
    mixture = corpus.Mixture(tokenizer, seed)
    requests = [(mixture.row(SEQ)[:rng.choice(PROMPTS)], rng.choice(TEMPERATURES)) for _ in range(REQUESTS)]
    stream = []
    for ids in write(args, "written.jsonl", requests, MAX_TOKENS):
        stream += ids + [tokenizer.eot]
    rows = [stream[at:at + SEQ] for at in range(0, len(stream) - SEQ + 1, SEQ)]
    return np.array(rows + [mixture.row(SEQ) for _ in range(len(rows) // 4)], np.int16)


@torch.no_grad()
def trunk(cfg, params, rows, out=None):
    """The trunk's hidden states [rows, tokens, E], in f16."""
    params = model.cast(params, model.COMPUTE)
    out = np.empty((*rows.shape, cfg.n_embd), np.float16) if out is None else out
    for at in range(0, len(rows), 4):
        out[at:at + 4] = model.forward(cfg, params, torch.from_numpy(rows[at:at + 4].astype(np.int64)))[0].numpy()
    return out


def prepared(args, cfg, params):
    """Training rows and their hidden states, a file that is read where it lies."""
    path, rows = os.path.join(args.work, "hidden.npy"), training_rows(args)
    if not os.path.exists(path):
        print(f"hidden states of {rows.size} tokens", flush=True)
        trunk(cfg, params, rows, np.lib.format.open_memmap(path + ".new", "w+", np.float16, (*rows.shape, cfg.n_embd)))
        os.replace(path + ".new", path)
    return rows, np.load(path, "r")


def first_params(cfg, params):
    """The block begins as the trunk's last one, and reads embedding and hidden state alike."""
    last, out = model.block(params, cfg.n_layer - 1), {}
    for name, shape in model.shapes(cfg):
        if not name.startswith(f"blk.{cfg.n_layer}."):
            continue
        base = name.split(".", 2)[2]
        if base == "nextn.eh_proj.weight":
            t = 0.5 * torch.eye(cfg.n_embd).repeat(1, 2)
        elif base == "nextn.shared_head_norm.weight":
            t = params["output_norm.weight"].clone()
        elif base.startswith("nextn."):
            t = torch.ones(shape)
        else:
            t = last[base].clone()
        out[name] = t.requires_grad_(True)
    return out


def learn_batch(cfg, params, tokens, hidden):
    """Adds a batch's gradients; returns the mean -log p of the trunk's choice at the first depth, how often the drafts
    of each depth are that choice, and the balance of the experts."""
    head = params["output.weight"]
    with torch.no_grad():
        logits = model.linear(hidden[:, 1:], head).float()
        choice, target = logits.argmax(-1), logits.div_(SHARPEN).softmax(-1)
    drafter = mtp.Drafter(cfg, params, tokens, hidden)
    total, rates, first = 0.0, [], None
    good = torch.ones(choice.shape, dtype=torch.bool)          # the drafts before are the text
    for j, share in enumerate(DEPTHS):
        f, balance = drafter.next()
        # The gradient of the cross entropy at f, (p - target) through the head, is all that is needed of it.
        with torch.no_grad():
            prob = model.linear(f, head).float().softmax(-1)
            drafts = prob.argmax(-1)
            if first is None:
                first = -prob.gather(-1, choice[..., None]).log().mean().item()
            weight = REJECTED + (1 - REJECTED) * good
            weight[:, :j] = 0
            grad = prob.sub_(target).mul_((share * weight / weight.sum())[..., None])
            grad = F.linear(grad.to(head.dtype), head.T).float()
            rates.append((drafts == choice)[:, j:].float().mean().item())
            good = mtp.later((good & (drafts == torch.cat([tokens[:, 2:], choice[:, -1:]], 1)))[..., None], 1)[..., 0]
        total = total + (f * grad).sum() + train.BALANCE * balance / len(DEPTHS)
    total.backward()
    return first, rates, balance.item()


def learn(args, cfg, params):
    """Trains; returns the block's weights."""
    rows, hidden = prepared(args, cfg, params)
    block, path = first_params(cfg, params), os.path.join(args.work, "mtp.pt")
    trunk16 = model.cast({n: params[n] for n in ("token_embd.weight", "output.weight")}, model.COMPUTE)
    optimiser = train.Optimiser(cfg, block)
    step, spent, budget = 0, 0.0, args.minutes * 60.0
    if os.path.exists(path):
        ck = torch.load(path, weights_only=False)
        for name, p in block.items():
            p.data.copy_(ck["params"][name])
        optimiser.restore(ck["optimiser"])
        step, spent = ck["step"], ck["spent"]
        print(f"resumed at step {step}, {spent / 60:.1f} minutes", flush=True)
    rng, order = np.random.default_rng(args.seed + step), []
    started, last_save, sums = time.monotonic() - spent, spent, []
    while spent < budget:
        if len(order) < BATCH:
            order = rng.permutation(len(rows)).tolist()
        at = sorted(order.pop() for _ in range(BATCH))
        tokens, h = torch.from_numpy(rows[at].astype(np.int64)), torch.from_numpy(hidden[at]).to(model.COMPUTE)
        first, rates, balance = learn_batch(cfg, {**trunk16, **model.cast(block, model.COMPUTE)}, tokens, h)
        optimiser.step(train.schedule(spent / budget))
        for p in block.values():
            p.grad = None
        step += 1
        spent = time.monotonic() - started
        sums.append([first, balance] + rates)
        if len(sums) == 25 or spent >= budget:
            mean = np.mean(sums, 0)
            print(f"step {step} min {spent / 60:.2f} loss {mean[0]:.4f} balance {mean[1]:.3f} "
                  f"trunk's choice {' '.join(f'{r:.3f}' for r in mean[2:])}", flush=True)
            sums = []
        if spent >= budget or spent - last_save > train.CHECKPOINT_EVERY_S:
            last_save = spent
            train.save(path, params={n: p.detach() for n, p in block.items()}, optimiser=optimiser.state(), step=step,
                       spent=spent)
    return {n: p.detach() for n, p in block.items()}


def check_sets(args, cfg, params):
    """{name: (ids, hidden states, first position that counts)}: held-out text, and what follows its beginnings."""
    held, rng = corpus.prepare(args.work)[2], random.Random(1)
    begin = [rng.randrange(len(held) - SEQ) for _ in range(CHECK_ROWS)]
    n = CHECK_PROMPT + CHECK_TOKENS
    sets = {"text": np.stack([held[at:at + n] for at in begin])}
    for temperature in (0.0, 0.7, 1.0):
        texts = write(args, f"check-{temperature}.jsonl",
                      [(held[at:at + CHECK_PROMPT].tolist(), temperature) for at in begin], CHECK_TOKENS)
        sets[f"temp {temperature}"] = np.array([ids[:n] for ids in texts if len(ids) >= n])
    return {name: (rows, trunk(cfg, params, rows)) for name, rows in sets.items()}


@torch.no_grad()
def check(cfg, params, sets):
    """Prints how often a draft is the text's id if those before it in its chain were, by depth, over chains from every
    position; how many are accepted; how often the trunk's choice is the text's id, and the draft the trunk's choice."""
    params = model.cast(params, torch.float32)
    for name, (rows, hidden) in sets.items():
        tokens, hidden = torch.from_numpy(rows.astype(np.int64)), torch.from_numpy(hidden).float()
        choice = model.linear(hidden[:, 1:], params["output.weight"]).argmax(-1)
        drafter = mtp.Drafter(cfg, params, tokens, hidden)
        first, last = CHECK_PROMPT - 1, tokens.shape[1] - 1 - CHECK_DEPTHS
        good, accepted, rates, agree = torch.ones(len(rows), last - first, dtype=torch.bool), 0.0, [], []
        right = (choice[:, first:last] == tokens[:, first + 2:last + 2]).float().mean().item()
        for j in range(CHECK_DEPTHS):
            drafts = model.linear(drafter.next()[0], params["output.weight"]).argmax(-1)[:, first + j:last + j]
            agree.append((drafts == choice[:, first + j:last + j]).float().mean().item())
            before, good = good, good & (drafts == tokens[:, first + j + 2:last + j + 2])
            rates.append(good.sum().item() / before.sum().item())
            accepted += good.float().mean().item()
        print(f"{name:8s} accepted {' '.join(f'{r:.3f}' for r in rates)}, of {CHECK_DEPTHS} {accepted:.2f}; trunk "
              f"right {right:.3f}; its choice {' '.join(f'{r:.3f}' for r in agree)}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--work", required=True, help="directory for text, hidden states and checkpoint")
    ap.add_argument("--model", default="demo/demo.gguf", help="the finished model (default %(default)s)")
    ap.add_argument("--bin", default="bin", help="where qbatch is (default %(default)s)")
    ap.add_argument("--minutes", type=float, default=35.0, help="training time (default %(default)s)")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--out", metavar="FILE", help="train if need be, then write FILE")
    ap.add_argument("--report", metavar="FILE", help="acceptance of the drafts of FILE")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    os.makedirs(args.work, exist_ok=True)
    if gguf_import.tokens(args.report or args.model) != corpus.prepare(args.work)[0].tokens:
        ap.error("the vocabulary of the text in --work is not the model's")
    if args.out:
        cfg, params = gguf_import.load(args.model)
        cfg.n_mtp = 1
        gguf_export.add_mtp(args.model, args.out, cfg, learn(args, cfg, params))
    if args.report:
        args.model = args.report
        cfg, params = gguf_import.load(args.report)
        if not cfg.n_mtp:
            ap.error(f"{args.report} has no block that drafts")
        check(cfg, params, check_sets(args, cfg, params))
    return 0


if __name__ == "__main__":
    sys.exit(main())
