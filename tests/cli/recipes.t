#!/bin/sh
# The recipes of qwen(7), taken from the page and run on the demo model: that
# they do what the page says, not only that they end.
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
		is "$?$(cat err)" 0 "$(head -n 1 "$i.sh")"
	done
}

# --- fan-out
recipe "Read a text once, go on from it many times"
run 1 2 3
printf 'And God said' | qtok >said
for seed in 1 2 3 4; do
	qdecode -n 20 --temp 0.8 --seed $seed <said | qtok -d >want.$seed
	cmp -s want.$seed said.$seed.txt
	ok $? "seed $seed gives what a run from the beginning gives"
done
cat want.1 want.2 want.3 want.4 | cmp -s - out
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
cat 1.answer 2.answer 3.answer | cmp -s - out
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

# --- a conversation
# turn FIRST TEXT: its tokens
turn() {
	printf "$1<|im_start|>user\\n" | qtok --special -f text
	printf %s "$2" | qtok -f text
	printf '<|im_end|>\n<|im_start|>assistant\n' | qtok --special -f text
}
recipe "A conversation, turn by turn"
is "$(sed '/^cat/d; /^EOF/d' 1.sh | wc -l)" 18 "chat.sh has fewer than 20 lines"
run 1 2
qstate show --tokens talk.cbor >first
turn '' 'Who are you?' >whole
qdecode -n 60 --seed 1 -f text <whole >answer
cat whole answer | cmp -s - first
ok $? "the first answer is that of the whole text"
qtok -d answer >want; echo >>want
cmp -s want out
ok $? "and is printed"
run 3
qstate show --tokens talk.cbor >second
head -n "$(wc -l <first)" second | cmp -s - first
ok $? "the second turn goes on from the first"
{ cat first; turn '\n' 'Tell me a story.'; } >whole
qdecode -n 60 --seed 1 <whole | qtok -d >want; echo >>want
cmp -s want out
ok $? "with the answer that reading all of it gives"
qprefill -o cold.cbor <second >/dev/null
qstate diff talk.cbor cold.cbor
ok $? "and the state is that of the whole conversation"

# --- the last turn taken back
recipe "Take the last turn back, and go on"
run 1
qprefill -o cold.cbor <first >/dev/null
qstate diff talk.cbor cold.cbor
ok $? "the state is that before the second turn"
run 2
{ cat first; turn '\n' 'What shall I do?'; } >whole
qdecode -n 60 --seed 1 <whole | qtok -d >want; echo >>want
cmp -s want out
ok $? "and the other turn has the answer of a text that never had the first one"

# --- elsewhere
recipe "Read here, go on elsewhere"
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
	recipe "Many prompts, in parts, anywhere"
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

	recipe "JSON out of a text"
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
