# page.sh - what manual pages say, as a reader sees it; needs mandoc.
#   page FILE            the page as plain text, lines as long as they like
#   section TITLE        of a page on stdin, without the title
#   documented TOOL      the options that its page lists, one a line
#   sampling TOOL        those that only its --help lists
#   subsection TITLE     of a section on stdin
#   commands             of a section on stdin: each into a file, 1.sh, 2.sh ...
page() {
	mandoc -Tascii -O width=900 "$1" | sed "s/.$(printf '\b')//g"
}

section() {
	awk -v want="$1" '/^[^ ]/ { on = $0 == want; next } on'
}

documented() {
	page "$TOP/man/$1.1" | section DESCRIPTION |
	    sed -n 's/^     \(-.*\)/\1/p' | sed 's/  .*//' | tr -d ',' |
	    tr ' ' '\n' | grep '^-' | sort -u
}

sampling() {
	"$1" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p' | sort -u
}

# A command begins with "$ "; lines that begin with "> " belong to it.
commands() {
	awk -v n=0 '
		/^ *\$ / { n++; sub(/^ *\$ /, ""); f = n ".sh"; print >f; next }
		/^ *> / && n { sub(/^ *> /, ""); print >>f }'
}

subsection() {
	awk -v want="   $1" '/^   [^ ]/ { on = $0 == want; next } on'
}
