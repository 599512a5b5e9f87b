#!/bin/sh
# Make the static libraries that "make STATIC=1" links, in a folder with include/,
# lib/, locale/ and licenses/, from Debian's packages, without changing the system:
#   share/dist/libraries.sh FOLDER MACHINE CC AR
# MACHINE is that of the compiler, as x86_64-linux-gnu.  Most libraries are in
# packages as static ones, and these are unpacked.  Three are compiled from source
# packages: libcbor, of which Debian has no static library; libmicrohttpd and libcurl,
# whose static libraries need others that exist only as shared ones.
# What is fetched is kept in FOLDER/../packages.
#   LIBCBOR_SRC=FILE   libcbor's source, in place of fetching it
set -eu
LC_ALL=C; export LC_ALL
unset CDPATH MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES CPPFLAGS LDFLAGS LIBS
umask 022
folder=$1 machine=$2 CC=$3 AR=$4
export CC AR

# libcbor is taken from this release of Debian wherever the build runs, so that the
# archives are the same; the checksum is that of libcbor's own release.
cbor_release=trixie cbor=libcbor-0.10.2
cbor_sum=e75f712215d7b7e5c89ef322a09b701f7159f028b8b48978865725f00f79875b

packages="libbsd-dev libedit-dev libgif-dev libjpeg62-turbo-dev libmd-dev
    libncurses-dev libpng-dev libssl-dev libtinfo6 libunistring-dev libwebp-dev
    libxxhash-dev libzstd-dev zlib1g-dev"
archives="libbsd libcrypto libedit libgif libjpeg libmd libpng libssl libtinfo
    libunistring libwebp libwebpdemux libxxhash libz libzstd"

fail() {
	echo "static libraries: $*" >&2
	exit 1
}

case $machine in
x86_64-*) arch=amd64 ;;
aarch64-*) arch=arm64 ;;
*) fail "$machine: only x86_64 and aarch64 are known" ;;
esac
for tool in apt-get dpkg-deb dpkg-source; do
	command -v $tool >/dev/null 2>&1 ||
	    fail "no $tool: STATIC=1 takes the libraries from Debian's packages;" \
		"build on Debian, with dpkg-dev, or in a container of it"
done
rm -rf "$folder"
mkdir -p "$folder/include" "$folder/lib" "$folder/licenses" "$folder/../packages"
folder=$(cd "$folder" && pwd)
packages_at=$(cd "$folder/../packages" && pwd)
# configure takes no path with blanks
work=$(mktemp -d)
ln -s "$folder" "$work/to"
log=$folder/log
: >"$log"
trap 'rc=$?
    rm -rf "$work"
    [ $rc = 0 ] || { echo "static libraries: it failed; the end of $log:"
    tail -n 20 "$log"; } >&2' EXIT

# -- packages, by lists of our own: those of the system may lack arm64 and sources
apt() {
	apt_at=$1
	shift
	apt-get -q -o Dir::Etc::SourceList="$apt_at/sources.list" \
	    -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$apt_at/lists" \
	    -o Dir::Cache="$apt_at/cache" -o APT::Architectures::=amd64 \
	    -o APT::Architectures::=arm64 -o APT::Sandbox::User= "$@" >>"$log" 2>&1
}

# lists FOLDER: fetch the lists that sources.list there names, if they are not there
lists() {
	[ ! -e "$1/complete" ] || return 0
	[ -s "$1/sources.list" ] ||
	    fail "apt-get knows no archive of Debian: build on Debian"
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
	apt "$1" -o APT::Update::Error-Mode=any update ||
	    fail "apt-get update failed, see $log"
	: >"$1/complete"
}

key=/usr/share/keyrings/debian-archive-keyring.gpg
archive() {
	apt-get indextargets "Created-By: Packages" "Origin: Debian" --format "$1" |
	    sort -u
}
own=$packages_at/own
mkdir -p "$own" "$packages_at/cbor"
where='$(REPO_URI) $(RELEASE) $(COMPONENT)'
{
	archive "deb [arch=amd64,arm64 signed-by=$key] $where"
	archive "deb-src [signed-by=$key] $where"
} >"$own/sources.list"
lists "$own"

cd "$packages_at"
echo "static libraries: unpacking Debian's packages for $arch" >&2
unpack() {
	ls "$1"_*_$arch.deb >/dev/null 2>&1 || apt "$own" download "$1:$arch" ||
	    fail "cannot fetch $1:$arch, see $log"
	dpkg-deb -x "$1"_*_$arch.deb "$2"
}
# The C library with its security updates, which cross-compilers come without; and
# its locale C.UTF-8, which qchat needs and not all distributions have.
for p in libc-bin libc6-dev $packages; do
	case $p in
	libc*-*) unpack "$p" "$work/libc" ;;
	*) unpack "$p" "$work/deb" ;;
	esac
	[ $p != libc-bin ] || continue
	dpkg-deb -f "${p}"_*_$arch.deb Package Version Source >"$work/about"
	awk '{ v[$1] = $2; if ($3 ~ /^\(/) v["Version:"] = substr($3, 2, length($3) - 2) }
	    END { print ("Source:" in v) ? v["Source:"] : v["Package:"], v["Version:"] }' \
	    "$work/about" >>"$work/versions"
	for license in "$work"/*/usr/share/doc/$p/copyright; do
		[ ! -f "$license" ] || cp "$license" "$folder/licenses/${p%-dev}"
	done
done
mkdir "$folder/locale"
cp -R "$work/libc/usr/lib/locale/C.utf8" "$folder/locale"
at=$work/libc/usr/lib/$machine
# in a folder of its own: what configure links must not find it
mkdir "$folder/lib/libc"
cp "$at"/*crt*.o "$at/libc.a" "$folder/lib/libc"
# on x86-64, libm.a is a script that names this
libm=$(ls "$at"/libm-*.a 2>/dev/null) || libm=$at/libm.a
cp "$libm" "$folder/lib/libc/libm.a"
for a in $archives; do
	cp "$work/deb/usr/lib/$machine/$a.a" "$folder/lib"
done
cp -R "$work/deb/usr/include/." "$folder/include"
[ ! -d "$folder/include/$machine" ] || {
	cp -R "$folder/include/$machine/." "$folder/include"
	rm -r "$folder/include/$machine"
}

# -- what is compiled here
source_of() {
	ls "$1"_*.dsc >/dev/null 2>&1 || apt "$own" source --download-only "$1" ||
	    fail "cannot fetch the source of $1, see $log"
	dpkg-source --no-check -x "$1"_*.dsc "$work/$1" >>"$log" 2>&1
	# patches have changed what configure is made of, not what it does
	find "$work/$1" -exec touch -d @0 {} +
	sed -n "s/^Version: /$1 /p" "$1"_*.dsc | head -n 1 >>"$work/versions"
	cp "$work/$1/debian/copyright" "$folder/licenses/$2"
}
CFLAGS="-O2 -fPIC -fstack-protector-strong -D_FORTIFY_SOURCE=2 \
-ffunction-sections"
export CFLAGS

echo "static libraries: compiling libcbor" >&2
tar=${LIBCBOR_SRC:-$packages_at/cbor/libcbor_${cbor#*-}.orig.tar.gz}
if [ ! -e "$tar" ]; then
	uri=$(archive '$(REPO_URI) $(COMPONENT) $(LABEL)' |
	    awk '$2 == "main" && $3 == "Debian" { print $1; exit }')
	echo "deb-src [signed-by=$key] $uri $cbor_release main" >cbor/sources.list
	lists "$packages_at/cbor"
	# apt-get may fail for another part of the source package
	(cd cbor && apt "$packages_at/cbor" source --download-only --tar-only \
	    libcbor) || [ -e "$tar" ] ||
	    fail "cannot fetch $cbor.tar.gz: set LIBCBOR_SRC to a copy of it"
fi
echo "$cbor_sum  $tar" | sha256sum -c >/dev/null 2>&1 ||
    fail "$tar: not the source of $cbor: its SHA-256 is another"
tar -C "$work" -xzf "$tar"
cd "$work/libcbor-"*/src
cat >cbor/cbor_export.h <<-'END'
	#define CBOR_EXPORT
	#define CBOR_NO_EXPORT
END
sed -e 's/\${CBOR_VERSION_\(MAJOR\)}/0/; s/\${CBOR_VERSION_\(MINOR\)}/10/' \
    -e 's/\${CBOR_VERSION_PATCH}/2/; s/\${CBOR_BUFFER_GROWTH}/2/' \
    -e 's/\${CBOR_MAX_STACK_SIZE}/2048/; s/\${CBOR_RESTRICT_SPECIFIER}/restrict/' \
    -e 's/\${CBOR_INLINE_SPECIFIER}//' \
    -e 's/#cmakedefine01 CBOR_PRETTY_PRINTER/#define CBOR_PRETTY_PRINTER 0/' \
    cbor/configuration.h.in >cbor/configuration.h
for c in *.c cbor/*.c cbor/internal/*.c; do
	# shellcheck disable=SC2086
	$CC $CFLAGS -DEIGHT_BYTE_SIZE_T -I. -c -o "$(echo "${c%.c}" | tr / _).o" "$c"
done
$AR rcsD "$folder/lib/libcbor.a" ./*.o
mkdir "$folder/include/cbor"
cp cbor.h "$folder/include"
cp cbor/*.h "$folder/include/cbor"
cp ../LICENSE.md "$folder/licenses/libcbor"
echo "libcbor ${cbor#*-}" >>"$work/versions"

# configured NAME ARGUMENTS...: configure a source package
configured() {
	(cd "$work/$1" && shift && ./configure --host="$machine" --disable-shared \
	    --enable-static --disable-dependency-tracking "$@") >>"$log" 2>&1
}
cd "$packages_at"
jobs=$(getconf _NPROCESSORS_ONLN)
echo "static libraries: compiling libmicrohttpd" >&2
source_of libmicrohttpd libmicrohttpd
configured libmicrohttpd --disable-https --disable-doc --disable-examples \
    --disable-curl --disable-nls
make -C "$work/libmicrohttpd/src/microhttpd" -j "$jobs" libmicrohttpd.la >>"$log" 2>&1
cp "$work/libmicrohttpd/src/microhttpd/.libs/libmicrohttpd.a" "$folder/lib"
cp "$work/libmicrohttpd/src/include/microhttpd.h" "$folder/include"

# HTTP and HTTPS.  Where certificates are is found at run time (lib/tool/ca.c).
echo "static libraries: compiling libcurl" >&2
source_of curl libcurl
CPPFLAGS="-I$work/to/include" LDFLAGS="-L$work/to/lib" LIBS="-ldl -pthread" \
    PKG_CONFIG=false configured curl --with-openssl \
    --without-ca-bundle --without-ca-path --without-zlib --without-brotli \
    --without-zstd --without-libpsl --without-libidn2 --without-nghttp2 \
    --without-libssh2 --without-librtmp --without-gssapi --disable-ldap \
    --disable-ldaps --disable-ftp --disable-file --disable-rtsp --disable-dict \
    --disable-telnet --disable-tftp --disable-pop3 --disable-imap --disable-smb \
    --disable-smtp --disable-gopher --disable-mqtt --disable-manual \
    --disable-ntlm --disable-tls-srp --disable-netrc --disable-alt-svc \
    --disable-hsts --disable-libcurl-option --enable-threaded-resolver
make -C "$work/curl/lib" -j "$jobs" libcurl.la >>"$log" 2>&1
cp "$work/curl/lib/.libs/libcurl.a" "$folder/lib"
cp -R "$work/curl/include/curl" "$folder/include"

# -- what the compiler adds; Debian's cross-compilers name their source with "cross"
p=$(dpkg-query -S "$(realpath "$($CC -print-file-name=libgcc.a)")" 2>/dev/null |
    sed 's/:.*//; q')
[ -n "$p" ] || fail "$CC: no package has its libgcc.a"
major=$($CC -dumpversion)
echo "gcc-$major $(dpkg-query -W -f '${Version}' "$p" | sed 's/cross.*//')" \
    >>"$work/versions"
cp "/usr/share/doc/gcc-$major-base/copyright" "$folder/licenses/libgcc"
sort -u "$work/versions" >"$folder/licenses/VERSIONS"
: >"$folder/complete"
