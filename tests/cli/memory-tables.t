#!/bin/sh
# The memory tables of qwen-models(7) and qwen(7): each cell against the command
# that the page gives with its table.
. "$TOP/tests/cli/tap.sh"
section() { # PAGE: its section on memory
	sed -n '/^\.Ss Memory/,/^\.Ss [^M]/p' "$TOP/man/$1"
}
section qwen-models.7 >models
section qwen.7 >passes
sed -n 's/^\$ //p' models >commands
is "$(cut -d' ' -f1-2 commands | xargs)" "gguf-synth --sparse QWEN_CPU=avx512 gguf-inspect" \
    "qwen-models(7) has two commands"
sed -n 's/^\.Ql \(QWEN_CPU=.* --batch 512\)$/\1 s.gguf/p' passes >one-pass
is "$(wc -l <one-pass | tr -d ' ')" 1 "qwen(7) has one"

# Without AVX-512 the cells of AVX2 are compared: more by at most what the page says.
level="" more=0
for l in avx512 avx2; do
	[ -n "$level" ] || QWEN_CPU=$l qprefill -v </dev/null 2>&1 |
	    grep -q "has no $l" || level=$l
done
larger=$(sed -n 's/^With AVX2 .* is \([0-9]*\) MiB larger\.$/\1/p' models)
[ "$level" = avx512 ] || more=$larger
if [ -z "$level" ]; then
	skip "the tables" "neither AVX-512 nor AVX2"
	done_testing
fi

# plan SHAPE CONTEXT [THREADS [LEVEL]]: qwen-models(7)'s commands for these
plan() {
	rm -f s.gguf
	sh -c "$(sed -e "s/ Qwen3[^ ]*\$/ $1/" -e "s/-c 4096/-c $2/" \
	    -e "s/-t 2/-t ${3:-2}/" -e "s/=avx512/=${4:-$level}/" commands)" \
	    >plan 2>err </dev/null
}
bytes() { # PART...: the sum of these, and less those with -
	awk -v parts="$*" '$1 == "memory" { m[$2] = $3 }
	    END {
		n = split(parts, p, " ")
		for (i = 1; i <= n; i++)
			s += p[i] ~ /^-/ ? -m[substr(p[i], 2)] : m[p[i]]
		printf "%.0f\n", s
	}' plan
}
mib() { # BYTES
	awk -v n="$1" 'BEGIN { printf "%.0f\n", n / 1048576 }'
}
same() { # GOT WANT NAME: that of AVX-512, or up to $more above
	[ "$1" -ge "${2:-0}" ] && [ "$1" -le $((${2:-0} + more)) ]
	same_rc=$?
	[ $same_rc = 0 ] || echo "# planned $1, the page has ${2:-nothing}" >&2
	ok $same_rc "$3"
}
# rows FILE: the head of its table and its rows, cells between |
rows() {
	sed -n '/^\.It Em/,/^\.El/s/^\.It //p' "$1" | sed 's/Em //g; s/ *Ta */|/g'
}

rows models | sed 1d >table
contexts=$(rows models | sed -n '1s/file|weights|//p' | tr '|' ' ')
is "$contexts $(wc -l <table | tr -d ' ')" "4096 32768 131072 4" "qwen-models(7) has a table"
while IFS='|' read -r name weights cells; do
	for c in $contexts; do
		want=${cells%%|*} cells=${cells#*|}
		plan "$name" "$c"
		rc=$?
		if [ -z "$want" ]; then
			is "$rc $(grep -c "$c is more than the model's" err)" "2 1" \
			    "$name has no context of $c"
			continue
		fi
		is "$rc $(mib "$(bytes weights)")" "0 $weights" "$name: weights"
		same "$(mib "$(bytes total -weights)")" "$want" "$name, $c tokens"
	done
done <table

# -- the figures of the text around it
says() { # SENTENCE
	tr '\n' ' ' <models | grep -q -e "$1"
	ok $? "it says: $1"
}
set --
for c in $contexts; do
	plan Qwen3.8-27B "$c"
	set -- "$@" "$(mib "$(bytes kv-cache state)")"
done
says "and $(mib "$(bytes state)") MiB of state, so $1, $2 and $3 MiB"
plan Qwen3.6-35B 32768
one=$(mib "$(bytes checkpoints)")
plan Qwen3.6-35B 131072
says "of Qwen3.6, $one and $(mib "$(bytes checkpoints)") MiB are the checkpoints"
if [ $level = avx512 ]; then
	one=$(bytes total)
	plan Qwen3.6-35B 131072 2 avx2
	is "$(mib $(($(bytes total) - one)))" "$larger" "Qwen3.6, with AVX2"
	plan Qwen3-8B 4096
	one=$(bytes total)
	plan Qwen3-8B 4096 16
	says "With 16 threads that of Qwen3-8B is $(mib $(($(bytes total) - one))) MiB larger"
fi

# -- what a pass takes
rows passes | sed 1d >table
batches=$(rows passes | sed -n '1s/shape|//p' | tr '|' ' ')
is "$batches $(wc -l <table | tr -d ' ')" "512 1024 2048 4096 4" "qwen(7) has a table"
[ $level = avx512 ] || more=$((3 * larger))	# of as many tokens
while IFS='|' read -r name cells; do
	plan "$name" 4096
	for b in $batches; do
		want=${cells%%|*} cells=${cells#*|}
		sh -c "$(sed "s/--batch 512/--batch $b/; s/=avx512/=$level/" one-pass)" >plan
		same "$(mib "$(bytes scratch)")" "$want" "$name, passes of $b"
	done
done <table
done_testing
