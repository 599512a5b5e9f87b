#!/bin/sh
# The manual pages: their form, their options against those of the tools, and
# their examples, which are run.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
if ! command -v mandoc >/dev/null 2>&1; then
	skip "manual pages" "no mandoc"
	done_testing
fi
# tools that were built elsewhere do not find the demo model by themselves
demo=$TOP/demo/demo.gguf
[ ! -e "$demo" ] || { QWEN_MODEL=$demo; export QWEN_MODEL; }
version=$(sed -n 's/.*define QWEN_VERSION "\(.*\)"/\1/p' "$TOP/lib/qwen/base.h")
tools=$(cd "$TOP/cmd" && ls ./*.c | sed 's/^..\(.*\)\.c$/\1/')

# -- the pages
is "$(cd "$TOP/man" && ls ./*.1 | sed 's/^..\(.*\)\.1$/\1/')" "$tools" \
    "a page for every tool, and a tool for every page"
# Lines with the name of a macro, but "No", that is a word of English as well.
macro_words() {
	grep -nwE 'Ap|Aq|Ar|Bq|Brq|Cm|Dq|Em|Ev|Fl|Ic|Li|Nm|Ns|Op|Pa|Pc|Po|Pq|Ql|Qq|Sq|Sx|Sy|Ta|Xr'
}
# both find what they are for
printf '%s\n' '.Ql {"a": "b"}' '.Ql a , b' '.Pq Ql a , No b' '.It a Ta Ql b , Ta c' '.Ql a , ' \
    '.It "a ""b"" c"' '.Ql a | b' >bad.mdoc
is "$(awk -f "$TOP/tests/cli/macros.awk" bad.mdoc | cut -d: -f1 | xargs)" "1 2 3" "arguments that are taken otherwise are found"
is "$(printf 'as it says Pq logits, state\nNo Queries\n' | macro_words | cut -d: -f1)" 1 "and macros in a text"
for f in "$TOP"/man/*.[0-9]; do
	p=${f##*/}
	mandoc -Tlint -Wwarning "$f" >lint 2>&1
	ok $? "$p: mandoc finds nothing"
	cat lint >&2
	if command -v groff >/dev/null 2>&1; then
		groff -mandoc -Tutf8 -rLL=78n -ww "$f" 2>&1 >/dev/null | grep "can't break line" >wide
		is "$(cat wide)" "" "$p: groff has room for every cell of its tables"
	fi
	is "$(awk -f "$TOP/tests/cli/macros.awk" "$f")" "" "$p: macros take their arguments as meant"
	page "$f" >text
	is "$(macro_words <text)" "" "$p: no macro is printed as text"
	# at the 78 columns that man(1) takes of 80
	page "$f" 78 >narrow
	is "$(awk 'length > 80' narrow; grep '^\.Dl .\{68,\}' "$f" | grep -v '\\(')" \
	    "" "$p: no line of it is wider than 80"
	grep '^ *[$>] ' text >want
	grep '^ *[$>] ' narrow | diff want - >diff
	ok $? "$p: no command is broken in two: $(grep -c . want)"
	cat diff >&2
	# mdoc takes quotes away where a word begins with one
	tr -s ' \n' '  ' <text | grep -o "\`{[^' ]*:[^']*'" |
	    sed "s/^\`//; s/'\$//; s/\.\.\./null/g" >objects
	! command -v jq >/dev/null 2>&1 || jq -c . objects >out 2>lost
	is "$(cat lost)" "" "$p: JSON that it has in a line is JSON: $(grep -c . objects)"
	case $p in
	*.1) want="NAME SYNOPSIS DESCRIPTION EXIT STATUS EXAMPLES SEE ALSO" ;;
	*) want="NAME DESCRIPTION SEE ALSO" ;;
	esac
	is "$(grep -x -e "$(echo "$want" |
	    sed 's/EXIT STATUS/EXIT_STATUS/; s/SEE ALSO/SEE_ALSO/; s/ /\\|/g; s/_/ /g')" \
	    text | xargs)" "$want" "$p: its sections"
	# references to pages of ours
	sed -n 's/^\.Xr \([a-z-]*\) \([0-9]\).*/\1.\2/p' "$f" | sort -u |
	    while read -r to; do
		case $to in
		q* | gguf-*) [ -e "$TOP/man/$to" ] || echo "$to" ;;
		esac
	done >lost
	is "$(cat lost)" "" "$p: every page it refers to is there"
done

# -- pages and tools
words() {
	tr -s ' \n' '  ' | sed 's/^ //; s/ $//'
}
for t in $tools; do
	is "$(page "$TOP/man/$t.1" | section SYNOPSIS | words)" \
	    "$("$t" --help | sed 's/^usage: //; /^$/,$d' | words)" \
	    "$t: SYNOPSIS is what --help says"
	is "$(sed -n 's/^\.Nd //p' "$TOP/man/$t.1")" \
	    "$("$t" --help | sed -n '/^$/{n;p;q;}' | sed 's/\.$//; s/./\l&/')" \
	    "$t: --help says what it is for, as its page does"
	rows "$t" >taken
	documented "$t" >tags
	diff tags taken >diff
	ok $? "$t: options and arguments of its page and of --help=list: $(grep -c . taken)"
	cat diff >&2
	options <taken | grep -e '^--' | sort >long
	"$t" --help | sed -n 's/^  \(-.,\|   \) \(--[a-z0-9-]*\).*/\2/p' | sort >shown
	is "$(cat shown)" "$(cat long)" "$t: --help shows every option"
	is "$("$t" --help=list | awk -F '\t' 'length($5) < 4 && $1 != "operands"')" "" \
	    "$t: and what each does"
	is "$("$t" --help | awk 'length > 79')" "" "$t: --help in 79 columns"
	"$t" --version | grep -Eqx "$t $version \((commit [0-9a-f]{7,}[+]?, )?numerics 1 3 4\)"
	ok $? "$t --version: $("$t" --version)"
	is "$("$t" -V)" "$("$t" --version)" "$t -V"
	is "$("$t" -h)" "$("$t" --help)" "$t -h"
	refused 2 "$t: an unknown option" "$t" --no-such-option
	refused 2 "$t: --help of something" "$t" --help=all
	refused 2 "$t: an unknown letter" "$t" -Z
	"$t" --help >/dev/full 2>err
	is "$? $(grep -c . err)" "1 1" "$t --help on a full disk"
	"$t" --version >/dev/full 2>err
	is "$? $(grep -c . err)" "1 1" "$t --version on a full disk"
	grep -q -w -e "$t" "$TOP/README.md"
	ok $? "README.md has $t"
	grep -q -e "^\.It Xr $t 1" "$TOP/man/qwen.7"
	ok $? "qwen.7 lists $t"
done

# -- examples, each page's in a folder of its own, in order
# make(1) under make(1) would have something to say
unset MAKEFLAGS MAKELEVEL
for f in "$TOP"/man/*.[0-9]; do
	p=${f##*/}
	mkdir "$p" && cd "$p" || exit 1
	# the models, and the folder of one, that examples call so
	case $p in
	qembed.1 | qrerank.1)
		for m in embed:embedding rerank:reranker; do
			zstd -dq "$TOP/tests/golden/models/qwen3-${m%:*}/model.gguf.zst" \
			    -o "${m#*:}.gguf"
		done ;;
	gguf-convert.1)
		cp -R "$TOP/tests/files/hub/qwen3_5_moe" Qwen3.5-35B-A3B
		cp -R "$TOP/tests/files/hub/qwen3_5" Qwen3.6-27B
		chmod -R u+w Qwen3.6-27B
		cp "$TOP/tests/files/hub/image/preprocessor_config.json" Qwen3.6-27B
		cp "$TOP/tests/files/hub/image/model.safetensors" Qwen3.6-27B/model-image.safetensors
		jq -s '.[0] * {vision_config: .[1].vision_config}' "$TOP/tests/files/hub/qwen3_5/config.json" \
		    "$TOP/tests/files/hub/image/config.json" >Qwen3.6-27B/config.json
		cp -R "$TOP/tests/files/hub/qwen3_5" Qwen3.5-4B
		cp -R "$TOP/tests/files/hub/qwen3_5-lora" my-adapter ;;
	gguf-inspect.1)
		gguf-convert --mmproj -o mmproj.gguf "$TOP/tests/files/hub/image" ;;
	qimage.1) cp "$TOP/tests/files/image/good-420.jpg" photo.jpg ;;
	gguf-quantize.1 | gguf-merge.1)
		gguf-convert -o big.gguf "$TOP/tests/files/hub/qwen3" ;;
	esac
	page "$f" | section EXAMPLES | commands
	n=1
	while [ -e $n.sh ]; do
		# a failure early in a pipeline shows on stderr
		timeout 900 sh -e $n.sh >$n.out 2>$n.err </dev/null
		rc=$?
		case $(cat $n.sh) in
		*\ -v* | *--verbose*) : >$n.err ;;
		esac
		is "$rc$(said $n.err)" 0 "$p: $(head -n 1 $n.sh)"
		n=$((n + 1))
	done
	case $p in
	*.1 | qwen.7)
		[ $n -gt 1 ]
		ok $? "$p: has examples: $((n - 1))" ;;
	esac
	cd .. || exit 1
done
done_testing
