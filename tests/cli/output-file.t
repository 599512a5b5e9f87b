#!/bin/sh
# Output files are complete or absent, links are followed, no temporary files
# stay.
. "$TOP/tests/cli/tap.sh"
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
temp=.s.cbor.qpipe-tmp
cp "$TOP/tests/golden/models/qwen35moe-ud/tokens-n65.txt" ids
qprefill -o old.cbor <ids >/dev/null
echo 1 2 3 | qprefill >want.cbor

# --- names
mkdir "a folder"
echo 1 2 3 | qprefill -o "a folder/a state.cbor" >/dev/null
cmp -s "a folder/a state.cbor" want.cbor
ok $? "a path with spaces"
is "$(ls -A 'a folder')" "a state.cbor" "and nothing beside it"
(cd "a folder" && echo 1 2 3 | qprefill -o "$(printf 'new\nline')" >/dev/null)
[ -f "a folder/$(printf 'new\nline')" ]
ok $? "a path with a newline"
echo 1 2 3 | qprefill -o "$(printf '\377\376')" >ready
cmp -s "$(printf '\377\376')" want.cbor && qdecode -s "$(printf '\377\376')" \
    -n 1 <ready >/dev/null
ok $? "a path that is not UTF-8"
refused 1 "a name too long" sh -c \
    "echo 1 | qprefill -o $(printf '%0256d' 0)"
long=$(printf '%0255d' 0)
echo 1 2 3 | qprefill -o "$long" >/dev/null
is "$?$(cmp "$long" want.cbor) $(ls -A | grep -c qpipe-tmp)" "0 0" \
    "one as long as a name may be"
is "$(umask 027; echo 1 2 3 | qprefill -o m.cbor >/dev/null
    ls -l m.cbor | cut -c1-10)" "-rw-r-----" "the umask is respected"
chmod 604 m.cbor
echo 1 2 3 4 | qprefill -o m.cbor >/dev/null
is "$(ls -l m.cbor | cut -c1-10)" "-rw----r--" "an old file's mode is kept"

# --- links and what is no regular file
cp old.cbor target.cbor
ln -s target.cbor link.cbor
echo 1 2 3 | qprefill -o link.cbor >/dev/null
[ -L link.cbor ] && cmp -s target.cbor want.cbor
ok $? "a symbolic link is followed"
mkdir other
ln -s other/there.cbor hop; ln -s hop dangling.cbor
echo 1 2 3 | qprefill -o dangling.cbor >/dev/null
[ -L dangling.cbor ] && cmp -s other/there.cbor want.cbor
ok $? "also where nothing is there yet"
ln -s loop2 loop1; ln -s loop1 loop2
refused 1 "links in a circle" sh -c 'echo 1 | qprefill -o loop1'
echo 1 2 3 | qprefill -o /dev/null >/dev/null
ok $? "/dev/null"
[ -c /dev/null ] && [ ! -e /dev/.null.qpipe-tmp ]
ok $? "which stays what it is"
mkfifo fifo
cat fifo >got.cbor &
echo 1 2 3 | qprefill -o fifo >/dev/null
wait $!
[ -p fifo ] && cmp -s got.cbor want.cbor
ok $? "a FIFO is written in place"
(echo 1 2 3 | qprefill -o fifo >/dev/null) &
qdecode -s fifo -n 3 -f text </dev/null >got
wait $!
qdecode -s want.cbor -n 3 -f text </dev/null >want
cmp -s got want
ok $? "and read from"
refused 1 "a full device" sh -c 'echo 1 | qprefill -o /dev/full'

# --- leftovers and rivals
head -c 1000000 /dev/zero >$temp
echo 1 2 3 | qprefill -o s.cbor >/dev/null
cmp -s s.cbor want.cbor && [ ! -e $temp ]
ok $? "what a killed run left is taken over"
mkfifo slow
cp "$TOP/tests/golden/models/qwen35moe-ud/tokens-n600.txt" long
# busy: p is a process with s.cbor in work, which gets done once somebody has
# read more from it than a pipe holds
busy() {
	cp old.cbor s.cbor
	qprefill -s old.cbor --logits=all -f text -o s.cbor <long \
	    >slow 2>/dev/null &
	p=$!
	exec 3<slow
	read -r _ <&3
	[ -e $temp ] || echo "no temporary" >&2
}
busy
refused 1 "a file that another process is writing" sh -c \
    'echo 1 | qprefill -o s.cbor'
grep -q 'another process is writing it' err
ok $? "the message says so"
kill -9 $p
wait $p 2>/dev/null
exec 3<&-
cmp -s s.cbor old.cbor
ok $? "kill -9 leaves the old file whole"
is "$(ls -A | grep -c qpipe-tmp)" 1 "and one temporary"
echo 1 2 3 | qprefill -o s.cbor >/dev/null
cmp -s s.cbor want.cbor && [ ! -e $temp ]
ok $? "which the next run takes over"
: >$temp.x; ln -s $temp.x $temp
refused 1 "a temporary that is a link" sh -c 'echo 1 | qprefill -o s.cbor'
[ ! -s $temp.x ]
ok $? "is not followed"
rm -f $temp $temp.x
# a name that somebody gave to what must not be touched
echo precious >victim; chmod 600 victim; ln victim $temp
echo 1 2 3 | qprefill -o s.cbor >/dev/null
is "$? $(head -c 20 victim) $(stat -c %a,%h victim)" "0 precious 600,1" \
    "a temporary that is a hard link leaves what it links to"
cmp -s s.cbor want.cbor && [ ! -e $temp ]
ok $? "and is replaced"
head -c 100 /dev/zero >$temp
exec 4<>$temp
echo 1 2 3 | qprefill -o s.cbor >/dev/null
echo spoiled >&4
exec 4>&-
cmp -s s.cbor want.cbor
ok $? "who has a temporary open cannot write to what comes of it"
mkdir $temp
refused 1 "a temporary that is a folder" sh -c 'echo 1 | qprefill -o s.cbor'
grep -q 'is in the way.*remove it$' err
ok $? "the message says what to do"
rmdir $temp
if [ "$(id -u)" = 0 ]; then
	: >$temp; chown 12345 $temp
	echo 1 2 3 | qprefill -o s.cbor >/dev/null
	is "$? $(stat -c %u s.cbor)" "0 0" "another user's temporary is replaced"
else
	skip "another user's temporary" "only root can plant one"
fi

# --- signals
for sig in HUP INT TERM PIPE XCPU; do
	if [ $sig != INT ] && ignored $sig; then
		skip "SIG$sig" "it is ignored here"
		continue
	fi
	busy
	kill -$sig $p
	# a background job ignores SIGINT unless someone sets it back
	[ $sig = INT ] && kill -TERM $p
	wait $p 2>/dev/null
	status=$?
	exec 3<&-
	n=$(kill -l "$sig" 2>/dev/null || echo "$sig")
	case $sig in HUP) n=1 ;; INT | TERM) n=15 ;; PIPE) n=13 ;; XCPU) n=24 ;; esac
	is "$status" $((128 + n)) "SIG$sig: death by that signal"
	cmp -s s.cbor old.cbor && [ ! -e $temp ]
	ok $? "SIG$sig: no temporary left, the old file as it was"
done

# --- the model that is in use
cp "$QWEN_MODEL" m.gguf
ln m.gguf hard.gguf
ln -s m.gguf soft.gguf
for m in m.gguf hard.gguf soft.gguf; do
	spared() {
		refused 1 "$1 -o $m" sh -c "$2"
		grep -q "^$1: $m: this is what -*[a-z]* reads: not replaced" err
		ok $? "$1 -o $m: says so"
	}
	spared qprefill "echo 1 | qprefill -m m.gguf -o $m"
	spared qdecode "echo 1 | qdecode -m m.gguf -n 1 -o $m"
	spared qembed "echo a | qembed -m m.gguf -o $m"
	spared qscore "echo a b | qscore -m m.gguf -o $m"
	refused 1 "qbatch -o $m" sh -c "echo '{\"prompt\":\"a\"}' | qbatch -m m.gguf -o $m"
	spared gguf-synth "gguf-synth -q --vocab m.gguf --layers 1 -o $m qwen3-0.6b"
done
cmp -s m.gguf "$QWEN_MODEL" && [ -L soft.gguf ] && [ ! -e .m.gguf.qpipe-tmp ]
ok $? "it is as it was, and no draft is left"
printf '/save m.gguf\n/quit\n' | qchat -q -m m.gguf --template qwen3 >out 2>err
cmp -s m.gguf "$QWEN_MODEL"
is "$? $(grep -c 'm.gguf: this is what -m reads: not replaced' err)" "0 1" "nor does /save"
echo '{"prompt":"a","max_tokens":1}' | qbatch -q -m m.gguf --report m.gguf 2>err >/dev/null
cmp -s m.gguf "$QWEN_MODEL"
is "$? $(grep -c 'm.gguf: this is what -m reads: not replaced' err)" "0 1" "nor a report"

# --- and whatever else is read: folders, adapters, drafts, matrices, texts
H=$TOP/tests/files/hub
kept() {	# NAME FILE COMMAND: refused, and the file is as it was
	cp "$2" was
	sh -c "$3" >out 2>err
	rc=$?
	cmp -s was "$2"
	is "$rc $? $(grep -c "$2: this is .*: not replaced$" err)" "1 0 1" \
	    "$1 is not replaced: $(head -n 1 err)"
}
cp -r "$H/qwen3" hub
chmod -R u+w hub
for f in hub/model-00001-of-00002.safetensors hub/config.json hub/tokenizer.json; do
	kept "a source" $f "gguf-convert -q -o $f hub"
	kept "a folder's file" $f "seq 1 3 | qprefill -q -m hub -o $f"
	kept "a folder's file" $f \
	    "echo '{\"prompt\":\"a\"}' | qbatch -q -m hub -n 1 --report $f"
done
f=hub/model-00002-of-00002.safetensors
kept "a folder's file" $f "gguf-quantize -q --type q8_0 -o $f hub"
gguf-convert -q -o hub/x.gguf hub && gguf-convert -q -o hub/x.gguf hub
ok $? "what was made there before is"
gguf-convert -q -o base.gguf "$H/qwen3"
gguf-synth -q --lora base.gguf -o lora.gguf
kept "an adapter" lora.gguf "gguf-merge -m base.gguf --lora lora.gguf -o lora.gguf"
kept "an adapter" lora.gguf "echo 1 | qprefill -m base.gguf --lora lora.gguf -o lora.gguf"
gguf-convert -q --no-mtp -o trunk.gguf "$H/qwen3_5"
gguf-convert -q --mtp-only -o side.gguf "$H/qwen3_5"
kept "a draft model" side.gguf "echo 1 | qprefill -m trunk.gguf --draft side.gguf -o side.gguf"
seq 1 9 | qprefill -q -m base.gguf --imatrix imatrix.gguf >/dev/null
kept "an importance matrix" imatrix.gguf \
    "gguf-quantize -q --type Q4_K_M --imatrix imatrix.gguf -o imatrix.gguf base.gguf"
echo a b >text
kept "a text" text "qscore -o text text"
kept "a text" text "qembed -q -o text text"
kept "a text on stdin" text "qembed -q -o text <text"
echo '{"prompt":"a","max_tokens":1}' >in.jsonl
kept "a list of prompts" in.jsonl "qbatch -q --report in.jsonl in.jsonl"

# what nobody calls a model: grammars, schemas, templates, lists, documents
seq 5 9 >numbers
qprefill -q -o g.cbor <numbers >/dev/null
echo 'root ::= "a" | "b"' >grammar
echo '{"type":"boolean"}' >schema
echo '*attn_v.weight Q8_0' >types
printf '{{ messages[0].content }}' >tp.jinja
kept "a grammar" grammar "qdecode -s g.cbor -n 2 --grammar grammar -o grammar </dev/null"
kept "a schema" schema "qdecode -s g.cbor -n 2 --json-schema schema -o schema </dev/null"
kept "types" types "gguf-quantize -q --type Q4_K_M --types types -o types base.gguf"
kept "tokens on stdin" numbers "qprefill -o numbers <numbers"
ln grammar hard; ln -s grammar soft
for g in hard soft /dev/fd/3; do
	kept "a grammar, as $g," grammar \
	    "qbatch -q -m base.gguf --grammar $g --report grammar -o o1 in.jsonl 3<grammar"
done
kept "a grammar" grammar "qbatch -q -m base.gguf --grammar grammar -o grammar in.jsonl"
kept "a grammar" grammar \
    "qbatch -q -m base.gguf --grammar grammar --resume -o grammar in.jsonl"
kept "requests on stdin" in.jsonl "qbatch -q -m base.gguf -o in.jsonl <in.jsonl"
kept "requests" in.jsonl "qbatch -q -m base.gguf -o in.jsonl in.jsonl"
kept "requests" in.jsonl "qbatch -q -m base.gguf --retry-failed -o in.jsonl in.jsonl"
kept "a template" tp.jinja \
    "qbatch -q -m base.gguf --template ./tp.jinja --report tp.jinja -o o2 in.jsonl"
kept "a state" g.cbor "qprefill -q -s g.cbor --imatrix g.cbor <numbers"
# stdout is an output, too: by >> the tool would read what it writes, without end
for how in "qtok in.jsonl" "qtok <in.jsonl" "qbatch -q -m base.gguf in.jsonl" \
    "gguf-inspect in.jsonl" "qbatch --merge in.jsonl"; do
	cp in.jsonl was
	(ulimit -f 1000; sh -c "$how" >>in.jsonl 2>err)
	is "$? $(cmp in.jsonl was) $(grep -c '^[a-z-]*: stdout: this is .*: write to another file$' err)" \
	    "1  1" "$how >>in.jsonl"
done
echo 1 2 3 >whole
cp whole was
qdecode -m base.gguf -n 3 --ignore-eos -f text <whole >>whole
is "$? $(head -n 1 whole | cmp - was) $(grep -c . whole)" "0  4" "qdecode may append to its stdin"
echo text >doc
printf '/data doc\nhi\n/save doc\n/data\n/save doc\n/save say\n' >say
cp say said
qchat -q -m base.gguf -n 2 --template qwen3 <say >out 2>err
is "$? $(cat doc) $(grep -c 'doc: this is a document .*: not replaced$' err) $(
    grep -c 'say: this is the file on stdin: not replaced$' err) $(cmp say said)" \
    "1 text 2 1 " "qchat keeps documents, and what it reads"
printf '/save chat.json\n/load chat.json\n/save chat.json\n' |
    qchat -q -m base.gguf --template qwen3 2>err
is "$? $(cat err)" "0 " "a conversation is saved where it was loaded from"

# each option that reads a file, beside each that writes one, by the rows
echo nothing >one
for t in "$TOP"/cmd/*.c; do
	t=$(basename "$t" .c)
	"$t" --help=list | awk -F '\t' '{ print $1, $2, $4 }' >rows
	awk '$3 == "output" { print $2 }' rows >outs
	awk '$3 ~ /^(file|inout)$/ { print $1, $2, $3 }' rows >ins
	while read -r o; do
		while read -r letter name kind; do
			[ "$letter" = operands ] && name=
			[ "$kind $o" != "inout --output" ] || continue
			"$t" ${name:+"$name"} one "$o" one >got 2>err </dev/null
			echo "$? $(cat one) $(echo >>pairs
			    grep -c '^[a-z-]*: one: this is .*: not replaced$' err)" |
			    grep -qx '1 nothing 1' || echo "$t $name one $o one: $(cat err)"
		done <ins
	done <outs
done >replaced
is "$(cat replaced) $([ "$(wc -l <pairs)" -gt 50 ]; echo $?)" " 0" \
    "no option that writes replaces what another reads: $(wc -l <pairs) pairs"
for t in "$TOP"/cmd/*.c; do
	t=$(basename "$t" .c)
	"$t" --help=list | awk -F '\t' -v t="$t" '
	    ($3 ~ /^(file|path)$/ || $2 == "--output") && $4 !~ /^(file|inout|output|folder)/ {
		print t, $2, $4 }'
done >unknown
is "$(cat unknown)" "" "each row of a file says whether it is read or written"

# --- two outputs in one file
for o in "-o r.out --report r.out" "--report r.out --report-json r.out"; do
	# shellcheck disable=SC2086
	qbatch -q $o in.jsonl >out 2>err
	is "$? $([ -e r.out ]; echo $?) $(grep -c 'two outputs name the file r.out; ' err)" "2 1 1" \
	    "qbatch $o"
done
qbatch -q -o r.out --report ./r.out in.jsonl 2>err
is "$? $(jq -r .finish_reason r.out) $(grep -c 'this is the file of results' err)" "1 length 1" \
    "results are not replaced by a report"
qbatch -q --report s.out --report-json ./s.out in.jsonl >out 2>err
is "$? $(grep -c '^items ' s.out) $(grep -c 'this is the other report' err)" "1 1 1" \
    "nor a report by the other"

# --- a file that may not grow is an error, not a signal
seq 1 300 >many
for t in 1 2; do
	(ulimit -f 4; exec qprefill -t $t -o small.cbor <many >out 2>err)
	is "$? $([ -e small.cbor ]; echo $?) $(grep -c 'small.cbor: .*File too large' err)" \
	    "1 1 1" "ulimit -f, $t threads: $(cat err)"
done
(ulimit -f 4; exec qprefill --store store <many >/dev/null 2>err)
is "$? $(grep -c 'store store: not written: .*File too large' err)" "0 1" \
    "nor does a store that may not: $(cat err)"

# --- permissions
if [ "$(id -u)" = 0 ]; then
	skip "a file that may not be written" "root may write anything"
	skip "a folder that may not be written" "root may write anything"
else
	cp old.cbor ro.cbor; chmod 444 ro.cbor
	refused 1 "a file that may not be written" sh -c \
	    'echo 1 | qprefill -o ro.cbor'
	mkdir ro; chmod 555 ro
	refused 1 "a folder that may not be written" sh -c \
	    'echo 1 | qprefill -o ro/x.cbor'
	chmod 755 ro
fi
done_testing
