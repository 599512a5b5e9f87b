#!/bin/sh
# Installs missing packages that building and testing need (on Debian, as root or
# with sudo); on other systems prints the command that does.  Prints nothing if
# nothing is missing.
#   tests/deps.sh          needed packages
#   tests/deps.sh arm64    packages for tests/cli/arm64.t, which can do without:
#                          prints a failure, but does not fail
#   tests/deps.sh long     the same for tests/cli/python.t, json-schema.t, page.t,
#                          qwen-py.t, clients.t, gguf-fetch-clients.t and
#                          qbatch-cluster.t
#   tests/deps.sh static   packages that "make STATIC=1" needs (Debian)
#   tests/deps.sh audit    further packages for tests/faults/audit.sh
missing=
if [ "$1" = arm64 ]; then
	[ "$(uname -m)" != aarch64 ] && command -v apt-get >/dev/null 2>&1 ||
	    exit 0
	echo '#include <stdio.h>' |
	    ${ARM64_CC:-aarch64-linux-gnu-gcc} -E - >/dev/null 2>&1 ||
	    missing="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
	command -v qemu-aarch64-static >/dev/null 2>&1 ||
	    command -v qemu-aarch64 >/dev/null 2>&1 ||
	    missing="$missing qemu-user-static"
	[ -n "$missing" ] || exit 0
	sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo -n"
	export DEBIAN_FRONTEND=noninteractive
	echo "deps: installing $missing to test arm64" >&2
	# shellcheck disable=SC2086
	$sudo apt-get install -y -q --no-install-recommends $missing \
	    >/dev/null 2>&1 ||
	    echo "deps: could not; arm64 will not be tested" >&2
	exit 0
fi
if [ "$1" = static ]; then
	command -v apt-get >/dev/null 2>&1 || exit 0
	! command -v dpkg-source >/dev/null 2>&1 || exit 0
	sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo -n"
	echo "deps: installing dpkg-dev for static libraries" >&2
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q \
	    --no-install-recommends dpkg-dev >/dev/null 2>&1 ||
	    echo "deps: could not install dpkg-dev" >&2
	exit 0
fi
if [ "$1" = long ]; then
	command -v apt-get >/dev/null 2>&1 || exit 0
	uses='import cbor2, xxhash, zstandard, jsonschema, numpy'
	/usr/bin/python3 -c "$uses" 2>/dev/null ||
	    python3 -c "$uses" 2>/dev/null ||
	    missing="python3 python3-cbor2 python3-xxhash python3-zstandard \
python3-jsonschema python3-numpy"
	python3 -c 'import ensurepip' 2>/dev/null ||
	    missing="$missing python3-venv"
	command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
	python3 -c 'import yaml' 2>/dev/null ||
	    /usr/bin/python3 -c 'import yaml' 2>/dev/null ||
	    missing="$missing python3-yaml"
	command -v parallel >/dev/null 2>&1 || missing="$missing parallel"
	command -v slurmd >/dev/null 2>&1 && command -v sbatch >/dev/null 2>&1 ||
	    missing="$missing slurm-wlm"
	command -v munged >/dev/null 2>&1 || missing="$missing munge"
	[ -n "$missing" ] || exit 0
	sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo -n"
	export DEBIAN_FRONTEND=noninteractive
	echo "deps: installing $missing for long tests" >&2
	# shellcheck disable=SC2086
	$sudo apt-get install -y -q --no-install-recommends $missing \
	    >/dev/null 2>&1 ||
	    echo "deps: could not; what needs it is not tested" >&2
	exit 0
fi
# Print the command that installs packages, given by Debian's names, with the
# package manager of this system; the names alone where it is none of these.
command_for() {
	column=1 install=
	for row in "dnf 2 install" "zypper 2 install" "pacman 3 -S" "apk 4 add"
	do
		command -v "${row%% *}" >/dev/null 2>&1 || continue
		install="${row%% *} ${row##* } "
		column=${row#* } column=${column% *}
		break
	done
	for package; do
		awk -v p="$package" -v c=$column '$1 == p { p = $c }
		    END { print p }' <<-END
		libc6-dev glibc-devel glibc musl-dev
		libcbor-dev libcbor-devel libcbor libcbor-dev
		libzstd-dev libzstd-devel zstd zstd-dev
		libxxhash-dev xxhash-devel xxhash xxhash-dev
		libmicrohttpd-dev libmicrohttpd-devel libmicrohttpd libmicrohttpd-dev
		libedit-dev libedit-devel libedit libedit-dev
		libunistring-dev libunistring-devel libunistring libunistring-dev
		libcurl4-openssl-dev libcurl-devel curl curl-dev
		libssl-dev openssl-devel openssl openssl-dev
		libjpeg-dev libjpeg-turbo-devel libjpeg-turbo libjpeg-turbo-dev
		libpng-dev libpng-devel libpng libpng-dev
		libwebp-dev libwebp-devel libwebp libwebp-dev
		libgif-dev giflib-devel giflib giflib-dev
		pkgconf pkgconf-pkg-config pkgconf pkgconf
		python3 python3 python python3
		END
	done | { printf '%s' "$install"; paste -s -d ' ' -; }
}
have_header() {
	echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1
}
# shellcheck disable=SC2086 # CC may have words, as in "ccache cc"
command -v ${CC:-cc} >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
have_header cbor.h || missing="$missing libcbor-dev"
have_header zstd.h || missing="$missing libzstd-dev"
have_header xxhash.h || missing="$missing libxxhash-dev"
have_header microhttpd.h || missing="$missing libmicrohttpd-dev"
command -v mandoc >/dev/null 2>&1 || missing="$missing mandoc"
command -v zstd >/dev/null 2>&1 || missing="$missing zstd"
command -v jq >/dev/null 2>&1 || missing="$missing jq"
command -v curl >/dev/null 2>&1 || missing="$missing curl"
# hubs for gguf-fetch*.t
command -v openssl >/dev/null 2>&1 || missing="$missing openssl"
command -v python3 >/dev/null 2>&1 || missing="$missing python3"
command -v pkg-config >/dev/null 2>&1 || missing="$missing pkgconf"
# qchat, qtok, qbench, gguf-fetch and qimage do without them, if they must
without() {	# PACKAGE, and what is not there then
	if ! command -v apt-get >/dev/null 2>&1; then
		echo "deps: $2 without: $(command_for "$1")" >&2
		return
	fi
	sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo -n"
	echo "deps: installing $1" >&2
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q \
	    --no-install-recommends "$1" >/dev/null 2>&1 ||
	    echo "deps: could not; $2" >&2
}
have_header histedit.h || without libedit-dev "qchat will not edit lines"
have_header uninorm.h || without libunistring-dev "qtok will not know --nfc"
have_header curl/curl.h ||
    without libcurl4-openssl-dev \
	"qbench will not know --url, and gguf-fetch will not fetch"
have_header openssl/evp.h || without libssl-dev "gguf-fetch will not fetch"
# any clang from 19 on compiles the kernels for cards; others do without
has_clang() {
	for c in clang-19 clang-20 clang-21 clang-22 clang; do
		version=$($c -dumpversion 2>/dev/null) &&
		    [ "${version%%.*}" -ge 19 ] && return 0
	done
	return 1
}
if ! has_clang && command -v apt-cache >/dev/null 2>&1 &&
    [ -n "$(apt-cache search --names-only '^clang-19$' 2>/dev/null)" ]; then
	without clang-19 "the tools will not compute on cards"
fi
have_header jpeglib.h || without libjpeg-dev "qimage will not read JPEG"
have_header png.h || without libpng-dev "qimage will not read or write PNG"
have_header webp/demux.h || without libwebp-dev "qimage will not read WebP"
have_header gif_lib.h || without libgif-dev "qimage will not read GIF"
if [ "$1" = audit ]; then
	command -v strace >/dev/null 2>&1 || missing="$missing strace"
	command -v valgrind >/dev/null 2>&1 || missing="$missing valgrind"
fi
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	# shellcheck disable=SC2086
	echo "deps: please install what is missing: $(command_for $missing)" >&2
	exit 1
fi
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
echo "deps: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$sudo apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1 ||
    { $sudo apt-get update -q >/dev/null && \
      $sudo apt-get install -y -q --no-install-recommends $missing >/dev/null; } ||
    { echo "deps: could not install:$missing" >&2; exit 1; }
