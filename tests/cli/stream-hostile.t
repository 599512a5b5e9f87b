#!/bin/sh
# Every hostile stream: one line, exit 1, at once, no output file.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL

# a header that belongs to the model
echo 1 | qprefill -o s.cbor >ready 2>/dev/null
ok $? "a state to begin with"
cp s.cbor before
# the header is what the ready record follows
n=$(LC_ALL=C grep -abo 'eready' ready | head -n 1 | cut -d: -f1)
head -c $((n - 1)) ready >header

for f in "$TOP"/tests/files/stream/bad-*.cbor; do
	name=$(basename "$f" .cbor)
	case $name in
	bad-body-*) cat header "$f" >in ;;
	*) cat "$f" >in ;;
	esac
	refused 1 "qprefill, $name" qprefill -o new.cbor <in
	[ ! -e new.cbor ] && [ ! -e .new.cbor.qpipe-tmp ]
	ok $? "$name leaves no file"
done
cat header "$TOP/tests/files/stream/bad-body-cut-ids.cbor" >in
refused 1 "qdecode, a truncated record" qdecode -s s.cbor -n 1 <in
refused 1 "qdecode, the same through a pipe" sh -c \
    'cat in | qdecode -s s.cbor -n 1'
refused 1 "qprefill, the same after a state" qprefill -s s.cbor -o s.cbor <in
cmp -s s.cbor before
ok $? "which is not touched"
cat header "$TOP/tests/files/stream/good-future.cbor" |
    qprefill -o new.cbor >/dev/null 2>err
ok $? "keys of a later version are passed over"
done_testing
