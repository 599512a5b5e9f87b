#!/bin/sh
# cuda.t - whole models on a card, or on the fake driver of tests/cuda: logits and
# states have the bits of the CPU.
"$B/tests/golden/bits" cuda:0 cuda:0@1 moving-cuda
