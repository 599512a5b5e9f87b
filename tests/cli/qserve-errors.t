#!/bin/sh
# qserve, qbatch: errors in the form that clients expect.  The fields that
# agents look for are from the sources of litellm (exception_mapping_utils.py),
# langchain-openai (chat_models/base.py), pydantic-ai (_model_errors.py) and
# Codex (codex-api/src/sse/responses.rs).
. "$TOP/tests/cli/tap.sh"
needs "errors of qserve" jq curl
. "$TOP/tests/cli/qserve.sh"
serve --no-store --template qwen3.6 -t 1

# -- a prompt that is too long
long=$(yes word | head -n 5000 | tr '\n' ' ')
m="\"messages\":[{\"role\":\"user\",\"content\":\"$long\"}],\"max_tokens\":8"
tail='tokens > 4096; this model.s maximum context length is 4096 tokens$'
for what in "chat/completions {$m} messages" "chat/completions {$m,\"stream\":true} messages" \
    "responses {\"input\":\"$long\"} input" "completions {\"prompt\":\"$long\"} prompt" \
    "embeddings {\"input\":\"$long\"} null"; do
	path=${what%% *}
	json=${what#* }
	post "/v1/$path" "${json% *}" >/dev/null
	is "$(cat code) $(jq -r '.error | .type, .code, .param' answer | xargs)" \
	    "400 invalid_request_error context_length_exceeded ${what##* }" "$path: too long"
	jq -r .error.message answer | grep -q "^prompt is too long: 50[0-9][0-9] $tail"
	ok $? "$path: its words"
done
post /v1/messages "{$m}" >/dev/null
is "$(cat code) $(jq -r '.type, .error.type' answer | xargs)" \
    "400 error invalid_request_error" "messages: too long"
jq -r .error.message answer | grep -q "^prompt is too long: 50[0-9][0-9] $tail"
ok $? "messages: its words"
post /v1/messages/count_tokens "{$m}" >/dev/null
is "$(cat code) $(jq '.input_tokens > 5000' answer)" "200 true" "it can be counted"
post /v1/responses "{\"input\":\"$long\",\"stream\":true}" >events
is "$(cat code) $(sed -n 's/^event: //p' events | xargs)" \
    "200 response.created response.in_progress response.failed" "a stream of responses: too long"
sed -n 's/^data: //p' events | tail -n 1 >last
is "$(jq -r '.type, .response.status, .response.error.code' last | xargs)" \
    "response.failed failed context_length_exceeded" "its last event"
is "$(sed -n 's/^data: //p' events | head -n 1 | jq .response.error)" null "but not the first"
printf '%s\n' "{\"prompt\":\"$long\"}" "{\"custom_id\":\"c\",\"body\":{$m}}" |
    qbatch -t 1 2>/dev/null >lines
is "$(jq -r '.error.code // .response.status_code, .response.body.error.code?' lines | xargs)" \
    "context_length_exceeded null 400 context_length_exceeded" "lines of qbatch"

# -- a grammar that cannot be followed is the request's fault
g='"grammar":"root ::= (\"a\"?){10000}"'
h='"messages":[{"role":"user","content":"a"}],"max_tokens":8'
for p in chat/completions messages; do
	post /v1/$p "{$h,$g}" >/dev/null
	is "$(cat code) $(jq -r .error.type answer)" "400 invalid_request_error" \
	    "$p: a grammar that is too ambiguous"
done
post /v1/chat/completions "{$h,$g,\"stream\":true}" >events
is "$(sed -n '/"error"/s/^data: //p' events | jq -r '.error | .type, .code' | xargs)" \
    "invalid_request_error invalid_request" "in a stream"
echo "{\"prompt\":\"a\",$g}" | qbatch -t 1 2>/dev/null >lines
is "$(jq -r .error.code lines)" invalid_request "and of a line"
end_server

# -- a text to cut into tokens holds up all others: not more than there is use for
serve --no-store -t 1
{ printf '{"content":"'; yes word | head -n 400000 | tr '\n' ' '; printf '"}'; } >large
for p in tokenize detokenize; do
	post /$p <large >/dev/null
	is "$(cat code) $(jq -r .error.code answer)" "413 request_too_large" "$p: 2 MB"
done
printf '{"content":"%s"}' "$long" | post /tokenize >/dev/null
is "$(cat code) $(jq '.count > 5000' answer)" "200 true" "as much as the context has room for, and more"

# -- requests that wait for their rest: not more than some bytes together
end_server
serve --no-store -t 1 --max-body 1024
cat >parts.py <<'EOP'
import socket, sys, time
host, port = sys.argv[1].rsplit('/', 1)[1].split(':')
s = []
for i in range(40):
    c = socket.create_connection((host, int(port)), 20)
    c.sendall(b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1024\r\n\r\n' +
        b' ' * 1000)
    s.append(c)
time.sleep(0.5)
got = []
for c in s:
    c.sendall(b' ' * 24)
    got.append(c.recv(4096))
print(*sorted(set(g.split(b' ')[1].decode() for g in got)), sum(b'"overloaded"' in g for g in got))
EOP
if command -v python3 >/dev/null 2>&1; then
	is "$(timeout 60 python3 parts.py "$URL")" "400 503 8" \
	    "40 requests of which a part is there: 32 times the largest one together"
	post /v1/completions '{"prompt":"a","max_tokens":1}' >/dev/null
	is "$(cat code)" 200 "when they are gone there is room"
else
	skip "requests together" "no python3"
fi
end_server

# -- who comes when there is no room is told when to come again
serve --no-store --template qwen3.6 -t 1 --draft none --max-sequences 1 --max-waiting 1
l='"messages":[{"role":"user","content":"a"}],"ignore_eos":true,"max_tokens":3000'
curl -sN -m 60 -d "{$l,\"stream\":true}" "$URL/v1/chat/completions" >stream &
one=$!
until_stat engine_running 1
curl -sN -m 60 -d "{$l,\"stream\":true}" "$URL/v1/chat/completions" >stream2 &
two=$!
until_stat engine_waiting 1
for p in chat/completions messages responses; do
	body="{$h}"
	[ $p = responses ] && body='{"input":"a"}'
	curl -s -m 60 -D head -o answer -d "$body" "$URL/v1/$p"
	is "$(sed -n '1s/[^ ]* \([0-9]*\).*/\1/p' head) $(jq -r .error.type answer) $(grep -ci '^retry-after: 1' head)" \
	    "429 rate_limit_error 1" "$p: the queue is full"
done
kill $one $two
wait $one $two
end_server
done_testing
