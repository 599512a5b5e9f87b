#!/usr/bin/env python3
"""Measures a conversation of ten turns with tools, on several servers in turn.

    turns.py [--words N] [--turns N] [--restart K] NAME=COMMAND...

Each COMMAND is a shell command that serves a model at $PORT of 127.0.0.1 with
OpenAI's API.  Prints for each turn: tokens of the prompt, how many of them the
server read (did not find in its cache), seconds to the complete answer.  Every
second turn requests a tool call, and the next one sends its result.  After turn K
the server is stopped by SIGTERM and started again.
"""
import argparse, json, os, signal, subprocess, sys, tempfile, time
import urllib.request

WORDS = ('state cache prompt token layer expert router weight block page memory '
         'thread kernel vector matrix number answer letter river mountain harvest '
         'winter market window garden engine paper copper silver thunder').split()

TOOLS = [{'type': 'function', 'function': {
    'name': name, 'description': 'Look at %s of a project.' % what,
    'parameters': {'type': 'object', 'required': ['number', 'kind'],
        'properties': {'number': {'type': 'integer', 'enum': [1, 2, 3, 4]},
            'kind': {'enum': ['short', 'whole']}}}}}
    for name, what in (('read_page', 'a page'), ('list_files', 'the files'))]


def text(n, seed):
    out = []
    for i in range(n):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append(WORDS[(seed >> 33) % len(WORDS)])
        if i % 12 == 11:
            out[-1] += '.'
    return ' '.join(out)


class Server:
    def __init__(self, command, port):
        self.port = port
        self.command = command
        self.start()

    def start(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(['sh', '-c', 'exec ' + self.command],
            env=dict(os.environ, PORT=str(self.port)), stdout=self.log,
            stderr=self.log)
        while True:
            if self.process.poll() is not None:
                self.log.seek(0)
                sys.exit('turns.py: %s ended: %s' % (self.command,
                    self.log.read().decode(errors='replace')[-500:]))
            try:
                self.ask('/health', None)
                return
            except OSError:
                time.sleep(0.2)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def ask(self, path, body):
        request = urllib.request.Request('http://127.0.0.1:%d%s' % (self.port,
            path), json.dumps(body).encode() if body else None,
            {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=1200) as r:
            return json.load(r)


def turn(server, messages, call):
    body = {'messages': messages, 'tools': TOOLS, 'max_tokens': 48,
        'temperature': 0.7, 'seed': 1,
        'chat_template_kwargs': {'enable_thinking': False}}
    if call:
        body.update(tool_choice='required', max_tokens=200)
    t = time.time()
    got = server.ask('/v1/chat/completions', body)
    t = time.time() - t
    usage = got['usage']
    cached = usage.get('prompt_tokens_details', {}).get('cached_tokens', 0)
    if 'timings' in got:
        cached = usage['prompt_tokens'] - got['timings']['prompt_n']
    message = got['choices'][0]['message']
    return message, usage['prompt_tokens'], cached, t


def converse(name, server, o):
    messages = [{'role': 'system', 'content': 'You help with a project. ' +
        text(o.words, 1)}]
    all_read = all_s = 0
    for k in range(1, o.turns + 1):
        call = k % 2 == 1
        if messages[-1].get('tool_calls'):
            messages += [{'role': 'tool', 'tool_call_id': c['id'],
                'content': text(o.words // 16, k)}
                for c in messages[-1]['tool_calls']]
        else:
            messages.append({'role': 'user', 'content': 'Question %d: %s' % (k,
                text(o.words // 16, 100 + k))})
        message, n, cached, t = turn(server, messages, call)
        kept = {'role': 'assistant', 'content': message.get('content') or ''}
        if message.get('tool_calls'):
            kept['tool_calls'] = message['tool_calls']
        messages.append(kept)
        all_read += n - cached
        all_s += t
        print('%-8s %4d  %-6s %8d %8d %8.2f' % (name, k, 'call' if
            kept.get('tool_calls') else 'text', n, n - cached, t), flush=True)
        if k == o.restart:
            server.end()
            t = time.time()
            server.start()
            print('%-8s restarted %28.2f' % (name, time.time() - t))
    print('%-8s in all %23d %8.2f' % (name, all_read, all_s))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--words', type=int, default=5000)
    p.add_argument('--turns', type=int, default=10)
    p.add_argument('--restart', type=int, default=0)
    p.add_argument('server', nargs='+')
    o = p.parse_args()
    print('%-8s %4s  %-6s %8s %8s %8s' % ('server', 'turn', 'answer', 'prompt',
        'read', 'seconds'))
    for i, s in enumerate(o.server):
        name, command = s.split('=', 1)
        server = Server(command, 18080 + i)
        try:
            converse(name, server, o)
        finally:
            server.end()


main()
