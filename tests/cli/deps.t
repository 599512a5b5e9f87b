#!/bin/sh
# tests/deps.sh on systems other than Debian prints the command that installs
# the missing packages, by that system's package names.
. "$TOP/tests/cli/tap.sh"
mkdir plain
for t in awk cat id paste printf sh; do
	ln -s "$(command -v $t)" plain/$t
done
missing() {	# MANAGER: what deps.sh says where it is the package manager
	rm -rf with
	cp -R plain with
	[ "$1" = none ] || printf '#!/bin/sh\n' >"with/$1"
	chmod +x with/*
	PATH=$PWD/with CC=no-compiler sh "$TOP/tests/deps.sh" 2>&1 >/dev/null |
	    sed -n 's/^deps: please install what is missing: //p'
}
is "$(missing dnf)" "dnf install gcc glibc-devel libcbor-devel libzstd-devel \
xxhash-devel libmicrohttpd-devel mandoc zstd jq curl openssl python3 pkgconf-pkg-config" "Fedora"
is "$(missing zypper | cut -d ' ' -f 1-5)" \
    "zypper install gcc glibc-devel libcbor-devel" "openSUSE"
is "$(missing pacman)" "pacman -S gcc glibc libcbor zstd xxhash \
libmicrohttpd mandoc zstd jq curl openssl python pkgconf" "Arch"
is "$(missing apk)" "apk add gcc musl-dev libcbor-dev zstd-dev xxhash-dev \
libmicrohttpd-dev mandoc zstd jq curl openssl python3 pkgconf" "Alpine"
is "$(missing none)" "gcc libc6-dev libcbor-dev libzstd-dev libxxhash-dev \
libmicrohttpd-dev mandoc zstd jq curl openssl python3 pkgconf" "others: Debian's names"
rm -rf with; cp -R plain with
PATH=$PWD/with CC=no-compiler sh "$TOP/tests/deps.sh" >out 2>err
is "$?" 1 "status 1"
is "$(grep -c ' without: ' err)" 8 "what is done without is named: $(head -n 1 err)"
done_testing
