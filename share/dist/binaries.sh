#!/bin/sh
# Make an archive of static tools for each machine:
#   share/dist/binaries.sh FOLDER VERSION COMPILER...
# COMPILER is gcc or, to cross-compile, aarch64-linux-gnu-gcc.  In a clone the tools
# are built from the source archive of the last commit, so that they name it and the
# same commit gives the same bytes; elsewhere, from this folder.
#   LIBRARIES=FOLDER   link these libraries (one COMPILER only)
set -eu
LC_ALL=C TZ=UTC0 XZ_DEFAULTS='' XZ_OPT=''
export LC_ALL TZ XZ_DEFAULTS XZ_OPT
unset CDPATH MFLAGS MAKEFLAGS MAKELEVEL MAKEOVERRIDES CPPFLAGS LDFLAGS CFLAGS
umask 022
top=$PWD
mkdir -p "$1"
folder=$(cd "$1" && pwd) version=$2
shift 2
# make takes no path with blanks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source=$top
if [ -e .git ]; then
	tar -C "$work" -xf "$(sh share/dist/source.sh "$folder" "$version")"
	source=$work/qpipe-$version
fi
# the commit's time, which its files have in the source archive
time=@$(stat -c %Y "$source/.commit")

for compiler; do
	machine=$($compiler -dumpmachine)
	arch=${machine%%-*}
	name=qpipe-$version-linux-$arch
	libraries=${LIBRARIES:-$top/build/libraries/$machine}
	echo "make dist-bin: building the tools for $arch" >&2
	[ -n "${LIBRARIES:-}" ] || make -s --no-print-directory STATIC=1 \
	    CC="$compiler" "build/libraries/$machine/complete"
	ln -s "$libraries" "$work/libraries-$arch"
	make -s -C "$source" --no-print-directory \
	    -j "$(getconf _NPROCESSORS_ONLN)" STATIC=1 CC="$compiler" CFLAGS=-O2 \
	    LIBRARIES="$work/libraries-$arch" B="$work/$arch" PREFIX=/usr/local \
	    DESTDIR="$work/stage-$arch" install >"$work/log" 2>&1 || {
		cat "$work/log" >&2
		exit 1
	}
	mv "$work/stage-$arch/usr/local" "$work/$name"
	doc=$work/$name/share/doc/qpipe
	cp -R "$libraries/licenses" "$doc/libraries"
	cp "$source/share/dist/libraries.md" "$doc/libraries/README.md"
	cp "$source/LICENSE" "$work/$name"
	sed "s/@VERSION@/$version/; s/@ARCH@/$arch/" "$source/share/dist/README" \
	    >"$work/$name/README"
	tar -C "$work" --format=ustar --sort=name --owner=0 --group=0 \
	    --numeric-owner --mode=u=rwX,go=rX --mtime="$time" -cf - "$name" |
	    xz -T1 -9 >"$work/$name.tar.xz"
	mv "$work/$name.tar.xz" "$folder"
	echo "$folder/$name.tar.xz"
done
