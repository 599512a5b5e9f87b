#!/bin/sh
# qimage: what a model sees of an image file, and what it says of files that are no
# images; unit/image_* compare pixels.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/image
qimage --show "$F/good-rgb.png" >rgb.png 2>err
case $(cat err) in *"built without"*)
	skip "qimage" "built without libpng"
	done_testing ;;
esac

# size FILE: the width and height that a PNG's header says
size() {
	od -An -tu1 -j16 -N8 "$1" |
	    awk '{ print $3 * 256 + $4 " x " $7 * 256 + $8 }'
}

# -- files and stdin
is "$(head -c 4 rgb.png | tail -c 3)$(cat err)" PNG "it writes a PNG and no message"
is "$(size rgb.png)" "352 x 224" "of at least 64 tokens"
qimage --show <"$F/good-rgb.png" | cmp -s - rgb.png
ok $? "stdin"
qimage --show - <"$F/good-rgb.png" | cmp -s - rgb.png
ok $? "stdin by its name"
cp "$F/good-rgb.png" "a name.jpg"
qimage --show "a name.jpg" | cmp -s - rgb.png
ok $? "the type follows from the bytes, not from the name"
qimage --show "$F/good-interlaced.png" | cmp -s - rgb.png
ok $? "the same pixels in another form give the same bytes"
qimage --show "$F/good-lossless.webp" | cmp -s - rgb.png || [ -n "$(qimage \
    --show "$F/good-lossless.webp" 2>&1 | grep 'built without')" ]
ok $? "also in another format"
qimage --show "$F/good-rgba.png" | cmp -s - rgb.png
is $? 1 "but others differ"
qimage --show rgb.png | cmp -s - rgb.png
ok $? "an image of the right size stays as it is"
qimage -v --show rgb.png 2>err >out
is "$(cat err)" "qimage: rgb.png: 352 x 224 pixels for the model, 77 tokens" "-v"

# -- sizes
n=$(qimage --show --max-tokens 20 rgb.png | tee small.png | wc -c)
is "$(size small.png) $((n > 0))" "160 x 96 1" "--max-tokens"
qimage --show --min-tokens 100 rgb.png >large.png
is "$(size large.png)" "416 x 256" "--min-tokens"
qimage --show --max-tokens 16 --min-tokens 16 rgb.png >both.png
is "$(size both.png)" "160 x 96" "both: the larger one holds"
qimage --show --max-tokens 8 rgb.png >least.png
is "$(size least.png)" "96 x 64" "the smallest limit"
qimage --show --min-tokens 3000 --max-tokens 4000 rgb.png >most.png
is "$(size most.png)" "2208 x 1408" "many tokens"
refused 2 "a minimum above the default limit" qimage --show --min-tokens 3000 rgb.png
refused 2 "limits that exclude each other" qimage --show --min-tokens 9 --max-tokens 8 rgb.png
refused 2 "too few" qimage --show --max-tokens 7 rgb.png
refused 2 "too many" qimage --show --max-tokens 16385 rgb.png
refused 2 "--show with an encoder" qimage --show --mmproj x rgb.png
refused 2 "two files" qimage --show rgb.png rgb.png

# -- files that are no images; INDEX.tsv has what it says
for f in "$F"/bad-*; do
	refused 1 "${f##*/}" qimage --show "$f"
	is "$(cut -d: -f1,2 err)" "qimage: $f" "and names the file"
done
refused 1 "no such file" qimage --show nowhere
refused 1 "a folder" qimage --show .
refused 1 "a cut file on stdin" sh -c 'head -c 900 rgb.png | qimage --show'
is "$(cut -d: -f2 err)" " stdin" "and names stdin"
qimage --show rgb.png >/dev/full 2>err
is "$? $(grep -c . err)" "1 1" "a full disk"
qimage --show most.png 2>err | head -c 10 >/dev/null
is "$(cat err)" "" "head closes the pipe"

# -- what is decoded elsewhere costs nothing here
if [ -z "$QPIPE_SAN" ] && command -v strace >/dev/null 2>&1; then
	strace -f -o calls qimage --show rgb.png >out 2>err
	# from the filter on, only these
	awk '/PR_SET_SECCOMP/ { pid = $1; next } pid != "" && $1 == pid {
	    sub(/^[0-9]* */, ""); sub(/\(.*/, ""); print }' calls |
	    grep -v -e '^<\.\.\. ' -e '^+++' | sort -u >child
	is "$(grep -v -x -e brk -e mmap -e munmap -e mremap -e mprotect \
	    -e madvise -e write -e exit_group child)$(grep -c write child)" 1 \
	    "the decoder's system calls: $(xargs <child)"
else
	skip "the decoder's system calls" "no strace"
fi
if [ -z "$QPIPE_SAN" ] && echo 'void jpeg_read_header(void) { __builtin_trap(); }' |
    ${CC:-cc} -shared -fPIC -x c -o crash.so - 2>/dev/null &&
    qimage --show "$F/good-444.jpg" >out 2>/dev/null; then
	LD_PRELOAD=$PWD/crash.so; export LD_PRELOAD
	refused 1 "libjpeg crashes" qimage --show "$F/good-444.jpg"
	is "$(cut -d: -f3 err)" " its decoder crashed (signal 4)" "and it says so"
	qimage --show "$F/good-rgb.png" | cmp -s - rgb.png
	ok $? "another format works beside it"
	unset LD_PRELOAD
else
	skip "a library that crashes" "no compiler, or no libjpeg"
fi
done_testing
