#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""
relay.py - relays events of an engine to qserve, and breaks some of them.

  qengine ... | relay.py at PLAN
      Passes all events, until there is a file PLAN, "N HOW".  Then removes the
      file, holds back the next N events (fewer if half a second passes without
      one), writes them at once, and does HOW:
        exit      closes the output
        garbage   writes bytes that are no event, then nothing
        half      writes half of the next event, and closes the output
        silent    writes nothing any more
        forget    leaves out the next end of a request, and passes all else
  qengine ... | relay.py random SEED RATE
      Changes, repeats, drops or holds back this share of the events, or adds
      unrequested events after them; sometimes closes the output.

The random numbers of a SEED are the same with every version of Python.
"""
import os
import random
import select
import struct
import sys
import time


class Tag:
    def __init__(self, number, value):
        self.number, self.value = number, value


class Float:
    def __init__(self, value, size):
        self.value, self.size = value, size


def decode(b, i=0):
    """A CBOR item of b at i, and where the next one is; IndexError: too short."""
    major, low = b[i] >> 5, b[i] & 31
    i += 1
    if major == 7:
        if low in (20, 21, 22):
            return (False, True, None)[low - 20], i
        size = {25: 2, 26: 4, 27: 8}[low]
        if i + size > len(b):
            raise IndexError
        form = {2: '>e', 4: '>f', 8: '>d'}[size]
        return Float(struct.unpack(form, b[i:i + size])[0], size), i + size
    n = low
    if low >= 24:
        size = 1 << (low - 24)
        if low > 27 or i + size > len(b):
            raise IndexError
        n = int.from_bytes(b[i:i + size], 'big')
        i += size
    if major == 0:
        return n, i
    if major == 1:
        return -1 - n, i
    if major in (2, 3):
        if i + n > len(b):
            raise IndexError
        s = b[i:i + n]
        return (bytes(s) if major == 2 else s.decode('utf8', 'surrogateescape')), i + n
    if major == 6:
        v, i = decode(b, i)
        return Tag(n, v), i
    items = []
    for _ in range(n * (2 if major == 5 else 1)):
        v, i = decode(b, i)
        items.append(v)
    return (dict(zip(items[::2], items[1::2])) if major == 5 else items), i


def head(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    for size, low in ((1, 24), (2, 25), (4, 26), (8, 27)):
        if n < 1 << (8 * size):
            return bytes([major << 5 | low]) + n.to_bytes(size, 'big')
    raise OverflowError


def encode(v):
    if v is False or v is True or v is None:
        return {False: b'\xf4', True: b'\xf5', None: b'\xf6'}[v]
    if isinstance(v, Float):
        low, form = {2: (25, '>e'), 4: (26, '>f'), 8: (27, '>d')}[v.size]
        return bytes([7 << 5 | low]) + struct.pack(form, v.value)
    if isinstance(v, float):
        return b'\xfb' + struct.pack('>d', v)
    if isinstance(v, int):
        return head(0, v) if v >= 0 else head(1, -1 - v)
    if isinstance(v, bytes):
        return head(2, len(v)) + v
    if isinstance(v, str):
        b = v.encode('utf8', 'surrogateescape')
        return head(3, len(b)) + b
    if isinstance(v, list):
        return head(4, len(v)) + b''.join(map(encode, v))
    if isinstance(v, Tag):
        return head(6, v.number) + encode(v.value)
    return head(5, len(v)) + b''.join(encode(k) + encode(x) for k, x in v.items())


def events(patience=lambda: None):
    """Each event on stdin: what it says, and its bytes; None where none comes."""
    buf = b''
    while True:
        while not select.select([0], [], [], patience())[0]:
            yield None, b''
        got = os.read(0, 1 << 16)
        if not got:
            return
        buf += got
        while buf:
            try:
                event, n = decode(buf)
            except IndexError:
                break
            yield event, buf[:n]
            buf = buf[n:]


def write(b):
    while b:
        b = b[os.write(1, b):]


def at(plan):
    left, how, held, forget = 0, None, b'', False
    for event, raw in events(lambda: 0.5 if held else None):
        if forget and 'end' in (event or ()):
            forget = False
            continue
        if how is None and os.path.exists(plan):
            with open(plan) as f:
                left, how = f.read().split()
            left = int(left)
            os.unlink(plan)
        if how is None:
            write(raw)
            continue
        held += raw
        left -= 1
        if left > 0 and event is not None:
            continue
        if how == 'half':
            held += raw[:len(raw) // 2]
        elif how == 'garbage':
            held += b'\xff\xff'
        write(held)
        if how == 'forget':
            how, held, forget = None, b'', True
            continue
        while how in ('garbage', 'silent'):
            time.sleep(1)
        return


NUMBERS = [0, 1, 2, 3, 4095, 4096, 4097, 255999, 256000, 151935, 151936, 2**20 - 1,
    2**20, 2**20 + 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63,
    2**64 - 1]
WORDS = ['', 'a', '0.0', '0.1', '1.1', '999999999.1', '\0', 'x' * 50, 'x' * 127,
    'x' * 128, 'x' * 129, 'x' * 5000, 'refused', 'draining', 'ending', 'length', 'done',
    'failed', 'cancelled', 'deadline', 'repeats', 'busy', 'invalid_request', '\x1b[31m',
    '"\\\n', 'é' * 100]
KEYS = ['end', 'token', 'score', 'hidden', 'started', 'why', 'error', 'message', 'at',
    'n_cached', 'top_ids', 'stats', 'qwen', 'cached', 'id']


class Breaker:
    def __init__(self, seed, rate):
        self.r, self.rate = random.Random(seed), rate
        self.ids, self.held = ['x'], []

    def change(self, event):
        r, e = self.r, dict(event)
        key, how = r.choice(list(e)), r.randrange(10)
        v = e[key]
        if how == 0:
            del e[key]
        elif isinstance(v, int) and how < 8:
            e[key] = r.choice(NUMBERS)
        elif isinstance(v, Tag) and isinstance(v.value, bytes):
            b = v.value
            b = r.choice([b[:len(b) // 8 * 4], b * 2, b * 10, b'', b[:4], b + bytes(4),
                bytes(r.randrange(256) for _ in b)])
            if len(b) < 1000000:
                e[key] = Tag(v.number, b)
        elif isinstance(v, str):
            e[key] = r.choice(WORDS + self.ids)
        elif isinstance(v, Float):
            e[key] = Float(r.choice([0.0, 1.0, -1.0, float('inf'), float('nan')] +
                ([1e308, -1e308, 5e-324] if v.size == 8 else [])), v.size)
        elif how == 9:
            e[r.choice(KEYS)] = r.choice([0, 1, 'a', 'done', self.ids[-1], 2**64 - 1])
        return encode(e)

    def unasked(self):
        """An event, with the id of something."""
        r, i = self.r, self.r.choice(self.ids)
        n = r.choice(NUMBERS)
        return encode(r.choice([
            {'id': i, 'token': n},
            {'id': i, 'hidden': Tag(85, bytes(4 * r.choice((0, 1, 2, 256, 300, 250000)))),
                'at': n},
            {'id': i, 'score': -1.0, 'at': n, 'rank': 0},
            {'started': i, 'n_prompt': n, 'n_cached': r.choice(NUMBERS)},
            {'cached': i, 'n_prompt': 1, 'n_cached': n, 'n_stored': r.choice(NUMBERS)},
            {'end': i, 'why': r.choice(WORDS), 'n_prompt': 1, 'n_cached': 0, 'n_tokens': 0,
                'error': r.choice(WORDS), 'message': 'm'}]))

    def broken(self, event, raw):
        """What becomes of an event; None: the output ends."""
        r, how = self.r, self.r.randrange(14)
        if how < 6:
            try:
                return self.change(event)
            except (TypeError, OverflowError, struct.error):
                return raw
        if how == 6:
            return raw * r.choice((2, 3, 50))
        if how == 7:
            return b''
        if how < 10:
            return r.choice(self.held or [raw]) + (raw if how == 9 else b'')
        if how < 12:
            return self.unasked() + raw
        if how == 12:
            b = bytearray(raw)
            b[r.randrange(len(b))] ^= 1 << r.randrange(8)
            return bytes(b)
        return None if r.random() < 0.2 else raw

    def run(self):
        first = True
        for event, raw in events():
            # that it is there at all, most of the time
            rate, first = self.rate / 5 if first else self.rate, False
            for k in ('id', 'started', 'end', 'cached'):
                if isinstance(event.get(k), str):
                    self.ids = self.ids[-20:] + [event[k]]
            self.held = self.held[-50:] + [raw]
            if self.r.random() < rate:
                raw = self.broken(event, raw)
                if raw is None:
                    return
            write(raw)


if __name__ == '__main__':
    try:
        if sys.argv[1] == 'at':
            at(sys.argv[2])
        else:
            Breaker(int(sys.argv[2]), float(sys.argv[3])).run()
    except BrokenPipeError:
        pass
