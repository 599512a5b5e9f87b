#!/bin/sh
# make install into a staging folder, the tools run from there, and make
# uninstall.
. "$TOP/tests/cli/tap.sh"
if [ -n "$QPIPE_SAN" ]; then
	skip "install" "nobody installs a sanitizer build"
	done_testing
fi
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
stage="$PWD/a stage"
U="$stage/opt/a prefix"
install_() {
	make -C "$TOP" --no-print-directory B="$B" BIN="$BIN" \
	    DESTDIR="$stage" PREFIX="/opt/a prefix" "$@" 2>&1
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
grep -rl -e "$stage" "$U" >staged
[ ! -s staged ]
ok $? "no file knows the staging folder"
cat staged >&2
is "$(cd "$stage" && find . ! -type d ! -path './opt/a prefix/*')" "" "nothing outside PREFIX"
is "$(find "$U" -type f ! -perm -444)" "" "everybody may read it"

# -- the documents lead somewhere, and name whose work is in the tools
doc=$U/share/doc/qpipe
sed -n 's/[^(]*](\([^)#]*\)[^)]*)/\1\n/gp' "$doc/README.md" |
    grep -v -e '^$' -e '^http' -e '[^A-Za-z0-9/._-]' | sort -u >links
while read -r link; do
	[ -e "$doc/$link" ] || echo "$link"
done <links >dead
is "$(cat dead)" "" "README.md's $(wc -l <links) links lead to what is installed"
is "$(grep -l 'MIT License' -r "$doc" | wc -l)" 1 "yyjson's licence is among them"
[ -s "$doc/NEWS.md" ]
ok $? "what is new, too"

# -- small, and hardened
symbols() {
	nm "$U/bin/qtok" 2>/dev/null | grep -c .
}
is "$(symbols)" 0 "the tools have no symbols"
if [ "$(uname)" = Linux ] && command -v readelf >/dev/null 2>&1; then
	for t in $tools; do
		readelf -hldW --dyn-syms "$U/bin/$t" >elf
		grep -q 'Type: *DYN' elf && grep -q GNU_RELRO elf &&
		    grep -q BIND_NOW elf && grep -q __stack_chk_fail elf &&
		    grep -q _chk@ elf || echo "$t"
	done >weak
	is "$(cat weak)" "" "each is a PIE with RELRO, canaries and FORTIFY"
else
	skip "hardening" "no readelf"
fi

# -- the tools, without an environment
cat >pipe.sh <<'EOF'
echo hi | "$1/qtok" | "$1/qprefill" -o state.cbor |
    "$1/qdecode" -s state.cbor -n 8 | "$1/qtok" -d
EOF
env -i /bin/sh pipe.sh "$U/bin" >text 2>err
is "$? $(grep -cv '^qtok: no model named' err)" "0 0" \
    "the pipeline with nothing in the environment"
[ "$(wc -c <text)" -gt 8 ]
ok $? "it finds the demo model and writes: $(head -n 1 text | cut -c1-40)"
ln -s "$U/bin/qtok" here
is "$(echo hi | env -i ./here -c)" "$(echo hi | "$U/bin/qtok" -c)" \
    "also through a symbolic link"

# -- a unit and a library whose folder has a blank in its name
is "$(sed -n 's/^ExecStart=//p' "$U/lib/systemd/system/qserve.service")" \
    '"/opt/a prefix/bin/qserve" $QSERVE_OPTIONS' "the unit quotes it"
if command -v pkg-config >/dev/null 2>&1; then
	flags=$(PKG_CONFIG_LIBDIR=$U/lib/pkgconfig pkg-config \
	    --define-variable=prefix="$U" --cflags --libs libqwentext)
	eval "${CC:-cc} -o prog \"$TOP/examples/generate.c\" $flags"
	ok $? "a program is built with: $flags"
else
	skip "a program is built" "no pkg-config"
fi

# -- and away again
install_ install-debug >log
ok $? "make install-debug over it"
[ "$(symbols)" -gt 100 ]
ok $? "the tools have symbols now"
install_ uninstall >log
ok $? "make uninstall"
is "$(find "$stage" ! -type d)" "" "leaves no file"
is "$(find "$stage" -name '*qpipe*')" "" "and no folder of its own"
install_ uninstall >log
ok $? "make uninstall of nothing"
done_testing
