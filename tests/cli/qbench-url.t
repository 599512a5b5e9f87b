#!/bin/sh
# qbench --url: its requests to a server, its figures from good and bad replies,
# and refused options.  The server is http_stub.c.
. "$TOP/tests/cli/tap.sh"
if [ ! -e "$B/tests/cli/http_stub" ]; then
	skip "--url" "no server to ask"
	done_testing
fi
unset QSERVE_API_KEY
: >log
"$B/tests/cli/http_stub" log >port &
stub=$!
trap 'kill $stub' EXIT
while [ ! -s port ]; do sleep 0.05; done
S=http://127.0.0.1:$(cat port)
if qbench --url "$S" 2>&1 | grep -q libcurl; then
	skip "--url" "no libcurl"
	done_testing
fi
load() {	# BEHAVIOUR OPTION...
	tap_b=$1
	shift
	qbench --url "$S/$tap_b" -p 8 -n 4 "$@"
}
# the bodies that came since the log was emptied, but for those that warm up
asked() {
	sed -n 's/^POST [^ ]* [^ ]* //p' log
}

# -- JSON
: >log
load first=40,gap=10 --requests 6 --clients 2 --seed 7 --json >one.json 2>err
is "$? $(cat err) $(wc -l <one.json | tr -d ' ')" "0  1" "--json is one line"
is "$(jq -r 'keys_unsorted | join(" ")' one.json)" \
    "answered failed given_up seconds most_at_once prompt_tokens cached_tokens generated_tokens requests_per_s goodput_requests_per_s prompt_tokens_per_s generated_tokens_per_s late_ms ttft_ms tpot_ms itl_ms e2e_ms errors interrupted setting" "its parts"
is "$(jq -c '[.answered, .failed, .given_up, .most_at_once, .prompt_tokens, .cached_tokens, .generated_tokens, .errors, .interrupted]' one.json)" \
    '[6,0,0,2,600,240,24,[],false]' "counts"
is "$(jq -c '[.ttft_ms.n, .tpot_ms.n, .itl_ms.n, .e2e_ms.n]' one.json)" '[6,6,18,6]' "times of each"
# a machine that is busy adds to them, and never takes away
is "$(jq -c '[.ttft_ms.mean >= 39, .itl_ms.p50 >= 9, .tpot_ms.mean >= 9, .e2e_ms.mean >= 69,
    .ttft_ms.max <= .e2e_ms.max, .seconds * 1000 >= .e2e_ms.mean * 3 - 1]' one.json)" \
    '[true,true,true,true,true,true]' "as long as the server took"
is "$(jq -c '.answered / .seconds / .requests_per_s, .generated_tokens / .seconds / .generated_tokens_per_s,
    .requests_per_s / .goodput_requests_per_s | . > 0.999 and . < 1.001' one.json | xargs)" \
    "true true true" "and so many a second"
is "$(jq -c '.setting | [.api, .prompt, .prefix, .count, .clients, .rate, .seed]' one.json)" \
    '["chat",8,0,4,2,null,7]' "the setting"

# -- what is asked
is "$(awk '{ print $1, $2, $3 }' log | sort | uniq -c | xargs)" \
    "1 GET /first=40,gap=10/v1/models - 7 POST /first=40,gap=10/v1/chat/completions -" \
    "the model's name, one request that warms up, six that count"
is "$(asked | jq -c '[keys, .max_tokens, .model[:4], .stream, .stream_options, (.messages | length), .messages[0].role]' | sort -u)" \
    '[["max_tokens","messages","model","stream","stream_options"],4,"stub",true,{"include_usage":true},1,"user"]' \
    "requests as /v1/chat/completions takes them"
is "$(asked | jq -r '.messages[0].content' | awk '{ print NF }' | sort | uniq -c | xargs) $(asked | jq -r '.messages[0].content' | sort -u | wc -l | tr -d ' ')" \
    "7 8 7" "of 8 words, no two alike"
asked >first
: >log
load x --requests 6 --clients 2 --seed 7 >out 2>err
asked | sort >again
sort first | cmp -s - again
ok $? "the same seed, the same prompts"
: >log
load x --requests 6 --clients 2 --csv >out 2>err
asked | sort | comm -12 - again >both
is "$(cat both)" "" "other ones in another run"
: >log
load x --requests 9 --warmup 0 -p 20 --prefix 12 >out 2>err
is "$(asked | jq -r '.messages[0].content' | cut -d' ' -f1-12 | sort -u | wc -l | tr -d ' ') $(asked | jq -r '.messages[0].content' | cut -d' ' -f13- | sort -u | wc -l | tr -d ' ')" \
    "1 9" "--prefix: the same beginning"
: >log
QSERVE_API_KEY=sekret load x/ --api completions --body '{"temperature":0,"max_tokens":3,"model":"m"}' --requests 1 >out 2>err
is "$? $(cat err) $(awk '{ print $1, $2, $3 }' log | sort | uniq -c | xargs)" \
    "0  1 GET /x/v1/models Bearer_sekret 2 POST /x/v1/completions Bearer_sekret" "--api completions and a key"
is "$(asked | tail -n 1 | jq -c '[.model, .temperature, .max_tokens, (.prompt | type)]')" '["m",0,3,"string"]' "--body"
is "$(grep -c sekret out err | xargs)" "out:0 err:0" "the key is not shown"
: >log
cat >in.jsonl <<'EOT'
{"id":"a","prompt":"One","max_tokens":2,"top_k":1.50}

{"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"model":"z","messages":[{"role":"user","content":"Two"}],"max_tokens":2}}
{"messages":[{"role":"user","content":"Three"}]}
EOT
qbench --url "$S/x" --input in.jsonl --warmup 0 --requests 5 --json >out 2>err
is "$? $(cat err) $(jq -c '[.answered, .generated_tokens, .setting.input]' out)" '0  [5,12,"in.jsonl"]' "--input"
is "$(awk '{ print $2 }' log | sed 's|^/x/v1||' | xargs) $(asked | jq -c '[.prompt // .messages[0].content, .model[:4], .stream]' | xargs) $(asked | head -n 1 | grep -c '"top_k":1.50')$(asked | grep -c '"id"')" \
    "/models /completions /chat/completions /chat/completions /completions /chat/completions [One,stub,true] [Two,stub,true] [Three,stub,true] [One,stub,true] [Two,stub,true] 10" \
    "its lines, in turn, with what is needed"

# -- arrivals
load first=300 -q --rate 200 --requests 30 --warmup 0 --json >out 2>err
is "$? $(cat err) $(jq -c '[.answered, .most_at_once > 20, .setting.rate, .setting.clients]' out)" \
    '0  [30,true,200,null]' "--rate does not wait for answers"
load first=20 --seconds 0.3 --clients 3 --json >out 2>err
is "$? $(jq -c '[.answered > 3, .seconds >= 0.3, .most_at_once]' out)" '0 [true,true,3]' "--seconds"

# -- a rate and a limit: 1000 a second of 50 ms each would be eight at a time
load first=50 --rate 1000 --seed 1 --clients 2 --requests 8 --warmup 0 --json >out 2>err
is "$? $(cat err) $(jq -c '[.answered, .most_at_once, .setting.rate, .setting.clients]' out)" '0  [8,2,1000,2]' \
    "--rate with --clients: no more than these at a time"
# the last two are due after about 8 ms, and sent after 150
jq -e '.seconds >= 0.2 and .ttft_ms.max >= 100 and .late_ms < 50' out >ok
ok $? "what waits for one is not late, and its times begin when it was due"
load first=1 --rate 50,100 --clients 1,2 --requests 2 --warmup 0 --csv >out 2>err
is "$? $(cat err) $(awk -F , 'NR > 1 { print $4 "/" $5 }' out | xargs)" "0  1/50 2/50 1/100 2/100" "each with each"
load first=1 --rate 100 --clients 2 --requests 2 --warmup 0 >out 2>err
is "$? $(grep -c '^setting  100 requests a second, at most 2 at once;' out)" "0 1" "as text"
load first=1 --rate 100 --requests 2 --warmup 0 --json >out 2>err
is "$? $(jq -c '.setting | [.clients, .goodput]' out)" "0 [null,{}]" "no limit, and no goals, unless given"

# -- percentiles
load gap=1 --json >out 2>err
is "$? $(jq -c '.e2e_ms | keys_unsorted' out)" '0 ["n","mean","p50","p90","p95","p99","max"]' "percentiles"
jq -e '.e2e_ms | .p50 <= .p90 and .p90 <= .p95 and .p95 <= .p99 and .p99 == .max' out >ok
ok $? "in their order"
load gap=1 --csv >out 2>err
is "$? $(head -n 1 out | tr , '\n' | tail -n 2 | xargs)" "0 e2e_ms_p99 e2e_ms_max" "in --csv"

# -- forms
load gap=1 --clients 1,3 -p 8,16 -n 2,4 --csv >out 2>err
is "$? $(cat err) $(awk -F , '{ print NF }' out | uniq -c | xargs) $(awk -F , 'NR > 1 { print $4 "/" $6 "/" $8 "/" $9 }' out | xargs)" \
    "0  9 45 1/8/2/4 3/8/2/12 1/8/4/4 3/8/4/12 1/16/2/4 3/16/2/12 1/16/4/4 3/16/4/12" "--csv, a line for each setting"
load gap=1 --clients 1,2 >out 2>err
is "$? $(cat err) $(awk 'NF == 7 && $1 ~ /_ms$/ { print $1 }' out | xargs) $(grep -c '^answered  *[48]$' out)" \
    "0  ttft_ms tpot_ms itl_ms e2e_ms ttft_ms tpot_ms itl_ms e2e_ms 2" "tables"
load nousage --json >out 2>err
is "$? $(jq -c '[.prompt_tokens, .cached_tokens, .prompt_tokens_per_s, .generated_tokens]' out)" '0 [null,null,null,16]' \
    "tokens that the server does not count"
load first=30 --goodput ttft:5 --json >out 2>err
is "$? $(jq -c '[.answered, .goodput_requests_per_s, .setting.goodput.ttft_ms]' out)" '0 [4,0,5]' "--goodput"
load split --json >out 2>err
is "$? $(jq -c '[.answered, .generated_tokens]' out)" '0 [4,16]' "a reply in pieces"
load nodone --json >out 2>err
is "$? $(jq -c '[.answered, .generated_tokens]' out)" '0 [4,16]' "and one whose finish is its end"
load tokens=1 --json >out 2>err
is "$? $(jq -c '[.answered, .ttft_ms.n, .tpot_ms.n, .itl_ms.n]' out)" '0 [4,4,0,0]' "of one token"

# -- what goes wrong
bad() {		# BEHAVIOUR KIND: every second one fails, and the rest counts
	load "each=2,$1" --warmup 0 --requests 6 --timeout 2 --json >out 2>err
	is "$? $(jq -c '[.answered, .failed, .generated_tokens, (.errors[] | .kind, .n)]' out) $(cat err)" \
	    "3 [3,3,12,\"$2\",3] qbench: 3 of 6 requests failed" "$1: $2"
}
bad status=429 http_429
is "$(jq -r '.errors[0].message' out)" "too many" "and why"
bad cut cut_short
bad garbage bad_json
bad error error_event
is "$(jq -r '.errors[0].message' out)" "out of luck" "and why"
bad plain no_stream
load each=3,silent --warmup 0 --requests 3 --timeout 0.3 >out 2>err
is "$? $(grep '^error' out | cut -d: -f1)" "3 error             1  timeout" "a server that falls silent"
load status=500 --warmup 0 --requests 2 >out 2>err
is "$? $(cat err)" "1 qbench: $S/status=500/v1/models: http_500: too many" "a server that is not well"
load each=1,status=500 --warmup 0 --requests 2 >out 2>err
is "$? $(cat err)" "1 qbench: no request was answered: http_500: too many" "all of them failed"
refused 1 "which the first one shows" load plain --requests 2
refused 1 "nobody there" qbench --url http://127.0.0.1:1
refused 1 "nobody at a socket" qbench --url unix:/nowhere/socket

# -- Ctrl-C, which a shell's background job does not hear
if env --default-signal=INT true 2>/dev/null && ! ignored INT; then
	: >log
	env --default-signal=INT qbench --url "$S/gap=50" -p 8 -n 8 \
	    --requests 100 --clients 1,2 --warmup 0 --json >out 2>err &
	p=$!
	while [ "$(grep -c POST log)" -lt 4 ]; do sleep 0.05; done
	kill -INT $p
	wait $p
	is "$? $(cat err) $(jq -c '[.answered >= 3, .given_up, .interrupted, .e2e_ms.n == .answered]' out)" \
	    "130  [true,1,true,true]" "Ctrl-C: what was measured so far, and no more"
else
	skip "Ctrl-C" "SIGINT is ignored"
fi

# -- what does not go together
for args in "--url $S --json --csv" "--url $S -m a" "--url $S -t 2" "--url $S --draft lookup" \
    "--url $S --machine" "--url $S -p 0" "--url $S -n 0" "--url $S --input a --api chat" "--url $S --input a -p 3" \
    "--url $S --input a -n 3" "--url $S --input a --prefix 3" "--url $S --clients 0" "--url $S --rate 0" "--url $S --rate x" "--url $S --requests 0" \
    "--url $S --goodput x:1" "--url $S --api x" "--url $S --body {" "--url $S --body 3" "--url ftp://a" "--url http://" "--url unix:" "--url 127.0.0.1:80" \
    "--url http://me:word@127.0.0.1:8080" "--clients 2" "--rate 3" "--seed 3" "--prefix 3" "--input a" "-n 1,2"; do
	# shellcheck disable=SC2086
	refused 2 "$args" qbench $args
done
refused 1 "no file" qbench --url "$S" --input none
echo '{"a":1}' >bad.jsonl
refused 1 "a line that asks nothing" qbench --url "$S" --input bad.jsonl
echo '{"url":"/v1/embeddings","body":{"prompt":"a"}}' >bad.jsonl
refused 1 "a line that asks something else" qbench --url "$S" --input bad.jsonl
echo 'text' >bad.jsonl
refused 1 "no JSON" qbench --url "$S" --input bad.jsonl
: >bad.jsonl
refused 1 "no lines" qbench --url "$S" --input bad.jsonl
refused 1 "a model file" qbench --url "$S" --input "$TOP/demo/demo.gguf"
if [ -c /dev/full ]; then
	load x --json >/dev/full 2>err
	is "$? $(wc -l <err | tr -d ' ')" "1 1" "a full disk"
fi
done_testing
