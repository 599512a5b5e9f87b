#!/bin/sh
# Completion in bash and zsh offers exactly the options and arguments that the
# tools accept.
. "$TOP/tests/cli/tap.sh"
. "$TOP/tests/cli/page.sh"
C=$TOP/cmd/completion
QWEN_MODEL=$TOP/tests/files/gguf/good-v3.gguf; export QWEN_MODEL

tools=$(cd "$TOP/cmd" && ls ./*.c | sed 's/^..\(.*\)\.c$/\1/')

# -- bash
if command -v bash >/dev/null 2>&1; then
	cat >ask.bash <<-'EOF'
	source "$C/qpipe.bash" || exit
	complete -p "$1" >/dev/null || exit
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
	_qpipe "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
	[ ${#COMPREPLY[@]} = 0 ] || printf '%s\n' "${COMPREPLY[@]}"
	EOF
	ask() {
		C=$C bash ask.bash "$@" 2>&1
	}
	for t in $tools; do
		ask "$t" - | sort -u >got
		rows "$t" | options >want
		diff want got >diff
		ok $? "bash: the options of $t: $(grep -c . got)"
		cat diff >&2
	done
	: >"a model.gguf"; : >notes; mkdir folder
	is "$(ask qdecode -f '' | xargs)" "cbor text json raw" "bash: formats"
	is "$(ask qtok --format = j)" "json" "bash: --format=j"
	is "$(ask qprefill --logits '' | xargs)" "last all none" "bash: --logits of qprefill"
	is "$(ask qdecode --logits --res)" "--resume" "bash: --logits of qdecode takes nothing"
	is "$(ask qdecode --numerics '' | xargs)" "1 3 4" "bash: --numerics"
	is "$(ask qdecode -n '')" "" "bash: nothing for a number"
	is "$(ask qprefill -m '' | sort | xargs -d '\n' | tr ' ' _)" \
	    "a_model.gguf_folder" "bash: model files and folders for -m"
	is "$(ask qprefill -s no)" "notes" "bash: any file for -s"
	is "$(ask gguf-inspect "$PWD/a m")" "$PWD/a model.gguf" "bash: a name with a space"
	is "$(ask gguf-synth Qwen3-8)" "Qwen3-8B-Q4_K_M" "bash: shapes"
	is "$(ask qbench --synthetic Qwen3-8)" "Qwen3-8B-Q4_K_M" "bash: shapes of qbench"
	is "$(ask gguf-synth --recipe UD-Q2)" "UD-Q2_K_XL" "bash: recipes"
	is "$(ask gguf-inspect --values a)" "a.weight" "bash: names of tensors"
	is "$(ask qtok --thinking '' | xargs)" "none open closed" "bash: words of --thinking"
	is "$(ask qbatch --template qwen3.6 | xargs)" "qwen3.6 qwen3.6-ud" "bash: templates"
	is "$(ask qtok --template '' | sort | xargs)" "$(cd "$TOP/lib/text/chat/templates" &&
	    ls ./*.jinja | sed 's/^..//; s/\.jinja$//' | sort | xargs)" "bash: all templates"
	is "$(ask qbatch --grammar no)" "notes" "bash: any file for --grammar"
	is "$(ask qstate d | xargs)" "diff du" "bash: commands of qstate"
	is "$(ask qstate diff no)" "notes" "bash: and their files"
	is "$(ask qprefill --store '')" "folder" "bash: folders for --store"
	is "$(ask qsample x)" "" "bash: no operands where there are none"
else
	skip "bash" "no bash"
fi

# -- zsh: what _arguments is told
if command -v zsh >/dev/null 2>&1; then
	zsh -n "$C/_qpipe"
	ok $? "zsh: syntax"
	cat >ask.zsh <<-'EOF'
	_arguments() { print -rl -- "$@[2,-1]" }
	words=("$@")
	complete_it() { source $C/_qpipe }
	complete_it
	EOF
	for t in $tools; do
		C=$C zsh -f ask.zsh "$t" >spec 2>&1
		sed -n 's/^\(--*[a-zA-Z0-9-]*\).*/\1/p' spec | sort -u >got
		rows "$t" | options >want
		diff want got >diff
		ok $? "zsh: the options of $t: $(grep -c . got)"
		cat diff >&2
	done
	C=$C zsh -f ask.zsh gguf-synth >spec
	grep -q '^:shape:(Qwen.* .*)$' spec
	ok $? "zsh: shapes"
	grep -q '^--recipe=.*:(F32 .*UD-Q4_K_M.*)$' spec
	ok $? "zsh: recipes"
	C=$C zsh -f ask.zsh qstate | grep -q '^:command:(show verify diff .*rm)$'
	ok $? "zsh: commands of qstate"
	C=$C zsh -f ask.zsh qtok | grep -q '^--think=.*:(on off)$'
	ok $? "zsh: words"
	C=$C zsh -f ask.zsh qbench | grep -q 'synthetic.*:shape:(Qwen3.6.* Qwen3-8B-Q4_K_M)$'
	ok $? "zsh: shapes of qbench"
else
	skip "zsh" "no zsh"
fi
is "$(head -n 1 "$C/_qpipe")" "#compdef $(echo $tools)" "zsh: every tool"
done_testing
