#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""
server.py - runs qserve with faults around it.

  server.py memory PRELOAD.so    an allocation of the server fails (alloc.c)
  server.py call                 a system call of the server fails, by strace(1)
  server.py engines              events of engines are changed (relay.py); engines
                                 are stopped, killed and start again, while
                                 clients disconnect

  RUNS=N, or FAULT_SECONDS=N     number of runs, or their time
  INJECT=CALL:error=...          for call: the system call, in strace's form
  SEED=N                         seed of the choices; QWEN_MODEL is the model
  ENGINE=COMMAND                 qengine; may be another build than qserve
  ENGINES=N ENGINES_SECONDS=N    for engines: number of engines, and time

The first two send a fixed list of requests.  Each request must get the answer that
it gets without a fault, or a server error (500 and above), or a closed connection;
then the server must exit with status 0, or with 1 and one line that says why.  In
the third one, the server must stay, answer, and exit with status 0.

The last line is "KIND runs failed slowest memory", in seconds and MiB.
"""
import base64
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINE = os.environ.get('ENGINE', 'qengine -t 1') + ' -q --draft none --no-store --mem 100M'
USER = [{'role': 'user', 'content': 'Tell me of it.'}]
TOOL = [{'type': 'function', 'function': {'name': 'f', 'parameters': {'type': 'object',
    'properties': {'a': {'type': 'string'}}}}}]
# of every kind, short, and the same each time
REQUESTS = [
    ('/v1/completions', {'prompt': ['And', 'In the'], 'max_tokens': 3, 'n': 2, 'seed': 1,
        'temperature': 1, 'echo': True, 'logprobs': 2}),
    ('/v1/completions', {'prompt': 'And', 'max_tokens': 4, 'stream': True, 'temperature': 0}),
    ('/v1/chat/completions', {'messages': USER, 'max_tokens': 4, 'n': 2, 'seed': 2,
        'temperature': 1, 'stop': ['xyz']}),
    ('/v1/chat/completions', {'messages': USER + [{'role': 'assistant', 'content': 'Yea.'}] +
        USER, 'max_tokens': 4, 'stream': True, 'temperature': 0, 'tools': TOOL}),
    ('/v1/chat/completions', {'messages': USER, 'max_tokens': 6, 'temperature': 0,
        'response_format': {'type': 'json_object'}, 'logit_bias': {'5': 1}}),
    ('/v1/responses', {'input': 'And?', 'max_output_tokens': 3, 'temperature': 0}),
    ('/v1/messages', {'messages': USER, 'max_tokens': 3, 'temperature': 0, 'stream': True}),
    ('/v1/messages/count_tokens', {'messages': USER}),
    ('/v1/embeddings', {'input': ['a', 'b c']}),
    ('/v1/rerank', {'query': 'a', 'documents': ['b', 'c']}),
    ('/tokenize', {'content': 'In the beginning', 'with_pieces': True}),
    ('/tokenize', {'messages': USER}),
    ('/detokenize', {'tokens': [65, 66, 67]}),
    ('/apply-template', {'messages': USER}),
    ('/api/chat', {'messages': USER, 'options': {'num_predict': 3, 'temperature': 0}}),
    ('/api/show', {'model': 'x'}),
    ('/v1/models', None), ('/props', None), ('/health', None), ('/metrics', None),
    ('/nothing', None),
    ('/v1/chat/completions', {'messages': 5}),
]
# what is another each time, whatever else is the same
VARIES = ('id', 'created', 'created_at', 'total_duration', 'load_duration', 'completed_at',
    'prompt_eval_duration', 'eval_duration', 'modified_at', 'timings', 'usage', 'seed')


def parse(data):
    """Status and body of an answer; None: the connection was closed before its end."""
    head, sep, body = data.partition(b'\r\n\r\n')
    if not sep:
        return None
    lower = head.lower()
    status = int(head.split(b' ')[1])
    if b'transfer-encoding: chunked' in lower:
        out = b''
        while True:
            size, sep, body = body.partition(b'\r\n')
            if not sep or len(body) < int(size, 16) + 2:
                return None
            if int(size, 16) == 0:
                return status, out
            out, body = out + body[:int(size, 16)], body[int(size, 16) + 2:]
    for line in lower.split(b'\r\n'):
        if line.startswith(b'content-length: ') and len(body) < int(line[16:]):
            return None
    return status, body


def plain(v):
    """Without what varies."""
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items() if k not in VARIES}
    return [plain(x) for x in v] if isinstance(v, list) else v


def said(path, answer):
    """What an answer says; of a stream the texts, joined."""
    status, body = answer
    if path in ('/metrics', '/v1/models', '/props'):
        return status
    text = body.decode()
    if not text.startswith(('event:', 'data:')):  # lines of a stream of Ollama's, or one
        lines = [json.loads(l) for l in text.split('\n') if l]
        return (500, None) if status == 200 and 'error' in lines[-1] else (status, plain(lines))
    out = ''
    for l in text.split('\n'):
        if not l.startswith('data: {'):
            continue
        e = json.loads(l[6:])
        if 'error' in e:
            return 500, None
        if 'choices' in e:
            for c in e['choices']:
                out += c['text'] if 'text' in c else c['delta'].get('content') or ''
        elif e.get('type') == 'content_block_delta':
            out += e['delta'].get('text', '')
    return status, out


class Server:
    def __init__(self, folder, engines, env=None, wrap=(), more=()):
        self.path, self.err, self.traced = folder + '/S', folder + '/err', False
        args = ['qserve', '--listen', 'unix:' + self.path, '--template', 'qwen3', *more]
        for e in engines:
            args += ['--engine', e]
        with open(self.err, 'w') as err:
            self.p = subprocess.Popen([*wrap, *args], stdout=subprocess.DEVNULL, stderr=err,
                env=dict(os.environ, **(env or {})), start_new_session=True)

    def ask(self, path, body=None, timeout=30, leave=False):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        try:
            s.connect(self.path)
            b = json.dumps(body).encode() if body is not None else b''
            s.sendall(('%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n'
                'Content-Length: %d\r\n\r\n' % ('GET' if body is None else 'POST', path,
                len(b))).encode() + b)
            data = b''
            while (got := s.recv(1 << 16)):
                data += got
                if leave:
                    return None
            return parse(data)
        except (ConnectionError, FileNotFoundError):
            return None
        finally:
            s.close()

    def ready(self, seconds=60):
        end = time.time() + seconds
        while self.p.poll() is None and time.time() < end:
            a = self.ask('/health', timeout=10)
            if a is not None and a[0] == 200:
                return True
            time.sleep(0.01)
        return False

    def end(self, seconds=60):
        """Its status; None: it had to be killed."""
        if self.p.poll() is None:
            try:
                # strace is not what is to end
                os.kill(self.pid(), signal.SIGTERM)
            except ProcessLookupError:
                pass
        try:
            return self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.p.pid, signal.SIGKILL)
            self.p.wait()
            return None

    def children(self, pid=None):
        out = subprocess.run(['ps', '-o', 'pid=,ppid=', '-A'], capture_output=True, text=True)
        return [int(p) for p, parent in map(str.split, out.stdout.splitlines())
            if int(parent) == (pid or self.pid())]

    def pid(self):
        """Of the server, which may be a child of strace."""
        return (self.children(self.p.pid) or [self.p.pid])[0] if self.traced else self.p.pid

    def log(self):
        with open(self.err, errors='replace') as f:
            return f.read()


def requests(server):
    """What each of them says; None: nothing."""
    out = []
    for path, body in REQUESTS:
        try:
            a = server.ask(path, body)
        except TimeoutError:
            raise TimeoutError(path)
        out.append(a and said(path, a))
    return out


def judge(want, got, status, log, why):
    """What is wrong, or None."""
    for (path, _), w, g in zip(REQUESTS, want, got):
        if g is None or g == w:
            continue
        if (g if isinstance(g, int) else g[0]) < 500:
            return '%s says %.300r, not %.300r' % (path, g, w)
    if status not in (0, 1) and not got and 'qserve: listening' not in log:
        return None  # it was not even loaded
    if status not in (0, 1):
        return 'status %s' % status
    lines = [l for l in log.split('\n') if l and why in l]
    if status == 1 and not lines:
        return 'status 1 without a reason: ' + log[-300:]
    return None


def faulty(s, want, why, what):
    """The requests to a server with a fault: what is wrong, or None."""
    try:
        got = requests(s) if s.ready() else []
    except TimeoutError as e:
        # where all memory is gone for good no engine is ready any more
        if not what.endswith('+'):
            s.end(5)
            return '%s: no answer to %s' % (what, e)
        got = []
    status = s.end()
    # where the signal's handler cannot tell the loop, it lets the signal end the server
    if status == -signal.SIGTERM and re.match('inject=write:error=(EAGAIN|EPIPE):', what):
        status = 0
    lost.append(status == 1 and bool(got))
    bad = judge(want, got, status, s.log(), why)
    return bad and '%s: %s' % (what, bad)


def memory(r, folder, want, preload):
    global places
    off = 'env -u LD_PRELOAD '
    if not places:
        s = Server(folder, [off + ENGINE], {'LD_PRELOAD': preload, 'FAULT_LOG': folder + '/places'})
        s.ready()
        requests(s)
        s.end()
        with open(folder + '/places') as f:
            places = [l.split()[:2] for l in f]
    name, met = r.choice(places)
    at = '%s:%d%s' % (name, r.randint(1, int(met)), r.choice(('', '', '+')))
    s = Server(folder, [off + ENGINE], {'LD_PRELOAD': preload, 'FAULT_AT': at})
    return faulty(s, want, 'out of memory', 'FAULT_AT=' + at)


# what it may be told, by each of its calls; not that nothing is there where something
# is, of sockets, for which libmicrohttpd is told once
CALLS = {'accept': 'EMFILE ENFILE ECONNABORTED EINTR ENOMEM', 'read': 'EINTR EIO EAGAIN',
    'write': 'EINTR EAGAIN EPIPE', 'poll': 'EINTR', 'sendto': 'EINTR ECONNRESET',
    'sendmsg': 'EINTR EPIPE', 'recvfrom': 'EINTR ECONNRESET', 'pipe,pipe2': 'EMFILE ENFILE',
    'clone,fork,vfork,clone3': 'EAGAIN ENOMEM', 'epoll_ctl': 'ENOMEM ENOSPC', 'epoll_wait': 'EINTR',
    'mmap': 'ENOMEM', 'fcntl': 'EINVAL', 'openat': 'EMFILE EACCES',
    'getrandom': 'EINTR', 'wait4,waitid': 'EINTR', 'setsockopt,getsockopt': 'ENOBUFS'}


def call(r, folder, want, _):
    name = r.choice(list(CALLS))
    what = os.environ.get('INJECT')
    what = what or '%s:error=%s:when=%d%s' % (name, r.choice(CALLS[name].split()),
        r.choice((r.randint(1, 10), r.randint(1, 300))), r.choice(('', '', '+%d' % r.randint(2, 9))))
    s = Server(folder, [ENGINE], wrap=['strace', '-q', '-o', '/dev/null', '-e', 'signal=none', '-e',
        'inject=' + what])
    s.traced = True
    return faulty(s, want, 'qserve: ', 'inject=' + what)


# A request waits for 42 s where an engine is silent that has computed nothing yet: 10 s,
# after which it is asked, and ten times --stall and 2 s.  It may meet two of these, and
# each time wait for up to 10 s until one is started again.
PATIENCE = 120


def engines(r, folder, want, _):
    """Half a minute, as of an hour of bad luck."""
    seed, n = r.randrange(1 << 30), int(os.environ.get('ENGINES', r.randint(1, 3)))
    relay = "%s | python3 '%s/relay.py' random %d 0.02"
    s = Server(folder, [relay % (ENGINE, HERE, seed + i) for i in range(n)] +
        [ENGINE] * r.randrange(2), more=['--stall', '3'])
    end, slow, bad = time.time() + float(os.environ.get('ENGINES_SECONDS', 30)), [0.0], []

    def client(k):
        q = random.Random(seed + k)
        while time.time() < end and s.p.poll() is None:
            path, body = q.choice(REQUESTS)
            began = time.time()
            try:
                s.ask(path, body, leave=q.random() < 0.1, timeout=PATIENCE)
            except TimeoutError:
                bad.append('%s: no answer' % path)
            slow[0] = max(slow[0], time.time() - began)

    if not s.ready():
        # its engines may all have failed before they were ready
        return None if s.end() == 1 and 'before it was ready' in s.log() else 'not ready: ' + s.log()[-300:]
    th = [threading.Thread(target=client, args=(k,)) for k in range(5)]
    for t in th:
        t.start()
    while time.time() < end and s.p.poll() is None:
        time.sleep(0.3)
        for e in s.children():
            x = r.random()
            if x < 0.3:
                try:
                    os.killpg(e, signal.SIGKILL if x < 0.2 else signal.SIGSTOP)
                except ProcessLookupError:
                    pass
    for t in th:
        t.join()
    status = s.end()
    # one that is stopped does not end, one that was killed just now has not ended well
    if status != 0 and not (status == 1 and ('did not end in time: killed' in s.log() or
            ': ended with ' in s.log())):
        bad.append('status %s: %s' % (status, s.log()[-2000:]))
    times.append(slow[0])
    return '; '.join(bad[:3]) and 'SEED=%d: %s' % (seed, '; '.join(bad[:3]))


def main():
    kind, preload = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    r = random.Random(int(os.environ.get('SEED', '1')))
    until = time.time() + float(os.environ['FAULT_SECONDS']) if 'FAULT_SECONDS' in os.environ else None
    runs, failed, slowest, most = int(os.environ.get('RUNS', '10')), 0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        want = []
        if kind != 'engines':
            s = Server(folder, [ENGINE])
            if not s.ready():
                sys.exit(s.log())
            want = requests(s)
            if None in want or s.end() != 0:
                sys.exit('%r %s' % (want, s.log()))
        n = 0
        while n < runs if until is None else time.time() < until:
            n += 1
            began = time.time()
            bad = {'memory': memory, 'call': call, 'engines': engines}[kind](r, folder, want, preload)
            slowest = max(slowest, time.time() - began)
            if bad:
                failed += 1
                print('# %s' % bad, flush=True)
    print('# %d of %d servers ended for that' % (sum(lost), len(lost)), file=sys.stderr)
    if times:
        print('# the longest answer took %.1f s' % max(times), file=sys.stderr)
    print(kind, n, failed, '%.1f' % slowest, most)
    sys.exit(failed > 0)


places, lost, times = [], [], []
if __name__ == '__main__':
    main()
