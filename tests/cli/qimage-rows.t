#!/bin/sh
# Images as rows: qimage encodes them, and qtok --chat puts them into a prompt.
. "$TOP/tests/cli/tap.sh"
dir=$TOP/../shared/fixtures/vision
needs "rows of images" python3
unset QWEN_STORE
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE

# png NAME WIDTH HEIGHT SEED: an image of a few colours
png() {
	python3 "$TOP/tests/cli/png.py" "$@"
}
# far GOT WANT: GOT has rows of 264 numbers, of which WANT has the first 256
far() {
	python3 -c 'import struct, sys
x, y = (struct.unpack("<%df" % (len(b) // 4), b)
        for b in (open(f, "rb").read() for f in sys.argv[1:3]))
x = [v for i in range(0, len(x), 264) for v in x[i:i + 256]]
print(len(x), len(y), max(abs(a - b) for a, b in zip(x, y)) < 1e-4)' "$1" "$2"
}
# logits FILE [OPTION...]: of the stream on stdin
logits() {
	to=$1; shift
	qprefill --kv f32 --logits=all -f raw "$@" >"$to"
}

printf abc >doc
png one.png 150 100 1
png two.png 150 100 2
if ! qimage --show one.png >seen.png 2>err; then
	skip "rows of images" "$(cat err)"
	done_testing
fi
# the prompt of the fixtures
cat >bare.jinja <<'EOF'
{{- '&*2' }}
{%- for m in messages %}{%- for p in m.content %}
{%- if p.type == 'image' %}
{{- '<|vision_start|><|image_pad|><|vision_end|>?@' }}
{%- endif %}
{%- endfor %}{%- endfor %}
{{- 'IJKL' }}
EOF

for m in qwen3_5 qwen3_vl; do
	if [ ! -e "$dir/$m/text.gguf" ]; then
		skip "rows of images" "no $dir/$m"
		continue
	fi
	mkdir "$m"
	cp "$dir/$m/mmproj.gguf" "$m/mmproj-F32.gguf"
	QWEN_MODEL=$m/m.gguf; export QWEN_MODEL
	python3 "$TOP/tests/cli/vision_vocab.py" "$dir/$m/text.gguf" "$m/m.gguf"
	chat="qtok --chat --template qwen3.5"

	echo 5 | qtok >head
	python3 "$TOP/tests/cli/images.py" head span:2x3:1 span:3x5:2 \
	    "rows:1:$dir/$m/embd-0.f32" "rows:2:$dir/$m/embd-1.f32" |
	    qtok --chat --template ./bare.jinja --image - | logits got
	is "$? $(far got "$dir/$m/logits.f32")" "0 9216 9216 True" \
	    "$m: qtok's prompt has the logits of PyTorch"

	qimage one.png two.png >rows 2>err
	is "$? $(cat err)" "0 " "$m: qimage finds the encoder"
	qimage -t 1 one.png two.png | cmp -s - rows
	ok $? "$m: the same on one thread"
	qimage --mmproj "$dir/$m/mmproj.gguf" - two.png <one.png | cmp -s - rows
	ok $? "$m: and with a given encoder, and from stdin"
	qimage seen.png two.png | cmp -s - rows
	ok $? "$m: and of what --show shows"
	is "$(qimage -f json one.png two.png one.png | cut -c1-7 | tr '\n' ' ')" \
	    '{"qwen" {"span" {"span" {"span" {"rows" {"rows" ' \
	    "$m: spans, then rows; those of the same image once"
	is "$(qimage --no-rows -f json one.png two.png | grep -c rows)" 0 \
	    "$m: --no-rows"

	$chat --user 'What is <|image_pad|>?' --image one.png --image two.png >text
	$chat --user 'What is <|image_pad|>?' --image - <rows | cmp -s - text
	ok $? "$m: qtok --image FILE is qimage and --image -"
	n=$($chat --user 'What is <|image_pad|>?' --image - -c <rows)
	is "$($chat --user 'What is <|image_pad|>?' --image one.png --image \
	    two.png -c)" "$n" "$m: qtok -c counts the rows"
	logits got -t 1 <text
	is "$? $(wc -c <got)" "0 $((n * 264 * 4))" "$m: a row of logits for each"
	logits got2 -t 2 <text
	cmp -s got got2
	ok $? "$m: the same bits on two threads"
	$chat --user 'What is <|image_pad|>?' --image two.png --image one.png |
	    logits got2
	[ "$(wc -c <got)" = "$(wc -c <got2)" ] && ! cmp -s got got2
	ok $? "$m: other bits with the images exchanged"
	$chat --image one.png --user 'What does it say?' |
	    qprefill -o "$m.cbor" | qdecode -s "$m.cbor" -n 4 --ignore-eos \
	    -f text >got
	is "$? $(wc -l <got)" "0 4" "$m: a reply"
	is "$($chat -f prompt --data doc --image one.png --user b \
	    --assistant c --image two.png --image two.png --user d |
	    grep -c 'abc<.*vision_end|>b<')" 1 "$m: documents, images and text"

	# images in a request
	for f in one two; do
		python3 -c 'import base64, sys
print(base64.b64encode(open(sys.argv[1], "rb").read()).decode(), end="")' \
		    $f.png >$f.64
	done
	url() { # NAME-OF-A-URL...: a chat with these images and a question
		printf '{"messages":[{"role":"user","content":['
		for u; do
			printf '{"type":"image_url","image_url":{"url":"%s"}},' "$u"
		done
		printf '{"type":"text","text":"What is <|image_pad|>?"}]}]}'
	}
	$chat --image one.png --image two.png --user 'What is <|image_pad|>?' >text
	url "data:image/png;base64,$(cat one.64)" "data:;base64,$(cat two.64)" >r
	$chat r 2>err | cmp -s - text
	is "$? $(cat err)" "0 " "$m: a request with two images"
	url two.png "data:;base64,$(cat one.64)" >r
	$chat --image two.png --image one.png --user 'What is <|image_pad|>?' >text
	$chat --image-dir . r 2>err | cmp -s - text
	is "$? $(cat err)" "0 " "$m: and with a file below --image-dir"
	refused 1 "$m: a file without --image-dir" $chat r
	is "$(cat err)" "qtok: image 1: names of files are refused: send a data: URL, or use --image-dir" \
	    "$m: it says how"
	mkdir -p "$m.below/a"
	ln -s ../../one.png "$m.below/a/link.png"
	cp one.png "$m.below/a/b.png"
	url a/b.png "file://$PWD/$m.below/a/b.png" >r
	$chat --image-dir "$PWD/$m.below" r >/dev/null 2>err
	is "$? $(cat err)" "0 " "$m: paths in the folder, and with its name"
	for u in a/link.png ../one.png a/../../one.png "$PWD/one.png" /etc/passwd a; do
		url "$u" >r
		refused 1 "$m: outside of the folder: $u" $chat \
		    --image-dir "$PWD/$m.below" r
	done
	url http://127.0.0.1/x.png >r
	refused 1 "$m: a URL" $chat r
	url "data:;base64,$(cat one.64)" "data:;base64,AAAA" >r
	refused 1 "$m: a broken image in a request" $chat r
	is "$(cat err | sed 's/\(image 2\): .*/\1/')" "qtok: image 2" "$m: which one"

	refused 1 "$m: no such image" $chat --image none.png --user x
	refused 1 "$m: not an image" $chat --image bare.jinja --user x
	refused 1 "$m: one image is damaged" qimage one.png bare.jinja
	refused 1 "$m: tokens in place of images" sh -c \
	    "echo 5 | qtok | $chat --image - --user x"
	refused 1 "$m: no images on stdin" $chat --image - </dev/null
	refused 1 "$m: a template without images" qtok --chat --template qwen3 \
	    --image one.png --user x
	refused 2 "$m: in text" $chat -f text --image one.png --user x
	refused 2 "$m: stdin twice" $chat --image - --image -
	mkdir "$m.bin"
	cp "$(command -v qtok)" "$m.bin"
	printf '#!/bin/sh\necho "$@" >&2\nexit 1\n' >"$m.bin/qimage"
	chmod +x "$m.bin/qimage"
	PATH=$PWD/$m.bin:$PATH $chat --image one.png -t 3 --image-max-tokens 9 \
	    >out 2>err
	is "$? $(cut -d' ' -f3- err)" "1 --max-tokens 9 -t 3 -- one.png" \
	    "$m: qtok passes options on"
	echo '{{- "image_pad" }}' >none.jinja
	refused 1 "$m: a template with no place" qtok --chat --template \
	    ./none.jinja --image one.png
	mkdir "$m.alone"
	cp "$m/m.gguf" "$m.alone"
	refused 1 "$m: no encoder" $chat -m "$m.alone/m.gguf" --image one.png
	grep -q 'no image encoder (mmproj file) beside it' err
	ok $? "$m: which is said"
done

model qwen3
QWEN_MODEL=$MODEL
if [ -d qwen3_5 ]; then
	refused 1 "a model without images" qtok -m "$TOP/demo/demo.gguf" --chat \
	    --template qwen3.5 --image one.png --user x
	is "$(sed 's/.*has no/has no/' err)" \
	    "has no token <|image_pad|>: this model reads no images" "why"
	refused 1 "the encoder of another model" qimage --mmproj \
	    qwen3_5/mmproj-F32.gguf one.png
	QWEN_MODEL=qwen3_vl/m.gguf
	refused 1 "the images of another vocabulary" sh -c \
	    "qimage one.png | qtok -m '$MODEL' --chat --template qwen3.5 --image -"
fi
done_testing
