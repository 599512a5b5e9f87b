#!/bin/sh
# qserve: images in requests of all APIs.  Their answers are those of the pipe
# qtok --image | qprefill | qdecode, to the bit; an image is encoded once.
. "$TOP/tests/cli/tap.sh"
needs "images in requests" jq curl python3
. "$TOP/tests/cli/qserve.sh"
dir=$TOP/../shared/fixtures/vision
unset QWEN_STORE
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE
if [ ! -e "$dir/qwen3_vl/text.gguf" ]; then
	skip "images in requests" "no $dir"
	done_testing
	exit
fi

for f in one:1 two:2; do
	python3 "$TOP/tests/cli/png.py" ${f%:*}.png 150 100 ${f#*:}
	base64 -w 0 ${f%:*}.png >${f%:*}.64
done
qimage --show one.png >seen.png 2>err || {
	skip "images in requests" "$(cat err)"
	done_testing
	exit
}
one=data:image/png\;base64,$(cat one.64) two=data:image/png\;base64,$(cat two.64)

# model NAME: makes NAME/m.gguf with an image encoder beside it
vision() {
	mkdir "$1"
	cp "$dir/$1/mmproj.gguf" "$1/mmproj-F32.gguf"
	python3 "$TOP/tests/cli/vision_vocab.py" "$dir/$1/text.gguf" "$1/m.gguf"
	QWEN_MODEL=$1/m.gguf
}
off='"chat_template_kwargs":{"enable_thinking":false}'
how="$off,\"max_tokens\":12,\"temperature\":0,\"ignore_eos\":true"
# chat FIELDS PART...: a request to /v1/chat/completions, with these parts
chat() {
	fields=$1; shift
	(IFS=,; printf '{"messages":[{"role":"user","content":[%s]}],%s}' "$*" "$fields")
}
url() { printf '{"type":"image_url","image_url":{"url":"%s","detail":"low"}}' "$1"; }
text() { printf '{"type":"text","text":"%s"}' "$1"; }
# content ANSWER: the text of an answer, of any API
content() {
	jq -r '.choices[0].message.content // .message.content // .response //
	    .content[0].text // .output[-1].content[0].text' "$1"
}
# piped IMAGE-OR-TEXT...: the answer of the pipe
piped() {
	qtok --chat --template qwen3.5 --think off "$@" | qprefill -q -o s.cbor |
	    qdecode -q -s s.cbor -n 12 --ignore-eos | qtok -d
}

for m in qwen3_5 qwen3_vl; do
	vision $m
	serve -t 1 --template qwen3.5 --store $m/store
	chat "$how,\"logprobs\":true" "$(text 'What is <|image_pad|>?')" "$(url "$one")" "$(url "$two")" >r
	post /v1/chat/completions <r >first
	is "$(cat code) $(content first)" "200 $(piped --user 'What is <|image_pad|>?' --image one.png --image two.png)" \
	    "$m: the answer of the pipe"
	is "$(jq .usage.prompt_tokens first) $(stat images_total)" \
	    "$(qtok --chat --template qwen3.5 --think off --user 'What is <|image_pad|>?' --image one.png --image two.png -c) 2" \
	    "$m: usage counts the rows of images; both are encoded"
	# the numbers of the engine that gets the pipe's ids and rows
	qtok --chat --template qwen3.5 --think off -f json --user 'What is <|image_pad|>?' \
	    --image one.png --image two.png | python3 "$TOP/tests/cli/engine_images.py" 12 |
	    qengine -q -t 1 --no-store >events
	is "$(jq -c '[.choices[0].logprobs.content[].logprob]' first)" \
	    "$(jq -s -c '[.[] | select(.token) | .logprob]' events | python3 -c 'import json
print(json.dumps([float("%.8g" % x) for x in json.loads(input())], separators=(",", ":")))')" \
	    "$m: log-probabilities"
	post /v1/chat/completions <r >again
	is "$(jq -c '.choices[0]' again)" "$(jq -c '.choices[0]' first)" "$m: the same again"
	[ "$(jq .usage.prompt_tokens_details.cached_tokens again)" -gt 100 ]
	ok $? "$m: its prompt is not read again"
	is "$(stat images_total)" 2 "$m: nor are its images encoded again"
	chat "$how" "$(text 'What is <|image_pad|>?')" "$(url "$two")" "$(url "$one")" |
	    post /v1/chat/completions >swapped
	is "$(content swapped) $(stat images_total)" \
	    "$(piped --user 'What is <|image_pad|>?' --image two.png --image one.png) 2" \
	    "$m: two images of one size, exchanged"

	# a second turn, with a third image in a tool's result
	jq -c '.messages += [{role: "assistant", content: "a"}, {role: "user", content: "b"}]' r |
	    post /v1/chat/completions >turn
	is "$(cat code) $(stat images_total)" "200 2" "$m: a second turn encodes nothing"
	[ "$(jq .usage.prompt_tokens_details.cached_tokens turn)" -gt 100 ]
	ok $? "$m: and reads only what is new"

	# other APIs
	want=$(piped --image one.png --user b)
	chat "$how" "$(url "$one")" "$(text b)" | post /v1/chat/completions >got
	is "$(content got)" "$want" "$m: an image in front of the text"
	n=$(jq .usage.prompt_tokens got)
	printf '{"max_tokens":12,"temperature":0,"ignore_eos":true,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}},{"type":"text","text":"b"}]}]}' \
	    "$(cat one.64)" >anthropic
	post /v1/messages <anthropic >got
	is "$(content got) $(jq '.usage | .input_tokens + .cache_read_input_tokens' got)" "$want $n" "$m: Anthropic"
	is "$(post /v1/messages/count_tokens <anthropic | jq .input_tokens)" "$n" "$m: its number of tokens"
	printf '{"model":"m","think":false,"stream":false,"options":{"num_predict":12,"temperature":0,"ignore_eos":true},"prompt":"b","messages":[{"role":"user","content":"b","images":["%s"]}],"images":["%s"]}' \
	    "$(cat one.64)" "$(cat one.64)" >ollama
	jq -c 'del(.prompt, .images)' ollama | post /api/chat >got
	is "$(content got) $(jq .prompt_eval_count got)" "$want $n" "$m: Ollama's chat"
	jq -c 'del(.messages)' ollama | post /api/generate >got
	is "$(content got) $(jq .prompt_eval_count got) $(jq .context got)" "$want $n null" "$m: and generate"
	printf '{%s,"max_output_tokens":12,"temperature":0,"ignore_eos":true,"input":[{"role":"user","content":[{"type":"input_image","image_url":"%s"},{"type":"input_text","text":"b"}]}]}' \
	    "$off" "$one" >responses
	post /v1/responses <responses >got
	is "$(content got) $(jq .usage.input_tokens got)" "$want $n" "$m: Responses"
	is "$(post /v1/responses/input_tokens <responses | jq .input_tokens)" "$n" "$m: its number of tokens"
	printf '{"input":"c","previous_response_id":%s,"max_output_tokens":1}' "$(jq .id got)" | post /v1/responses >more
	is "$(cat code) $(($(jq .usage.input_tokens more) > n))" "200 1" "$m: and a response that continues it"
	jq -c '.messages = [{role: "user", content: "b"}, {role: "assistant", content: [{type: "tool_use", id: "1", name: "f", input: {}}]},
	    {role: "user", content: [{type: "tool_result", tool_use_id: "1", content: [.messages[0].content[0], {type: "text", text: "c"}]}]}]' \
	    anthropic | post /v1/messages >got
	is "$(cat code) $(($(jq '.usage | .input_tokens + .cache_read_input_tokens' got) > n))" "200 1" "$m: in the result of a tool"
	is "$(stat images_total)" 2 "$m: all of these encode nothing"
	chat "$how,\"stream\":true" "$(url "$one")" "$(text b)" | post /v1/chat/completions >got
	is "$(sed -n 's/^data: \({.*\)/\1/p' got | jq -j '.choices[0].delta.content // ""')" "$want" "$m: a stream"
	chat "$how,\"n\":2" "$(url "$one")" "$(text b)" | post /v1/chat/completions >got
	is "$(jq -r '.choices[1].message.content' got)" "$want" "$m: two answers"

	kill -9 "$(engine_pid)"
	chat "$how" "$(url "$one")" "$(text b)" | post /v1/chat/completions >got
	is "$(cat code) $(content got)" "200 $want" "$m: a new engine, after the first was killed"

	# after a restart
	end_server
	is "$gone $(ls $m/store/images | wc -l)" "0 2" "$m: both images are kept in a folder"
	ls -l --time-style=full-iso $m/store/images >before
	serve -t 1 --template qwen3.5 --store $m/store
	post /v1/chat/completions <r >again
	is "$(jq -c '.choices[0]' again)" "$(jq -c '.choices[0]' first)" "$m: the same after a restart"
	[ "$(jq .usage.prompt_tokens_details.cached_tokens again)" -gt 100 ]
	ok $? "$m: its prompt is not read again"
	end_server
done

# -- an image whose rows come in several records
python3 "$TOP/tests/cli/png.py" large.png 1024 736 3
base64 -w 0 large.png >large.64
serve -t 2 --template qwen3.5
{
	printf '{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,'
	cat large.64
	printf '"}},{"type":"text","text":"b"}]}],%s}' "$how"
} >r
post /v1/chat/completions <r >got
is "$(cat code) $(content got)" "200 $(piped --image large.png --user b)" "an image of 736 tokens"
end_server

# -- what is wrong
serve -t 1 --template qwen3.5 --name m
bad() { # NAME MESSAGE PART...
	name=$1 message=$2; shift 2
	chat "$how" "$@" | post /v1/chat/completions >/dev/null
	is "$(cat code) $(jq -r .error.message answer)" "400 $message" "$name"
}
bad "a broken image" "image 2: not an image: neither JPEG, PNG, WebP nor GIF" "$(url "$one")" "$(url "data:;base64,AAAA")"
bad "a damaged one" "$(head -c 300 one.png >cut.png; qimage -q cut.png 2>&1 >/dev/null | sed 's/^qimage: cut.png/image 1/')" \
    "$(url "data:;base64,$(base64 -w 0 cut.png)")"
bad "the file of a path" "image 1: names of files are refused: send a data: URL, or use --image-dir" "$(url one.png)"
bad "a URL" "image 1: http: and https: URLs are refused: send a data: URL, or use --image-url of qserve" "$(url http://127.0.0.1/a.png)"
chat "$how" "$(url "$one")" | sed 's/"user"/"system"/' | post /v1/chat/completions >/dev/null
is "$(cat code)" 400 "in a system message"
is "$(get /api/tags >/dev/null; post /api/show '{"model":"m"}' | jq -c .capabilities)" \
    '["completion","tools","thinking","vision"]' "Ollama's clients see that the model reads images"
is "$(get /props | jq -c .modalities) $(get /v1/models | jq -c '.data[0].architecture.input_modalities')" \
    '{"vision":true,"audio":false} ["text","image"]' "and others"
post /tokenize "$(chat "$off" "$(url "$one")")" >/dev/null
is "$(cat code)" 400 "tokens of a chat with images"
is "$(post /apply-template "$(chat "$off" "$(url "$one")")" | jq -r .prompt | grep -c 'vision_start|><|image_pad|><|vision_end')" 1 \
    "the text of its prompt"
temporary=$(ls -d "${TMPDIR:-/tmp}"/qserve-images.* 2>/dev/null | wc -l)
end_server
is "$gone $(($(ls -d "${TMPDIR:-/tmp}"/qserve-images.* 2>/dev/null | wc -l) < temporary))" "0 1" \
    "without a store, the folder of encoded images is removed"

mkdir below
cp one.png below
ln -s ../two.png below/link.png
serve -t 1 --template qwen3.5 --image-dir below --image-max-tokens 32 \
    --images kept --max-body 60K
chat "$how" "$(url one.png)" "$(text b)" | post /v1/chat/completions >got
is "$(cat code) $(($(jq .usage.prompt_tokens got) < n))" "200 1" "a file below --image-dir, with few tokens"
is "$(ls kept | wc -l)" 1 "which --images keeps"
for f in link.png ../two.png /etc/passwd none.png .; do
	chat "$how" "$(url $f)" | post /v1/chat/completions >/dev/null
	is "$(cat code) $(jq -r .error.message answer | cut -c1-9)" "400 image 1: " "no other file: $f"
done
bad "a short request that names many bytes" "image 2: one.png: the files of the request are larger than --max-body" \
    "$(url one.png)" "$(url one.png)"
chat "$how" "$(url one.png)" "$(text b)" | post /v1/chat/completions >/dev/null
is "$(cat code)" 200 "the next request has all of the limit"
end_server

# -- rows that are not cached any more are sent after all
mkdir liar
cat >liar/engine <<EOF2
#!/bin/sh
# answers that all is cached, though nothing is
exec python3 "$TOP/tests/cli/lying_engine.py" "$QWEN_MODEL"
EOF2
chmod +x liar/engine
serve --template qwen3.5 --engine ./liar/engine
chat "$how" "$(url "$one")" "$(text b)" | post /v1/chat/completions >got
is "$(cat code) $(content got) $(stat images_total)" "200 $want 1" "an engine that has forgotten what it had"
end_server

# -- URLs
echo text >bare.txt
mkfifo port
python3 "$TOP/tests/cli/image_web.py" >port 2>/dev/null &
web=$!
read -r at <port
at=http://127.0.0.1:$at
serve -t 1 --template qwen3.5 --image-url any --max-body 1M
chat "$how" "$(url "$at/one.png")" "$(text b)" | post /v1/chat/completions >got
is "$(cat code) $(content got)" "200 $want" "an image by its URL"
chat "$how" "$(url "$at/there")" "$(text b)" | post /v1/chat/completions >got
is "$(cat code) $(content got)" "200 $want" "after a redirect"
chat "$how" "$(url "$at/one.png")" "$(text b)" | post /v1/chat/completions >got
is "$(cat code) $(grep -c one.png asked)" "200 2" "a URL is read once"
bad "no image at a URL" "image 1: not an image: neither JPEG, PNG, WebP nor GIF" "$(url "$at/bare.txt")"
for f in none file round long; do
	chat "$how" "$(url "$at/$f")" | post /v1/chat/completions >/dev/null
	is "$(cat code) $(jq -r .error.message answer | cut -d: -f 1-4)" "400 image 1: $at/$f" \
	    "what a URL does not give: $f"
done
end_server
: >asked
serve -t 1 --template qwen3.5 --image-url public
port=${at##*:}
for u in "$at" "http://localhost:$port" "http://[::1]:$port" "http://[::ffff:127.0.0.1]:$port" \
    "http://2130706433:$port" http://169.254.169.254 http://10.0.0.1; do
	bad "a private address: $u" "image 1: $u/one.png: the URL leads to a private address: --image-url any allows that" \
	    "$(url "$u/one.png")"
done
is "$(cat asked)" "" "none of them is asked"
end_server
kill $web

# -- qimage that hangs, crashes, or is not there: the server serves on
mkdir tools
for t in qserve qengine; do
	cp "$BIN/$t" tools
done
OLD=$PATH
PATH=$PWD/tools:/usr/bin:/bin
serve -t 1 --template qwen3.5
chat "$how" "$(url "$one")" | post /v1/chat/completions >/dev/null
is "$(cat code) $(jq -r .error.message answer)" \
    "500 image 1: qimage, which encodes images, is not beside this program" "qimage is not there"
printf '#!/bin/sh\nkill -SEGV $$\n' >tools/qimage
chmod +x tools/qimage
chat "$how" "$(url "$one")" | post /v1/chat/completions >/dev/null
is "$(cat code) $(jq -r .error.message answer)" "400 image 1: qimage was ended by signal 11" "qimage crashes"
printf '#!/bin/sh\necho garbage\n' >tools/qimage
chat "$how" "$(url "$one")" | post /v1/chat/completions >/dev/null
is "$(cat code) $(jq -r .error.message answer | cut -c 1-8)" "500 image 1:" "qimage writes nonsense" || :
printf '#!/bin/sh\necho $$ >%s/hangs\nexec sleep 1000\n' "$PWD" >tools/qimage
chat "$how" "$(url "$one")" >r
curl -s -m 1 -d @r -H 'Content-Type: application/json' "$URL/v1/chat/completions"
i=0
while kill -0 "$(cat hangs)" 2>/dev/null && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
ok $((i == 100)) "qimage hangs, and is ended when its client leaves"
post /v1/chat/completions "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],$how}" >/dev/null
is "$(cat code)" 200 "texts are served on"
rm hangs
cat >tools/qimage <<EOF2
#!/bin/sh
# something that outlives qimage keeps its stderr open, until the file go is there
cd "$PWD"
setsid sh -c ': >held; until [ -e go ]; do sleep 0.05; done' &
until [ -e held ]; do sleep 0.05; done
echo \$\$ >hangs
exec sleep 1000
EOF2
curl -s -m 2 -d @r -H 'Content-Type: application/json' "$URL/v1/chat/completions"
i=0
while [ ! -s hangs ] || kill -0 "$(cat hangs)" 2>/dev/null && [ $i -lt 100 ]; do
	sleep 0.1
	i=$((i + 1))
done
cp "$BIN/qimage" tools/qimage.new
mv tools/qimage.new tools/qimage
post /v1/chat/completions <r >/dev/null &
retry=$!
until_stat requests 2
: >go
wait $retry
is "$(cat code)" 200 "a client that comes while qimage is ended gets its image"
PATH=$OLD
end_server

# -- text models
mkdir alone
cp qwen3_vl/m.gguf alone
QWEN_MODEL=alone/m.gguf
serve -t 1 --template qwen3.5
bad "a model without an encoder" "message 1: parts of type image_url are not supported (text only); --image-placeholder puts a line in their place" "$(url "$one")"
end_server
serve -t 1 --template qwen3.5 --mmproj qwen3_vl/mmproj-F32.gguf
chat "$how" "$(url "$one")" "$(text b)" | post /v1/chat/completions >got
is "$(content got)" "$want" "--mmproj"
end_server
refused 1 "no template with images" qserve --listen 127.0.0.1:0 --template qwen3 --mmproj qwen3_vl/mmproj-F32.gguf
refused 1 "options for images without an encoder" qserve --listen 127.0.0.1:0 --template qwen3.5 --image-dir .
done_testing
