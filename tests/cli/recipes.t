#!/bin/sh
# The recipes of qwen(7), taken from the page and run on the demo model: they
# must do what the page says, not only exit with status 0.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
if ! command -v mandoc >/dev/null 2>&1; then
	skip "recipes" "no mandoc"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
# make(1) under make(1) would have something to say
unset MAKEFLAGS MAKELEVEL

# recipe TITLE: its commands in files, 1.sh ...
recipe() {
	rm -f ./[0-9].sh ./[0-9][0-9].sh
	page "$TOP/man/qwen.7" | section EXAMPLES | subsection "$1" | commands
	[ -e 1.sh ]
	ok $? "qwen.7 has: $1"
}

# run N...: these commands of it, into out
run() {
	: >out
	for i; do
		timeout 900 sh -e "$i.sh" >>out 2>err </dev/null
		is "$?$(said err)" 0 "$(head -n 1 "$i.sh")"
	done
}

# --- fan-out
recipe "Read a text once, continue it many times"
run 1 2 3
printf 'And God said' | qtok >said
for seed in 1 2 3 4; do
	qdecode -n 20 --temp 0.8 --seed $seed <said | qtok -d >want.$seed
	cmp -s want.$seed said.$seed.txt
	ok $? "seed $seed gives what a run from the beginning gives"
done
for i in 1 2 3 4; do cat want.$i; echo; done | cmp -s - out
ok $? "and all of them are printed"

# --- system prompt, document, questions
recipe "A system prompt, a document, many questions"
run 1 2 3 4 5 6 7 8
for q in 1 2 3; do
	{ qtok system.txt; qtok document.txt; qtok $q.question; } |
	    qdecode -n 24 | qtok -d >want
	[ -s want ] && cmp -s want $q.answer
	ok $? "the answer to question $q is that of the whole text"
done
for i in 1 2 3; do cat $i.answer; echo; done | cmp -s - out
ok $? "and all of them are printed"
is "$(make -s -q -f ask.mk; echo $?)" 0 "nothing is to be done again"
ls -i system.cbor document.cbor 1.answer 3.answer >before
sleep 1
echo 'Then David' >2.question
make -s -f ask.mk
ls -i system.cbor document.cbor 1.answer 3.answer >after
cmp -s before after
ok $? "another question reads no text again"
{ qtok system.txt; qtok document.txt; qtok 2.question; } |
    qdecode -n 24 | qtok -d | cmp -s - 2.answer
ok $? "and has its answer"

# --- a document, and questions to a chat model
recipe "A document, and questions to a chat model"
run 1 2 3
for q in 'Where was the famine?' 'How sore was it?'; do
	qtok --chat --data document.txt --user "$q" | qdecode -n 60 | qtok -d
	echo
done >want
tail -n "$(wc -l <want)" out | cmp -s - want
ok $? "the answers are those of the whole prompts"
n=$(qtok -c document.txt)
qtok --chat --data document.txt --user 'Why?' --mark document |
    qdecode -v --store prefixes -n 1 2>err >/dev/null
[ "$(sed -n 's/^qdecode: \([0-9]*\) tokens from store.*/\1/p' err)" -ge "$n" ]
ok $? "the document's $n tokens are not read again: $(grep 'from store' err)"

# --- a conversation
# answer FILE: what is said to this conversation, where nothing was read before
answer() {
	qtok --chat "$1" | qdecode -n "${2:-60}" --seed 1 | qtok -d | qtok --parse |
	    jq -r .content
}
# used FILE STATE: tokens of the prompt that the state has, and that can be used
used() {
	qtok --chat "$1" | qprefill -v --reuse "$2" -o used.cbor 2>&1 >/dev/null |
	    sed -n "s/.*: \([0-9]*\) of [0-9]* tokens agree, \([0-9]*\) can be used/\1 \2/p"
}
recipe "A conversation, turn by turn"
is "$(sed '/^cat/d; /^EOF/d' 1.sh | wc -l)" 18 "chat.sh has fewer than 20 lines"
run 1 2
jq 'del(.messages[-1])' talk.json >asked
answer asked | cmp -s - out
ok $? "the first answer is that of the whole text, by the model's template"
cp talk.json first.json
cp talk.cbor first.cbor
qstate show --tokens first.cbor >first
run 3
jq 'del(.messages[-1])' talk.json >asked
answer asked | cmp -s - out
ok $? "and so is the second"
is "$(jq -c '[.messages[].role]' talk.json)" '["user","assistant","user","assistant"]' "all is kept"
is "$(used asked first.cbor)" "$(wc -l <first) $(wc -l <first)" "which reads nothing again"

# --- the last turn taken back
recipe "Take back the last turn"
cp talk.cbor second.cbor
run 1
cmp -s talk.json first.json || diff talk.json first.json >&2
ok $? "the conversation is that before the second turn"
run 2
jq 'del(.messages[-1])' talk.json >asked
answer asked | cmp -s - out
ok $? "and the other turn has the answer of a text that never had the first one"
used asked second.cbor >got
[ "$(cut -d ' ' -f 2 got)" -ge "$(wc -l <first)" ]
ok $? "which reads nothing of the turn before again: $(cat got) of $(wc -l <first)"

# --- an answer that is cut: its turn ends all the same
recipe "A conversation, turn by turn"
sed 's/-n 60/-n 4/g' 1.sh | sh
for i in 1 2 3; do
	echo "What shall I do, $i times?" | sh chat.sh cut >cut.$i
	jq 'del(.messages[-1])' cut.json >asked
	answer asked 4 | cmp -s - cut.$i
	ok $? "cut, turn $i: the answer is that of the whole text"
done
qstate show --tokens cut.cbor | qtok -d --show-special >whole
is "$(grep -o '<|im_[a-z]*|>' whole | xargs | sed 's/ <|im_end|>$//')" \
    "$(for i in 1 2 3 4 5; do echo '<|im_start|> <|im_end|>'; done | xargs) <|im_start|>" \
    "each turn that was cut is ended: $(grep -c . whole) lines"

# --- elsewhere
recipe "Read here, continue elsewhere"
run 1
printf 'In the beginning' | qtok | qdecode -n 20 | qtok -d | cmp -s - out
ok $? "what is read here goes on there as it would have here"
run 2
cmp -s said.cbor there.cbor
ok $? "a state that was sent is the same"
size=$(wc -c <said.cbor)
{ head -c $((size / 2)) said.cbor; printf '\377\376\375'
    tail -c +$((size / 2 + 4)) said.cbor; } >damaged
cp damaged said.cbor
sh 2.sh >out 2>err
[ -s err ] && ! qstate verify there.cbor 2>/dev/null
ok $? "a damaged one does not arrive as a good one"

# --- many prompts
if command -v jq >/dev/null 2>&1; then
	recipe "Many prompts, in parts, on any machine"
	run 1 2 3 4
	[ "$(wc -l <replies.jsonl)" = 12 ] && cmp -s replies.jsonl merged.jsonl
	ok $? "the parts together are the whole"
	printf 'And God said' | qtok | qdecode -n 12 --temp 1 --seed 7 |
	    qtok -d >want
	sed -n 7p replies.jsonl | jq -j .text | cmp -s - want
	ok $? "and an answer is what qdecode says"

	recipe "The best of several"
	run 1 2
	jq -r .text drafts.jsonl | grep -qxF -- "$(head -n 1 out)"
	ok $? "the best of several is one of them"

	recipe "A chat kept in a folder"
	run 1 2 3 4
	jq -r '.messages[-1].content' talk/1.json talk/2.json talk/3.json |
	    cmp -s - out
	ok $? "the three answers are printed, and kept"
	is "$(jq -c '[.messages[].role]' talk/3.json)" \
	    '["user","assistant","user","assistant"]' "the third has two turns"
	for t in 1 2 3; do
		qtok --chat -f text talk/$t.ask >whole
		qdecode -n 60 -f text <whole >>whole
		qstate show --tokens talk/$t.cbor | cmp -s - whole
		ok $? "turn $t is what reading all of it gives"
		qprefill -o cold.cbor <whole >/dev/null
		qstate diff talk/$t.cbor cold.cbor
		ok $? "and so is its state"
	done
	qtok --chat talk/3.ask | qprefill -v --reuse talk/1.cbor -o cold.cbor \
	    2>&1 >/dev/null | grep -q 'talk/1.cbor.*[1-9]'
	ok $? "and the first turn was not read again"

	recipe "Summaries of a folder"
	run 1 2 3 4 5
	is "$(jq -r keys[] out | xargs)" "letters/ann letters/bob" \
	    "a line for each letter"
	qtok --chat --system 'What is it about?' \
	    --data letters/bob | qdecode -n 40 | qtok -d >want
	jq -j '."letters/bob" // empty' out | cmp -s - want
	ok $? "what the model says of it alone: $(head -n 1 want | cut -c1-60)"

	recipe "A folder of scans to text"
	run 1
	v=$TOP/../shared/fixtures/vision/qwen3_5
	mkdir scans
	cp "$TOP/tests/files/image/good-rgb.png" scans/a.png
	cp "$TOP/tests/files/image/good-rgba.png" scans/b.png
	if [ -e "$v/text.gguf" ] && qimage --show scans/a.png >x 2>err; then
		PYTHONDONTWRITEBYTECODE=1 python3 \
		    "$TOP/tests/cli/vision_vocab.py" "$v/text.gguf" see.gguf
		sed 's/qbatch /&-q --template qwen3.5 -m see.gguf --mmproj '"$(
		    echo "$v/mmproj.gguf" | sed 's,/,\\/,g') /" scans.sh >see.sh
		sh see.sh scans 2>err && sh see.sh scans 2>>err
		is "$?$(cat err) $(jq -r '.id + (.error.message // "")' \
		    scans.jsonl | xargs)" "0 a.png b.png" "its images"
	else
		skip "its images" "no $v, or $(cat err)"
	fi

	recipe "JSON from a text"
	run 1 2 3 4
	is "$(jq -c '[keys_unsorted, (.seller | length <= 40), (.boxes >= 1 and
	    .boxes <= 1000), (.paid | type | . == "null" or . == "boolean")]' \
	    sold.json)" '[["seller","date","boxes","paid"],true,true,true]' \
	    "$(cat sold.json)"
	[ -s out ]
	ok $? "it is printed: $(cat out)"

	recipe "Tools that the model calls"
	run 1 2 3 4
	is "$(jq -c '[.messages[].role]' chat.json)" '["user","assistant"]' \
	    "the demo model calls none"
	# a model that does: twice, and then it answers
	mkdir -p bin
	cat >bin/qdecode <<-'E'
	#!/bin/sh
	n=$(cat n)
	echo $((n + 1)) >n
	case $n in
	0) set -- "$@" --grammar calls.gbnf ;;
	1) set -- "$@" --grammar call.gbnf ;;
	esac
	exec "$BIN/qdecode" "$@"
	E
	chmod +x bin/qdecode
	one='<tool_call>\n{\"name\": \"lines\", \"arguments\": {\"file\": \"../x/notes\"}}\n</tool_call>'
	two='<tool_call>\n{\"name\": \"n\\\\o\", \"arguments\": {}}\n</tool_call>'
	printf '%s\n' "root ::= \"$one\n$two\"" >calls.gbnf
	printf '%s\n' "root ::= \"$one\"" >call.gbnf
	echo 0 >n
	PATH=$PWD/bin:$PATH sh agent.sh 'How many?' >out 2>err
	is "$?$(cat err)" 0 "a model that calls tools"
	is "$(jq -c '[.messages[].role]' chat.json | tr -d '"')" \
	    "[user,assistant,tool,tool,assistant,tool,assistant]" "what was said"
	is "$(jq -r '.messages[] | select(.role == "tool").content' chat.json |
	    tr -d ' ' | xargs -d '\n' echo)" '3 thereisnotooln\o 3' "by the tools"
	jq -r '.messages[-1].content' chat.json | cmp -s - out
	ok $? "the last answer is printed"
else
	skip "many prompts" "no jq"
fi
done_testing
