# page.sh - the contents of manual pages as a reader sees them; needs mandoc.
#   page FILE [WIDTH]    prints the page as plain text, with very long lines
#   section TITLE        prints a section of the page on stdin, without its title
#   rows TOOL            prints the tool's options with their arguments, such as
#                        "-m model", one per line, from --help=list
#   documented TOOL      prints the same from the tool's page; sampling options
#                        from that of qsample
#   options ROWS...      prints only the options of such lines on stdin
#   subsection TITLE     prints a subsection of the section on stdin
#   said FILE            prints an example's stderr without the summary of a batch
#                        that had no failure, and without "freed" of qstate gc
#   commands             writes the commands of the section on stdin to files 1.sh ...
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
