#!/bin/sh
# A store on a full disk, at any size of the disk: the state is right, there is
# at most one warning, and no file of the store is incomplete.
. "$TOP/tests/cli/tap.sh"

# inside: mounts are seen by this process alone, and go with it
if [ "$1" = inside ]; then
	trap '' PIPE
	mkdir -p disk
	# how much it takes where there is room, in the blocks of such a disk
	mount -t tmpfs -o size=64m none disk || exit 77
	qprefill -o warm.cbor --store disk/store --store-max none \
	    --checkpoint-every 40 <ids >/dev/null
	all=$(du -sk disk/store | cut -f1)
	umount disk
	for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
	do
		k=$((all * i / 22 + 4))
		mount -t tmpfs -o size=${k}k none disk || exit 77
		qprefill -o full.cbor --store disk/store --store-max none \
		    --checkpoint-every 40 <ids >/dev/null 2>warnings
		echo "$k status $?" >>log
		echo "$k warnings $(wc -l <warnings)" >>log
		[ "$(wc -l <warnings)" -le 1 ] || cat warnings >&2
		cat warnings >>all-warnings
		qstate diff cold.cbor full.cbor >/dev/null 2>&1
		echo "$k diff $?" >>log
		if [ -d disk/store ]; then
			qstate verify --store disk/store >/dev/null 2>&1
			echo "$k verify $?" >>log
		fi
		find disk -name '.tmp*' >>left
		# the same again, from what is there
		qprefill -o full.cbor --store disk/store --store-max none -v <ids \
		    >/dev/null 2>notes
		echo "$k status $?" >>log
		qstate diff cold.cbor full.cbor >/dev/null 2>&1
		echo "$k diff $?" >>log
		sed -n 's/.*: \([0-9]*\) tokens from store .*/\1/p' notes \
		    >>found
		umount disk
	done
	# the usual limit: a tenth of the disk, or what is free
	mount -t tmpfs -o size=24m none disk || exit 77
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		ids 150 $i 600 | qprefill -o b.cbor --store disk/store \
		    >/dev/null 2>>tenth.err
		qstate du --store disk/store --json |
		    jq 'select(.total) | .bytes' >>tenth
	done
	head -c 21200000 /dev/zero >disk/other
	ids 150 13 600 | qprefill -o b.cbor --store disk/store >/dev/null 2>>tenth.err
	qstate du --store disk/store --json | jq 'select(.total) | .bytes' >half
	df -B1 --output=avail disk | tail -n 1 >>half
	umount disk
	exit 0
fi

model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
tr ' ' '\n' <"$TOP/tests/golden/models/qwen35moe-ud/tokens-n600.txt" |
    head -n 200 >ids
qprefill -o cold.cbor --checkpoint-every 40 <ids >/dev/null
if ! command -v unshare >/dev/null || ! unshare -rm true 2>/dev/null; then
	skip "a full disk" "no mounts of one's own here"
	done_testing
fi
unshare -rm sh "$TOP/tests/cli/store-full.t" inside
rc=$?
if [ $rc = 77 ]; then
	skip "a full disk" "no tmpfs here"
	done_testing
fi
is $rc 0 "24 sizes of a disk"
is "$(grep -c 'status 0' log)" 48 "qprefill succeeds"
is "$(grep -c 'diff 0' log)" 48 "with the state of a cold run"
is "$(grep -c 'verify [^0]' log)" 0 "no damaged file in the store"
is "$(grep -c 'warnings [01]$' log)" 24 "one warning at most"
grep -q 'No space left' all-warnings
ok $? "which says why: $(sort -u all-warnings | head -n 1)"
[ "$(sort -n tenth | tail -n 1)" -le 2516582 ] &&
    [ "$(sort -n tenth | tail -n 1)" -gt 1200000 ]
ok $? "a tenth of a disk of 24 MiB: $(xargs <tenth)"
[ "$(head -n 1 half)" -le "$(tail -n 1 half)" ]
ok $? "no more than is free there: $(xargs <half)"
[ -s left ]
is $? 1 "no temporaries stay"
is "$(sort -n found | sed -n '$p')" 200 "with room enough all is found"
is "$(sort -c -n found && echo sorted)" sorted "and more with more room"
done_testing
