#!/bin/sh
# qchat with images: the answers are those of the pipe, and an image is neither
# encoded nor read twice.
. "$TOP/tests/cli/tap.sh"
dir=$TOP/../shared/fixtures/vision
needs "chats with images" python3 jq
unset QWEN_STORE
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE
HOME=$PWD; export HOME
F=$TOP/tests/files/image
if [ ! -e "$dir/qwen3_5/text.gguf" ]; then
	skip "chats with images" "no $dir"
	done_testing
fi
if ! qimage --show "$F/good-rgb.png" >one.png 2>err; then
	skip "chats with images" "$(cat err)"
	done_testing
fi
qimage --show "$F/good-rgba.png" >two.png

# a folder of tools in which qimage notes what it encodes
mkdir bin
cp "$BIN/qchat" "$BIN/qtok" bin
cat >bin/qimage <<END
#!/bin/sh
case " \$* " in *" --no-rows "*) ;; *) echo encode >>"$PWD/log" ;; esac
exec "$BIN/qimage" "\$@"
END
chmod +x bin/qimage
PATH=$PWD/bin:$PATH
# encoded: how many runs of qimage made rows
encoded() {
	cat log 2>/dev/null | grep -c encode
	rm -f log
}
opts="--template qwen3.5 --think off"
chat="qchat $opts --temp 0 -n 8"
# say LINE...: a conversation
say() {
	printf '%s\n' "$@" | $chat
}

for m in qwen3_5 qwen3_vl; do
	mkdir "$m"
	cp "$dir/$m/mmproj.gguf" "$m/mmproj-F32.gguf"
	QWEN_MODEL=$m/m.gguf; export QWEN_MODEL
	python3 "$TOP/tests/cli/vision_vocab.py" "$dir/$m/text.gguf" "$m/m.gguf"
	qtok --chat $opts --image one.png --image two.png --user 'What?' |
	    qprefill -o s.cbor | qdecode -s s.cbor -n 8 | qtok -d >want
	rm -f log
	$chat one.png two.png 'What?' </dev/null >got 2>err
	is "$? $(cat err | cut -d' ' -f1-6)" "0 qchat: the answer is cut after" \
	    "$m: images on the command line"
	[ "$(head -c 8 got)" = "$(head -c 8 want)" ]
	ok $? "$m: the answer of the pipe"
	is "$(encoded)" 1 "$m: qimage encodes once"
	$chat 'What?' one.png two.png </dev/null 2>err | cmp -s - got
	ok $? "$m: a question before the images"
	$chat --data one.png 'What?' <two.png 2>err | cmp -s - got
	ok $? "$m: --data, and stdin"
done
QWEN_MODEL=qwen3_5/m.gguf
$chat one.png two.png 'What?' </dev/null >got 2>err
tokens=$(qtok --chat $opts --image one.png -c)
rm -f log

# -- commands, and paths as terminals paste them
mkdir 'a b'
cp two.png 'a b/it'\''s.png'
P=$PWD
say "/image one.png" "/image two.png" "What?" >got2 2>err
cmp -s got got2
ok $? "/image"
n=0
for line in "$P/a b/it's.png" "'$P/a b/it'\\''s.png'" "\"$P/a b/it's.png\"" \
    "$(echo "$P/a b/it's.png" | sed "s/[ ']/\\\\&/g") " \
    "file://$(echo "$P" | sed 's/ /%20/g')/a%20b/it%27s.png" "a b/it's.png" \
    "/image '$P/a b/it'\\''s.png'"; do
	n=$((n + 1))
	say "$P/one.png" "$line" "What?" >got2 2>err
	cmp -s got got2
	ok $? "a path, form $n: $line"
done
say "one.png 'a b/it'\\''s.png'" "What?" 2>err | cmp -s - got
ok $? "two paths"
say "one.png and two.png" 2>err >got2
is "$(grep -c image err)" 0 "text about files is text"
say "/image one.png" "/show" "/tokens" "/undo" "/tokens" 2>err >got2
is "$(grep -e '^image' -e ' of 4096 tokens' -e dropped err | grep -v '^model')" \
    "image: one.png, 77 tokens, put before your next message
$tokens of 4096 tokens, with the document for your next message
qchat: one.png is dropped
0 of 4096 tokens" "/show, /tokens and /undo know them"
echo 'doc text' >doc
say "/image one.png" "/data doc" "/image two.png" "What?" "/save c.json" 2>err >got2
is "$(jq -c '[.messages[0].content[] | .type, .text]' c.json)" \
    '["image_url",null,"text","doc text\n","image_url",null,"text","What?"]' \
    "documents and images keep their order"
is "$(jq -r '.messages[0].content[2].image_url.url' c.json | cut -c1-30)" \
    "data:image/png;base64,iVBORw0K" "/save has the images"
jq -r '.messages[0].content[2].image_url.url' c.json | sed 's/.*,//' | base64 -d |
    cmp -s - two.png
ok $? "their bytes"

# -- turns
rm -f log
say "/image one.png" "What?" "/image two.png" "And?" "More?" "/save c.json" \
    "Last?" >got 2>err
is "$? $(encoded)" "0 2" "two images in two turns: two are encoded, once each"
tail -n 1 got >last
printf '%s\n' '/image one.png' 'What?' '/image two.png' 'And?' | $chat -v 2>err >x
grep 'tokens to read' err | awk '{ print ($2 > 77), ($6 > 77) }' >got2
is "$(cat got2)" "1 0
1 1" "and the second turn reads only its own"
jq 'del(.messages[-1])' c.json >open.json
rm -f log
say "/load c.json" "Last?" 2>err | tail -n 1 | cmp -s - last
is "$? $(encoded)" "0 1" "/load continues; both images are encoded in one run"
jq -c 'del(.messages[3:])' c.json >open.json
say "/load open.json" "/load open.json" "x" "/save d.json" 2>err >x
is "$(jq -c '[.messages[-2].content[] | .type, .text]' d.json)" \
    '["image_url",null,"text","And?\n\nx"]' \
    "a message without an answer is continued, with its image"
qtok --chat $opts c.json | qtok --chat $opts --image one.png --user 'What?' -c >n 2>err
[ "$(cat n)" -gt 77 ]
ok $? "qtok reads a saved chat"
say "/load c.json" "/undo" "/undo" "/image two.png" "What?" "/save d.json" 2>err >x
is "$(jq '[.messages[].content | if type == "array" then .[] else . end |
    select(.type? == "image_url")] | length' d.json)" 3 "undone messages keep their images"
rm -f log
say "/image one.png" "What?" "/reset" "/image one.png" "What?" 2>err >x
is "$(sort -u x | wc -l) $(encoded)" "1 1" "/reset: the image is not encoded again"
rm -f log

# -- a store: nothing is encoded or read after a restart
chat="$chat --store S"
say "/image one.png" "What?" "/save c.json" 2>err >got
is "$(encoded) $(ls S/images | grep -c cbor)" "1 1" "a folder of images in the store"
printf '%s\n' '/image one.png' 'What?' | $chat -v >got2 2>err
cmp -s got got2
is "$? $(encoded)" "0 0" "another process: the same answer, nothing encoded"
awk '/tokens to read/ && $6 >= 77' err | grep -q .
ok $? "the image is not read"
rm -r S/images
say "/load c.json" "And?" >x 2>err
is "$? $(encoded)" "0 0" "nor after /load, although the folder is gone"
rm -rf S/v1 log
say "/load c.json" "And?" >got2 2>err
is "$(encoded) $(cmp x got2)" "1 " "without the state it is encoded, with the same answer"
chat="qchat $opts --temp 0 -n 8"

# -- what cannot be
say "/image none.png" 2>err
is "$? $(cat err)" "1 qchat: none.png: No such file or directory" "no such file"
say "/image doc" "/tokens" 2>err
is "$? $(head -n 1 err | cut -c1-12)" "1 qchat: doc: " "a file that is no image: $(head -n 1 err)"
is "$(tail -n 1 err)" "0 of 4096 tokens" "which is not added"
head -c 200 one.png >cut.png
say "/image cut.png" "$P/cut.png" 2>err
is "$? $(grep -c 'qchat: .*cut.png: ' err) $(wc -l <err)" "1 2 2" \
    "a damaged one: $(head -n 1 err)"
refused 1 "on the command line" $chat cut.png What
refused 2 "two questions" qchat one.png What Why
refused 2 "a limit of no folder" qchat --images-max 1G one.png What
for what in "-m $TOP/demo/demo.gguf" "--template qwen3"; do
	printf '%s\n' "$P/one.png" "/image one.png" | qchat $opts $what 2>err
	is "$? $(sed 's/.*png: //' err | uniq)" "1 this model reads no images" \
	    "$what"
done
refused 1 "a question about an image, for a text model" qchat -m \
    "$TOP/demo/demo.gguf" one.png What
mkdir alone
cp qwen3_5/m.gguf alone
refused 1 "no encoder" qchat -m alone/m.gguf $opts one.png What
is "$(sed 's/.*png: //' err)" "there is no image encoder (mmproj file) beside the model: fetch it, or give --mmproj" \
    "which is said"
qchat -m alone/m.gguf --mmproj qwen3_5/mmproj-F32.gguf $opts --temp 0 -n 8 one.png \
    'What?' </dev/null 2>err | cmp -s - got
ok $? "--mmproj"
refused 1 "--mmproj of another model" qchat -m alone/m.gguf --mmproj \
    "$TOP/demo/demo.gguf" $opts one.png What
printf '%s\n' "/load c.json" | qchat -m "$TOP/demo/demo.gguf" 2>err
is "$? $(grep -c 'c.json: message 1: parts of type image_url are not supported' err)" \
    "1 1" "a text model loads no images"
printf '%s\n' "/load c.json" "/tokens" | qchat -m "$TOP/demo/demo.gguf" \
    --template qwen3 --image-placeholder 2>err
is "$?" 0 "except with --image-placeholder"
jq '.messages[0].content[0].image_url.url = "/etc/passwd"' c.json >evil.json
say "/load evil.json" 2>err
is "$? $(wc -l <err)" "1 1" "a saved chat that names a file: $(cat err)"
printf '%s\n' '/image one.png' '/save /dev/full' | $chat 2>err
is "$? $(wc -l <err)" "1 1" "a full disk: $(cat err)"
printf '%s\n' '/image one.png' 'x' | $chat --image-max-tokens 8 -v 2>err >x
is "$? $(grep -c 'tokens to read' err)" "0 1" "--image-max-tokens"

# -- at a terminal
if python3 -c 'import pty' 2>/dev/null; then
	timeout 60 python3 "$TOP/tests/cli/terminal.py" "[[\"\", \"h> \"],
	    [\"$P/one.png\\n\", \"h> \"], [\"/tokens\\n\", \" of 4096\"],
	    [\"/bye\\n\", \"\"]]" $chat >out 2>err
	grep -q 'one.png: 77 tokens, put before your next message' out &&
	    grep -q "$tokens of 4096 tokens, with the document" out
	ok $? "a path that is typed or dropped"
	cat >bin/qimage <<END
#!/bin/sh
case " \$* " in *" --no-rows "*) ;; *) echo encoding >&2; sleep 60 ;; esac
exec "$BIN/qimage" "\$@"
END
	timeout 60 python3 "$TOP/tests/cli/terminal.py" "[[\"\", \"h> \"],
	    [\"one.png\\n\", \"h> \"], [\"What?\\n\", \"encoding\"],
	    [\"\\u0003\", \"h> \"], [\"/tokens\\n\", \" of 4096\"],
	    [\"/bye\\n\", \"\"]]" $chat >out 2>err
	grep -q 'the message is taken back' out && grep -q '[^0-9]0 of 4096 tokens' out
	ok $? "Ctrl-C ends the encoding, and takes the message back"
	cat >bin/qimage <<END
#!/bin/sh
case " \$* " in *" --no-rows "*) ;; *) kill -SEGV \$\$ ;; esac
exec "$BIN/qimage" "\$@"
END
	say "/image one.png" "What?" "/show" 2>err
	is "$? $(grep -c 'qimage was ended by signal' err) $(grep -c '^image: one' err)" \
	    "1 1 1" "qimage crashes: a message, and the image waits again"
fi
done_testing
