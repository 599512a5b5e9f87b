#!/bin/sh
# What beginners give for a model, for tokens, for text: each is told by name,
# and what to do.
. "$TOP/tests/cli/tap.sh"
demo=$TOP/demo/demo.gguf
QWEN_MODEL=$demo; export QWEN_MODEL

# says WORDS NAME COMMAND...: refused, and the line has the words
says() {
	says_words=$1
	shift
	refused 1 "$@"
	grep -qF -e "$says_words" err
	ok $? "  says: $says_words"
}

# --- for a model
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 17\n' >lfs
printf '<!DOCTYPE html>\n<html class="">\n<head><title>a model</title>\n' >page
printf '\n  <html><body>Not found</body></html>\n' >page2
printf '{"error":"Repository not found"}' >json
printf 'Once upon a time\n' >text
: >empty
head -c 5000 /dev/zero >zeros
printf 'PK\003\004\024\000' >zip
gzip -c text >text.gz
printf '\200\001\000\000\000\000\000\000{"__metadata__":{}}' >safetensors
qtok text | qprefill -o state.cbor >ready
qtok text >tokens
while read -r file words; do
	says "not a GGUF file, but $words" "-m $file" qtok -m "$file" text
done <<-'END'
	lfs a Git LFS pointer: "git lfs pull" gets the model itself
	page a web page: download the file itself
	page2 a web page: download the file itself
	json JSON: download the file itself
	text text
	empty nothing: the download failed, get it again
	zeros nothing but zeros: the download failed, get it again
	zip a ZIP archive: unpack it first
	text.gz a compressed file: unpack it first
	safetensors a safetensors file: get the model as GGUF
	state.cbor a stream or state of qpipe: a state goes to -s
	tokens a stream or state of qpipe: a state goes to -s
END
says 'but a folder: give the GGUF file in it' "a folder" qtok -m . text
n=$(wc -c <"$demo")
head -c 5000000 "$demo" >cut.gguf
says "the file ends at 5.0 of 13.9 MB: was the download cut?" \
    "a download that was cut" qtok -m cut.gguf text
grep -q "ends at $n, file has 5000000 bytes" err
ok $? "  and the bytes"
head -c 5000 "$demo" >cut.gguf
says "file has 5000 bytes: was the download cut?" "cut in the vocabulary" \
    qtok -m cut.gguf text
F=$TOP/tests/files/gguf
cp "$F/good-split-00001-of-00003.gguf" .
says "part 2 of 3 cannot be had: good-split-00002-of-00003.gguf: " \
    "a split file without its second part" gguf-inspect good-split-00001-of-00003.gguf
done_testing
