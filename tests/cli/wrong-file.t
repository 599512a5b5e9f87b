#!/bin/sh
# Wrong files that beginners give as a model, tokens or text: the message names
# the kind of file, and what to do.
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
printf 'RIFF\000\000\000\000WEBPVP8 ' >image
printf '\200\001\000\000\000\000\000\000{"__metadata__":{}}' >safetensors
qtok text | qprefill -o state.cbor >ready
qtok text >tokens
while read -r file words; do
	says "not a GGUF file but $words" "-m $file" qtok -m "$file" text
done <<-'END'
	lfs a Git LFS pointer: "git lfs pull" gets the model itself
	page a web page: download the file itself
	page2 a web page: download the file itself
	json JSON: download the file itself
	text text
	empty nothing: the download failed, get it again
	zeros only zeros: the download failed, get it again
	zip a ZIP archive: unpack it first
	text.gz a compressed file: unpack it first
	image an image
	safetensors a safetensors file: gguf-convert makes GGUF of its folder
	state.cbor a stream or state of qpipe, which goes to stdin or -s
	tokens a stream or state of qpipe, which goes to stdin or -s
END
says 'adapter state.cbor: not a GGUF file but a stream or state of qpipe, which goes to stdin or -s' \
    "--lora state.cbor" sh -c 'qprefill --lora state.cbor <tokens'
echo '{"prompt":"a"}' >in
for how in "" --resume; do
	says 'qbatch: state.cbor: this is a stream or state of qpipe, not results: give another file to -o' \
	    "qbatch $how -o state.cbor" qbatch $how -o state.cbor in
	says 'qbatch: text: this is text, not results: give another file to -o' \
	    "qbatch $how -o text" qbatch $how -o text in
done
says 'a folder, not a file: give the GGUF file in it' "a folder" qtok -m . text
n=$(wc -c <"$demo")
head -c 5000000 "$demo" >cut.gguf
says "the file ends at 5.0 of 15.5 MB: incomplete download?" \
    "a download that was cut" qtok -m cut.gguf text
grep -q "ends at $n, the file has 5000000 bytes" err
ok $? "  and the bytes"
head -c 20000 "$demo" >cut.gguf
says "the file has 20000 bytes: incomplete download?" "cut in the vocabulary" \
    qtok -m cut.gguf text
head -c 2000 "$demo" >cut.gguf
says "the file has 2000 bytes: incomplete download?" "cut in the first keys" \
    qtok -m cut.gguf text
F=$TOP/tests/files/gguf
cp "$F/good-split-00001-of-00003.gguf" .
says "part 2 of 3 cannot be opened: good-split-00002-of-00003.gguf: " \
    "a split file without its second part" gguf-inspect good-split-00001-of-00003.gguf

# --- for tokens, logits, a state
qtok -f json text >tokens.json
printf '\303\211t\303\251' >accents
says 'stdin: this is text, not tokens or state: pipe it through qtok first' \
    "text for qprefill" sh -c 'qprefill <text'
says 'stdin: this is text, not tokens or state: pipe it through qtok first' \
    "text that begins with no ASCII" sh -c 'qprefill <accents'
says 'stdin: this is a GGUF model file, not tokens or state: give a model with -m' \
    "a model for qprefill" sh -c 'qprefill <"$QWEN_MODEL"'
says 'stdin: this is JSON, not tokens or state: -f json cannot be read back' \
    "JSON for qdecode" sh -c 'qdecode -n 1 <tokens.json'
says 'text: this is text, not tokens: pipe it through qtok first' "text for qtok -d" \
    qtok -d text
says 'line 1, byte 5: not a decimal id: if this is text, pipe it' \
    "text that begins with a number" sh -c 'echo 1984 was a year | qprefill'
says 'stdin: this is text, not logits' "text for qsample" sh -c 'qsample <text'
says 'stdin: this is ids in plain text, not logits' "ids for qsample" \
    sh -c 'echo 1 2 | qsample'
says 'a stream of tokens, not of logits' "tokens for qsample" \
    sh -c 'qsample <tokens'
says 'this is a GGUF model file, not a state: give a model with -m' \
    "a model for -s" qdecode -n 1 -s "$demo" </dev/null
says 'text: this is text, not a state' "text for -s" qdecode -n 1 -s text </dev/null
says 'this is a GGUF model file, not a state' "a model for qstate show" \
    qstate show "$demo"
says 'this is a GGUF model file, not a state' "a model for --reuse" \
    sh -c 'qprefill --reuse "$QWEN_MODEL" <tokens'
# --- for text
for file in "$demo" state.cbor tokens zip text.gz safetensors; do
	says 'not text; ' "$file for qtok" qtok "$file"
	says 'not text; ' "$file for qtok -c" qtok -c "$file"
	says 'not text; ' "$file for qscore" qscore "$file"
	says 'not text; ' "$file for qembed" qembed "$file"
done
printf '\177ELF\002\001\001\000\000\000 text' >elf
says 'elf: this is a binary file, not text; ' "a program for qscore" qscore elf
for f in "$TOP"/tests/files/image/good-r*.png image; do
	says 'this is an image, not text; ' "${f##*/} for qscore" qscore "$f"
done
is "$(qscore --force elf 2>&1 | grep -c perplexity)" 1 "--force"
is "$(qtok -c elf; qembed -q elf | grep -c .)" "$(printf '12\n1')" "any bytes have tokens"
says '.: Is a directory' "a folder for qtok" qtok -f json .
says 'stdin: this is a stream or state of qpipe, not text' "qtok after qtok" \
    sh -c 'qtok text | qtok -c'
qtok -f text --force tokens | qtok -d --bytes | cmp -s - tokens
ok $? "--force takes it, byte by byte"
printf 'GGUF is the format of a file, and PK are two letters\n' >gguf.txt
is "$(qtok -c gguf.txt >out 2>err; echo $?)" 0 "text about GGUF is text"
qscore "$demo" text >out 2>err
is "$? $(grep -c perplexity out) $(grep -c . err)" "1 1 1" \
    "of two files the good one has its table"
says 'fewer than two tokens' "nothing to score" qscore /dev/null
done_testing
