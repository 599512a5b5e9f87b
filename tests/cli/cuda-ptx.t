#!/bin/sh
# The PTX of the kernels rounds as qwen-numerics(7) says: no subnormal is flushed,
# nothing is approximate, and no operation lacks its rounding.
. "$TOP/tests/cli/tap.sh"
set -- "$B"/ptx/*.ptx
if [ ! -e "$1" ]; then
	skip "the PTX of the kernels" "built without clang"
	done_testing
fi

# inexact FILE...: lines that have other bits than C's
inexact() {
	cat "$@" | sed 's|//.*||' | grep -E \
	    -e '\.(ftz|approx|full|sat)\b' \
	    -e '\b(add|sub|mul|fma|mad|div|rcp|sqrt)\.([a-z]*\.)*f(32|64)\b' |
	    grep -E -v -e '\b(add|sub|mul|fma|div|sqrt|rcp)\.rn\.f(32|64)\b'
}

is "$#" "$(ls "$TOP"/lib/engine/cuda/kernel/*.c | wc -l)" "each kernel file has PTX"
cat "$@" | grep -c 'fma\.rn\.f32' >n
[ "$(cat n)" -gt 100 ]
ok $? "$(cat n) fma.rn.f32"
inexact "$@" | sort | uniq -c >out
is "$(head -n 20 out)" "" "all operations round to nearest"
is "$(cat "$@" | sed -n 's/^\.\(version\|target\) //p' | sort -u | xargs)" \
    "7.0 sm_80" "PTX 7.0 for sm_80"
# one.ptx waits at several places
is "$(cat "$@" | grep -c '^ *[.a-z]*.*\.entry')" \
    "$(cat "$@" | grep -c '//griddepcontrol.launch_dependents;')" \
    "each kernel lets the next one begin"
is "$(for f; do awk '/\.entry/ { n++ } /\/\/griddepcontrol.wait;/ { w++ }
    END { if (w < n) print FILENAME }' "$f"; done)" "" \
    "and waits for the one before"

# -- the test itself can fail
printf '\t%s\n' 'add.rn.ftz.f32 %f1, %f2, %f3;' 'sqrt.approx.f32 %f1, %f2;' \
    'add.f32 %f1, %f2, %f3;' 'mul.rz.f64 %d1, %d2, %d3;' \
    'div.full.f32 %f1, %f2, %f3;' 'add.rn.f32 %f1, %f2, %f3;' \
    'fma.rn.f64 %d1, %d2, %d3, %d4;' 'add.s32 %r1, %r2, %r3;' >some
is "$(inexact some | wc -l)" 5 "other operations are found"
done_testing
