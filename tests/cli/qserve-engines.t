#!/bin/sh
# qserve: engines that break at each of their first events, while they work on several
# answers of a call and on other calls: each client gets the right answer or an error,
# and the server stays.  faults/relay.py breaks the engines.
. "$TOP/tests/cli/tap.sh"
needs "qserve and its engines" jq curl python3
. "$TOP/tests/cli/qserve.sh"

# at N HOW...: an engine breaks so after its N-th event, all kinds of calls being
# under way; prints what is wrong
cat >at.py <<'EOP'
import http.client, json, os, sys, threading, time
host, port = sys.argv[1].rsplit('/', 1)[1].split(':')
n, plan = sys.argv[2], 'plan'

def calls(k):
    u = [{'role': 'user', 'content': 'Tell me of it, %s' % k}]
    p = 'And it came %s' % k
    for stream in (True, False):
        yield '/v1/completions', dict(prompt=p, max_tokens=5, n=3, temperature=1, seed=3, stream=stream)
        yield '/v1/completions', dict(prompt=[p, p + ' to'], max_tokens=4, n=2, echo=True,
            logprobs=2, temperature=1, seed=4, stream=stream)
        yield '/v1/chat/completions', dict(messages=u, max_tokens=6, n=2, temperature=1, seed=5,
            stream=stream)
        yield '/v1/messages', dict(messages=u, max_tokens=5, temperature=0, stream=stream)
    yield '/v1/embeddings', dict(input=[p, p + ' to', p + ' to pass'])

def essence(path, v):
    """What an answer says, whatever its form; ValueError: it says nothing good."""
    if 'data' in v:
        return [d['embedding'] for d in v['data']]
    if path == '/v1/messages':
        return [b['text'] for b in v['content']]
    return [c['text'] if 'text' in c else c['message']['content']
        for c in sorted(v['choices'], key=lambda c: c['index'])]

def joined(path, text):
    """The same of a stream; None where it ends with an error, as it should."""
    data = [l[6:] for l in text.split('\n') if l.startswith('data: ')]
    events = [json.loads(d) for d in data if d != '[DONE]']
    errors = [i for i, e in enumerate(events) if 'error' in e]
    ends = data[-1] == '[DONE]' or events[-1]['type'] in ('message_stop', 'error')
    if not ends or errors not in ([], [len(events) - 1]):
        raise ValueError(text[-300:])
    if errors:
        return None
    out = {}
    for e in events:
        if path == '/v1/messages':
            if e['type'] == 'content_block_delta':
                out[0] = out.get(0, '') + e['delta']['text']
            continue
        for c in e['choices']:
            out[c['index']] = out.get(c['index'], '') + (c['text'] if 'text' in c
                else c['delta'].get('content') or '')
    return [out[i] for i in sorted(out)]

def ask(path, body):
    """What it says; None: an error that clients can read."""
    c = http.client.HTTPConnection(host, int(port), timeout=60)
    c.request('POST', path, json.dumps(body))
    r = c.getresponse()
    text = r.read().decode()
    if r.status != 200:
        error = json.loads(text)['error']
        if r.status not in (503, 529) or not error['message']:
            raise ValueError(text)
        return None
    return joined(path, text) if body.get('stream') else essence(path, json.loads(text))

def guarded(i, path, body, out):
    try:
        out[i] = ask(path, body)
    except Exception as e:
        out[i] = ValueError('%s: %r' % (path, e))

def all_ready():
    c = http.client.HTTPConnection(host, int(port), timeout=60)
    c.request('GET', '/metrics')
    lines = c.getresponse().read().decode().split('\n')
    return sum(l.startswith('qserve_engine_ready{') and l.endswith(' 1') for l in lines) == int(n)

answered = failed = 0
for k in sys.argv[3:]:
    end = time.time() + 30
    while not all_ready() and time.time() < end:
        time.sleep(0.05)
    # what was read for the last ones would draw these to the other engines
    todo, got = list(calls(k.replace(':', ' after '))), {}
    with open('plan.new', 'w') as f:
        f.write(k.replace(':', ' '))
    os.rename('plan.new', plan)
    th = [threading.Thread(target=guarded, args=(i, *c, got)) for i, c in enumerate(todo)]
    for t in th: t.start()
    for t in th: t.join()
    if os.path.exists(plan):
        print(k, 'nothing broke')
        os.unlink(plan)
    for i, (path, body) in enumerate(todo):
        if isinstance(got[i], ValueError):
            print(k, got[i])
        elif got[i] is None:
            failed += 1
        elif got[i] != ask(path, body):
            print(k, path, body, got[i])
        else:
            answered += 1
print('answered %d, failed %d' % (answered, failed), file=sys.stderr)
EOP
relay="qengine -q -t 1 --draft none --no-store | python3 '$TOP/tests/faults/relay.py' at '$PWD/plan'"
plain='exec qengine -q -t 1 --draft none --no-store'
for n in 1 3; do
	# the relay is not the only one, of several
	set -- --engine "$relay"
	[ $n = 1 ] || set -- "$@" --engine "$plain" --engine "$plain"
	serve --template qwen3 "$@"
	timeout 300 python3 at.py "$URL" $n 1:exit 1:garbage 1:half 2:exit 2:garbage \
	    3:exit 3:half 4:garbage 5:exit 7:garbage 10:exit 20:garbage >wrong 2>told
	is "$(head -n 5 wrong) $(grep -c '^answered [1-9]' told)" " 1" \
	    "one of $n engines breaks at each of its first events: $(tail -n 1 told)"
	end_server
	is "$gone" 0 "and the server stays"
done

# -- an engine that forgets a request: it says that it has nothing to do
serve --template qwen3 --engine "$relay"
echo 1 forget >plan.new
mv plan.new plan
curl -s -m 60 -d '{"prompt":"In the","max_tokens":2}' "$URL/v1/completions" >one &
one=$!
i=0
until grep -q 'not answered all requests (killed)' log || [ $i -ge 400 ]; do
	get /metrics >/dev/null
	sleep 0.05
	i=$((i + 1))
done
wait $one
is "$(jq .usage.completion_tokens one) $(grep -c 'not answered all requests (killed)' log)" \
    "2 1" "an engine that forgets a request is killed, and the next one answers"
end_server

# -- engines that are silent: one of two does not hold up the requests of others
long='"prompt":"And it came to pass","max_tokens":4000,"min_tokens":4000'
begin() {
	t=$(date +%s)
}
within() {	# SECONDS WORDS: that many since begin, at most
	n=$(($(date +%s) - t))
	[ "$n" -le "$1" ]
	ok $? "$2: $n s"
}
serve --stall 4 --engine "$plain" --engine "$plain"
until_stat engine_ready 2
curl -s -m 60 -d "{$long}" "$URL/v1/completions" >one &
one=$!
until_stat engine_running 1
post /v1/completions '{"prompt":"And","max_tokens":1}' >/dev/null
first=$(engine_pid)
kill -STOP "$first"
begin
for k in 1 2 3; do
	post /v1/completions '{"prompt":"In the","max_tokens":2}' | jq -c .usage.completion_tokens
done >got
is "$(xargs <got)" "2 2 2" "one of two engines is stopped: the other one answers"
get /metrics >got
is "$(awk '/^qserve_engine_silent_seconds/ { n++; m += $2 > 0 } END { print n, m }' got)" "2 1" \
    "and /metrics tells which one is silent"
within 5 "all of that"
i=0
until [ $i -ge 200 ] || [ "$(get /health)" = '{"status":"ok","engines":2,"stuck":1}' ]; do
	sleep 0.05
	i=$((i + 1))
done
is "$(cat answer) $(cat code)" '{"status":"ok","engines":2,"stuck":1} 200' "so does /health"
begin
wait $one
is "$(jq .usage.completion_tokens one)" 4000 \
    "after --stall the engine is ended: what it worked on another one does"
i=0
until grep -q 'no answer for' log || [ $i -ge 800 ]; do
	sleep 0.05
	i=$((i + 1))
done
silent=$(sed -n 's/.*no answer for \([0-9]*\) s (killed)/\1/p' log)
[ "${silent:-0}" -ge 6 ]
ok $? "after 6 s of silence: ${silent:-none}"
within 40 "that took"
end_server
is "$gone" 0 "the end"

# -- the same when no client is left: nothing else wakes the server
serve --stall 4 --engine "$plain" --engine "$plain"
until_stat engine_ready 2
# both have computed: before that, an engine has more time
curl -s -m 60 -d "{$long}" "$URL/v1/completions" >one &
one=$!
until_stat engine_running 1
post /v1/completions '{"prompt":"And","max_tokens":2}' >/dev/null
wait $one
kill -STOP "$(engine_pid)"
post /v1/completions '{"prompt":"And","max_tokens":1}' >/dev/null
begin
until grep -q 'no answer for' log || [ $(($(date +%s) - t)) -ge 40 ]; do
	sleep 0.2
done
is "$(grep -c 'no answer for' log)" 1 "an idle server ends an engine that is silent"
end_server
is "$gone" 0 "and ends itself"

serve --stall 4 --draft none -t 1
: >stream
curl -sN -m 60 -d "{$long,\"stream\":true}" "$URL/v1/completions" >stream &
one=$!
i=0
while ! grep -q data stream && [ $i -lt 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
kill -STOP "$(engine_pid)"
i=0
begin
until [ $i -ge 300 ] || [ "$(get /health)" = '{"status":"stuck","engines":1,"stuck":1}' ]; do
	sleep 0.05
	i=$((i + 1))
done
is "$(cat code)" 503 "the only engine is stopped: /health says so"
end_server
wait $one
is "$gone $(sed -n '/"error"/s/^data: //p' stream | jq -r .error.code) $(tail -c 15 stream | xargs)" \
    "0 unavailable data: [DONE]" "SIGTERM: nobody waits for it"
within 20 "that took"

# -- no descriptors: fewer clients at a time, no busy loop, and engines start again
cat >idle.py <<'EOP'
import os, socket, sys, time
s = []
for i in range(60):
    c = socket.socket(socket.AF_UNIX)
    c.setblocking(False)
    c.connect('U')
    s.append(c)
used = lambda: sum(map(int, open('/proc/%s/stat' % sys.argv[1]).read().split()[13:15]))
a = used()
time.sleep(2)
print(int(used() - a < 20))
os.kill(int(sys.argv[2]), 9)
time.sleep(2)
EOP
if [ -e /proc/self/stat ]; then
	(
		ulimit -n 40
		exec qserve --listen unix:U -t 1 --no-store 2>log
	) &
	pid=$!
	i=0
	until curl -sf --unix-socket U http://localhost/health >/dev/null || [ $i -ge 200 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	is "$(timeout 60 python3 idle.py $pid "$(engine_pid)")" 1 "60 clients, 40 descriptors: it rests"
	is "$(curl -s -m 20 -d '{"prompt":"And","max_tokens":3}' --unix-socket U \
	    http://localhost/v1/completions | jq .usage.completion_tokens)" 3 \
	    "the engine was killed, and is there again"
	is "$(grep -c 'at most 18 clients at the same time' log)" 1 "that there are fewer is told"
	end_server
	is "$gone" 0 "and the server stays"
else
	skip "descriptors" "no /proc"
fi
(ulimit -n 20; exec qserve --listen unix:U -t 1 --no-store) 2>err
is "$? $(wc -l <err) $(grep -c 'ulimit -n' err)" "1 1 1" "too few of them: one line"
done_testing
