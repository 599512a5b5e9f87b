#!/bin/sh
# qserve: text of a conversation is read once: turn by turn, if thoughts are
# left out, after edits, after a restart, and if the model spells a text with
# other tokens than the tokenizer.
. "$TOP/tests/cli/tap.sh"
needs "what qserve remembers" jq curl
. "$TOP/tests/cli/qserve.sh"
# say TEXT MORE: the next turn of the conversation in talk (JSON, a list); how many
# tokens of its prompt were read, and how many were new since the last prompt
# and answer
say() {
	jq -c --arg s "$1" '. + [{role: "user", content: $s}]' talk >talk.next
	jq -c "{messages: ., tools: [{type: \"function\", function: {name: \"look\",
	    description: \"Look at the sky, the sea and the land.\",
	    parameters: {type: \"object\", properties: {at: {type: \"string\"}}}}}],
	    max_tokens: 12, seed: 3} + $2" talk.next >body
	post /v1/chat/completions <body >/dev/null
	jq -c --slurpfile a answer '. + [$a[0].choices[0].message |
	    {role, content}]' talk.next >talk
	jq -r '.usage | "\(.prompt_tokens) \(.prompt_tokens_details.cached_tokens)"' answer
}
for think in false true; do
	echo '[{"role":"system","content":"Thou shalt be brief, and speak of the sea."}]' >talk
	rm -rf store
	serve --template qwen3.5 --store store
	before=0
	bad=
	k=1
	while [ $k -le 6 ]; do
		set -- $(say "Question $k: what is it that thou seest?" \
		    "{temperature: 0.9, chat_template_kwargs: {enable_thinking: $think}}")
		# what was read: no more than the last answer, the question, and
		# what a turn begins with
		[ $(($1 - $2)) -le 45 ] || [ $k = 1 ] || bad="$bad $k:$2/$1"
		[ $k = 1 ] && first=$1
		k=$((k + 1))
		if [ $k = 4 ]; then
			end_server
			serve --template qwen3.5 --store store
		fi
	done
	is "$bad" "" "six turns, a restart after three, thinking $think: only what is new is read ($first, then $2 of $1 are there)"
	# an edit of the last question
	jq -c '.[:-2]' talk >talk.next && mv talk.next talk
	set -- $(say "Nay, tell me of the land." \
	    "{temperature: 0.9, chat_template_kwargs: {enable_thinking: $think}}")
	[ $(($1 - $2)) -le 40 ]
	ok $? "an edited question costs what was edited: $2 of $1 are there"
	# another conversation with the same system prompt and tools
	echo '[{"role":"system","content":"Thou shalt be brief, and speak of the sea."}]' >talk
	set -- $(say "Something else." "{}")
	[ $(($1 - $2)) -le 25 ]
	ok $? "another conversation has the system prompt and the tools: $2 of $1"
	# the same again, another seed
	jq -c '.seed = 4' body >again
	post /v1/chat/completions <again >/dev/null
	set -- $(jq -r '.usage | "\(.prompt_tokens) \(.prompt_tokens_details.cached_tokens)"' answer)
	[ $(($1 - $2)) -le 12 ]
	ok $? "the same question again has all but the answer's beginning: $2 of $1"
	end_server
done
# a thought that is marked by no token, and a tool that is asked between
sed 's/think>/thought>/g' "$TOP/lib/text/chat/templates/qwen3.6.jinja" >marked.jinja
serve --template ./marked.jinja
jq -nc --arg q "What is it that thou seest, and what seest thou not, neither now nor then?" '
    def u($s): {role: "user", content: $s}; [u($q)],
    [u($q), {role: "assistant", content: "It is."}, u("And then?")] |
    {messages: ., max_tokens: 3, chat_template_kwargs: {enable_thinking: false}}' >two
head -n 1 two | post /v1/chat/completions >/dev/null
first=$(jq .usage.prompt_tokens answer)
tail -n 1 two | post /v1/chat/completions >/dev/null
set -- $first $(jq .usage.prompt_tokens_details.cached_tokens answer)
[ $(($1 - $2)) -le 22 ]
ok $? "a template that marks thoughts in its own way: $2 of the $1 that were asked before"
end_server

# -- systems in the middle, where the template takes none: the prompt of a turn
# begins with that of the turn before
rm -rf store
serve --template qwen3.6 --store store
echo '[{"role":"system","content":"Thou shalt be brief."},{"role":"system","content":"Speak of the sea."}]' >talk
bad=
for k in 1 2 3 4; do
	set -- $(say "Question $k: what is it that thou seest?" \
	    "{chat_template_kwargs: {enable_thinking: false}}")
	[ $(($1 - $2)) -le 85 ] || [ $k = 1 ] || bad="$bad $k:$2/$1"
	jq -c --arg k $k '. + [{role: (if $k == "2" then "developer" else "system" end),
	    content: "The watch has called the hour \($k)."}]' talk >talk.next
	mv talk.next talk
done
is "$bad $(jq length talk)" " 14" "only what is new is read ($2 of $1 are there)"
end_server

# -- spelled otherwise: a token of one letter, where the tokenizer takes two
id=$(printf l | qtok -f json | jq -s 'map(.tokens // []) | add | .[0]')
rm -rf store
serve --store store
# spelled: the next turn after nine of these; prompt and cached tokens
spelled() {
	echo '[{"role":"system","content":"S"}]' >talk
	say "hi" "{logit_bias: {\"$id\": 1000}, max_tokens: 9, tools: null}" >/dev/null
	say "go on" '{tools: null}'
}
set -- $(spelled)
is "$(jq -r '.[2].content' talk) $(($1 - $2 <= 20))" "lllllllll 1" \
    "a text that the tokenizer would spell otherwise is found: $2 of $1"
cp answer first
cp body again
end_server
serve --store store
post /v1/chat/completions <again >/dev/null
is "$(jq -c .choices answer) $(jq .usage.prompt_tokens answer)" \
    "$(jq -c .choices first) $1" "and after a restart"
end_server
serve --store store --retokenize
post /v1/chat/completions <again >/dev/null
[ "$(jq .usage.prompt_tokens answer)" -lt "$1" ]
ok $? "--retokenize: the text alone decides"
end_server
# lines that are another each time
serve --ignore-line '^x-(date|request)' --ignore-line 'never$'
for k in 1 2; do
	post /v1/chat/completions "{\"messages\":[{\"role\":\"system\",\"content\":\"x-date: $k\nBe brief, and speak of the sea and of all that is in it.\"},
	    {\"role\":\"user\",\"content\":\"What is it?\"}],\"max_tokens\":3}" >/dev/null
done
# all up to the question, after which an answer began
is "$(jq '.usage | .prompt_tokens - .prompt_tokens_details.cached_tokens < 18' answer)" \
    true "a line that is passed over costs nothing"
end_server
refused 2 "an expression that is none" qserve --ignore-line '('
# responses that are named
serve
rid=$(post /v1/responses '{"input":"Who art thou?","max_output_tokens":9}' | jq -r .id)
a=$(jq -r '.output[0].content[0].text' answer)
post /v1/responses "{\"input\":\"And then?\",\"max_output_tokens\":9,\"previous_response_id\":\"$rid\"}" |
    jq -r '.output[0].content[0].text' >got
jq -nc --arg a "$a" '{input: [{role: "user", content: "Who art thou?"},
    {role: "assistant", content: $a}, {role: "user", content: "And then?"}],
    max_output_tokens: 9}' | post /v1/responses | jq -r '.output[0].content[0].text' | cmp - got
ok $? "a response goes on from one that it names"
is "$(post /v1/responses '{"input":"a","previous_response_id":"resp_1"}' >/dev/null; cat code)" 400 \
    "one that is not known"
oid=$(post /v1/responses '{"input":"Who?","max_output_tokens":1}' | jq -r .id)
is "$(echo "$rid $oid" | awk '{ gsub(/resp_/, ""); d = $1 - $2; print (d < -1e9 || d > 1e9) }')" 1 \
    "from an id of one's own nobody guesses that of another"
end_server

# the file of it: torn, and not one
cp store/qserve.ids whole
head -c $(($(wc -c <whole) - 3)) whole >store/qserve.ids
serve --store store
is "$(wc -c <store/qserve.ids)" 0 "a torn end of the file goes"
set -- $(spelled)
end_server
cmp store/qserve.ids whole
ok $? "and it is written again"
# two entries, of which the first one is damaged
{ cat whole; cat whole; } >two
printf x | dd of=two bs=1 seek=70 conv=notrunc 2>dd.err
cp two store/qserve.ids
serve --store store
end_server
cmp store/qserve.ids whole
ok $? "damage in the first entry loses that one alone"
is "$(grep -c 'damaged entries were dropped' log)" 1 "and it is told"
# what has that name and is another file is as it was before, and that is told
seq 1000 >victim
# planted HOW WORDS: by that command
planted() {
	rm -f store/qserve.ids
	eval "$1"
	serve --store store
	set -- "$2" $(spelled)
	is "$(cat code) $(($2 - $3 <= 20)) $(grep -c 'are not kept there' log)" "200 1 1" \
	    "$1: told once, and it goes on"
	end_server
	seq 1000 | cmp - victim
	ok $? "$1: it is as it was"
}
planted 'cp victim store/qserve.ids' "a file that is none of ours"
seq 1000 | cmp - store/qserve.ids
ok $? "which stays"
planted 'ln -s ../victim store/qserve.ids' "a link to another file"
planted 'ln victim store/qserve.ids' "another name of a file"
planted 'ln -s /dev/full store/qserve.ids' "what is no file"
planted 'mkfifo store/qserve.ids' "a fifo"
rm -f store/qserve.ids

# -- control tokens that a model has generated are text when the answer comes back
serve --template qwen3 --store store
id_of() {
	post /tokenize "{\"content\":\"$1\"}" | jq '.tokens[0]'
}
u='{"role":"user","content":"hello there"}'
im=$(post /tokenize "{\"messages\":[$u]}" | jq '.tokens[0]')
bias="\"$im\":100,\"$(id_of t)\":99,\"$(id_of h)\":99"
# what it says is seen by its length: control tokens have no text in an answer
seed=0
: >said
until grep -q 'th.*<|im_start|>\|<|im_start|>.*th' said || [ $seed = 20 ]; do
	seed=$((seed + 1))
	k=0
	: >said
	until grep -q 'th.*<|im_start|>\|<|im_start|>.*th' said || [ $k = 12 ]; do
		k=$((k + 1))
		post /v1/chat/completions "{\"messages\":[$u],\"max_tokens\":$k,
		    \"temperature\":1,\"seed\":$seed,\"logit_bias\":{$bias}}" |
		    jq -rj '.choices[0].message.content' >now
		[ "$(wc -c <now)" = "$(sed 's/<|im_start|>//g' said | tr -d '\n' | wc -c)" ] &&
		    printf '<|im_start|>' >>said || tail -c 1 now >>said
	done
done
grep -q 'th.*<|im_start|>\|<|im_start|>.*th' said
ok $? "a model that says <|im_start|>, and t and h for th: $(cat said)"
jq -nc --rawfile said said --argjson u "$u" '{messages: [$u, {role: "assistant",
    content: ($said | rtrimstr("\n"))}, {role: "user", content: "and?"}]}' >back
# how many control tokens of that name the prompt has
count() {
	post /tokenize <back | jq "[.tokens[] | select(. == $im)] | length"
}
is "$(count)" 4 "they are not read as control tokens"
end_server
serve --template qwen3 --store store
is "$(count)" 4 "nor after a restart"
end_server
done_testing
