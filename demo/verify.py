# SPDX-License-Identifier: ISC
"""Proves model.py and mtp.py right: their logits on fixture models against the reference logits."""
import json
import os

import numpy as np
import torch

import gguf_import
import model
import mtp


def read_tokens(directory, name):
    return [int(t) for t in open(os.path.join(directory, name)).read().split()]


def compare(name, got, directory, case, reference):
    want = np.fromfile(os.path.join(directory, reference), "<f4").reshape(got.shape)
    diff, limit = float(np.abs(got - want).max()), case["tolerance"]["max_abs"]
    print(f"{name:6s} max |logit difference| {diff:.3g} (limit {limit:.3g}, logits up to {np.abs(want).max():.3g})")
    return diff <= limit


def verify_chains(directory, cfg, params):
    """Chains of drafts: the id drafted at each depth is the fixture's, but for margins that may be noise."""
    cases = json.load(open(os.path.join(directory, "drafts-n65.json")))
    text, wrong, n = read_tokens(directory, cases["tokens"]), 0, 0
    for case in cases["cases"]:
        tokens = torch.tensor([text[:case["prefix"]] + [case["next"]] + case["drafts"]])
        drafter = mtp.Drafter(cfg, params, tokens, model.forward(cfg, params, tokens)[0])
        for j, (want, margin) in enumerate(zip(case["drafts"], case["margins"])):
            f = drafter.next()[0][0, case["prefix"] + j - 1]
            wrong += int(model.linear(f, params["output.weight"]).argmax()) != want and margin > 0.02
            n += 1
    print(f"drafts {wrong} of {n} are not the reference's")
    return wrong == 0


def verify(directory):
    """Prints the largest logit difference of each case; returns whether all are within the fixture's limits."""
    expected = json.load(open(os.path.join(directory, "expected.json")))
    cfg, params = gguf_import.load(os.path.join(directory, expected["model"]))
    good = True
    with torch.no_grad():
        for name, case in expected["cases"].items():
            hidden, _ = model.forward(cfg, params, torch.tensor([read_tokens(directory, case["tokens"])]))
            got = model.linear(hidden[0, case["rows"]], params["output.weight"]).numpy()
            good = compare(name, got, directory, case, case["logits"]) and good
        if cfg.n_mtp:
            case = expected["mtp"]
            tokens = torch.tensor([read_tokens(directory, case["tokens"])])
            f, _ = mtp.Drafter(cfg, params, tokens, model.forward(cfg, params, tokens)[0]).next()
            got = model.linear(f[0], params["output.weight"]).numpy()
            good = compare("mtp", got, directory, case, case["logits"]) and good
            good = verify_chains(directory, cfg, params) and good
    return good
