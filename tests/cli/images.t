#!/bin/sh
# Token streams with the rows of images: qprefill, qdecode and qscore read them, and
# say what is missing.
. "$TOP/tests/cli/tap.sh"
dir=$TOP/../shared/fixtures/vision
needs "texts with images" python3
unset QWEN_STORE

# stream ITEM...: see images.py
stream() {
	python3 "$TOP/tests/cli/images.py" head "$@"
}
# far A B: the largest difference of the floats in two files
far() {
	python3 -c 'import struct, sys
x, y = (struct.unpack("<%df" % (len(b) // 4), b)
        for b in (open(f, "rb").read() for f in sys.argv[1:3]))
print(len(x), max(abs(a - b) for a, b in zip(x, y)) < 1e-4)' "$1" "$2"
}

for m in qwen3_5 qwen3_vl; do
	if [ ! -e "$dir/$m/text.gguf" ]; then
		skip "texts with images" "no $dir/$m"
		continue
	fi
	QWEN_MODEL=$dir/$m/text.gguf; export QWEN_MODEL
	a=$dir/$m/embd-0.f32 b=$dir/$m/embd-1.f32
	echo 5 | qprefill -o one -f cbor >head
	one="5,9,17,252 span:2x3:1" two="253,30,31,252 span:3x5:2"
	end=253,30,31,40,41,42,43
	stream $one "rows:1:$a" $two "rows:2:$b" $end >text
	qprefill --kv f32 --logits=all -f raw <text >got
	is "$? $(far got "$dir/$m/logits.f32")" "0 9216 True" \
	    "$m: two images in a text: all logits are those of PyTorch"
	stream $one $two $end "rows:2:$b" "rows:1:$a" "rows:2:$b" |
	    qprefill --kv f32 --logits=all -f raw | cmp -s - got
	ok $? "$m: rows at the end of the stream, one image twice, are as good"
	qprefill -o state -q <text >/dev/null
	is "$(qstate show state | grep -c span)" 1 "$m: the state has spans"
	qdecode -n 3 --ignore-eos -f text -s state </dev/null >want
	qdecode -n 3 --ignore-eos -f text <text | cmp - want
	ok $? "$m: qdecode continues the stream as it continues the state"

	# a prefix store knows what it has read, by the images' hashes
	mkdir "store.$m"
	qprefill --store "store.$m" -o state2 <text >/dev/null
	stream $one $two $end,44 | qprefill --store "store.$m" --logits=last \
	    -f raw >got 2>err
	is "$? $(cat err)" "0 " "$m: what is in the store needs no rows again"
	stream $one "rows:1:$a" $two "rows:2:$b" $end,44 |
	    qprefill --logits=last -f raw | cmp - got
	ok $? "$m: and gives the same bits"
	stream 5,9,17,252 span:2x3:3 253,44 >bad
	qprefill --store "store.$m" -o x <bad 2>err
	is "$? $(cat err)" "1 qprefill: stdin: the image at position 4 has no rows: encode it with qimage --mmproj" \
	    "$m: another image of the same size is not in it"

	# what is wrong
	stream $one 253 >bad
	qprefill -o x <bad 2>err
	is "$? $(cat err)" "1 qprefill: stdin: the image at position 4 has no rows: encode it with qimage --mmproj" \
	    "$m: no rows"
	stream $one "rows:1:$a:100" 253 >bad
	qprefill -o x <bad 2>err
	is "$? $(sed 's/takes [0-9]*/takes N/' err)" \
	    "1 qprefill: stdin: an image has 100 numbers, and this model takes N: make the rows with its mmproj file" \
	    "$m: few numbers"
	stream $one "rows:1:$b" 253 >bad
	qprefill -o x <bad 2>err
	is "$? $(sed 's/the [0-9]* that/the N that/' err)" \
	    "1 qprefill: stdin: an image has more numbers than the N that this model takes: make the rows with its mmproj file" \
	    "$m: many numbers"
	stream 5,9 "rows:1:$a" 253 >bad
	qprefill -o x <bad 2>err
	is "$? $(cat err)" "1 qprefill: stdin: rows of an image before its place in the text" \
	    "$m: rows of nothing"
	[ ! -e x ]
	ok $? "$m: none of these leaves a file"
done

# -- drafts after an image change no token; the MTP block reads the image too
QWEN_MODEL=$TOP/../shared/fixtures/models/qwen35moe-spec/model.gguf
if [ -e "$QWEN_MODEL" ]; then
	echo 5 | qprefill -o one -f cbor >head
	python3 -c 'import struct
x = [(i * 37 % 101 - 50) / 512 for i in range(15 * 64)]
open("rows", "wb").write(struct.pack("<960f", *x))'
	stream 5,9,17 span:3x5:7 rows:7:rows 30,31 >text
	run="qdecode -n 60 --ignore-eos -f json -v"
	$run --draft none <text >want 2>err
	for d in mtp mtp:3 lookup; do
		$run --draft $d <text 2>err | cmp - want
		ok $? "--draft $d after an image: $(grep 'right (' err)"
	done
	$run --draft mtp:3 <text 2>&1 >got | grep -q 'from the MTP block, [1-9]'
	ok $? "and some drafts are right"
else
	skip "drafts after an image" "no $QWEN_MODEL"
fi

# -- a model with a vocabulary; rows in a line
model qwen3
QWEN_MODEL=$MODEL
echo 5 | qprefill -o one -f cbor >head
width=$(gguf-inspect "$MODEL" | awk '/embedding_length/ { print $NF }')
head -c $((6 * 4 * width)) /dev/zero >rows
stream 5,9,17 span:0x6:1 4,8,15,16 rows:1:rows >text
qscore --tokens text -f json >whole
is "$? $(sed 's/.*"tokens_scored":\([0-9]*\).*/\1/' whole)" "0 6" \
    "qscore scores the tokens, and no rows"
qscore --tokens --each text | cut -f1 | tr '\n' ' ' >each
is "$(cat each)" "1 2 9 10 11 12 " "nor does it print them"
qscore --tokens --context 10 text 2>err >/dev/null
is "$? $(cat err)" "1 qscore: text: has images, and more tokens than --context" \
    "they must fit in a window"
qtok -d <text 2>err >/dev/null
is "$? $(grep -c 'the rows of an image, which this program cannot read' err)" \
    "1 1" "qtok -d, which has no use for rows, refuses them"
done_testing
