# SPDX-License-Identifier: ISC
# qpipe.bash - completion of the tools' command lines in bash.
#
# What there is to complete the tool itself tells, by --help=list: a line for
# each option with its letter, long form, argument, what completes that, and what
# it does, by tabs, "-" where there is none; the first line is of operands.

# Add what compgen makes of the arguments to COMPREPLY.
_qpipe_add()
{
	local word

	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen "$@" -- "$cur")
}

# Files, those with a suffix $1 only if it is not empty.
_qpipe_files()
{
	compopt -o filenames 2>/dev/null
	if [ -z "$1" ]; then
		_qpipe_add -f
	else
		_qpipe_add -d
		_qpipe_add -f -X "!*.$1"
	fi
}

# Names of the tensors in the model of the command line.
_qpipe_tensors()
{
	local i model=

	for ((i = 1; i < COMP_CWORD - 1; i++)); do
		case ${COMP_WORDS[i]} in
		-m | --model) model=${COMP_WORDS[i + 1]} ;;
		esac
	done
	"$tool" ${model:+-m "$model"} 2>/dev/null |
	    awk '$1 == "tensor" { print $2 }'
}

# What tool $1 lists by option $2; it may be where the tool is, not on the
# path.
_qpipe_list()
{
	local lister=$1

	case $tool in
	*/*) [ ! -x "${tool%/*}/$lister" ] || lister=${tool%/*}/$lister ;;
	esac
	"$lister" "$2" 2>/dev/null | awk '{ print $1 }'
}

# By what a line of the list has in its fourth place.
_qpipe_complete()
{
	case $1 in
	file | inout | output) _qpipe_files ;;
	'file '* | 'inout '* | 'output '*) _qpipe_files "${1#* }" ;;
	folder) compopt -o filenames 2>/dev/null; _qpipe_add -d ;;
	shapes) _qpipe_add -W "$(_qpipe_list gguf-synth --list)" ;;
	recipes) _qpipe_add -W "$(_qpipe_list gguf-synth --list-recipes)" ;;
	types) _qpipe_add -W "$(_qpipe_list gguf-quantize --list-types)" ;;
	tensors) _qpipe_add -W "$(_qpipe_tensors)" ;;
	'words '*) _qpipe_add -W "${1#words }" ;;
	'commands '*)
		if [ "$COMP_CWORD" = 1 ]; then
			_qpipe_add -W "${1#commands }"
		else
			_qpipe_files
		fi ;;
	esac
}

_qpipe()
{
	local tool=${1/#\~/$HOME} cur=${COMP_WORDS[COMP_CWORD]}
	local prev=${COMP_WORDS[COMP_CWORD - 1]} opts= operands=
	local letter long arg how what argument=

	COMPREPLY=()
	# bash takes --format=json for three words
	if [ "$cur" = = ]; then
		cur=
	elif [ "$prev" = = ] && [ "$COMP_CWORD" -gt 2 ]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	while IFS=$'\t' read -r letter long arg how what; do
		if [ "$letter" = operands ]; then
			operands=$how
			continue
		fi
		[ "$letter" = - ] || opts="$opts $letter"
		[ "$long" = - ] || opts="$opts $long"
		case $arg in
		- | '['*) continue ;;
		esac
		case $prev in
		-) ;;
		"$letter" | "$long") argument=$how ;;
		esac
	done < <("$tool" --help=list 2>/dev/null)
	if [ -n "$argument" ]; then
		_qpipe_complete "$argument"
	elif [ "${cur:0:1}" = - ]; then
		_qpipe_add -W "$opts"
	else
		_qpipe_complete "$operands"
	fi
}

complete -F _qpipe gguf-convert gguf-fetch gguf-inspect gguf-merge gguf-pin gguf-quantize \
    gguf-synth qbatch qbench qchat qdecode qembed qengine qimage qprefill qrerank qsample qscore qserve \
    qstate qtok
