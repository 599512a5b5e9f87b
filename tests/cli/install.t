#!/bin/sh
# make install into a staging folder, the tools as they are used from there, and
# make uninstall.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ]; then
	skip "install" "nobody installs a sanitizer build"
	done_testing
fi
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
stage="$PWD/a stage"
U=$stage/usr
install_() {
	make -C "$TOP" --no-print-directory B="$B" BIN="$BIN" \
	    DESTDIR="$stage" PREFIX=/usr "$@" 2>&1
}

install_ install >log
ok $? "make install"
grep -- ' -c -o ' log >compiled
[ ! -s compiled ]
ok $? "it compiles nothing that make had compiled"
cat compiled >&2

# -- what is there
tools=$(cd "$TOP/cmd" && ls ./*.c | sed 's/^..\(.*\)\.c$/\1/')
n=0
for t in $tools; do
	[ -x "$U/bin/$t" ] && [ -e "$U/share/man/man1/$t.1" ] &&
	    [ -e "$U/share/bash-completion/completions/$t" ] && n=$((n + 1))
done
is $n "$(echo "$tools" | wc -l)" "every tool, its page and its completion"
is "$(find "$U/share/man" -name '*.*' | wc -l | xargs)" \
    "$(ls "$TOP"/man/*.* | wc -l | xargs)" "every page"
for l in libqwen libqwentext; do
	is "$(cd "$U/lib" && readlink $l.so && readlink $l.so.0)" \
	    "$l.so.0
$l.so.$(sed -n 's/.*define QWEN_VERSION "\(.*\)"/\1/p' \
	    "$TOP/lib/qwen/base.h")" "names of the shared $l"
done
is "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$TOP/debian/changelog")" \
    "$("$BIN/qtok" -V | sed 's/^qtok \([^ ]*\).*/\1/')" \
    "Debian's packages have the same version"
grep -rl -e "$stage" "$U" >staged
[ ! -s staged ]
ok $? "no file knows the staging folder"
cat staged >&2
is "$(cd "$stage" && find . ! -type d ! -path './usr/*')" "" "nothing outside PREFIX"
is "$(find "$U" -type f ! -perm -444)" "" "everybody may read it"

# -- the tools, without an environment
cat >pipe.sh <<'EOF'
echo hi | "$1/qtok" | "$1/qprefill" -o state.cbor |
    "$1/qdecode" -s state.cbor -n 8 | "$1/qtok" -d
EOF
env -i /bin/sh pipe.sh "$U/bin" >text 2>err
is "$?$(cat err)" 0 "the pipeline with nothing in the environment"
[ "$(wc -c <text)" -gt 8 ]
ok $? "it finds the demo model and writes: $(head -n 1 text | cut -c1-40)"
ln -s "$U/bin/qtok" here
is "$(echo hi | env -i ./here -c)" "$(echo hi | "$U/bin/qtok" -c)" \
    "also through a symbolic link"

# -- and away again
install_ install >log
ok $? "make install again"
install_ uninstall >log
ok $? "make uninstall"
is "$(find "$stage" ! -type d)" "" "leaves no file"
is "$(find "$stage" -name '*qpipe*')" "" "and no folder of its own"
install_ uninstall >log
ok $? "make uninstall of nothing"
done_testing
