# page.sh - what manual pages say, as a reader sees it; needs mandoc.
#   page FILE [WIDTH]    the page as plain text, lines as long as they like
#   section TITLE        of a page on stdin, without the title
#   rows TOOL            its options with their arguments, as "-m model", one a
#                        line, as --help=list has them
#   documented TOOL      likewise as its page has them, and of sampling options
#                        that of qsample
#   options ROWS...      of such lines on stdin, the options alone
#   subsection TITLE     of a section on stdin
#   said FILE            of what an example said on stderr, less how a batch
#                        fared that had no failure, and what qstate gc freed
#   commands             of a section on stdin: each into a file, 1.sh, 2.sh ...
said() {
	sed '/^qbatch: \([0-9]* done, 0 failed\|rates: \)/d; /^qstate: freed /d' "$1"
}

page() {
	mandoc -Tascii -O width="${2:-900}" "$1" | sed "s/.$(printf '\b')//g"
}

section() {
	awk -v want="$1" '/^[^ ]/ { on = $0 == want; next } on'
}

rows() {
	"$1" --help=list | awk -F '\t' '$1 != "operands" {
		arg = $3 == "-" ? "" : " " tolower($3)
		if ($1 != "-")
			print $1 arg
		if ($2 != "-")
			print $2 arg
	}' | sort -u
}

# The heads of lists of options, in the source of a page on stdin.
heads() {
	sed -n 's/^\.It Fl //p' | sed 's/ , Fl /\n/g; s/ , \\-/\n\\-/g' |
	    sed 's/^\\-/--/; /^--/!s/^/-/; s/ Ar / /; s/ Cm / /; s/ Ns = Ns Ar /=/
	    s/ Ns Op = Ns \(.*\)/ [\1]/'
}

documented() {
	{
		awk '/^\.S[hs] / { on = !/Sampling/ } on' "$TOP/man/$1.1" | heads
		! "$1" --help=list | grep -q -e --top-k ||
		    awk '/^\.S[hs] / { on = /Sampling/ } on' \
		    "$TOP/man/qsample.1" | heads
	} | sort -u
}

options() {
	sed 's/ .*//' | sort -u
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
