#!/bin/sh
# qserve: access: API keys, host names, pages of other sites, unix sockets, and
# sockets opened by a service manager.
. "$TOP/tests/cli/tap.sh"
needs "who may ask qserve" jq curl
. "$TOP/tests/cli/qserve.sh"
# ask PATH CURL-OPTIONS...: status and code of what is answered
ask() {
	path=$1
	shift
	curl -s -m 20 -D head -o answer -w '%{http_code}' "$@" "$URL$path"
	jq -r '.error.code // empty' answer 2>/dev/null | sed 's/^/ /'
}

# -- names and pages
serve
is "$(ask /v1/models)" 200 "by its address"
is "$(ask /v1/models -H 'Host: localhost:8080') $(ask /v1/models -H 'Host: [::1]:80')" \
    "200 200" "by the names of this machine"
is "$(ask /v1/models -H 'Host: localhost.:8080')" 200 "also with the dot of the root"
is "$(ask /v1/models -H 'Host: evil.example:8080')" "403 host_not_allowed" \
    "not by a name that somebody else let stand for it"
is "$(ask /v1/models -H 'Host: 127.0.0.1.evil.example')" "403 host_not_allowed" \
    "that looks like an address"
is "$(ask /v1/completions -H 'Origin: https://evil.example' -H 'Content-Type: text/plain' -d '{"prompt":"a"}')" \
    "403 origin_not_allowed" "not from a page of another site"
is "$(ask /v1/models -H "Origin: $URL")" 200 "from its own page"
is "$(ask "" --request-target "$URL/v1/models") $(ask "" --request-target http://evil.example/v1/models)" \
    "200 403 host_not_allowed" "a target with a name in it, as of a proxy"
is "$(ask / | tr '\n' ' ') $(grep -ic '^content-security-policy' head)" "200 1" "the page is there"
is "$(ask /v1/models -X OPTIONS -H 'Origin: https://good.example')" \
    "403 origin_not_allowed" "nor is it told what it might ask"
end_server
serve --cors https://good.example --host qserve.example
is "$(ask /v1/models -H 'Host: qserve.example')" 200 "a name that it was given"
is "$(ask /v1/models -H 'Origin: https://good.example')" 200 "a page that may ask"
is "$(sed -n 's/\r//; s/^Access-Control-Allow-Origin: //p' head)" \
    "https://good.example" "and may see the answer"
is "$(ask /v1/chat/completions -X OPTIONS -H 'Origin: https://good.example' \
    -H 'Access-Control-Request-Method: POST' \
    -H 'Access-Control-Request-Headers: authorization,x-stainless-lang') $(grep -c Access-Control head)" \
    "204 4" "that it may, it is told before"
is "$(sed -n 's/\r//; s/^Access-Control-Allow-Headers: //p' head)" \
    "authorization,x-stainless-lang" "with the headers that its client has"
is "$(ask /v1/models -H 'Origin: https://evil.example')" "403 origin_not_allowed" "others may not"
end_server

refused 2 "an origin with a path" qserve --cors https://good.example/
refused 2 "an origin without a scheme" qserve --cors good.example
refused 2 "a name with a port" qserve --host good.example:8080
refused 2 "an empty name" qserve --host ''
refused 2 "an address, as others have for where to listen" qserve --host 0.0.0.0
is "$(grep -c -e --listen err)" 1 "the error names --listen"
# -- keys
printf '# two\nfirst-key \t\n\nsecond key\r\n' >keys
chmod 644 keys
QSERVE_API_KEY=third serve --api-key-file keys
is "$(ask /v1/models) $(ask /v1/completions -d '{"prompt":"a"}')" \
    "401 invalid_api_key 401 invalid_api_key" "nothing without a key"
is "$(ask /v1/models -H 'Authorization: Bearer first-key') $(ask /v1/models \
    -H 'x-api-key: second key') $(ask /v1/models -H 'authorization: bearer third')" \
    "200 200 200" "keys of the file, and of the environment"
is "$(ask /v1/models -H 'Authorization: Bearer  first-key')" 200 "whatever blanks are before it"
is "$(grep -c 'keys: other users can read the keys' log)" 1 "that others can read the file is told"
for k in first-ke first-keyy '# two' "$(head -c 300 /dev/zero | tr '\0' x)" ""; do
	ask /v1/models -H "Authorization: Bearer $k"
	echo
done | grep . | sort -u >got
is "$(cat got)" "401 invalid_api_key" "no other"
is "$(ask /health) $(ask /metrics) $(ask /v1/nothing)" \
    "200 401 invalid_api_key 401 invalid_api_key" "without one, /health alone"
is "$(tr '\0' '\n' <"/proc/$(engine_pid)/environ" | grep -c QSERVE_API_KEY)" 0 \
    "the engine has no key"
end_server
mkdir credentials
echo of-the-manager >credentials/qserve.api-keys
chmod 600 credentials/qserve.api-keys
CREDENTIALS_DIRECTORY=$PWD/credentials serve
is "$(ask /v1/models) $(ask /v1/models -H 'x-api-key: of-the-manager')" \
    "401 invalid_api_key 200" "keys that a service manager hands over"
end_server
grep -c -e first-key -e 'second key' -e third log >got
is "$(cat got)" 0 "nor has the log"
: >empty
ln -sf nothing credentials/qserve.api-keys
refused 1 "keys of a service manager that cannot be read" \
    env CREDENTIALS_DIRECTORY="$PWD/credentials" qserve
refused 1 "nor looked for" env CREDENTIALS_DIRECTORY="$PWD/empty" qserve
refused 1 "a file without a key" qserve --api-key-file empty
refused 1 "a file that is not there" qserve --api-key-file nothing

# -- all addresses: both families, and at one port
qserve --listen :0 2>log &
pid=$!
i=0
while ! grep -q 'http://0.0.0.0' log && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
port=$(sed -n 's/^qserve: listening at http:.*:\([0-9]*\)$/\1/p' log | sort -u)
is "$(curl -s -m 20 -o answer -w '%{http_code}' "http://127.0.0.1:$port/")" 200 \
    "all addresses, of IPv4"
if grep -q '^0*1 .* lo$' /proc/net/if_inet6 2>/dev/null; then
	is "$(curl -s -m 20 -o answer -w '%{http_code}' "http://[::1]:$port/")" 200 \
	    "and of IPv6"
else
	skip "and of IPv6" "this machine has none"
fi
refused 1 "where another one listens, in one family" qserve --listen "127.0.0.1:$port"
end_server
refused 1 "an address of another machine" qserve --listen 192.0.2.77:0
refused 2 "more of them than are taken" qserve \
    $(for i in 1 2 3 4 5 6 7 8 9; do echo --listen 127.0.0.$i:0 --listen 127.1.0.$i:0; done)

# -- unix sockets
qserve -q --listen unix:S --socket-mode 620 --listen 127.0.0.1:0 2>log &
pid=$!
i=0
while ! curl -sf --unix-socket S http://localhost/health >got && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
is "$(cat got) $(ls -l S | cut -c1-10)" '{"status":"ok"} srw--w----' \
    "a unix socket of a mode, beside another"
refused 1 "where another one listens" qserve --listen unix:S
end_server
is "$gone $([ -e S ] && echo there)" "0 " "at the end it is gone"
refused 2 "a mode that is none" qserve --socket-mode 888

# -- a service manager
if ! command -v python3 >/dev/null 2>&1; then
	skip "sockets of others" "no python3"
	done_testing
fi
# -- requests that another program might take for others: the answer, and no more
cat >raw.py <<'EOP'
import socket, sys
host, port = sys.argv[1][len('http://'):].rsplit(':', 1)
s = socket.create_connection((host, int(port)), 20)
more = b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
s.sendall(sys.argv[2].encode().decode('unicode_escape').encode() + more)
s.settimeout(3)
b = b''
try:
    while (got := s.recv(65536)):
        b += got
except TimeoutError:
    print('open', end=' ')
print(b.split(b' ')[1].decode(), b.count(b'HTTP/1.1 '), b.count(b'"code":"bad_request"'))
EOP
raw() {
	timeout 20 python3 raw.py "$URL" "$1"
}
serve
body='{"prompt":"a","max_tokens":1}'
is "$(raw 'GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n')" "open 200 2 0" \
    "a request, and another"
for h in 'Host: localhost\r\nContent-Length: 3\r\nContent-Length: 29' \
    'Host: localhost\r\nContent-Length: 29\r\nContent-Length: 29' \
    'Host: localhost\r\nContent-Length: 29\r\nTransfer-Encoding: chunked' \
    'Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x' \
    'Host: localhost\r\nTransfer-Encoding: gzip, chunked' \
    'Host: localhost\r\nTransfer-Encoding : chunked\r\nContent-Length: 29' \
    'Host: localhost\r\nHost: localhost\r\nContent-Length: 29' \
    'Content-Length: 29'; do
	is "$(raw "POST /v1/completions HTTP/1.1\\r\\n$h\\r\\n\\r\\n$body")" "400 1 1" "$h"
done
end_server

cat >manager.py <<'EOP'
import os, socket, subprocess, sys
note = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
note.bind('N')
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen(8)
print('http://127.0.0.1:%d' % s.getsockname()[1], flush=True)
pid = os.fork()
if pid == 0:
    os.dup2(s.fileno(), 3)
    os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET='N')
    os.execvp('qserve', ['qserve', '-q'])
s.close()
print(note.recv(100).decode(), flush=True)
os.system("curl -s -d '{\"prompt\":\"a\",\"max_tokens\":3}' $(head -n 1 told)/v1/completions | jq .usage.completion_tokens")
os.kill(pid, 15)
print(note.recv(100).decode(), os.waitpid(pid, 0)[1], flush=True)
EOP
timeout 60 python3 manager.py >told
is "$(tail -n +2 told | xargs)" "READY=1 3 STOPPING=1 0" \
    "a socket that was there before, and news of what becomes of it"
done_testing
