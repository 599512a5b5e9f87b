# tap.sh - TAP for shell tests: . "$TOP/tests/cli/tap.sh"
#   ok STATUS NAME       passes if STATUS is 0
#   is GOT WANT NAME     passes if the two strings are equal
#   skip NAME WHY        counts as passed
#   done_testing         last: the plan, and the exit status
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

done_testing() {
	printf '1..%d\n' "$tap_n"
	exit "$tap_failed"
}
