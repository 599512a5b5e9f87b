#!/bin/sh
# The commands of qwen-tutorial(7) and qwen-trace(7), in order in one folder,
# print exactly what the page shows after each.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
for need in mandoc jq; do
	if ! command -v $need >/dev/null 2>&1; then
		skip "the tutorial" "no $need"
		done_testing
	fi
done
if qimage --show "$TOP/tests/files/image/good-rgb.png" 2>&1 >seen |
    grep -q 'built without'; then
	skip "the tutorial" "no libpng"
	done_testing
fi
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# try PAGE LEAST: its commands, at least so many
try() {
	mkdir "$1" "$1/parts" "$1/folder"
	page "$TOP/man/$1.7" | (cd "$1" && awk '
		!sub(/^           /, "") { on = 0; next }
		sub(/^\$ /, "") { f = "parts/" ++n; on = 1; print >(f ".sh"); next }
		on && sub(/^> /, "") { print >(f ".sh"); next }
		on { print >(f ".want") }')
	cd "$1/folder" || exit 1
	n=1
	while [ -e ../parts/$n.sh ]; do
		timeout 900 sh -e ../parts/$n.sh >../out 2>../err </dev/null
		is "$?$(said ../err)" 0 "$(head -n 1 ../parts/$n.sh)"
		[ -e ../parts/$n.want ] || : >../parts/$n.want
		# spaces at the end of a line are not to be seen on paper
		is "$(sed 's/ *$//' ../out)" "$(sed 's/ *$//' ../parts/$n.want)" \
		    "prints what the page says"
		n=$((n + 1))
	done
	cd ../.. || exit 1
	[ $n -gt "$2" ]
	ok $? "$1 has commands: $((n - 1))"
}

try qwen-tutorial 17
try qwen-trace 8
done_testing
