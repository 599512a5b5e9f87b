# tap.sh - TAP for shell tests: . "$TOP/tests/cli/tap.sh"
#   ok STATUS NAME       passes if STATUS is 0
#   is GOT WANT NAME     passes if the two strings are equal
#   skip NAME WHY        counts as passed
#   needs NAME TOOL...   ends the test, with NAME skipped, if a TOOL is missing
#   refused STATUS NAME COMMAND...
#                        passes if the command exits with STATUS, prints
#                        nothing on stdout (kept in out) and one line on stderr
#                        (err), which for status 2 names the help
#   model NAME           sets MODEL to a copy of tests/golden/models/NAME
#   ids N SEED BELOW     prints N random numbers from 0 to BELOW - 1, one per
#                        line; the same with every awk
#   ignored SIGNAL       succeeds if the signal is ignored, as HUP under nohup
#   done_testing         must be last: prints the plan, and sets the exit status
tap_n=0
tap_failed=0

ok() {
	tap_n=$((tap_n + 1))
	if [ "$1" = 0 ]; then
		printf 'ok %d - %s\n' "$tap_n" "$2"
	else
		printf 'not ok %d - %s\n' "$tap_n" "$2"
		tap_failed=1
	fi
}

is() {
	if [ "$1" = "$2" ]; then
		ok 0 "$3"
	else
		ok 1 "$3"
		printf '# %s\n# got:  %s\n# want: %s\n' "$3" "$1" "$2" >&2
	fi
}

skip() {
	tap_n=$((tap_n + 1))
	printf 'ok %d - %s # SKIP %s\n' "$tap_n" "$1" "$2"
}

needs() {
	tap_name=$1
	shift
	for tap_tool; do
		if ! command -v "$tap_tool" >/dev/null 2>&1; then
			skip "$tap_name" "no $tap_tool"
			done_testing
		fi
	done
}

refused() {
	tap_want=$1 tap_name=$2
	shift 2
	"$@" >out 2>err
	tap_got=$?
	tap_lines=$(wc -l <err)
	if [ "$tap_want" = 2 ] && ! grep -q '; see [a-z-]* --help$' err; then
		tap_lines="no --help in $tap_lines"
	fi
	is "$tap_got, $(wc -c <out) bytes, $tap_lines line" \
	    "$tap_want, 0 bytes, 1 line" "$tap_name: $(head -n 1 err | cut -c1-120)"
}

model() {
	MODEL=$PWD/$1.gguf
	zstd -dqf "$TOP/tests/golden/models/$1/model.gguf.zst" -o "$MODEL"
	export MODEL
}

ids() {
	awk -v n="$1" -v seed="$2" -v v="$3" 'BEGIN {
		x = seed % 2147483646 + 1
		for (i = -8; i < n; i++) {
			x = x * 16807 % 2147483647
			if (i >= 0)
				print int(x / 2147483647 * v)
		}
	}'
}

ignored() {
	sh -c "kill -s $1 \$\$" 2>/dev/null
}

done_testing() {
	printf '1..%d\n' "$tap_n"
	exit "$tap_failed"
}
