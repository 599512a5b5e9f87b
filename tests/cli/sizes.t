#!/bin/sh
# Files of lib, cmd and examples have fewer than 700 lines, and functions fewer
# than 60 (HACKING.md).
. "$TOP/tests/cli/tap.sh"

# Tables, and the JSON reader of others.
cat >allowed <<'EOT'
lib/text/chat/casing_table.c	a table
lib/text/token/unicode.c	a table
lib/text/yyjson/yyjson.c	of another project
lib/text/yyjson/yyjson.h	of another project
EOT

# In KNF a function begins with "{" and ends with "}", each alone on its line.
measure() {
	awk '
	function end_file() {
		if (name != "" && n >= 700)
			print name ": " n " lines"
	}
	FNR == 1 { end_file(); name = FILENAME; start = 0 }
	{ n = FNR }
	$0 == "{" { start = FNR }
	$0 == "}" && start > 0 {
		if (FNR - start + 1 >= 60)
			print name ":" start ": a function of " \
			    FNR - start + 1 " lines"
		start = 0
	}
	END { end_file() }' "$@"
}

(cd "$TOP" && find lib cmd examples -name '*.[ch]' -o -name '*.inc') | sort >files
(cd "$TOP" && measure $(cat "$OLDPWD/files")) >found
cut -f 1 allowed >names
grep -vF -f names found >other
is "$(cat other)" "" "no file of 700 lines, no function of 60"
for f in $(cat names); do
	grep -q "^$f:" found || echo "$f"
done >needless
is "$(cat needless)" "" "the list has only files that need it"

# -- the test itself can fail
awk 'BEGIN { print "f(void)\n{"; for (i = 0; i < 57; i++) print "\tx();";
    print "}" }' >good.c
awk 'BEGIN { print "f(void)\n{"; for (i = 0; i < 58; i++) print "\tx();";
    print "}" }' >bad.c
awk 'BEGIN { for (i = 0; i < 699; i++) print "" }' >short.c
awk 'BEGIN { for (i = 0; i < 700; i++) print "" }' >long.c
is "$(measure good.c bad.c short.c long.c)" "bad.c:2: a function of 60 lines
long.c: 700 lines" "a long function and a long file are found"
done_testing
