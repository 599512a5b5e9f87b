# SPDX-License-Identifier: ISC
# qpipe.bash - completion of the tools' command lines in bash.
#
# The options are those that --help of the tool tells of, so that there is no
# second list to keep.  Letters mean the same in every tool: what the long
# forms are called stands here, and in the pages.

# Set long to what the letter $1 is called.
_qpipe_long()
{
	case $1 in
	0) long=null ;;
	c) long=number ;;
	n) long=count ;;
	d) long=decode ;;
	f) long=format ;;
	h) long=help ;;
	m) long=model ;;
	o) long=output ;;
	p) long=prompt ;;
	q) long=quiet ;;
	r) long=rounds ;;
	s) long=state ;;
	t) long=threads ;;
	v) long=verbose ;;
	V) long=version ;;
	*) long= ;;
	esac
}

# Note an option, which takes an argument if $2 is not empty.
_qpipe_note()
{
	case " $opts " in
	*" $1 "*) return ;;
	esac
	opts="$opts $1"
	[ -z "$2" ] || witharg="$witharg $1"
}

# The same of a letter and its long form.
_qpipe_letter()
{
	local long

	_qpipe_note "-$1" "$2"
	_qpipe_long "$1"
	[ -z "$long" ] || _qpipe_note "--$long" "$2"
}

# All options of the tool $1: into opts; those with an argument: witharg.
_qpipe_parse()
{
	local line word arg i

	while IFS= read -r line; do
		case $line in
		'  --'*)	# a line of its own: the first word is it
			line=${line#  }
			line=${line%%  *} ;;
		esac
		while [[ $line =~ (^|[[ ])(--[a-z0-9-]+|-[a-zA-Z0]+)(' '[a-zA-Z]+)?(.*) ]]
		do
			word=${BASH_REMATCH[2]} arg=${BASH_REMATCH[3]}
			line=${BASH_REMATCH[4]}
			case $word in
			--*) _qpipe_note "$word" "$arg" ;;
			*) for ((i = 1; i < ${#word}; i++)); do
				_qpipe_letter "${word:i:1}" "$arg"
			done ;;
			esac
		done
	done < <("$1" --help 2>/dev/null)
	_qpipe_letter h ''
	_qpipe_letter V ''
}

# Add what compgen makes of the arguments to COMPREPLY.
_qpipe_add()
{
	local word

	while IFS= read -r word; do
		COMPREPLY+=("$word")
	done < <(compgen "$@" -- "$cur")
}

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

_qpipe_formats()
{
	case $1 in
	qprefill | qdecode) echo cbor text json raw ;;
	qtok) echo cbor text json prompt ;;
	qscore) echo text json ;;
	*) echo cbor text json ;;
	esac
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

# What gguf-synth, which is $1, can make.
_qpipe_shapes()
{
	_qpipe_add -W "$("$1" --list 2>/dev/null | awk '{ print $1 }')"
}

# The argument of option $1 of tool $2.
_qpipe_argument()
{
	case $1 in
	-m | --model | --vocab) _qpipe_files gguf ;;
	-s | --state | -o | --output | --reuse) _qpipe_files ;;
	--tokens | --data | --report | --report-json) _qpipe_files ;;
	--tools) _qpipe_files json ;;
	--template) _qpipe_add -W 'qwen3 qwen3.5 qwen3.6 qwen3.6-ud qwen3-coder' ;;
	--think) _qpipe_add -W 'on off' ;;
	--thinking) _qpipe_add -W 'open closed none' ;;
	--store) compopt -o filenames 2>/dev/null; _qpipe_add -d ;;
	-f | --format) _qpipe_add -W "$(_qpipe_formats "$2")" ;;
	--logits) _qpipe_add -W 'all last none' ;;
	--shard) _qpipe_add -W slurm ;;
	--numerics) _qpipe_add -W '1 2' ;;
	--synthetic) _qpipe_shapes gguf-synth ;;
	--values) _qpipe_add -W "$(_qpipe_tensors)" ;;
	esac
}

_qpipe_operand()
{
	case $1 in
	gguf-inspect | gguf-pin) _qpipe_files gguf ;;
	gguf-synth) _qpipe_shapes "$tool" ;;
	qstate)
		if [ "$COMP_CWORD" = 1 ]; then
			_qpipe_add -W "$(_qpipe_commands)"
		else
			_qpipe_files
		fi ;;
	qbatch | qscore | qtok) _qpipe_files ;;
	esac
}

# What qstate can do: the words behind its name in the synopsis.
_qpipe_commands()
{
	"$tool" --help 2>/dev/null |
	    sed -n 's/^\(usage:\)* *qstate \([a-z]*\) .*/\2/p' | sort -u
}

_qpipe()
{
	local tool=${1/#\~/$HOME} cur=${COMP_WORDS[COMP_CWORD]}
	local prev=${COMP_WORDS[COMP_CWORD - 1]} opts= witharg=

	COMPREPLY=()
	# bash takes --format=json for three words
	if [ "$cur" = = ]; then
		cur=
	elif [ "$prev" = = ] && [ "$COMP_CWORD" -gt 2 ]; then
		prev=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	_qpipe_parse "$tool"
	case " $witharg " in
	*" $prev "*) _qpipe_argument "$prev" "${tool##*/}"; return ;;
	esac
	case $cur in
	-*) _qpipe_add -W "$opts" ;;
	*) _qpipe_operand "${tool##*/}" ;;
	esac
}

complete -F _qpipe gguf-inspect gguf-pin gguf-synth qbatch qbench qchat \
    qdecode qprefill qsample qscore qstate qtok
