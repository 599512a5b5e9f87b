#!/bin/sh
# qwen-tutorial(7): its commands, in order in one folder, print what the page
# shows after each, and nothing else.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
for need in mandoc jq; do
	if ! command -v $need >/dev/null 2>&1; then
		skip "the tutorial" "no $need"
		done_testing
	fi
done
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

mkdir parts folder
page "$TOP/man/qwen-tutorial.7" | awk '
	!sub(/^           /, "") { on = 0; next }
	sub(/^\$ /, "") { f = "parts/" ++n; on = 1; print >(f ".sh"); next }
	on && sub(/^> /, "") { print >(f ".sh"); next }
	on { print >(f ".want") }'
cd folder || exit 1
n=1
while [ -e ../parts/$n.sh ]; do
	timeout 900 sh -e ../parts/$n.sh >../out 2>../err </dev/null
	is "$?$(cat ../err)" 0 "$(head -n 1 ../parts/$n.sh)"
	[ -e ../parts/$n.want ] || : >../parts/$n.want
	# spaces at the end of a line are not to be seen on paper
	is "$(sed 's/ *$//' ../out)" "$(sed 's/ *$//' ../parts/$n.want)" \
	    "prints what the page says"
	n=$((n + 1))
done
[ $n -gt 15 ]
ok $? "the page has commands: $((n - 1))"
done_testing
