#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""Makes the demo model.

  train.py --work DIR [--minutes M]     train (goes on from DIR/checkpoint.pt if there is one)
  train.py --work DIR --from FILE       the same, beginning with the weights of a finished file
  train.py --work DIR --out FILE        the same, then write FILE; with a finished checkpoint only write it
  train.py --work DIR --export FILE     write the newest checkpoint as it is, train nothing
  train.py --work DIR --export FILE --f32   the same with the weights in F32, for gguf-quantize
  train.py --work DIR --report FILE     held-out loss of checkpoint and FILE, and samples from FILE
  train.py --verify MODEL_DIR           compare model.py with the reference logits of a fixture model

The schedule is a function of the time spent, so that training always ends
with a decayed learning rate; a resumed run goes on where the clock stood.
The first part of the time reads the books, the rest takes corpus.Mixture.
"""
import argparse
import math
import multiprocessing
import os
import signal
import sys
import time

import numpy as np
import torch

import corpus
import model

SEQ = 512
MICRO_BATCHES = 2           # of a step, each in its own process
MICRO_BATCH = {"books": 8, "mixture": 4}
DROPOUT = 0.1
BALANCE = 0.01              # weight of the load-balancing loss, per layer
MUON_LR, MUON_DECAY, MUON_MOMENTUM = 0.02, 0.1, 0.95
EMBED_LR, HEAD_LR, SMALL_LR, ADAM_DECAY = 0.01, 0.004, 0.004, 0.02
WARMUP, DECAY_FROM = 0.02, 0.35     # shares of the time
MIXTURE_FROM = 0.69                 # share of the time from which corpus.Mixture gives the rows
EVAL_EVERY_S = 900
CHECKPOINT_EVERY_S = 120


def schedule(done):
    """Learning-rate factor after the share `done` of the time: linear warm-up, plateau, linear decay to 0."""
    return min(1.0, (done + 1e-3) / WARMUP, max(0.0, (1.0 - done) / (1.0 - DECAY_FROM)))


def orthogonalise(x):
    """Newton-Schulz iteration on a batch of matrices [n, rows, columns], rows <= columns."""
    x = (x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)).to(model.COMPUTE)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315) @ x
    return x.float()


class Optimiser:
    """Muon for the matrices inside the blocks, Adam for everything else."""

    def __init__(self, cfg, params):
        kd, vd = cfg.ssm_k_heads * cfg.ssm_state, cfg.ssm_v_heads * cfg.ssm_state
        self.momentum, self.groups, adam = {}, {}, []
        for name, p in params.items():
            rows = None
            if name.endswith("attn_qkv.weight"):
                rows = [kd, kd, vd]                         # q, k and v are three matrices
            elif any(s in name for s in ("attn_q.", "attn_k.", "attn_v.", "attn_output.", "attn_gate.", "ssm_out.",
                                         "exps.", "gate_shexp.", "up_shexp.", "down_shexp.", "eh_proj.")):
                rows = [p.shape[-2]]
            if rows is None or p.dim() == 1:
                rate = {"token_embd.weight": EMBED_LR, "output.weight": HEAD_LR}.get(name, SMALL_LR)
                decay = ADAM_DECAY if p.dim() > 1 else 0.0
                adam.append({"params": [p], "lr": rate, "initial_lr": rate, "weight_decay": decay})
                continue
            self.momentum[name] = torch.zeros_like(p)
            at = 0
            for n in rows:
                self.groups.setdefault((n, p.shape[-1]), []).append((name, p, slice(at, at + n)))
                at += n
        self.adam = torch.optim.AdamW(adam, betas=(0.9, 0.98), eps=1e-10)

    @torch.no_grad()
    def step(self, factor):
        for group in self.adam.param_groups:
            group["lr"] = group["initial_lr"] * factor
        self.adam.step()
        rate = MUON_LR * factor
        for (rows, cols), members in self.groups.items():
            updates = []
            for name, p, part in members:
                m, grad = self.momentum[name][..., part, :], p.grad[..., part, :]
                m.lerp_(grad, 1 - MUON_MOMENTUM)
                updates.append(grad.lerp(m, MUON_MOMENTUM).reshape(-1, rows, cols))
            x = torch.cat(updates)
            x = orthogonalise(x.mT).mT if rows > cols else orthogonalise(x)
            x *= max(1.0, rows / cols) ** 0.5
            for (name, p, part), u in zip(members, x.split([len(u) for u in updates])):
                p[..., part, :].mul_(1 - rate * MUON_DECAY).sub_(u.view_as(p[..., part, :]), alpha=rate)

    def state(self):
        return {"adam": self.adam.state_dict(), "momentum": self.momentum}

    def restore(self, state):
        self.adam.load_state_dict(state["adam"])
        for name, m in self.momentum.items():
            m.copy_(state["momentum"][name])


class Batches:
    """Endless shuffled windows of the token stream; each epoch is cut at another offset."""

    def __init__(self, stream, seed):
        self.stream, self.rng, self.order, self.epoch = stream, np.random.default_rng(seed), [], 0

    def next(self, n):
        if len(self.order) < n:
            offset = int(self.rng.integers(SEQ))
            starts = np.arange(offset, len(self.stream) - SEQ - 1, SEQ)
            self.order = self.rng.permutation(starts).tolist()
            self.epoch += 1
        starts = [self.order.pop() for _ in range(n)]
        return torch.from_numpy(np.stack([self.stream[s:s + SEQ + 1] for s in starts]).astype(np.int64))


class MixtureBatches:
    """The same for the second part of training."""

    def __init__(self, tokenizer, seed):
        self.mixture = corpus.Mixture(tokenizer, seed)

    def next(self, n):
        return torch.tensor([self.mixture.row(SEQ + 1) for _ in range(n)])


@torch.no_grad()
def held_out_loss(cfg, params, held, dtype=torch.float32):
    """Mean nats per token over the held-out books, in windows of SEQ tokens (first tokens have little context)."""
    params = model.cast(params, dtype)
    n = (len(held) - 1) // SEQ
    total = 0.0
    for i in range(0, n, 8):
        at = range(i, min(n, i + 8))
        t = torch.from_numpy(np.stack([held[j * SEQ:(j + 1) * SEQ + 1] for j in at]).astype(np.int64))
        hidden, _ = model.forward(cfg, params, t[:, :-1])
        total += model.loss_sum(hidden.flatten(0, 1), params["output.weight"], t[:, 1:].flatten()).item()
    return total / (n * SEQ)


def save(path, **content):
    torch.save(content, path + ".new")
    os.replace(path + ".new", path)


def load_checkpoint(work):
    return torch.load(os.path.join(work, "checkpoint.pt"), weights_only=False)


def micro_batch(cfg, params, tokens):
    """Adds the gradient of one micro-batch to the parameters' .grad; returns its loss and the balance a layer."""
    # Weights are cast to bf16, if that is quick, here; gradients flow back through the cast.
    p16 = model.cast(params, model.COMPUTE)
    hidden, balance = model.forward(cfg, p16, tokens[:, :-1], DROPOUT)
    targets = tokens[:, 1:].flatten()
    loss = model.loss_sum(hidden.flatten(0, 1), p16["output.weight"], targets) / targets.numel()
    ((loss + BALANCE * balance) / MICRO_BATCHES).backward()
    return loss.item(), balance.item() / cfg.n_layer


class Helper:
    """A second process of one thread for half of the micro-batches.

    On a machine that does other work too, two processes that meet once a
    step lose less than two threads that meet in every operation.  Weights
    and the helper's gradients lie in shared memory.
    """

    def __init__(self, cfg, params, batches, seed):
        for p in params.values():
            p.data.share_memory_()
        self.grads = {n: torch.zeros_like(p).share_memory_() for n, p in params.items()}
        self.ends = [multiprocessing.Pipe(), multiprocessing.Pipe()]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self.work(cfg, params, batches, seed)
            finally:
                os._exit(1)             # only ever ends with the parent
        self.to, self.back = self.ends[0][1], self.ends[1][0]

    def work(self, cfg, params, batches, seed):
        torch.manual_seed(seed)
        parent = os.getppid()
        while True:
            while not self.ends[0][0].poll(5):
                if os.getppid() != parent:
                    return
            name = self.ends[0][0].recv()
            loss, _ = micro_batch(cfg, params, batches[name].next(MICRO_BATCH[name]))
            for n, p in params.items():
                self.grads[n].copy_(p.grad)
                p.grad = None
            self.ends[1][1].send(loss)

    def start(self, name):
        self.to.send(name)

    def finish(self, params):
        """Adds the helper's gradients to the parameters' own; returns its loss."""
        while not self.back.poll(5):
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                raise RuntimeError("the helper process ended")
        loss = self.back.recv()
        for n, p in params.items():
            p.grad += self.grads[n]
        return loss

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def train(work, minutes, seed, start):
    tokenizer, stream, held, _ = corpus.prepare(work)
    print(f"{len(stream)} training tokens, {len(held)} held out", flush=True)
    cfg = model.Config(n_vocab=corpus.N_VOCAB)
    params = model.init_params(cfg, seed)
    if start:
        import gguf_import
        for name, value in gguf_import.load(start)[1].items():
            if name in params:          # not those of the block that drafts
                params[name].data.copy_(value)
    optimiser = Optimiser(cfg, params)
    step, spent, history, tokens = 0, 0.0, [], dict.fromkeys(MICRO_BATCH, 0)
    path = os.path.join(work, "checkpoint.pt")
    if os.path.exists(path):
        ck = load_checkpoint(work)
        for name, p in params.items():
            p.data.copy_(ck["params"][name])
        optimiser.restore(ck["optimiser"])
        step, spent, history, tokens = ck["step"], ck["spent"], ck["history"], ck["tokens"]
        print(f"resumed at step {step}, {spent / 60:.1f} minutes", flush=True)
    torch.manual_seed(seed + step)

    def sources(n):
        return {"books": Batches(stream, n), "mixture": MixtureBatches(tokenizer, n)}

    helper = Helper(cfg, params, sources(seed + step + 10**6), seed + step + 10**6)
    batches = sources(seed + step)
    budget = minutes * 60.0
    began, fresh = time.monotonic(), 0
    started = began - spent
    last_save = last_eval = spent
    while spent < budget:
        name = "mixture" if spent >= MIXTURE_FROM * budget else "books"
        helper.start(name)
        total, balance = micro_batch(cfg, params, batches[name].next(MICRO_BATCH[name]))
        total = (total + helper.finish(params)) / MICRO_BATCHES
        optimiser.step(schedule(spent / budget))
        for p in params.values():
            p.grad = None
        step += 1
        tokens[name] += MICRO_BATCHES * MICRO_BATCH[name] * SEQ
        fresh += MICRO_BATCHES * MICRO_BATCH[name] * SEQ
        spent = time.monotonic() - started
        if step % 10 == 0:
            print(f"step {step} min {spent / 60:.2f} {name} loss {total:.4f} balance {balance:.3f} "
                  f"tok/s {fresh / (time.monotonic() - began):.0f}", flush=True)
        final = spent >= budget
        if final or spent - last_eval > EVAL_EVERY_S:
            last_eval = spent
            value = held_out_loss(cfg, params, held, model.COMPUTE)
            history.append((step, spent, total, value))
            print(f"step {step} min {spent / 60:.2f} held-out {value:.4f}", flush=True)
        if final or spent - last_save > CHECKPOINT_EVERY_S:
            last_save = spent
            save(path, params={n: p.detach() for n, p in params.items()}, optimiser=optimiser.state(), step=step,
                 spent=spent, history=history, tokens=tokens, finished=final)
    helper.stop()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--work", help="directory for corpus and checkpoints (outside the repository)")
    ap.add_argument("--minutes", type=float, default=87.0, help="training time (default %(default)s)")
    ap.add_argument("--threads", type=int, default=1, help="of each of the two processes (default %(default)s)")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--from", metavar="FILE", dest="start", help="begin with the weights of this file, not random ones")
    ap.add_argument("--out", metavar="FILE", help="train if need be, then write FILE")
    ap.add_argument("--export", metavar="FILE", help="write the newest checkpoint to FILE")
    ap.add_argument("--f32", action="store_true", help="with --out or --export: weights in F32, not quantised")
    ap.add_argument("--report", metavar="FILE", help="compare checkpoint and FILE, print samples")
    ap.add_argument("--verify", metavar="MODEL_DIR", help="compare with reference logits")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    if args.verify:
        import verify
        return 0 if verify.verify(args.verify) else 1
    if not args.work:
        ap.error("--work is needed")
    os.makedirs(args.work, exist_ok=True)
    if not args.export and not args.report:
        train(args.work, args.minutes, args.seed, args.start)
    if args.out or args.export:
        import gguf_export
        tokenizer = corpus.prepare(args.work)[0]
        gguf_export.export(args.out or args.export, model.Config(n_vocab=corpus.N_VOCAB),
                           load_checkpoint(args.work)["params"], tokenizer, args.f32)
    if args.report:
        import report
        report.report(args.work, args.report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
