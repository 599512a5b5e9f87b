#!/bin/sh
# qimage --images: a folder that keeps encoded images.
. "$TOP/tests/cli/tap.sh"
dir=$TOP/../shared/fixtures/vision/qwen3_5
needs "a folder of images" python3
unset QWEN_STORE
PYTHONDONTWRITEBYTECODE=1; export PYTHONDONTWRITEBYTECODE
F=$TOP/tests/files/image
cp "$F/good-rgb.png" one.png
cp "$F/good-rgba.png" two.png
if [ ! -e "$dir/text.gguf" ]; then
	skip "a folder of images" "no $dir"
	done_testing
fi
if ! qimage --show one.png >seen.png 2>err; then
	skip "a folder of images" "$(cat err)"
	done_testing
fi
python3 "$TOP/tests/cli/vision_vocab.py" "$dir/text.gguf" m.gguf
cp "$dir/mmproj.gguf" mmproj-F32.gguf
QWEN_MODEL=m.gguf; export QWEN_MODEL

# hits FILE...: how many of the images come from the folder
hits() {
	qimage -v --images d "$@" 2>&1 >got | grep -c ' from images d$'
}
# count: the files in the folder, drafts too
count() {
	ls -A d | grep -c .
}
# used AGO FILE: the file was last used so many hours ago
used() {
	touch -m -d "$1 hours ago" "$2"
}

# -- hits
qimage one.png two.png >want
qimage --images d one.png two.png 2>err | cmp -s - want
is "$? $(cat err)$(count)" "0 2" "a new folder: two files"
is "$(ls d | grep -Ec '^[0-9a-f]{32}-[0-9a-f]{32}\.cbor$')" 2 \
    "with names of a key and a checksum"
is "$(ls -ld d | cut -c1-10)" drwx------ "the folder is private"
is "$(hits one.png two.png) $(hits one.png - <two.png)" "2 2" "they are found"
cmp -s got want
ok $? "and give the same stream"
qimage one.png | cmp -s - "$(ls -S d/* | head -n 1)" ||
    qimage one.png | cmp -s - "$(ls -S d/* | tail -n 1)"
ok $? "a file is the stream of its image"
cp one.png copy.png
is "$(hits copy.png one.png copy.png) $(count)" "3 2" "the name is not in the key"
qimage -f json copy.png one.png copy.png >want.json
qimage -f json --images d copy.png one.png copy.png | cmp -s - want.json
ok $? "an image that comes twice has its rows once"
is "$(hits --max-tokens 20 one.png) $(hits --max-tokens 20 one.png) $(count)" \
    "0 1 3" "another limit is another key"
qimage --no-rows --images d one.png two.png >got
qimage --no-rows one.png two.png | cmp -s - got
ok $? "--no-rows"
qimage --no-rows --images none one.png >got
is "$(ls -A none)" "" "writes no file"

# An encoder with other weights behind the bytes that fingerprints take: a hit
# computes nothing.
at=$(gguf-inspect mmproj-F32.gguf | awk '$2 == "mm.0.weight" { print $6 }')
cp mmproj-F32.gguf other.gguf
printf 'rows of other bytes are other rows' | dd of=other.gguf bs=1 \
    seek=$((at + 65)) conv=notrunc 2>x2
qimage --mmproj other.gguf one.png two.png | cmp -s - want
is $? 1 "(rows of other weights differ)"
qimage --mmproj other.gguf --images d one.png two.png | cmp -s - want
ok $? "a hit encodes nothing"
refused 1 "the encoder of another model" qimage -m "$TOP/demo/demo.gguf" \
    --mmproj mmproj-F32.gguf --images d one.png

# -- damage
rm -r d
qimage --images d one.png >want
for how in 'dd if=/dev/zero of="$f" bs=1 count=1 seek=500 conv=notrunc' \
    'head -c 700 "$f" >x; cat x >"$f"' ': >"$f"' 'echo 5 >"$f"'; do
	f=$(echo d/*)
	eval "$how" 2>x2
	qimage --images d one.png >got 2>err
	is "$? $(cut -d: -f1-2 err) $(wc -l <err) $(count)" \
	    "0 qimage: images d 1 1" "damaged by $how: $(cut -d: -f4- err)"
	cmp -s got want && [ "$(hits one.png)" = 1 ]
	ok $? "it is written again"
done
f=$(echo d/*)
mv "$f" x
ln -s "$PWD/x" "$f"
is "$(hits one.png) $(count)" "0 1" "a link is not followed"
rm -f "$f"; mkdir "$f"
is "$(hits one.png)" 0 "nor is a folder a file"
rmdir "$f" 2>x2 || rm -rf d

# -- other files, drafts
mkdir -p d; rm -f d/*
echo precious >d/notes.txt
echo left >d/.tmp-0123456789abcdef0123456789abcdef
qimage --images d --images-max 1 one.png 2>err | cmp -s - want
is "$? $(cat err)" "0 qimage: images d: not written: an image exceeds the limit" \
    "a limit that is too small"
is "$(ls -A d)" notes.txt "drafts of killed processes go, other files stay"

# -- the limit
rm -r d
qimage --images d one.png >want
size=$(cat d/* | wc -c)
a=$(ls d/*)
used 5 "$a"
qimage --images d --max-tokens 100 one.png >got
b=$(ls d/* | grep -v "$a")
used 4 "$b"
is "$(hits one.png)" 1 "a hit is a use"
qimage --images d --images-max $((size * 2)) --max-tokens 99 one.png >got
[ -e "$a" ] && [ ! -e "$b" ] && [ "$(count)" = 2 ]
ok $? "the least recently used file goes"
qimage --images d --images-max $size --max-tokens 98 one.png >got
is "$(count)" 1 "to hold the limit"
qimage --images d --images-max none --max-tokens 97 one.png >got
is "$(count)" 2 "none: no limit"
refused 2 "a limit of nothing" qimage --images-max 1G one.png
refused 2 "no folder" qimage --images '' one.png
refused 2 "--show" qimage --images d --show one.png

# -- folders that cannot be used
qimage --images no/such one.png 2>err | cmp -s - want
is "$? $(cat err)" \
    "0 qimage: images no/such: not used: No such file or directory" "no parent"
qimage --images one.png one.png 2>err | cmp -s - want
is "$? $(cat err)" "0 qimage: images one.png: not used: Not a directory" "a file"
rm -rf d
qimage --images d one.png >got
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 true 2>/dev/null; then
	W=$(mktemp -d /tmp/qpipe-images-XXXXXX)
	cp -r "$BIN/qimage" m.gguf mmproj-F32.gguf one.png two.png d "$W"
	chmod -R a+rX "$W"
	for f in one two; do
		(cd "$W" && setpriv --reuid=65534 ./qimage -v --images d \
		    $f.png 2>&1 >/dev/null | tail -n 1)
	done >got
	is "$(sed 's/.*images d/images d/' got | tr '\n' ';')" \
	    "images d;images d: not written: Permission denied;" \
	    "a folder of another user is read, and not written"
	rm -rf "$W"
else
	skip "a read-only folder" "not root, or no setpriv"
fi
qimage --images d one.png >/dev/full 2>err
is "$? $(wc -l <err)" "1 1" "a full disk"

# -- several processes at a time, with a limit that they exceed
rm -rf d
for k in 1 2 3 4; do
	for n in 20 21 22 23 24; do
		qimage --images d --images-max $((size / 2)) --max-tokens $n \
		    one.png >"out.$k.$n" 2>>errs || echo "$k $n failed" >>errs
	done &
done
wait
bad=
for n in 20 21 22 23 24; do
	qimage --max-tokens $n one.png >want
	for k in 1 2 3 4; do
		cmp -s want "out.$k.$n" || bad="$bad $k.$n"
	done
done
is "$bad$(cat errs)" "" "four processes: all streams are complete"
[ "$(cat d/* | wc -c)" -le $((size / 2)) ]
ok $? "and the limit holds"
for f in d/*; do
	s=$(xxh128sum "$f" 2>/dev/null | cut -d' ' -f1)
	[ -z "$s" ] || [ "d/${f#d/}" = "d/$(echo "${f#d/}" | cut -c1-33)$s.cbor" ] ||
	    echo "$f"
done >other
is "$(cat other)" "" "and each file has its checksum"
done_testing
