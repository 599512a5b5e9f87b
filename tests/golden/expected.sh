#!/bin/sh
# Prints expected.json of a fixture model as lines for scanf in C.
# usage: expected.sh expected.json >expected.txt
jq -r '
"vocab \(.n_vocab)",
(.cases | to_entries[] |
  "case \(.key) \(.value.n_tokens) \(.value.tokens) \(.value.logits) \(.value.rows | length)",
  (.value.rows | map(tostring) | join(" ")),
  ([.value.tolerance | .mean_kl, .median_kl, .max_abs, .median_abs, .p90_abs, .top1] | map(if . == null then -1 else . end | tostring) | join(" ")),
  "peer \(.value.measured["llama.cpp, one batch"].mean_kl // -1)"),
"greedy \(.greedy.prompt | length) \(.greedy.tokens | length)",
(.greedy.prompt | map(tostring) | join(" ")),
(.greedy.tokens | map(tostring) | join(" ")),
(.greedy.margins | map(tostring) | join(" "))' "$1"
