#!/bin/sh
# SPDX-License-Identifier: ISC
# record.sh - make demo/demo.svg, the recording in README.md: these commands,
# typed, with what they print and when.  Needs termtosvg and script(1).
#
#   sh demo/record.sh          from the top of the tree, after make
#   sh demo/record.sh play     to the terminal instead, without pauses
shown() {
	cat <<-'E'
	echo hi | qtok | qprefill -o state.cbor | qdecode -s state.cbor | qtok -d
	# The state is a file. Go on from it, by chance:
	qdecode -s state.cbor --temp 1 --seed 8 -n 24 </dev/null | qtok -d
	# Many prompts at the same time, each answered as if it were alone:
	printf '{"prompt":"And %s said"}\n' God Job | qbatch -n 9 --temp 0 | jq .text
	# One thread and no vector instructions give the same bits:
	echo hi | qtok | QWEN_CPU=scalar qprefill -t 1 -o scalar.cbor >/dev/null
	cmp state.cbor scalar.cbor && echo same
	E
}

# Type a line, letter by letter when it is recorded.
type_() {
	printf '\033[32m$ \033[0m'
	rest=$1
	while [ -n "$rest" ] && [ -n "$pause" ]; do
		printf %s "${rest%"${rest#?}"}"
		rest=${rest#?}
		sleep 0.03
	done
	printf '%s\n' "$rest"
}

play() {
	shown | while IFS= read -r line; do
		$pause
		type_ "$line"
		case $line in '#'*) continue ;; esac
		sh -c "$line" </dev/null
	done
	$pause
	$pause
}

BIN=${BIN:-bin}
PATH=$(cd "$BIN" && pwd):$PATH
QWEN_MODEL=$PWD/demo/demo.gguf
export PATH QWEN_MODEL
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
case $1 in
play | type)
	pause=
	[ "$1" = play ] || pause='sleep 1.5'
	cd "$dir" && play
	exit ;;
esac

# What termtosvg(1) puts the recording into: see termtosvg-templates(5).
cat >"$dir/template.svg" <<'E'
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" id="terminal" baseProfile="full" viewBox="0 0 672 340" width="672" version="1.1">
<defs>
<termtosvg:template_settings xmlns:termtosvg="https://github.com/nbedos/termtosvg">
<termtosvg:screen_geometry columns="80" rows="18"/>
<termtosvg:animation type="css"/>
</termtosvg:template_settings>
<style type="text/css" id="generated-style"></style>
<style type="text/css" id="user-style">
.foreground {fill: #d8d8d8;}
.background {fill: #181c20;}
.color2 {fill: #7fc97f;}
</style>
</defs>
<rect class="background" width="100%" height="100%" rx="6"/>
<svg id="screen" x="16" y="16" width="640" height="306" viewBox="0 0 640 306" preserveAspectRatio="xMidYMin slice"></svg>
</svg>
E
TERM=xterm script -qec "termtosvg '$dir/demo.svg' -g 80x18 -m 120 -D 4000 \
    -t '$dir/template.svg' -c 'sh demo/record.sh type'" /dev/null \
    </dev/null >"$dir/log" || { cat "$dir/log" >&2; exit 1; }
mv "$dir/demo.svg" demo/demo.svg
