#!/bin/sh
# Plain English: the phrases of english.txt do not occur in --help, manual pages
# and messages, except where english.ok allows them.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
grep -v -e '^#' -e '^$' "$TOP/tests/cli/english.txt" >phrases
grep -v -e '^#' -e '^$' "$TOP/tests/cli/english.ok" >ok

# Paragraphs of a text on stdin, each in a line.
paragraphs() {
	awk 'BEGIN { RS = "" } { gsub(/[ \t\n]+/, " "); print }'
}

# Text in the strings of C on stdin; what stands one after another is one.
strings() {
	awk 'function put() { if (s ~ / /) print s; s = "" }
	{
		rest = $0
		while (rest != "") {
			if (comment) {
				if (!(i = index(rest, "*/")))
					break
				comment = 0
				rest = substr(rest, i + 2)
				continue
			}
			if (!match(rest, /"([^"\\]|\\.)*"|\/\*|\047([^\047\\]|\\.)\047/)) {
				if (rest ~ /[^ \t\\]/)
					put()
				break
			}
			gap = substr(rest, 1, RSTART - 1)
			gsub(/PRI[A-Za-z0-9]+/, "", gap)
			word = substr(rest, RSTART, RLENGTH)
			rest = substr(rest, RSTART + RLENGTH)
			if (gap ~ /[^ \t]/ || word ~ /^\047/)
				put()
			if (word == "/*")
				comment = 1
			else if (word ~ /^"/)
				s = s substr(word, 2, length(word) - 2)
		}
	}
	END { put() }'
}

# from NAME: what stdin has is of NAME; texts and their names, line by line
from() {
	tee -a texts | awk -v name="$1" '{ print name }' >>names
}

# What is found in texts: name, phrase and text, unless it is an exception; then
# exceptions without use. "*" for a phrase is all that a file has.
found() {
	grep -Eiwno -f phrases texts | awk -F '\t' '
	FILENAME == "ok" {
		i = index($0, ": ")
		rest = substr($0, i + 2)
		file[FNR] = substr($0, 1, i - 1)
		part[FNR] = substr(rest, 1, index(rest ": ", ": ") - 1)
		n = FNR
		next
	}
	FILENAME == "names" { name[FNR] = $0; next }
	FILENAME == "texts" { text[FNR] = $0; next }
	{
		i = index($0, ":")
		line = substr($0, 1, i - 1)
		phrase = substr($0, i + 1)
		for (k = 1; k <= n; k++) {
			if (file[k] == name[line] && (part[k] == "*" ||
			    (index(text[line], part[k]) &&
			    index(tolower(part[k]), tolower(phrase)))))
				break
		}
		if (k <= n) {
			used[k]
			next
		}
		at = index(text[line], phrase)
		print name[line] ": " phrase ": " \
		    substr(text[line], at > 40 ? at - 40 : 1, 80 + length(phrase))
	}
	END {
		for (k = 1; k <= n; k++) {
			if (!(k in used) && part[k] != "*")
				print "english.ok: no use: " file[k] ": " part[k]
		}
	}' ok names texts -
}

# -- it finds what it is for
cp ok all.ok
echo 'good.md: told so many: a test' >ok
printf '%s\n' 'He is told' 'so many.' '' 'Somany members' >in
: >texts; : >names
paragraphs <in | from bad.md
paragraphs <in | from good.md
printf '%s\n' 'f("goes " /* so many */' '    "on", "a" "b");' "c = '\"'; g(\"a hub\");" | strings | from bad.c
is "$(found | cut -d: -f1,2 | sort | paste -sd, -)" \
    "bad.c: a hub,bad.c: goes on,bad.md: is told,bad.md: members,bad.md: so many,good.md: is told,good.md: members" \
    "phrases over the end of a line, in strings, and no exception too many"
echo 'bad.md: so many: a test' >ok
is "$(found | grep -c '^bad.md: so many')" 0 "an exception"
echo 'bad.md: so few: a test' >ok
is "$(found | grep '^english.ok')" "english.ok: no use: bad.md: so few" "one without use"
mv all.ok ok
: >texts; : >names

# -- what users read
for t in "$TOP"/cmd/*.c; do
	t=${t##*/}
	t=${t%.c}
	"$t" --help | paragraphs | from "$t --help"
done
if command -v mandoc >/dev/null 2>&1; then
	for f in "$TOP"/man/*.[0-9]; do
		page "$f" | paragraphs | from "man/${f##*/}"
	done
else
	skip "pages" "no mandoc"
fi
(cd "$TOP" && ls README.md NEWS.md HACKING.md CONTRIBUTING.md SECURITY.md \
    tests/README.md doc/*.md) | while read -r f; do
	sed '/^ *```/,/^ *```/d' "$TOP/$f" | paragraphs |
	    sed 's/`[^`]*`/code/g' | from "$f"
done
(cd "$TOP" && find cmd lib -name '*.[ch]' ! -path '*/yyjson/*') | sort |
    while read -r f; do
	strings <"$TOP/$f" | from "$f"
done
is "$(wc -l <names)" "$(wc -l <texts)" "each text has its name"
[ "$(sort -u names | grep -c .)" -gt 400 ]
ok $? "in $(sort -u names | grep -c .) files, pages and texts of --help"
found >bad
is "$(wc -l <bad | tr -d ' ')" 0 "$(wc -l <texts | tr -d ' ') paragraphs and strings in plain English"
sed 's/^/# /' bad >&2
done_testing
