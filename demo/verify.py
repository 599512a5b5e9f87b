# SPDX-License-Identifier: ISC
"""Proves model.py right: its logits on fixture models against the reference logits."""
import json
import os

import numpy as np
import torch

import gguf_import
import model


def verify(directory):
    """Prints the largest logit difference of each case; returns whether all are within the fixture's limits."""
    expected = json.load(open(os.path.join(directory, "expected.json")))
    cfg, params = gguf_import.load(os.path.join(directory, expected["model"]))
    good = True
    for name, case in expected["cases"].items():
        text = open(os.path.join(directory, case["tokens"])).read()
        tokens = torch.tensor([[int(t) for t in text.split()]])
        with torch.no_grad():
            got = model.linear(model.forward(cfg, params, tokens)[0][0, case["rows"]], params["output.weight"]).numpy()
        want = np.fromfile(os.path.join(directory, case["logits"]), "<f4").reshape(got.shape)
        diff, limit = float(np.abs(got - want).max()), case["tolerance"]["max_abs"]
        good = good and diff <= limit
        print(f"{name:6s} max |logit difference| {diff:.3g} (limit {limit:.3g}, logits up to {np.abs(want).max():.3g})")
    return good
