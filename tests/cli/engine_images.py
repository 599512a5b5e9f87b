# SPDX-License-Identifier: ISC
# engine_images.py N: makes of a JSON stream of tokens with images (stdin) a
# request to qengine for N tokens with their log-probabilities.
import json
import sys

M = (1 << 64) - 1


def mix(x):
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & M
	x = (x ^ x >> 27) * 0x94d049bb133111eb & M
	return x ^ x >> 31


def span_id(hash, i):
	"""The id of row i of a span, as in lib/base/span.c."""
	a, b = (int.from_bytes(hash[k:k + 8], "little") for k in (0, 8))
	return -1 - (mix(mix((a + (i + 1) * 0x9e3779b97f4a7c15) & M) ^ b) >> 33)


ids, spans, images, rows = [], [], [], {}
for line in sys.stdin:
	r = json.loads(line)
	if "span" in r:
		hash = bytes.fromhex(r["hash"])
		spans += [len(ids), r["span"], *r["grid"]] + [int.from_bytes(
		    hash[i:i + 4], "little", signed=True) for i in (0, 4, 8, 12)]
		ids += [span_id(hash, i) for i in range(r["span"])]
		images.append(r["hash"])
	elif "rows" in r:
		rows.setdefault(r["hash"], []).extend(r["rows"])
	elif "tokens" in r:
		ids += r["tokens"]
print(json.dumps({"id": "a", "tokens": ids, "max": int(sys.argv[1]),
    "ending": [], "logprobs": 0, "spans": spans,
    "rows": [x for h in images for x in rows[h]]}))
