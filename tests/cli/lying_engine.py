# SPDX-License-Identifier: ISC
# lying_engine.py MODEL: qengine, except that it answers questions about cached
# tokens with the number of all.  Records of 24 or fewer keys are maps of CBOR.
import os
import subprocess
import sys


def item(data, at):
	"""Where the item at a place ends; None if it is not complete."""
	if at >= len(data):
		return None
	major, n = data[at] >> 5, data[at] & 31
	at += 1
	if n >= 24:
		size = 1 << (n - 24)
		if at + size > len(data):
			return None
		n = int.from_bytes(data[at:at + size], "big")
		at += size
	if major in (2, 3):
		return at + n if at + n <= len(data) else None
	for _ in range({4: n, 5: 2 * n, 6: 1}.get(major, 0)):
		at = item(data, at)
		if at is None:
			return None
	return at


engine = subprocess.Popen(["qengine", "-q", "-t", "1", "--no-store", "-m",
    sys.argv[1]], stdout=subprocess.PIPE)
data = b""
while True:
	got = os.read(engine.stdout.fileno(), 1 << 16)
	if not got:
		break
	data += got
	while (end := item(data, 0)) is not None:
		record, data = data[:end], data[end:]
		key = record.find(b"\x68n_cached")
		if record.startswith(b"\xa4\x66cached") and key > 0:
			all = record[record.index(b"\x68n_prompt") + 9:key]
			record = record[:key + 9] + all + b"\x68n_stored\x00"
		os.write(1, record)
sys.exit(engine.wait())
