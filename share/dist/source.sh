#!/bin/sh
# Make the source archive of a release from the last commit:
#   share/dist/source.sh FOLDER VERSION
# It prints the archive's path.  The same commit gives the same bytes at any time, in
# any folder and with any umask, locale and configuration of git.
set -eu
LC_ALL=C TZ=UTC0
export LC_ALL TZ
unset GZIP
umask 022
name=qpipe-$2
fail() {
	echo "make dist: $*" >&2
	exit 1
}
[ -e .git ] || fail "this is not a clone: the archive is made of a commit"
[ -z "$(git status --porcelain --untracked-files=no)" ] ||
    echo "make dist: note: changes that are not committed are not in it" >&2
mkdir -p "$1"
draft=$1/.$name.$$
trap 'rm -rf "$draft"' EXIT
mkdir "$draft"
# .commit gets the ten digits that --version prints; export-subst writes it
git -c core.abbrev=10 -c core.autocrlf=false -c core.eol=lf -c tar.umask=022 \
    archive --format=tar --prefix="$name/" -o "$draft/tar" HEAD
gzip -9n <"$draft/tar" >"$draft/gz"
mv "$draft/gz" "$1/$name.tar.gz"
echo "$1/$name.tar.gz"
