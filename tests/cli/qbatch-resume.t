#!/bin/sh
# Results of another run or another input, or files that hold no results: nothing in
# them is lost, and missing results are named.
. "$TOP/tests/cli/tap.sh"
if ! command -v jq >/dev/null 2>&1; then
	skip "qbatch --resume" "no jq"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
seq 12 | jq -c '{prompt: "And God said", temperature: 1, seed: .}' >in
qbatch -q -n 6 -o want in

# kept NAME FILE COMMAND...: refused, and FILE is as it was
kept() {
	kept_name=$1 kept_file=$2
	shift 2
	cp "$kept_file" kept.copy
	refused 1 "$kept_name" "$@"
	cmp -s "$kept_file" kept.copy
	ok $? "$kept_name: the file is as it was"
}

# --- a file that is no results
ids 400000 "$SEED" 255 | awk '{ printf "%c", $1 + 1 }' | tr -d '\n' >photo
printf 'my note' >note
printf '[]' >list
printf '{"line":' >"a beginning"
printf '{"line":x' >"no number"
printf '{"line":1,"price":3}' >"other lines"
printf '{"id":"batch_7"}' >"other ids"
printf '\000\000\000' >zeros
printf '{"prompt":"x"}\n{"line":2' >prompts
for o in --resume --retry-failed --retry-cut; do
	for f in photo note list "no number" "other lines" "other ids" zeros \
	    prompts; do
		kept "$o on $f" "$f" qbatch -n 6 $o -o "$f" in
	done
done
kept "the input as the output" in qbatch -o in in
grep -q 'in: this is an input of this run' err
ok $? "which says that it is the input"
kept "also to be resumed" in qbatch --resume -o in in
ln -s in "another name"
kept "also by another name" in qbatch --resume -o "another name" in
cp "$QWEN_MODEL" model.gguf
kept "the model as the output" model.gguf qbatch -m model.gguf --resume -o model.gguf in
rm model.gguf
for n in 0 1 8 9 10 40; do
	{ head -n 3 want; sed -n 4p want | head -c $n; } >part
	qbatch -q -n 6 --resume -o part in 2>err
	is "$?, $(cmp part want && echo same)" "0, same" "cut after $n bytes of a result"
	{ head -n 3 want; sed -n 4p want | head -c $n; head -c 700 /dev/zero; } >part
	qbatch -q -n 6 --resume -o part in 2>err
	is "$?, $(cmp part want && echo same)" "0, same" "and $n bytes and zeros"
done
qbatch -q -n 6 --resume -o "a beginning" in 2>err
is "$?, $(cmp "a beginning" want && echo same)" "0, same" "cut in the first result"

# --- of another input
head -n 5 in >short
kept "results beyond the input" want qbatch -n 6 --resume -o want short
grep -q 'want: 7 results without a line of short, the first of line 6' err
ok $? "are told: $(cat err)"
head -n 3 want >part
sed '2s/And God said/Now Moses/' in >edited
kept "an edited request" part qbatch -n 6 --resume -o part edited
grep -q 'part: 1 line of edited changed since it was answered: 2; ' err
ok $? "is told: $(cat err)"
sed 's/,/, /g; s/^{/{ /' in >spaced
cp want part
qbatch -q -n 6 --resume -o part spaced
is "$?, $(cmp part want && echo same)" "0, same" "blanks change no request"
head -n 3 want >part
{ cat in; echo '{"prompt":"In the","max_tokens":2}'; } >longer
qbatch -q -n 6 --resume -o part longer
is "$?, $(wc -l <part), $(head -n 12 part | cmp - want && echo same)" "0, 13, same" "an input may grow"
head -n 3 want >part
sed 1d edited | sed '1i\
{"prompt":"And God said","temperature":1,"seed":1}' | qbatch -n 6 --resume -o part 2>err
is "$?, $(grep -c 'line 2 of the input changed since it was answered' err), $(head -n 3 want | cmp - part && echo same)" \
    "1, 1, same" "of a pipe an edited request is told when it comes"

# --- of another model, of other options
head -n 3 want >part
kept "another -n" part qbatch -n 30 --resume -o part in
grep -q 'options "n=6" there, "n=30" here' err
ok $? "is told: $(cat err)"
kept "no -n" part qbatch --resume -o part in
grep -q '"n=6" there, "n=context" here' err
ok $? "is told"
kept "another temperature" part qbatch -n 6 --top-k 3 --resume -o part in
grep -q '"none of these" there, "top-k=3" here' err
ok $? "is told"
kept "other keys and values" part qbatch -n 6 --kv q8_0 --resume -o part in
echo 'root ::= "a" | "b"' >g
kept "a grammar" part qbatch -n 6 --grammar g --resume -o part in
model qwen2
kept "another model" part qbatch -m "$MODEL" -n 6 --resume -o part in
grep -q 'model "demo.gguf" there, "qwen2.gguf" here' err
ok $? "is told: $(cat err)"
cp "$MODEL" demo.gguf
kept "another model of the same name" part qbatch -m demo.gguf -n 6 --resume -o part in
grep -q 'model "demo.gguf" with the hash [0-9a-f]* there, [0-9a-f]* here' err
ok $? "is told"
qbatch -q -m "$MODEL" -n 6 --mixed --resume -o part in 2>err
is "$?, $(jq -r .run.model part | uniq -c | xargs)" "0, 3 demo.gguf 9 qwen2.gguf" "--mixed keeps them"
head -n 3 want >part
qbatch -q -n 6 -t 1 --batch 7 --max-sequences 2 --unordered --draft none --resume -o part in
status=$?
sort part >sorted
is "$status, $(sort want | cmp - sorted && echo same)" "0, same" "what changes no answer may differ"
jq -c 'del(.run)' want | head -n 3 >part
qbatch -n 6 --resume -o part in 2>err
status=$?
jq -c 'del(.run)' part >plain.part
is "$status, $(jq -c 'del(.run)' want | cmp - plain.part && echo same), $(grep -c 'part: 3 results by an older qbatch' err)" \
    "0, same, 1" "older results are kept, with a note"
# requests that have their own limit do not ask for -n
jq -c '. + {max_tokens: 4}' in >own
rm part
qbatch -q -o part own
qbatch -q -n 30 --resume -o part own
is "$?, $(jq -r .run.options part | sort -u | grep -c '^n=')" "0, 0" "-n is no matter to requests with a limit"

# --- answers that were cut
rm part
echo '{"type":"object","properties":{"product":{"type":"string","maxLength":20}},"required":["product"]}' >schema
qbatch -n 5 --json-schema schema -o part in 2>err
is "$?, $(grep -c 'answers* cut by the token limit inside a grammar or schema' err), $(jq -r .run.cut part | sort -u)" \
    "3, 1, schema" "answers cut within a schema are told"
qbatch -q -n 5 --json-schema schema --resume -o part in 2>err
is "$?" 3 "also when there is nothing left to do"
qbatch --merge part >out 2>err
is "$?, $(wc -l <err)" "3, 1" "and by --merge: $(cat err)"
qbatch -n 200 --json-schema schema --retry-cut -o part in 2>err
status=$?
is "$status, $(wc -l <part), $(jq -r '.run.cut // "whole"' part | sort -u)" "0, 12, whole" \
    "--retry-cut with a larger limit answers them again"
qbatch -q -n 4 -o part.cut in
cp part.cut part.7
qbatch -q -n 7 --retry-cut -o part.7 in
head -n 5 part.7 >part.half
qbatch -n 7 --retry-cut -o part.half in 2>err
is "$? $(cmp part.half part.7) $(grep -c '; 5 were done before' err)" "0  1" \
    "--retry-cut again does not repeat what it has done: $(cat err)"
cp part.7 part.was
qbatch -q -n 4 --retry-cut -o part.7 in 2>err
is "$? $(cmp part.7 part.was) $(grep -c 'options "n=7" there, "n=4" here' err)" "1  1" \
    "nor does a smaller limit shorten answers: $(cat err)"
rm part.*
qbatch -q -n 200 --json-schema schema -o fresh in 2>err
qbatch --merge part >out 2>err
jq -c 'del(.run.options)' fresh >a; jq -c 'del(.run.options)' out >b
cmp -s a b
ok $? "what stood before is what it would have been"
printf '%s\n' '{"custom_id":"a","url":"/v1/responses","body":{"input":"And","max_output_tokens":2}}' \
    '{"custom_id":"b","url":"/v1/messages","body":{"messages":[{"role":"user","content":"And"}],"max_tokens":2}}' \
    '{"custom_id":"c","body":{"prompt":"And","max_tokens":2,"n":2}}' \
    '{"custom_id":"d","body":{"messages":[{"role":"user","content":"And"}],"max_tokens":2}}' >forms
rm part
qbatch -q --template qwen3 -o part forms
qbatch --status part forms >out
is "$(xargs <out)" "requests 4 done 4 failed 0 cut 4 left 0" "in any form"
jq -c 'del(.run)' part >s && mv s part
qbatch --status part forms >out
is "$(xargs <out)" "requests 4 done 4 failed 0 cut 4 left 0" "also of older results"

# --- the date of a template that writes one
echo '{{ strftime_now("%d %b %Y") }}{{ messages[0].content }}' >date.jinja
echo '{"messages":[{"role":"user","content":"And"}],"max_tokens":3}' >chats
day() {	# SECONDS OPTIONS...: the run at this time
	at=$1
	shift
	SOURCE_DATE_EPOCH=$at qbatch -q --template ./date.jinja --resume -o dated "$@" chats 2>err
}
rm -f dated
day 1000000000
is "$? $(jq -r .run.options dated | grep -c 'date=2001-09-09')" "0 1" "results note the date in their prompt"
day 1000000001
is "$?" 0 "the same day is the same run"
day 1000100000
is "$? $(grep -c 'options "date=2001-09-09" there, "date=2001-09-10" here' err)" "1 1" \
    "another day is another one: $(cut -c1-100 err)"
day 1000100000 --date 2001-09-09
is "$?" 0 "which --date brings back"
qbatch -q --template qwen3 chats | jq -r .run.options >out
is "$(grep -c date= out)" 0 "other templates have no date"

# --- put together
for i in 1 2 3; do
	qbatch -q -n 6 --shard $i/3 -o part.$i in
done
qbatch --merge --of in -o out part.1 part.2 part.3 2>err
is "$?, $(cat err), $(cmp out want && echo same)" "0, , same" "all parts of an input"
qbatch --merge -o out part.1 part.3 2>err
is "$?, $(wc -l <out), $(cat err)" \
    "3, 8, qbatch: 4 of 12 lines have no result: 2, 5, 8, 11 (--of input also finds those at the end)" "gaps are told"
qbatch --merge --of in -o out part.1 2>err
is "$?, $(wc -l <out), $(cat err)" "3, 4, qbatch: 8 of 12 lines have no result: 2, 3, 5, 6, 8, 9, 11, 12" \
    "and with the input the end, too"
head -n 2 want >few
qbatch --merge --of in few >out 2>err
is "$?, $(cat err)" "3, qbatch: 10 of 12 lines have no result: 3-12" "ranges"
{ head -n 2 in; echo; sed -n 3p in; } >gap
qbatch -q -n 6 -o gaps gap
qbatch --merge --of gap gaps >out 2>err
is "$?, $(wc -l <out), $(cat err)" "0, 3, " "an empty line lacks nothing"
jq -c 'del(.run)' part.1 >older
qbatch --merge --of in older part.2 part.3 >out 2>err
is "$?, $(wc -l <out), $(cat err)" \
    "0, 12, qbatch: 4 results by an older qbatch, which recorded no model, options and request: merged unchecked" \
    "older results are merged, with a note"
kept "the parts of another input" part.1 qbatch --merge --of edited part.1 part.2 part.3
kept "beyond the input" part.1 qbatch --merge --of short part.1
qbatch -q -n 7 --shard 2/3 -o other in
refused 1 "parts of different runs" qbatch --merge part.1 other part.3
grep -q 'other: line 1\|part.1: line 1' err && grep -q '"n=6" there, "n=7" here' err
ok $? "are told: $(cat err)"
qbatch --merge --mixed --of in part.1 other part.3 >out 2>err
is "$?, $(wc -l <out)" "0, 12" "--mixed merges them"
refused 2 "--of alone" qbatch --of in in
refused 2 "--status without results" qbatch --status in

# --- how far it is
qbatch --status want in >out 2>err
is "$?, $(xargs <out), $(cat err)" "0, requests 12 done 12 failed 0 cut 12 left 0, " "--status of what is done"
printf '%s\n' '{"prompt":"And","max_tokens":"x"}' >>longer
qbatch -q -n 6 --resume -o part.1 longer 2>err
{ cat part.1; head -n 1 want | head -c 20; } >torn
qbatch --status torn longer >out 2>err
is "$?, $(xargs <out), $(cat err)" \
    "3, requests 14 done 13 failed 1 cut 13 left 0, qbatch: 1 of 14 items failed" "of one with an error, being written"
qbatch --status want edited >out 2>err
is "$?, $(cat err)" "3, qbatch: 1 line changed since it was answered: 2" "of an input that was edited"
qbatch --status part.2 part.3 in >out 2>err
is "$?, $(xargs <out)" "3, requests 12 done 8 failed 0 cut 8 left 4" "of several files"

# --- errors of one form
printf '%s\n' 'no json' '{"prompt":"And","max_tokens":1}' '{"prompt":[]}' '[1]' >plain
qbatch plain >out 2>err
is "$?, $(jq -c 'select(.error) | [.line, .error.code]' out | xargs)" \
    "3, [1,invalid_json] [3,invalid_request] [4,invalid_request]" "errors among requests alone have one form"
qbatch <plain 2>err | cmp -s - out
ok $? "from stdin, too"
qbatch --shard 2/2 plain 2>err | jq -c 'select(.error).line' >out
is "$(cat out)" 4 "and in a part"
printf '%s\n' 'no json' '{"custom_id":"a","body":{"prompt":"And","max_tokens":1}}' '{"custom_id":"b","body":{"prompt":[]}}' >batch
qbatch batch >out 2>err
is "$?, $(jq -c '[.id, .custom_id, .response.status_code]' out | xargs)" \
    "3, [batch_req_1,null,400] [batch_req_2,a,200] [batch_req_3,b,400]" "those of OpenAI's form keep it"
sed 1,2d batch | cat - plain | sed -n '1p;2p' | qbatch 2>err | jq -c .custom_id | xargs >out
is "$(cat out)" "b null" "as the first line of a pipe says"

# --- an input that cannot be read once more from where it began
if strace -qq -o log -P "$PWD/in" -e inject=lseek:error=EIO true 2>/dev/null; then
	cp want cut
	for n in 1 2; do
		kept "lseek number $n fails" cut \
		    env ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" strace -qq -o log \
		    -P "$PWD/in" -e inject=lseek:error=EIO:when=$n qbatch -n 7 --retry-cut -o cut in
	done
else
	skip "lseek fails" "no strace"
fi

# --- the summary, and a log
qbatch -n 6 -o fresh.2 in 2>err
grep -q '^qbatch: 12 done, 0 failed, 12 cut at the limit; 36 prompt and 72 answer tokens in [0-9.]* s, [0-9.]* tok/s$' err
is "$?, $(wc -l <err)" "0, 1" "a summary: $(cat err)"
qbatch -q -n 6 -o fresh.3 in 2>err
is "$?, $(cat err)" "0, " "-q has none"
qbatch -n 6 in 2>err >out
is "$(grep -c done err), $(cat out | cmp - want && echo same)" "0, same" "nor has short work in a pipeline"
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	seq 40 | jq -c '{prompt: "And God said", temperature: 1, seed: .}' >forty
	script -qec 'qbatch -n 4 --arrivals 12 -o fresh.4 forty' /dev/null </dev/null |
	    tr '\r' '\n' >out
	grep -q '^qbatch: 40/40 items, .* tok/s *$' out
	ok $? "the last line of progress stays on a terminal"
else
	skip "a terminal" "script(1) makes none here"
fi
done_testing
