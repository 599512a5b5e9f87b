#!/bin/sh
# Prints drafts-n65.json and expected.json of a folder as lines for scanf in C:
# number of ids of the vocabulary, limits of draft logits (KL, largest difference);
# then texts, each with its length and number of chains, its ids, and the chains:
# number of ids read, next id, length; for each draft its id, and how far behind
# the second best one is.
# usage: drafts.sh FOLDER >lines
dir=$1
jq -r '"\(.n_vocab) \(.mtp.tolerance.mean_kl) \(.mtp.tolerance.max_abs)"' \
    "$dir/expected.json"
jq -r --rawfile text "$dir/tokens-n65.txt" '
def chain($at; $margins): "\($at) \(.next) \(.drafts | length)",
  ([.drafts, $margins] | transpose | map("\(.[0]) \(.[1])") | join(" "));
($text | [scan("[0-9]+")]) as $ids |
"\($ids | length) \(.cases | length)", ($ids | join(" ")),
(.cases[] | chain(.prefix; .margins)),
(.runs // [] | .[] | (.prompt + .tokens) as $ids |
  "\($ids | length) \(.rounds | length)", ($ids | map(tostring) | join(" ")),
  (.rounds[] | chain(.processed; .draft_margins)))' "$dir/drafts-n65.json"
