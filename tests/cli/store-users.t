#!/bin/sh
# A store to which two accounts write, one of which plants links, FIFOs, folders
# and files: nothing outside the store changes, nothing hangs, and the tokens
# are the same.
. "$TOP/tests/cli/tap.sh"
if [ "$(id -u)" != 0 ] || ! command -v setpriv >/dev/null; then
	skip "a second account" "not root, or no setpriv"
	done_testing
fi
W=$(mktemp -d /tmp/qpipe-users-XXXXXX) || exit 1
trap 'rm -rf "$W"' EXIT
chmod 1777 "$W"
# what the other account can run and read
cp "$BIN/qprefill" "$BIN/qdecode" "$BIN/qstate" "$TOP/demo/demo.gguf" "$W"
chmod -R a+rX "$W"
QWEN_MODEL=$W/demo.gguf; export QWEN_MODEL
PATH=$W:$PATH
cd "$W" || exit 1
other() {
	timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}
if ! other true 2>/dev/null; then
	skip "a second account" "setpriv may not"
	done_testing
fi
ids 300 1 4000 >long
{ head -n 250 long; ids 20 2 4000; } >near
qdecode -n 8 --ignore-eos -f text <long >want.long
qdecode -n 8 --ignore-eos -f text <near >want.near
umask 000

# use NAME: everything that we do with the store S; within a minute, the right tokens
use() {
	for t in long near; do
		timeout 60 qdecode --store S -n 8 --ignore-eos -f text <$t >got \
		    2>>err
		rc=$?
		cmp -s got want.$t && [ $rc = 0 ]
		ok $? "$1: $t (status $rc)"
	done
	for c in 'ls' 'ls -m demo.gguf' 'du' 'verify' 'verify --remove' 'gc --store-max 1' 'rm --all'; do
		# shellcheck disable=SC2086
		timeout 60 qstate $c --store S >out 2>&1
		rc=$?
		[ $rc -le 1 ]
		ok $? "$1: $c ends (status $rc)"
	done
}
# made: a store of the one text, writable for all
made() {
	rm -rf S
	qprefill --store S -o /dev/null --checkpoint-at 100,200 <long >/dev/null
	chmod -R 0777 S
	dir=$(dirname "$(find S -name '*.cp' | head -n 1)")
	find "$dir" -type f | sort >names
}
mkdir -m 0700 outside
echo secret >outside/file
outside() {
	is "$(find outside -mindepth 1 -printf '%f %s %u %m %n %T@\n' | sort | md5sum)$(cat outside/file)" \
	    "$before" "$1: nothing outside has changed"
}
before=$(find outside -mindepth 1 -printf '%f %s %u %m %n %T@\n' | sort | md5sum)$(cat outside/file)

for what in link dangling fifo folder garbage; do
	made
	while read -r f; do
		rm -f "$f"
		case $what in
		link) other ln -s "$W/outside/file" "$f" ;;
		dangling) other ln -s "$W/outside/new" "$f" ;;
		fifo) other mkfifo "$f" ;;
		folder) other mkdir "$f" ;;
		garbage) other sh -c "echo mine >'$f'; chmod 0600 '$f'" ;;
		esac
	done <names
	for n in 1 2 3; do
		f=$dir/.tmp-000000000000000$n
		case $n in
		1) other ln -s "$W/outside/file" "$f" ;;
		2) other mkfifo "$f" ;;
		3) other mkdir "$f" ;;
		esac
	done
	other ln -s "$W/outside/file" \
	    "$dir/.gone-0000000000000001-$(basename "$(grep kv names | head -n 1)")"
	use "$what"
	outside "$what"
done
# a store whose folders lead elsewhere
mkdir -m 0777 theirs
for what in v1 model; do
	made
	case $what in
	v1) rm -rf S/v1; other ln -s "$W/outside" S/v1 ;;
	model) rm -rf "$dir"; other ln -s "$W/outside" "$dir" ;;
	esac
	use "a link for $what"
	outside "a link for $what"
done
# ours is followed
made
mv S/v1 moved
ln -s "$W/moved" S/v1
timeout 60 qdecode -v --store S -n 8 --ignore-eos -f text <long 2>&1 >got | grep -q \
    '^qdecode: 300 tokens from store'
ok $? "a link of the owner is followed"
# files with other names outside: hard links
made
while read -r f; do
	ln "$f" "outside/$(basename "$f")"
done <names
chmod 0444 outside/*
before=$(find outside -name '*.*' -printf '%f %s\n' | sort | md5sum)
use "hard links"
is "$(find outside -name '*.*' -printf '%f %s\n' | sort | md5sum)" "$before" \
    "what has another name stays"

# --- both at once
made
(for i in 1 2 3 4 5 6; do
	other "$W/qprefill" --store "$W/S" -q <long >/dev/null
	other "$W/qstate" gc -q --store "$W/S" --store-max 400K >/dev/null
	for f in $(cat names); do
		other sh -c "rm -f '$f'; ln -s '$W/outside/file' '$f'" 2>/dev/null
	done
	other "$W/qstate" rm --all -q --store "$W/S" >/dev/null
done) 2>/dev/null &
pid=$!
bad=0
for i in 1 2 3 4 5 6 7 8; do
	for t in long near; do
		timeout 60 qdecode -q --store S -n 8 --ignore-eos -f text <$t \
		    >got || bad=$((bad + 1))
		cmp -s got want.$t || bad=$((bad + 1))
	done
done
wait $pid
is $bad 0 "two accounts at once: the right tokens"
is "$(cat outside/file)" secret "and nothing outside has changed"
done_testing
