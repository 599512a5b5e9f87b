#!/bin/sh
# --stop-repeat ends endless loops where tokens repeat.  The expected end is
# found in the plain output by trying all lengths at all positions.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/qserve.sh"
printf 'a b' >text

# first K: after how many of the tokens on stdin, one a line, the last ones are
# K copies of 1 to 512 tokens, 64 tokens together at least; else all
first() {
	awk -v k="$1" '{ t[NR] = $1 } END {
		for (n = 1; n <= NR; n++)
			for (p = 1; p <= 512; p++) {
				c = p * k > 64 ? p * k : 64
				if (c > n)
					continue
				for (i = n; i > n - c + p && t[i] == t[i - p]; i--)
					;
				if (i == n - c + p) { print n; exit }
			}
		print NR
	}'
}
qtok text | qdecode -q -n 400 --sampling none -f text >all
for k in 2 4 8; do
	qtok text | qdecode -n 400 --sampling none -f text --stop-repeat $k >got 2>err
	is "$(wc -l <got | tr -d ' ')" "$(first $k <all)" "qdecode: $k times, the first place"
	head -n "$(wc -l <got)" all | cmp -s - got
	ok $? "and the same tokens up to there"
	is "$(grep -c 'ended: the tokens repeat' err)" "$([ "$(wc -l <got)" -lt 400 ] && echo 1 || echo 0)" "it says so"
done
[ "$(first 4 <all)" -lt 400 ]
ok $? "there is a loop: after $(first 4 <all) tokens"
n=$(first 4 <all)
qtok text | qdecode -q -n 400 --sampling none -f text --stop-repeat 0 | cmp -s - all
ok $? "0: never"
qtok text | qprefill -q -o s >/dev/null
qdecode -q -s s -o s2 -n $((n - 5)) --sampling none -f text --stop-repeat 4 </dev/null >a
qdecode -q -s s2 -n 400 --sampling none -f text --stop-repeat 4 </dev/null >b
is "$(cat a b | wc -l | tr -d ' ')" "$n" "a run that is divided ends there too"

echo '{"prompt":"a b","max_tokens":400}' >req
is "$(qbatch -q --sampling none --stop-repeat 4 req | jq -c '[.finish_reason,.stop_reason,.usage.completion_tokens]')" \
    "[\"length\",\"repetition_detected\",$n]" "qbatch: why, and where"
is "$(qbatch -q --sampling none req | jq -c '[.finish_reason,.stop_reason,.usage.completion_tokens]')" \
    '["length",null,400]' "without: as before"
is "$(cat req req req | qbatch -q --sampling none --stop-repeat 4 --max-sequences 3 |
    jq .usage.completion_tokens | sort -u)" "$n" "whatever is beside it"
qchat -n 2000 --stop-repeat 2 --sampling none --temp 0 --template qwen3 'a a a a a a a a' </dev/null >/dev/null 2>err
is "$(grep -c 'repeats itself\|is cut after' err)" "$(wc -l <err | tr -d ' ')" "qchat says why it is cut"
serve --no-store --sampling none --stop-repeat 4
is "$(post /v1/completions '{"prompt":"a b","max_tokens":400}' |
    jq -c '[.choices[0]|.finish_reason,.stop_reason],.usage.completion_tokens')" \
    "[\"length\",\"repetition_detected\"]
$n" "qserve: beside a reason that clients know"
is "$(post /v1/completions '{"prompt":"a b","max_tokens":400,"stream":true}' |
    grep -c '"finish_reason":"length","stop_reason":"repetition_detected"')" 1 "in a stream"
end_server
done_testing
