#!/bin/sh
# gguf-pin: no copy is incomplete, in the wrong place, or in small pages.
. "$TOP/tests/cli/tap.sh"
V=$TOP/tests/files/gguf/good-vocab.gguf

gguf-synth -q --vocab "$V" --layers 1 --vocab-size 8192 -o m.gguf qwen3-0.6b
cksum <m.gguf >want

# -- in place: whether the pages are huge is up to the file system
gguf-pin m.gguf >out 2>err
is "$? $(grep -vc 'are in huge pages' err)" "0 0" "in place: done"
gguf-pin -q m.gguf >out 2>err
is "$? $(cat err)" "0 " "-q: nothing to say"
is "$(cat out)" m.gguf "prints the path"
is "$(cksum <m.gguf)" "$(cat want)" "the model is as it was"
gguf-pin --unpin m.gguf >out 2>&1
is "$? $(cat out)" "0 " "--unpin"
QWEN_MODEL=m.gguf gguf-pin >out 2>/dev/null
is "$(cat out)" m.gguf "the default model"

# -- what cannot be
gguf-pin -o . m.gguf >out 2>err
is "$?" 2 "a copy onto the model itself"
gguf-pin -o "$PWD/." m.gguf >out 2>err
is "$?" 2 "by another name of the folder"
ln m.gguf other.gguf; mkdir hard; ln m.gguf hard/m.gguf
gguf-pin -o hard m.gguf >out 2>err
is "$?" 2 "onto a hard link of it"
is "$(cksum <m.gguf)" "$(cat want)" "and it is still there"
gguf-pin -o none m.gguf >out 2>err
is "$? $(cat out)" "1 " "a folder that is not there"
gguf-pin m.gguf other.gguf >out 2>err
is "$?" 2 "two models"
gguf-pin "$TOP/tests/files/gguf/bad-magic.gguf" >out 2>err
is "$? $(wc -l <err)" "1 1" "not a model"
mkdir away
gguf-pin --unpin -o away m.gguf >out 2>err
is "$? $(wc -l <err)" "1 1" "--unpin of what is not pinned"

# -- more than the memory: a hole, so that it costs no disk
if cp m.gguf large.gguf && truncate -s 8T large.gguf 2>/dev/null &&
    grep -q MemAvailable /proc/meminfo 2>/dev/null; then
	gguf-pin large.gguf >out 2>err
	is "$? $(grep -c 'memory are available' err)" "1 1" "too large to stay"
	gguf-pin -o away large.gguf >out 2>err
	is "$? $(ls -A away)" "1 " "too large for a copy"
else
	skip "too large to stay" "no sparse files of 8 TiB, or not Linux"
	skip "too large for a copy" "no sparse files of 8 TiB, or not Linux"
fi
rm -f large.gguf

# -- copies
small() {
	[ "$(stat -f -c %T away 2>/dev/null)" != tmpfs ]
}
if [ -r /proc/self/smaps_rollup ] && small; then
	gguf-pin -o away m.gguf >out 2>err
	rc=$?
	if [ $rc = 0 ]; then
		cmp m.gguf away/m.gguf
		ok $? "a file system with huge pages: a copy"
	else
		is "$rc $(wc -l <err) $(ls -A away)" "1 1 " \
		    "no copy in small pages is left"
	fi
else
	skip "no copy in small pages is left" "a tmpfs, or not Linux"
fi
# hugely GOT WANT NAME: is, if the kernel had huge pages to give
hugely() {
	if grep -q 'would be in small pages' err; then
		skip "$3" "no huge pages are free, or they are switched off"
	else
		is "$@"
	fi
}
mkdir huge
if mount -t tmpfs -o huge=always,size=64m tmpfs huge 2>/dev/null; then
	trap 'umount huge' EXIT
	gguf-pin -v -o huge m.gguf >out 2>err
	rc=$?
	hugely "$rc $(cat out)" "0 huge/m.gguf" "a copy in huge pages"
	if [ $rc = 0 ]; then
		cmp m.gguf huge/m.gguf
		ok $? "it has the same bytes"
		seq 5 >tokens
		qprefill -q --logits=last -f raw -m m.gguf <tokens >a
		qprefill -q --logits=last -f raw -m huge/m.gguf <tokens >b
		[ -s a ] && cmp a b
		ok $? "and gives the same logits"
	fi
	gguf-pin -o huge m.gguf >out 2>err
	hugely "$? $(ls -A huge)" "0 m.gguf" "again, in its place"
	rm -f huge/m.gguf
	dd if=/dev/zero of=huge/fill bs=1M count=64 2>/dev/null
	gguf-pin -o huge m.gguf >out 2>err
	is "$? $(wc -l <err) $(ls -A huge)" "1 1 fill" "no room: nothing is left"
	rm -f huge/fill
	gguf-pin -q -o huge m.gguf >out 2>err && gguf-pin --unpin -o huge m.gguf
	hugely "$? $(ls -A huge)" "0 " "--unpin removes it"
	umount huge
	trap - EXIT
else
	skip "copies in huge pages" "mounting a tmpfs with huge=always needs root"
fi
done_testing
