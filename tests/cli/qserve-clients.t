#!/bin/sh
# qserve: clients that disconnect, stall, are slow or send garbage, full queues,
# and engines that die affect only their own requests.
. "$TOP/tests/cli/tap.sh"
needs "qserve and its clients" jq curl python3
. "$TOP/tests/cli/qserve.sh"
# engines do not guess, on one thread, so that what takes a while does
# a request that takes a while
long='"prompt":"And it came to pass","max_tokens":4000,"min_tokens":4000'
# client HOW [FILE]: what a bad one does; prints what it gets
cat >client.py <<'EOP'
import os, signal, socket, sys, time
host, port = sys.argv[1].rsplit('/', 1)[1].split(':')
s = socket.create_connection((host, int(port)), 60)
how = sys.argv[2]
def post(body, more=''):
    return ('POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n%s'
        'Content-Length: %d\r\n\r\n%s' % (more, len(body), body)).encode()
def rest():
    try:
        while True:
            b = s.recv(65536)
            if not b:
                return
            sys.stdout.buffer.write(b)
    except ConnectionResetError:
        pass
body = '{"prompt":"And","stream":true,"logprobs":20,"max_tokens":4000,"min_tokens":4000}'
t = time.time()
if how == 'vanish':
    s.sendall(post(body))
    s.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)
elif how == 'vanish-early':
    s.sendall(post(body.replace('true', 'false')))
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
elif how == 'half':
    s.sendall(post(body.replace('true', 'false')))
    s.shutdown(socket.SHUT_WR)
    rest()
elif how == 'stall':
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(post(body.replace('{', '{"n":8,')))
    time.sleep(float(sys.argv[3]))
    rest()
elif how == 'slow-headers':
    try:
        for c in 'GET /health HTTP/1.1\r\nX: ' + 'x' * 1000:
            s.sendall(c.encode())
            time.sleep(0.25)
    except (BrokenPipeError, ConnectionResetError):
        pass
elif how == 'slow-body':
    s.sendall(post(body)[:-20])
    try:
        for c in range(1000):
            s.sendall(b' ' if c < 15 else b'')
            time.sleep(0.25)
            s.setblocking(False)
            try:
                if s.recv(1) == b'':
                    break
            except BlockingIOError:
                pass
            s.setblocking(True)
    except (BrokenPipeError, ConnectionResetError):
        pass
elif how == 'idle':
    rest()
elif how == 'many':
    all = [socket.create_connection((host, int(port)), 60) for i in range(499)]
    s.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n')
    b = b''
    while b'engine_dropped_total{' not in b:
        b += s.recv(65536)
    print([l for l in b.decode().split('\n') if l.startswith('qserve_connections')][0])
elif how == 'garbage':
    s.sendall(open(sys.argv[3], 'rb').read())
    s.shutdown(socket.SHUT_WR)
    rest()
elif how == 'half-idle':
    s.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
    s.recv(65536)
    s.shutdown(socket.SHUT_WR)
    rest()
    print('%d' % ((time.time() - t) / 20))
elif how == 'pipelined':
    s.sendall(b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' * 19 +
        b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
    rest()
if how.startswith('slow') or how == 'idle':
    print('%d' % (time.time() - t))
EOP
client() {
	timeout 90 python3 client.py "$URL" "$@" 2>client.err
}

# -- who leaves
serve --draft none -t 1 --stall 1 --idle 2 --max-unread 64k
client vanish
until_stat engine_running 0
is "$(stat engine_running), $(stat engine_cancelled_total), $(stat jobs)" "0, 1, 0" \
    "a client that vanishes in a stream: its request ends"
[ "$(stat engine_tokens_chosen_total)" -lt 1000 ]
ok $? "soon: $(stat engine_tokens_chosen_total) of 4000 tokens"
client vanish-early
until_stat engine_running 0
is "$(stat engine_running), $(stat engine_cancelled_total)" "0, 2" \
    "and so where it waits for all at once"
qserve --listen unix:silent.S --stall 1 --engine 'exec sleep 1000' 2>silent &
silent=$!
is "$(client half-idle | tail -n 1)" 0 "who asks nothing and closes its side is let go"
is "$(client half | wc -c), $(until_stat engine_running 0; stat engine_cancelled_total)" \
    "0, 3" "and where it closes its writing side"
curl -s -m 1 -d "{$long}" "$URL/v1/completions"
until_stat engine_running 0
is "$(stat clients_left_total), $(stat engine_cancelled_total)" "4, 4" "they are counted"
# -- who does not read, or not write
client stall 9 >got
is "$(grep -c DONE got), $(stat engine_running), $(stat clients_left_total)" "0, 0, 5" \
    "who does not read is dropped"
# a client's clock starts some time after the server's, and tells whole seconds
n=$(client slow-headers)
[ "$n" -ge 1 ] && [ "$n" -le 8 ]
ok $? "headers that drip: closed after $n s"
n=$(client slow-body)
[ "$n" -ge 1 ] && [ "$n" -le 7 ]
ok $? "a body that drips: closed after $n s"
n=$(client idle)
[ "$n" -ge 1 ] && [ "$n" -le 8 ]
ok $? "no request: closed after $n s"
is "$(client many)" "qserve_connections 500" "500 who are connected and ask nothing"
is "$(client pipelined | grep -ac '"status":"ok"')" 20 "20 requests at once, one after another"
# -- garbage
head -c 100000 "$QWEN_MODEL" >binary
{ printf 'POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\nx'; } >length
{ printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'; } >chunk
{ printf 'GET /%%00%%ff HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\nGET'; } >twice
{ printf 'GET /health HTTP/9.9\r\n\r\n\0\0\0'; } >version
{ printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\n{}'; } >lengths
for f in binary length chunk twice version lengths; do
	client garbage $f >got
	is "$(grep -ac '^HTTP/1.1 200' got)" 0 \
	    "garbage: $f: $(head -n 1 got | tr -cd '[:print:]' | cut -c1-40)"
done
kill -0 $pid && [ "$(get /health)" = '{"status":"ok"}' ]
ok $? "and the server goes on"
is "$(stat jobs), $(stat requests)" "0, 1" "nothing is left of all that"
end_server
is "$gone" 0 "it ends"

# -- a queue that is full
serve --draft none -t 1 --max-waiting 2 --max-sequences 1
# what an engine is asked by us is no place in the queue
kill -STOP "$(engine_pid)"
get /metrics >/dev/null &
asks=$!
sleep 0.3
is "$(curl -s -m 1 -w '%{http_code}' -d "{$long,\"n\":128}" "$URL/v1/completions")" 000 \
    "one call may be larger than the queue, also while an engine is asked how it is"
kill -CONT "$(engine_pid)"
wait $asks
until_stat jobs 0
curl -sN -m 60 -d "{$long,\"n\":128}" "$URL/v1/completions" >at.1 &
one=$!
until_stat jobs 128
curl -s -D head -d "{$long}" "$URL/v1/completions" >answer
is "$(sed -n 's/HTTP[^ ]* \([0-9]*\).*/\1/p; s/\(Retry-After.*\)\r/\1/p' head | xargs) $(jq -r '.error | .code, .type' answer | xargs)" \
    "429 Retry-After: 1 queue_full rate_limit_error" "a queue that is full"
kill $one
until_stat jobs 0
is "$(post /v1/completions '{"prompt":"And","max_tokens":3}' | jq .usage.completion_tokens)" 3 \
    "when they are gone there is room"
# -- the end
t=$(date +%s)
curl -sN -m 60 -d "{$long,\"n\":128}" "$URL/v1/completions" >at.1 &
one=$!
until_stat jobs 128
kill $one
end_server
n=$(($(date +%s) - t))
[ $gone = 0 ] && [ $n -le 20 ]
ok $? "what nobody waits for does not hold up the end: $n s"
stays="sleep 300.$$" # its like is nowhere else on the machine
serve --stall 1 --engine "qengine -m '$QWEN_MODEL' -t 1; $stays"
t=$(date +%s)
end_server
n=$(($(date +%s) - t))
is "$gone $(sed -n 's/.*did not end in time: killed/killed/p' log) $(ps -A -o args= |
    grep -cxF "$stays")" "1 killed 0" \
    "nor does an engine that does not end"
[ "$n" -le 15 ]
ok $? "for long: $n s"

# -- time
serve --draft none -t 1 --timeout 1
post /v1/completions "{$long,\"n\":4}" >/dev/null
is "$(cat code) $(jq -r '.error.code' answer)" "504 deadline" "the time is up"
post /v1/completions "{$long,\"n\":4,\"stream\":true}" >got
is "$(cat code) $(sed -n '/"error"/s/^data: //p' got | jq -r .error.code), $(tail -c 15 got | xargs)" \
    "200 deadline, data: [DONE]" "and in a stream it is an event"
awk 'BEGIN { printf "{\"input\":[\"a\""; while (i++ < 2000) {
	printf ",\"%d", i
	for (k = 0; k < 12; k++)
		printf " and it came to pass in those days"
	printf "\"" } print "]}" }' >texts
post /v1/embeddings <texts >/dev/null
is "$(cat code) $(jq -r '.error | .code, .message' answer | xargs)" \
    "504 deadline the request timed out" "and so for vectors"
end_server

# -- a prompt that no engine takes
serve --draft none -t 1
curl -s -m 60 -d "{$long}" "$URL/v1/completions" >whole &
one=$!
until_stat engine_running 1
{ printf '{"prompt":"'; yes a | tr '\n' ' ' | head -c 10000000; printf '"}'; } >huge
post /v1/completions <huge >/dev/null
is "$(cat code) $(jq -r '.error | .code, .message' answer | sed 's/at least [0-9]*/at least N/' | xargs -d '\n')" \
    "400 context_length_exceeded prompt is too long: at least N tokens > 4096; this model's maximum context length is 4096 tokens" \
    "a prompt that is larger than a request to an engine may be"
wait $one
is "$(jq -r .usage.completion_tokens whole) $(stat engine_starts_total)" "4000 1" \
    "costs no engine, and nobody his answer"
end_server

# -- engines that die
serve --draft none -t 1
curl -s -m 60 -d "{$long}" "$URL/v1/completions" >whole &
one=$!
: >stream
curl -sN -m 60 -d "{$long,\"stream\":true}" "$URL/v1/completions" >stream &
two=$!
until_stat engine_running 2
i=0
while ! grep -q data stream && [ $i -lt 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
kill -9 "$(engine_pid)"
wait $one $two
is "$(jq -r .usage.completion_tokens whole)" 4000 "kill -9: who was told nothing gets it all"
is "$(sed -n '/"error"/s/^data: //p' stream | jq -r .error.code)" unavailable \
    "who was told something gets an error"
post /v1/completions "{$long}" | jq -r '.choices[0].text' >want
jq -r '.choices[0].text' whole | cmp - want
ok $? "the answer is the same"
is "$(stat engine_starts_total)" 2 "the engine was started again"
# one that dies of a request
end_server
cat >deadly <<'EOF2'
#!/bin/sh
n=$(cat starts 2>/dev/null || echo 0)
echo $((n + 1)) >starts
exec timeout -s KILL 1 qengine -q --draft none -t 1
EOF2
chmod +x deadly
serve --engine ./deadly
post /v1/completions "{$long,\"n\":8}" >/dev/null
is "$(cat code) $(jq -r .error.code answer)" "503 unavailable" \
    "a request that ended two engines is not given to a third"
curl -s -m 60 -D head -o answer -d '{"messages":[{"role":"user","content":"a"}],"max_tokens":4000,"ignore_eos":true}' \
    "$URL/v1/messages"
is "$(sed -n '1s/[^ ]* \([0-9]*\).*/\1/p' head) $(jq -r .error.type answer) $(grep -ci '^retry-after: 1' head)" \
    "529 overloaded_error 1" "what Anthropic's clients know as overloaded"
end_server
# what is told of its end: its own signal, not ours
for e in 'kill -9 $$' 'exit 3' 'printf "\001"; exec sleep 100' 'exec >/dev/null; exec sleep 100'; do
	timeout 20 qserve --listen unix:S --engine "$e" 2>&1 >/dev/null | tail -n 1
done | sed 's/.*sleep 100: //; s/.*: //' >got
is "$(paste -sd, got)" "it has ended before it was ready (signal 9),it has ended before it was ready (status 3),its output is not an event before it was ready (killed),it has closed its output before it was ready (killed)" \
    "how an engine ended is told, and not that we killed it"
kill $silent
wait $silent
is "$(grep -c 'not ready after 10 s' silent)" 1 \
    "an engine that says nothing is told of, once"
# two engines, of which one dies
serve --engine 'exec qengine -q --draft none -t 1' --engine 'exec qengine -q --draft none -t 1'
for k in 1 2 3 4 5 6; do
	curl -s -m 60 -d "{\"prompt\":\"$k And it came to pass\",\"max_tokens\":400,\"min_tokens\":400}" \
	    "$URL/v1/completions" >at.$k &
	echo $!
done >pids
until_stat jobs 6
kill -9 "$(engine_pid)"
for p in $(cat pids); do wait "$p"; done
is "$(cat at.[1-6] | jq -r .usage.completion_tokens | xargs)" "400 400 400 400 400 400" \
    "one of two engines dies: all are answered"
end_server
is "$gone" 0 "SIGTERM"
# of engines that would give different results one is used
for o in '--numerics 4' '--kv-v q8_0' '--rope-scaling yarn=2'; do
	serve --engine 'exec qengine -q -t 1' --engine "exec qengine -q -t 1 $o"
	i=0
	until grep -q '(killed)' log || [ $i -ge 400 ]; do
		sleep 0.05
		i=$((i + 1))
	done
	sed -n 's/.*: \(its.*see --.*\) (killed)/\1/p' log | head -n 1
	curl -s "$URL/metrics" | awk '/^qserve_engine_ready/ { n += $2 } END { print n }'
	end_server >/dev/null
done >got
is "$(paste -sd, got)" "its numerics version is not that of the other engines; see --numerics,1,its format of keys or values is not that of the other engines; see --kv,1,its RoPE scaling is not that of the other engines; see --rope-scaling,1" \
    "two engines that would differ"

# -- the end
serve --draft none -t 1
: >stream
curl -sN -m 60 -d "{$long,\"stream\":true,\"stream_options\":{\"include_usage\":true}}" \
    "$URL/v1/completions" >stream &
one=$!
i=0
while ! grep -q data stream && [ $i -lt 600 ]; do
	sleep 0.05
	i=$((i + 1))
done
client idle >idle &
end_server
wait $one
is "$gone $(tail -c 15 stream | xargs) $(grep -o '"completion_tokens":[0-9]*' stream)" \
    '0 data: [DONE] "completion_tokens":4000' "SIGTERM in a stream: it is finished"
n=$(grep -c '^data' stream)
[ "$n" -lt 4000 ]
ok $? "tokens that come at short intervals are told together: 4000 in $n events"
curl -s "$URL/health"
is $? 7 "and nobody listens"
done_testing
