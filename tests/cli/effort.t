#!/bin/sh
# reasoning_effort: the values of all APIs, for templates that know some of
# them. The published template of Qwen3.8 knows low, medium and xhigh (its
# default), and raises an error for others.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/qserve.sh"

p() {
	qtok --chat -f prompt --user Hi "$@"
}
for e in low medium xhigh; do
	printf '{"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"%s"}' $e |
	    qtok --chat -f prompt --template qwen3.8 >$e.want
done
p --template qwen3.8 --think off >none.want
grep -q 'is set to low' low.want && grep -q 'is set to xhigh' xhigh.want && ! grep -q effort medium.want &&
    tail -2 none.want | grep -q '</think>'
ok $? "the names that it knows"
p --template qwen3.8 | cmp -s - xhigh.want
ok $? "xhigh is its own"
for pair in minimal:low low:low medium:medium high:xhigh xhigh:xhigh max:xhigh none:none; do
	e=${pair%:*} w=${pair#*:}
	p --template qwen3.8 --effort "$e" | cmp -s - "$w.want"
	ok $? "qtok --effort $e is $w"
	printf '{"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"%s"}' "$e" |
	    qtok --chat -f prompt --template qwen3.8 | cmp -s - "$w.want"
	ok $? "and in a request"
	printf '{"messages":[{"role":"user","content":"Hi"}],"chat_template_kwargs":{"reasoning_effort":"%s"}}' "$e" |
	    qtok --chat -f prompt --template qwen3.8 | cmp -s - "$w.want"
	ok $? "and in chat_template_kwargs"
done
p --template qwen3.8 --effort high --effort-high medium | cmp -s - medium.want
ok $? "--effort-high medium"
p --template qwen3.8 --effort max --effort-high medium | cmp -s - xhigh.want
ok $? "which is about high alone"
echo '{"messages":[{"role":"user","content":"Hi"}],"reasoning_effort":"low"}' >low.json
qtok --chat -f prompt --template qwen3.8 --effort xhigh low.json | cmp -s - xhigh.want
ok $? "the option takes the place of the request's"

# fails STATUS WORDS CMD...
fails() {
	want=$1 words=$2
	shift 2
	"$@" >out 2>err </dev/null
	is "$? $(grep -c -e "$words" err)" "$want 1" "$words"
}
fails 2 "unknown reasoning effort 'hihg'" p --template qwen3.8 --effort hihg
fails 2 "neither medium nor xhigh" p --template qwen3.8 --effort-high low
fails 2 "need --chat" qtok --effort low
r() {
	printf '{"messages":[%s],"reasoning_effort":"%s"}' "$1" "$2" >r.json
	qtok --chat -f prompt --template "${3:-qwen3.8}" r.json
}
u='{"role":"user","content":"Hi"}' s='{"role":"system","content":"S"}'
fails 1 'Supported types are xhigh' r "$u" ultra
rt() {
	printf '{"messages":[%s]}' "$1" >r.json
	qtok --chat -f prompt --template qwen3.8 --system-messages template \
	    --effort high r.json
}
fails 1 "must be at the beginning" rt "$u,$s"

# -- other templates: names that are known stay, whatever they are
t() {
	printf '%s' "$1" >t.jinja
	shift
	r "$u" "$1" ./t.jinja
}
knows() {
	echo "{%- set e = reasoning_effort|default('own') %}{%- if e not in [$1] %}{{ raise_exception('no ' ~ e) }}{%- endif %}{{ e }}{{ enable_thinking|default('') }}"
}
is "$(t "$(knows "'own','low','medium','high'")" high)" high "one that knows high"
is "$(t "$(knows "'own','low','medium','high'")" xhigh)" high "xhigh is high there"
is "$(t "$(knows "'own','low','medium','high'")" minimal)" low "minimal is low"
is "$(t "$(knows "'own','high','max'")" medium)" high "medium is what is next above"
is "$(t "$(knows "'own','minimal','high'")" low)" minimal "low is minimal rather than high"
is "$(t "$(knows "'own','quick','deep'")" high)" own "its own where nothing of ours is known"
is "$(t "$(knows "'own','none'")" none)" noneFalse "none, where it is known"
is "$(t "$(knows "'own','low'")" none)" ownFalse "and where not"
is "$(t '{{ reasoning_effort }}' minimal)" minimal "one that takes all names gets them"
is "$(r "$u" high qwen3.6)" "$(p --template qwen3.6)" "one without efforts: nothing changes"
is "$(r "$u" none qwen3.6)" "$(p --template qwen3.6 --think off)" "but none"
is "$(printf '%s' '<think>a</think>b' | qtok --parse --template qwen3.8 --effort none)" \
    "$(printf '%s' '<think>a</think>b' | qtok --parse --template qwen3.8 --think off)" "--parse: a reply without a thought"

# -- servers, batches
serve --no-store --template qwen3.8
a() {
	post /apply-template "{\"messages\":[$u]$1}" | jq -j .prompt
}
for pair in minimal:low high:xhigh none:none; do
	a ",\"reasoning_effort\":\"${pair%:*}\"" | cmp -s - "${pair#*:}.want"
	ok $? "qserve: ${pair%:*} is ${pair#*:}"
done
n() {
	post "$1" "{\"model\":\"q\",\"max_tokens\":1,$2}" |
	    jq '.usage | .prompt_tokens // (.input_tokens + (.cache_read_input_tokens // 0))'
}
c() {
	n /v1/chat/completions "\"messages\":[$u],\"reasoning_effort\":\"$1\""
}
is "$(n /v1/responses '"input":"Hi","max_output_tokens":1,"reasoning":{"effort":"minimal"}')" "$(c low)" "/v1/responses"
m='"messages":[{"role":"user","content":"Hi"}],"thinking":{"type":"adaptive"}'
is "$(n /v1/messages "$m,\"output_config\":{\"effort\":\"low\"}")" "$(c low)" "/v1/messages: low"
is "$(n /v1/messages "$m,\"output_config\":{\"effort\":\"max\"}")" "$(c xhigh)" "max"
is "$(n /v1/messages "$m,\"output_config\":{\"effort\":\"medium\"}")" "$(c medium)" "medium"
is "$(n /v1/messages '"messages":[{"role":"user","content":"Hi"}],"thinking":{"type":"disabled"},"output_config":{"effort":"high"}')" \
    "$(c none)" "thinking disabled: whatever the effort"
post /v1/messages "{\"model\":\"q\",\"max_tokens\":1,$m,\"output_config\":{\"effort\":7}}" >/dev/null
is "$(cat code) $(jq -r .error.message answer)" "400 output_config: the effort is not a string" "a number is none"
end_server
serve --no-store --template qwen3.8 --effort low --effort-high medium
a "" | cmp -s - low.want
ok $? "--effort is for requests without"
a ',"reasoning_effort":"high"' | cmp -s - medium.want
ok $? "--effort-high"
end_server
echo "{\"messages\":[$u],\"max_tokens\":1}" >req
is "$(qbatch -q --template qwen3.8 --effort low req | jq .usage.prompt_tokens)" \
    "$(qtok --chat -c --template qwen3.8 --user Hi --effort low)" "qbatch --effort"
is "$(qchat -v -n 1 --template qwen3.8 --effort low Hi 2>&1 </dev/null |
    sed -n 's/.*: \([0-9]*\) tokens to read.*/\1/p')" \
    "$(qtok --chat -c --template qwen3.8 --user Hi --effort low)" "qchat --effort"
done_testing
