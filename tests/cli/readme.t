#!/bin/sh
# README.md: its commands run, and print what it says.
. "$TOP/tests/cli/tap.sh"
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
	make* | sudo* | cc* | git* | PATH=*) ;;	# other tests do this
	*)
		timeout 900 sh -e parts/$n.sh >out 2>err </dev/null
		is "$?$(cat err)" 0 "$line"
		if [ -e parts/$n.want ]; then
			is "$(cat out)" "$(cat parts/$n.want)" "prints what README.md says"
		fi ;;
	esac
	n=$((n + 1))
done
is "$(sed -n 's/.*](\([a-zA-Z/.]*\)).*/\1/p' "$TOP/README.md" |
    while read -r f; do [ -e "$TOP/$f" ] || echo "$f"; done)" "" "files it links to are there"
done_testing
