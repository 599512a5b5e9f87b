#!/bin/sh
# build.sh - build the tools for "make demo", with progress on stderr: a line that
# changes on a terminal, else a line every ten seconds.
#   MAKE=make sh demo/build.sh [ARGUMENT OF MAKE]...
[ -t 2 ] && terminal=1 || terminal=0
# the number of commands that make will run, by its dry run
total=$("${MAKE:-make}" --no-print-directory -n all "$@" 2>/dev/null |
    grep -c -e ' -o ')
{ "${MAKE:-make}" --no-print-directory all "$@" && echo "built: all"; } |
    awk -v total="$total" -v terminal="$terminal" '
	function show() {
		printf terminal ? "\r%s" : "%s\n", \
		    "building: " n " of " total > "/dev/stderr"
	}
	function clock(   now) {
		"date +%s" | getline now
		close("date +%s")
		return now
	}
	/ -o / {
		if (n++ == 0)
			last = clock()
		if (terminal)
			show()
		else if (n % 20 == 0 && (now = clock()) >= last + 10) {
			last = now
			show()
		}
	}
	/^built: all$/ { built = 1 }
	END {
		if (n > 0 && terminal)
			print "" > "/dev/stderr"
		exit !built
	}'
