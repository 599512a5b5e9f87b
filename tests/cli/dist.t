#!/bin/sh
# A release: its number is the same everywhere, and make dist makes the same source
# archive of the same commit wherever it runs.  In make check-long the archive is
# built and tested; dist-bin.t has the archives of tools.
. "$TOP/tests/cli/tap.sh"
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
version=$(sed -n 's/.*define QWEN_VERSION "\(.*\)"/\1/p' "$TOP/lib/qwen/base.h")
is "$(sed -n '1s/^qpipe (\(.*\)) .*/\1/p' "$TOP/debian/changelog")" "$version" \
    "debian/changelog has the version of lib/qwen/base.h"
for f in qwen.py pyproject.toml; do
	is "$(sed -n 's/^_*version_* = "\(.*\)"/\1/p' "$TOP/python/$f")" \
	    "$version" "python/$f"
done
# what comes after the last release has no date yet
is "$(sed -n 's/^## \([^ ]*\), 20[0-9-]*$/\1/p' "$TOP/NEWS.md" | head -n 1)" \
    "$version" "the last dated heading of NEWS.md"
is "$(cut -d ' ' -f 2 <<-END | uniq
	$("$BIN/qtok" -V)
END
)" "$version" "qtok --version"

if [ ! -e "$TOP/.git" ] || ! git -C "$TOP" rev-parse -q HEAD >commit 2>&1; then
	skip "make dist" "no clone of git: an archive is made of a commit"
	done_testing
fi
commit=$(git -C "$TOP" rev-parse --short=10 HEAD)
# another clone, with other ways of git, make, gzip and the shell
git clone -q "$TOP" "a clone" 2>err
ok $? "a clone" || cat err >&2
git -C "a clone" config core.abbrev 20
git -C "a clone" config tar.umask user
(umask 077; cd "a clone" && TZ=Asia/Tokyo LC_ALL=C.UTF-8 GZIP=-1 make -s dist) >one 2>err
is "$?, $(cat one)" "0, build/dist/qpipe-$version.tar.gz" "make dist prints its path"
cp "a clone/build/dist/qpipe-$version.tar.gz" one.tar.gz
(cd "a clone" && rm -r build && touch lib/qwen.h && make -s dist) >two 2>&1
cmp one.tar.gz "a clone/build/dist/qpipe-$version.tar.gz"
ok $? "the same commit gives the same bytes"
tar -xf one.tar.gz
is "$(ls)" "$(printf '%s\n' "a clone" commit err one one.tar.gz \
    "qpipe-$version" two)" "one folder, qpipe-$version"
(cd "a clone" && git ls-files | LC_ALL=C sort) >want
(cd "qpipe-$version" && find . ! -type d | sed 's/^..//' | LC_ALL=C sort) >got
cmp want got
ok $? "with all files: $(wc -l <got)"
is "$(cat "qpipe-$version/.commit")" "$commit" "and the commit, ten digits of it"
echo "an edit" >>"a clone/NEWS.md"
(cd "a clone" && make -s dist) >out 2>err
is "$? $(cat err)" \
    "0 make dist: note: changes that are not committed are not in it" "an edit is left out"
cmp one.tar.gz "a clone/build/dist/qpipe-$version.tar.gz"
ok $? "the bytes are those of the commit"
refused 1 "make dist elsewhere" sh -c \
    "cd 'qpipe-$version' && sh share/dist/source.sh build/dist $version"

if [ -z "$QPIPE_LONG" ]; then
	skip "the archive builds and passes its tests" "make check-long does this"
	done_testing
fi
cd "qpipe-$version" || exit 1
unset B BIN TOP QWEN_MODEL QPIPE_LONG LOG
make -j2 all tests >../log 2>&1
ok $? "it builds" || tail ../log >&2
is "$(bin/qtok -V | cut -d, -f 1)" "qtok $version (commit $commit" \
    "its tools name the commit"
sh tests/run.sh >../log 2>&1
ok $? "all tests pass from it: $(tail -n 1 ../log)" || grep -A 20 FAILED ../log >&2
done_testing
