#!/bin/sh
# make dist-bin: the tools of the archives in a folder that has nothing else, as their
# root, with /proc; those for arm64 under qemu-user.  Part of make check-long;
# QPIPE_DIST=FOLDER tests archives that are there.
. "$TOP/tests/cli/tap.sh"
if [ -z "$QPIPE_LONG$QPIPE_DIST" ]; then
	skip "the archives of tools" "make check-long makes and tests them"
	done_testing
fi
needs "the archives of tools" curl jq openssl python3 unshare
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES QPIPE_LONG
version=$("$BIN/qtok" -V | cut -d ' ' -f 2)
if [ -z "$QPIPE_DIST" ]; then
	QPIPE_DIST=$TOP/build/dist
	(cd "$TOP" && make -s dist-bin) >out 2>err
	is "$?, $(grep -c "^$QPIPE_DIST/qpipe-$version-linux-.*\.tar\.xz$" out)" \
	    "0, 2" "make dist-bin makes two archives" || cat err >&2
fi
. "$TOP/tests/cli/hubs.sh"
start_hubs
unset CURL_CA_BUNDLE
mkdir hubs/repos/org
repo org/Tiny-GGUF
gguf "$R/Tiny-Q8_0.gguf" 80000 1

# inside COMMAND...: a command of the archive, with root as its root
inside() {
	# shellcheck disable=SC2016
	env -i $env unshare -rm sh -c 'mount --rbind /proc root/proc &&
	    exec chroot root "$@"' sh $qemu "$@"
}

# What is written with the tools of $tools, in the order of the pipeline.
pipeline() {
	echo hi | $1 $tools/qtok -q | $1 $tools/qprefill -q -o "$2/state.cbor" |
	    $1 $tools/qdecode -q -s "$2/state.cbor" -n 40 | $1 $tools/qtok -q -d
}

# unpack ARCH: the archive's folders in root; sets $name
unpack() {
	rm -rf root
	mkdir -p root/proc root/tmp root/etc/pki/tls/certs
	name=qpipe-$version-linux-$1
	xz -dc "$QPIPE_DIST/$name.tar.xz" | tar -C root -xf - &&
	    mv "root/$name"/* root
	ok $? "$name.tar.xz has one folder"
	is "$(ls "$TOP"/cmd/*.c | sed 's/.*\/\(.*\)\.c/\1/')" "$(ls root/bin)" \
	    "with every tool"
	ls root/share/doc/qpipe/libraries >has
	cut -d ' ' -f 1 root/share/doc/qpipe/libraries/VERSIONS >libraries
	[ "$(grep -c . libraries)" = 18 ] && [ "$(grep -c . has)" = 20 ]
	ok $? "and the licence of each library"
	# Fedora looks names up by systemd, and has its certificates here
	echo 'hosts: resolve [!UNAVAIL=return] files dns' >root/etc/nsswitch.conf
	echo '127.0.0.1 localhost' >root/etc/hosts
	cp hubs/ca.pem root/etc/pki/tls/certs/ca-bundle.crt
}

# What the tools of this machine write: text, logits, states.
try_bits() {
	tools=$BIN
	pipeline "" . >want 2>err
	tools=/bin
	pipeline inside /tmp >got 2>err
	is "$(cat got err)" "$(cat want)" "the pipeline writes what this build writes"
	cmp state.cbor root/tmp/state.cbor
	ok $? "the state has the same bytes"
	for f in qwen35moe-ud qwen3; do
		model $f
		cp "$MODEL" root/tmp
		for numerics in 1 3 4; do
			seq 1 30 | qprefill -m "$MODEL" --numerics $numerics \
			    --logits all -f raw >want
			seq 1 30 | inside /bin/qprefill -m /tmp/$f.gguf \
			    --numerics $numerics --logits all -f raw >got
			cmp want got && [ -s got ]
			ok $? "$f, numerics $numerics: logits have the same bits"
		done
	done
}

# A question over HTTP, to a server of the archive.
try_server() {
	inside /bin/qserve --listen 127.0.0.1:0 >served 2>said &
	server=$!
	for i in $(seq 300); do
		url=$(sed -n 's/.*\(http:[^ ]*[0-9]\).*/\1/p' said | head -n 1)
		[ -z "$url" ] || break
		sleep 0.1
	done
	echo '{"prompt": "And God said", "max_tokens": 8, "temperature": 0}' |
	    curl -sS --max-time 120 "$url/v1/completions" -d @- >answer
	printf 'And God said' | qtok | qdecode -n 8 --temp 0 | qtok -d >want
	is "$(jq -r '.choices[0].text' answer)" "$(cat want)" "qserve answers" ||
	    cat said answer >&2
	kill $server
	wait $server 2>/dev/null
}

# Lines in UTF-8 at a terminal, without a locale of the system.
try_chat() {
	# shellcheck disable=SC2016
	run='exec env -i TERM=xterm HOME=/tmp unshare -rm sh -c "$@"'
	# shellcheck disable=SC2016
	python3 "$TOP/tests/cli/terminal.py" '[["", "> "],
	    ["Gr\u00fc\u00df Gott \u4e2d\n", "> "], ["\u0004", ""]]' \
	    sh -c "$run" sh 'mount --rbind /proc root/proc &&
	    exec chroot root "$@"' sh $qemu /bin/qchat -q -n 4 >out 2>err
	ok $? "qchat at a terminal" || cat out err >&2
	is "$(tail -n 1 root/tmp/.qchat_history)" 'Grüß\040Gott\040中' \
	    "characters are UTF-8"
}

# A file by HTTPS, from a name in /etc/hosts, with the CA of Fedora's file.
try_fetch() {
	env="HOME=/tmp HF_ENDPOINT=$HUB"
	inside /bin/gguf-fetch -q org/Tiny-GGUF:Q8_0 >out 2>err
	f=$(cat out)
	is "$(cat err)" "" "gguf-fetch is silent"
	cmp "root$f" "$R/Tiny-Q8_0.gguf"
	ok $? "and fetches by HTTPS"
	rm -r root/tmp/.cache
	mv root/etc/pki/tls/certs/ca-bundle.crt root/tmp/ca
	inside /bin/gguf-fetch -q org/Tiny-GGUF:Q8_0 >out 2>err
	is "$?, $(grep -c 'SSL_CERT_FILE' err)" "1, 1" \
	    "without certificates it says what to set"
	env="$env SSL_CERT_FILE=/tmp/ca"
	inside /bin/gguf-fetch -q org/Tiny-GGUF:Q8_0 >out 2>err
	is "$?, $(cat err)" "0, " "SSL_CERT_FILE is used"
	env=
}

env=
if ! mkdir -p root/proc || ! unshare -rm sh -c \
    'mount --rbind /proc root/proc' 2>why; then
	skip "the archives of tools" "no user namespaces: $(cat why)"
	done_testing
fi
qemu=
if [ "$(uname -m)" = x86_64 ]; then
	unpack x86_64
	try_bits
	try_server
	try_chat
	try_fetch
fi
if [ "$(uname -m)" = aarch64 ]; then
	unpack aarch64
elif command -v qemu-aarch64-static >/dev/null 2>&1; then
	unpack aarch64
	cp "$(command -v qemu-aarch64-static)" root/qemu
	qemu=/qemu
	# what qserve starts runs without qemu, unless the kernel starts that
	mv root/bin/qengine root/bin/engine
	cat >start.c <<-END
		#include <unistd.h>
		int
		main(int argc, char *argv[])
		{
			char *args[64] = { "qemu", "/bin/engine" };
			for (int i = 1; i < argc && i < 60; i++)
				args[i + 1] = argv[i];
			return execv("/qemu", args);
		}
	END
	cc -static -o root/bin/qengine start.c
	ok $? "a program that starts qengine in qemu"
else
	skip "the tools for arm64" "no qemu-aarch64-static"
	done_testing
fi
try_bits
try_server
try_chat
try_fetch
done_testing
