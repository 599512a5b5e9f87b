#!/bin/sh
# Every bad GGUF file: one line that says what is wrong, status 1, at once, no
# output.
. "$TOP/tests/cli/tap.sh"
F=$TOP/tests/files/gguf
tab=$(printf '\t')
esc=$(printf '\033')

# Status 1, one line with the words on stderr, nothing on stdout, in time.
refused() { # STATUS SECONDS MESSAGE
	[ "$1" = 1 ] && [ "$2" -le 20 ] && [ ! -s out ] &&
	    [ "$(wc -l <err)" -eq 1 ] && grep -qF -e "$3" err &&
	    ! grep -q "$esc" err && return
	echo "# status $1, $2 s, wanted: $3" >&2
	head -n 3 out err >&2
	return 1
}

mkdir work
n=0
while IFS=$tab read -r file option message why; do
	n=$((n + 1))
	[ "$option" = - ] && option=
	start=$(date +%s)
	# shellcheck disable=SC2086
	gguf-inspect $option "$F/$file" >out 2>err
	rc=$?
	refused $rc $(($(date +%s) - start)) "$message"
	ok $? "$file: $why"
	[ -z "$option" ] || continue
	(cd work && gguf-synth --vocab "$F/$file" --layers 1 -o model.gguf \
	    qwen3-0.6b) >out 2>err
	refused $? 0 "$message" && [ -z "$(ls -A work)" ]
	ok $? "$file as a vocabulary: no model, no rest of one"
done <"$F/INDEX.tsv"
[ "$n" -ge 40 ]
ok $? "there are at least 40 of them ($n)"

# A download that stopped: cut a file wherever a record or field may end.
size=$(wc -c <"$F/good-vocab.gguf")
at=0 accepted=
while [ "$at" -lt "$size" ]; do
	head -c "$at" "$F/good-vocab.gguf" >cut.gguf
	gguf-inspect cut.gguf >out 2>err
	refused $? 0 "$at bytes" || accepted="$accepted $at"
	at=$((at + 7))
done
is "$accepted" "" "cut after any number of bytes"

mkfifo fifo
gguf-inspect fifo >out 2>err
refused $? 0 "not a regular file"
ok $? "a FIFO does not make it wait"
gguf-inspect . >out 2>err
refused $? 0 "a folder, not a file"
ok $? "a folder"
gguf-inspect none.gguf >out 2>err
refused $? 0 "none.gguf: cannot open: "
ok $? "no such file"
ln -s loop loop
gguf-inspect loop >out 2>err
refused $? 0 "loop: cannot open: "
ok $? "a link to itself"
done_testing
