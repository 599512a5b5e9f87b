#!/bin/sh
# qbatch with images: the answers are those of the pipe, alone and together; an
# image is encoded once; and a broken one fails its own line.
. "$TOP/tests/cli/tap.sh"
dir=$TOP/../shared/fixtures/vision
needs "batches with images" python3 jq
unset QWEN_STORE
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE
F=$TOP/tests/files/image
if [ ! -e "$dir/qwen3_5/text.gguf" ]; then
	skip "batches with images" "no $dir"
	done_testing
fi
if ! qimage --show "$F/good-rgb.png" >one.png 2>err; then
	skip "batches with images" "$(cat err)"
	done_testing
fi
qimage --show "$F/good-rgba.png" >two.png

# a folder of tools in which qimage notes what it encodes
mkdir bin
cp "$BIN/qbatch" bin
cat >bin/qimage <<END
#!/bin/sh
case " \$* " in *" --no-rows "*) ;; *) echo "encode \$*" >>"$PWD/log" ;; esac
exec "$BIN/qimage" "\$@"
END
chmod +x bin/qimage
PATH=$PWD/bin:$PATH
encoded() {
	cat log 2>/dev/null | grep -c encode
	rm -f log
}
batch() {
	qbatch -q --template qwen3.5 --temp 0 "$@"
}
# request TEXT FILE...: a chat with the images of files, then the text
request() {
	python3 - "$@" <<'END'
import base64, json, sys
parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64," +
    base64.b64encode(open(f, "rb").read()).decode()}} for f in sys.argv[2:]]
print(json.dumps({"messages": [{"role": "user", "content": parts +
    [{"type": "text", "text": sys.argv[1]}]}], "max_tokens": 7}))
END
}
# path PATH: a chat whose image is at this path or URL
path() {
	jq -cn --arg p "$1" '{max_tokens: 5, messages: [{role: "user", content:
	    [{type: "image_url", image_url: {url: $p}}, {type: "text",
	    text: "?"}]}]}'
}
errors() {
	jq -r '.error.message // "none"' "$1"
}

for m in qwen3_5 qwen3_vl; do
	mkdir "$m"
	cp "$dir/$m/mmproj.gguf" "$m/mmproj-F32.gguf"
	QWEN_MODEL=$m/m.gguf; export QWEN_MODEL
	python3 "$TOP/tests/cli/vision_vocab.py" "$dir/$m/text.gguf" "$m/m.gguf"
	{
		request 'What?' one.png
		request 'And?' two.png one.png two.png
		request 'text'
		request 'What?' two.png
		request 'What else?' one.png
		request '<|image_pad|>?' one.png
	} >in
	rm -f log
	batch in >whole
	is "$? $(encoded)" "0 2" "$m: two images in five requests are encoded in two runs"
	batch --max-sequences 1 --batch 16 -t 1 in | cmp -s - whole
	ok $? "$m: the same results one after the other, in small passes"
	grep -q 'encode .* -t 1 ' log
	ok $? "$m: -t is for encoders, too"
	for k in 1 2 6; do
		case $k in
		1) set -- --image one.png --user 'What?' ;;
		2) set -- --image two.png --image one.png --image two.png --user 'And?' ;;
		6) set -- --image one.png --user '<|image_pad|>?' ;;
		esac
		qtok --chat --template qwen3.5 "$@" >prompt
		qdecode --temp 0 -n 7 <prompt | qtok -d >want
		jq -j "select(.line == $k).text" whole >got
		is "$(cat got | od -c) $(jq "select(.line == $k).usage.prompt_tokens" whole)" \
		    "$(cat want | od -c) $(qtok --chat --template qwen3.5 -c "$@")" \
		    "$m: request $k: text and tokens of the pipe"
	done
done
QWEN_MODEL=qwen3_5/m.gguf
batch in >whole

# -- the forms of other interfaces
b=$(base64 <one.png | tr -d '\n')
jq -cn --arg b "$b" '
    {custom_id: "a", method: "POST", url: "/v1/chat/completions", body:
	{max_tokens: 7, messages: [{role: "user", content: [{type: "image_url",
	image_url: {url: "data:image/png;base64,\($b)", detail: "low"}},
	{type: "text", text: "What?"}]}]}},
    {custom_id: "b", method: "POST", url: "/v1/messages", body: {max_tokens: 7,
	messages: [{role: "user", content: [{type: "image", source: {type:
	"base64", media_type: "image/png", data: $b}}, {type: "text",
	text: "What?"}]}]}},
    {custom_id: "c", method: "POST", url: "/v1/responses", body:
	{max_output_tokens: 7, input: [{role: "user", content: [{type:
	"input_image", image_url: "data:image/png;base64,\($b)"},
	{type: "input_text", text: "What?"}]}]}}' >forms
rm -f log
batch forms >got
is "$? $(jq -s '[.[] | .response.body.usage |
    .prompt_tokens // .input_tokens] | unique | length' got) $(encoded)" \
    "0 2 1" "chats, messages and responses: one image, encoded once"
is "$(head -n 1 got | jq .response.body.usage.prompt_tokens)" \
    "$(head -n 1 whole | jq .usage.prompt_tokens)" "its tokens count"

# -- one image in many requests; a folder
for k in 1 2 3 4 5 6 7 8 9 10 11 12; do request "Number $k?" one.png; done >many
batch --images d many >got
is "$? $(encoded)" "0 1" "twelve questions about an image: encoded once"
batch many | cmp -s - got
ok $? "the same without a folder"
batch --store S many >got2 2>err
cmp -s got got2
is "$? $(ls S/images | grep -c cbor)" "0 1" "a store has a folder of images"
rm -f log bin/log
qimage --images S/images -v one.png 2>&1 >x | grep -q ' from images '
ok $? "which qimage finds"
batch --plan many >plan
is "$(awk '$1 == "prompt_tokens" { print $2 }' plan)" \
    "$(jq -s 'map(.usage.prompt_tokens) | add' got)" "--plan counts their tokens"

# -- resuming, parts
batch -o r in 2>err
cmp -s r whole
ok $? "-o"
head -n 2 whole >r; head -n 3 whole | tail -n 1 | head -c 60 >>r
batch --resume -o r in && cmp -s r whole
ok $? "--resume"
for k in 1 2 3; do batch --shard $k/3 -o part$k in; done
batch --merge --of in part1 part2 part3 | cmp -s - whole
ok $? "--shard and --merge"
cp qwen3_5/mmproj-F32.gguf other.gguf
at=$(gguf-inspect other.gguf | awk '$2 == "mm.2.weight" { print $6 }')
printf other | dd of=other.gguf bs=1 seek="$at" conv=notrunc 2>x
head -n 1 whole >r
refused 1 "results of another encoder" batch --resume --mmproj other.gguf -o r in
grep -q 'options "mmproj=.*" there, "mmproj=.*" here' err
ok $? "which is said"
refused 1 "of another limit" batch --resume --image-max-tokens 40 -o r in
rm part1 part2
batch --image-max-tokens 40 --shard 2/2 -o part2 in
batch --shard 1/2 -o part1 in
refused 1 "parts of several limits" batch --merge part1 part2
head -n 3 whole | tail -n 1 >text
{ cat text; head -n 1 part2; } >r
refused 1 "also behind a result without images" batch --merge r part1
mkdir alone
cp qwen3_5/m.gguf alone
request 'text' >text.in
batch -m alone/m.gguf -o r2 text.in
cat text.in in >text2.in
batch --resume -o r2 text2.in 2>err
is "$? $(cat err) $(wc -l <r2)" "0  7" "results without images are of any encoder"

# -- broken images, and files
mkdir -p pics/sub
cp one.png pics/sub; cp two.png secret.png; ln -s ../secret.png pics/link.png
mkfifo pics/fifo
{
	request ok one.png
	request bad one.png "$F/bad-truncated.png"
	request bad "$F/bad-text"
	path 'data:image/png;base64,'
	path 'data:image/png,xx'
	path ''
	path sub/one.png
	path "$PWD/pics/sub/one.png"
	path "file://$PWD/pics/sub/one.png"
	path 'http://127.0.0.1:9/x.png'
	path ../secret.png
	path "$PWD/secret.png"
	path link.png
	path sub/none.png
	path sub
	path fifo
	request ok two.png
} >bad
batch bad >got 2>err
is "$? $(wc -l <err)" "3 1" "broken images: $(cat err | cut -c1-70)"
is "$(jq -r 'select(.error == null).line' got | xargs)" "1 17" "fail their own lines"
errors got | sort | uniq -c | sort -rn | sed 's/^/# /' | cut -c1-120
is "$(errors got | sed -n '2p;3p' | cut -c1-9 | xargs)" "image 2: image 1:" \
    "the message says which image"
batch --image-dir "$PWD/pics" bad >got 2>err
is "$(jq -r 'select(.error == null).line' got | xargs)" "1 7 8 9 17" \
    "--image-dir allows the files below it"
is "$(jq -s '[.[6, 7, 8].usage.prompt_tokens] | unique | length' got)" 1 "all three"
{ cat one.png; head -c 15000000 /dev/zero; } >long.png
request 'What?' long.png >long
batch long >got 2>err
is "$? $(jq -r .text got | od -c)" "0 $(head -n 1 whole | jq -r .text | od -c)" \
    "a line of 20 MB"
rm r
batch -o r long && batch --resume -o r long 2>err
is "$? $(cat err)$(wc -l <r)" "0 1" "is known when the run is resumed"
rm long.png long

# -- models that read no images
head -n 1 in >one
for what in "-m alone/m.gguf" "--template qwen3"; do
	batch $what one >got 2>err
	is "$? $(errors got | cut -c1-53)" \
	    "3 message 1: parts of type image_url are not supported " "$what"
done
batch -m alone/m.gguf --image-placeholder one >got
is "$? $(errors got)" "0 none" "--image-placeholder puts a line there"
refused 1 "--mmproj of another model" batch --mmproj "$TOP/demo/demo.gguf" one
refused 1 "--mmproj, a template without places" batch --template qwen3 --mmproj \
    qwen3_5/mmproj-F32.gguf one
refused 1 "--image-dir without an encoder" batch -m alone/m.gguf --image-dir pics one
refused 2 "a limit of no folder" batch --images-max 1G one
rm bin/qimage
refused 1 "without qimage" env PATH=/usr/bin:/bin \
    "$PWD/bin/qbatch" -q --template qwen3.5 one
is "$(cat err)" "qbatch: qimage, which encodes images, is not beside this program" \
    "which is said"
done_testing
