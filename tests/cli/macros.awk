# macros.awk - finds mdoc macros in the source of pages whose output is not what
# their author meant, and which mandoc -Tlint accepts: a quoted argument followed
# by more text without a space, whose quotes are lost; several things in one
# quotation.

# The arguments of a macro line: n, w[], quoted[]; bad is what is wrong.
function cut(s,    c, i, q, text) {
	n = 0
	bad = ""
	for (i = 2; i <= length(s); ) {
		c = substr(s, i, 1)
		if (c == " ") {
			i++
			continue
		}
		quoted[++n] = c == "\""
		text = ""
		if (quoted[n]) {
			for (i++; i <= length(s); i++) {
				if (substr(s, i, 1) != "\"")
					text = text substr(s, i, 1)
				else if (substr(s, i + 1, 1) == "\"")
					text = text substr(s, i++, 1)
				else
					break
			}
			if (i++ > length(s))
				bad = "a quote that does not end"
			else if (i <= length(s) && substr(s, i, 1) != " ")
				bad = "a quote that ends within an argument"
		} else {
			q = index(substr(s, i), " ")
			if (q == 0)
				q = length(s) - i + 2
			text = substr(s, i, q - 1)
			i += q
		}
		w[n] = text
	}
}

/^\.\\"/ || !/^\./ { next }

{
	cut($0)
	if (bad != "")
		print FNR ": " bad ": " $0
	for (i = 1; i <= n; i++) {
		if (quoted[i] || w[i] !~ /^(Ql|Sq|Dq|Qq)$/ || w[1] == "Bl")
			continue
		delimiter = 0
		for (k = i + 1; k <= n && w[k] != "Ta"; k++) {
			if (!quoted[k] && w[k] ~ /^[.,:;)?!]$/)
				delimiter = 1
			else if (delimiter) {
				print FNR ": several things in one quotation: " $0
				break
			}
		}
	}
}
