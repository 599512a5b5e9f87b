#!/bin/sh
# Install what building and testing need and is missing (Debian, as root or
# with sudo); say what to install elsewhere.  Quiet when nothing is missing.
missing=
have_header() {
	echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1
}
command -v "${CC:-cc}" >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
have_header cbor.h || missing="$missing libcbor-dev"
have_header zstd.h || missing="$missing libzstd-dev"
have_header xxhash.h || missing="$missing libxxhash-dev"
command -v mandoc >/dev/null 2>&1 || missing="$missing mandoc"
command -v zstd >/dev/null 2>&1 || missing="$missing zstd"
command -v jq >/dev/null 2>&1 || missing="$missing jq"
command -v pkg-config >/dev/null 2>&1 || missing="$missing pkgconf"
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
	echo "deps: please install:$missing" >&2
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
