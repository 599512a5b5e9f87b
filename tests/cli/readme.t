#!/bin/sh
# README.md: its commands run, and print the output that it shows.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
[ ! -e "$TOP/demo/demo.gguf" ] ||
    { QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL; }

# Code is what is indented by four.  "$ " begins a command, of which the output
# follows; in a block without that, each line is a command.
mkdir parts
awk '
	/^    \$ / {
		f = "parts/" ++n; sub(/^    \$ /, ""); print >(f ".sh")
		shown = 1; next
	}
	/^    / {
		sub(/^    /, "")
		if (shown) { print >(f ".want"); next }
		f = "parts/" ++n; print >(f ".sh"); next
	}
	{ shown = 0 }' "$TOP/README.md"
n=1
while [ -e parts/$n.sh ]; do
	line=$(head -n 1 parts/$n.sh)
	case $line in
	# other tests do this
	make* | sudo* | sh\ tests/deps.sh* | cc* | git* | PATH=* | gguf-fetch* | qserve* | curl*127.0.0.1*) ;;
	*)
		timeout 900 sh -e parts/$n.sh >out 2>err </dev/null
		is "$?$(said err)" 0 "$line"
		if [ -e parts/$n.want ]; then
			is "$(cat out)" "$(cat parts/$n.want)" "prints what README.md says"
		fi ;;
	esac
	n=$((n + 1))
done
grep '^    ' "$TOP/README.md" >code
grep '^    ' "$TOP/README.zh-CN.md" | diff code - >diff
is "$?$(cat diff)" 0 "README.zh-CN.md has the same commands"
is "$(sed -n 's/.*](\([a-zA-Z/.]*\)).*/\1/p' "$TOP/README.md" |
    while read -r f; do [ -e "$TOP/$f" ] || echo "$f"; done)" "" "files it links to are there"
grep -o '](#[^)]*)' "$TOP/README.md" | tr -d '])(#' | while read -r to; do
	sed -n 's/^##* //p' "$TOP/README.md" | tr 'A-Z ' 'a-z-' |
	    grep -qx -e "$to" || echo "$to"
done >lost
is "$(cat lost)" "" "and the headings"

# -- its pictures
# The text of an SVG, without spaces, which are where its program likes.
drawn() {
	sed 's/<[^>]*>/ /g; s/&gt;/>/g; s/&lt;/</g; s/&quot;/"/g; s/&amp;/\&/g' \
	    "$1" | tr -d ' \n'
}
if command -v jq >/dev/null 2>&1; then
	drawn "$TOP/demo/demo.svg" >text
	(cd "$TOP" && sh demo/record.sh play) >played 2>err
	is "$?$(cat err)" 0 "what demo.svg shows runs: $(grep -c . played)"
	# what is longer goes on in the next line
	sed 's/\x1b\[[0-9;]*m//g; s/^\$ //' played | cut -c 1-70 | tr -d ' ' |
	    while IFS= read -r line; do
		grep -qF -e "$line" text || echo "$line"
	    done >lost
	is "$(cat lost)" "" "and prints what that shows"
else
	skip "demo.svg" "no jq"
fi
for p in speed length; do
	drawn "$TOP/tests/bench/$p.svg" >$p
done
sed -n 's/^\.It \(prefill of 512\|decode\) Ta [^ ]* Ta 2 Ta //p' \
    "$TOP/man/qwen-speed.7" | sed 's/([^)]*)//g; s/Ta//g' | xargs -n 1 >want
while read -r n; do grep -qF "$n" speed || echo "$n"; done <want >lost
is "$(cat lost)" "" "speed.svg has the figures of qwen-speed(7): $(grep -c . want)"
done_testing
