#!/bin/sh
# Intermediate values: gguf-inspect --graph, qprefill --trace, and qstate for
# traces.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL
ids 40 7 4096 | tr '\n' ' ' >ids

echo 5 17 80 3 200 >few

# --- names: what is listed is what is taken, of every architecture
for name in qwen2 qwen2moe qwen3 qwen3moe qwen35-tied qwen35moe-f32 qwen3next demo; do
	if [ $name = demo ]; then	# which has a block for drafts
		MODEL=demo.gguf
		cp "$QWEN_MODEL" $MODEL
	else
		model "$name"
	fi
	gguf-inspect --graph "$MODEL" | cut -d ' ' -f 2 >listed
	qprefill -m "$MODEL" --trace '*' --trace-at 3 -f text <few | cut -d ' ' -f 1 >told
	[ -s listed ] && cmp -s listed told
	ok $? "$name: told of $(wc -l <told) stages, those that are listed"
	gguf-inspect --graph "$MODEL" | awk '{ print $2, $4, $5 == "position+1" ? 4 : $5 }' >listed
	qprefill -m "$MODEL" --trace '*' --trace-at 3 <few | qstate show - |
	    awk '$1 == "stage" { print $2, $3, $4 }' >told
	cmp -s listed told
	ok $? "$name: of these types and sizes"
	rm -f "$MODEL"
done
gguf-inspect --graph --dot >dot
is "$(head -n 1 dot; tail -n 1 dot)" "digraph model {
}" "a graph for dot"
gguf-inspect --graph | awk '{ sub(/\.h[0-9]+$/, ".h*", $2); print $2 }' | sort -u >nodes
sed -n 's/^\t*"\([^"]*\)" \[label=.*/\1/p' dot | sort >drawn
cmp -s nodes drawn
ok $? "has a node for each stage, and one for all heads"
sed -n 's/^\t"\([^"]*\)" -> "\([^"]*\)"$/\1\n\2/p' dot | sort -u >joined
cmp -s nodes joined
ok $? "and all of them are joined"
is "$(tr -cd '{' <dot | wc -c)" "$(tr -cd '}' <dot | wc -c)" "every group has an end"
if command -v dot >/dev/null 2>&1; then
	command dot -Tsvg dot >dot.svg 2>err
	is "$? $(cat err)" "0 " "dot takes it"
else
	skip "dot" "no graphviz"
fi
refused 2 "--dot alone" gguf-inspect --dot
refused 2 "two of them" gguf-inspect --graph --plan
refused 1 "of a file that is no model" gguf-inspect --graph "$TOP/tests/files/gguf/good-v3.gguf"

# --- values
qprefill --logits all -f text <ids >rows
qprefill --trace logits -f text <ids | cut -d ' ' -f 2,4- >traced
cmp -s rows traced
ok $? "the stage logits has the logits of --logits all, digit for digit"
qprefill -o plain.state <ids >/dev/null
qprefill --trace '*' --trace-out t.cbor -o with.state <ids >ready
cmp -s plain.state with.state
ok $? "the state is what it is without"
grep -q with.state ready
ok $? "and told to be ready on stdout"
for how in '-t 1 --batch 1' '-t 3 --batch 7' '--checkpoint-every 5' '--draft mtp'; do
	qprefill --trace '*' $how <ids >other
	cmp -s t.cbor other
	ok $? "the same bytes with $how"
done
QWEN_CPU=scalar qprefill --trace '*' <ids >other
cmp -s t.cbor other
ok $? "the same bytes without vectors"

# --- the block for drafts: from the second token on, where it is there
is "$(qstate show t.cbor | awk '$2 ~ /^blk.8/ { print $5 }' | sort -u)" 39 "the block for drafts tells of all tokens but the first"
qprefill --trace 'embed,blk.[0-7].*,norm,logits' <ids >trunk
qprefill --trace '*' --draft none <ids >other
cmp -s trunk other
ok $? "--draft none: all but what it is"
qprefill -o other.state --trace 'blk.8.*' --trace-out block --trace-at 0,9-last <ids >ready
cmp -s plain.state other.state
ok $? "the state is what it is without"
is "$(qstate show block | awk '$1 == "stage" { print $5 }' | sort -u)" 31 "and nothing is told of the first token"
qprefill --trace 'blk.8.attn.probs.h2' --trace-at 5 -f text <ids >row
is "$(awk '{ for (i = s = 0; i < NF - 3; i++) s += $(i + 4)
    print NF - 3, $4, (s > 0.9999 && s < 1.0001) }' row)" "6 0 1" "which its heads give nothing"
refused 1 "a stage of it without it" qprefill --draft none --trace 'blk.8.ffn' <ids
grep -q 'without its MTP block' err
ok $? "says why"

head -c 2 ids >one
cut -d ' ' -f 1-9 ids >first
cut -d ' ' -f 10- ids >rest
qprefill -o first.state <first >/dev/null
qprefill -s first.state --trace '*.ffn' -f text <rest >after
qprefill --trace '*.ffn' --trace-at 9-last -f text <ids >all
[ -s after ] && cmp -s after all
ok $? "after a state, those of the tokens that are read"
qprefill --draft none -o none.state <first >/dev/null
qprefill -s none.state --trace '*.ffn' -f text <rest >after
grep -v '^blk.8.' all | cmp -s after -
ok $? "after a state that has nothing for the block, the others"
refused 1 "and not the block" qprefill -s none.state --trace 'blk.8.ffn' <rest
qprefill --store store -o /dev/null <ids >/dev/null
qprefill --store store --trace '*' --trace-out other -o /dev/null <ids >/dev/null
cmp -s t.cbor other
ok $? "with a store all tokens are read"
is "$(qprefill --trace 'blk.0.ffn' --trace-at 5,last,1-2,2 -f text <ids | cut -d ' ' -f 1-2 | xargs)" \
    "blk.0.ffn 1 blk.0.ffn 2 blk.0.ffn 5 blk.0.ffn 39" "positions ascend, each once"
is "$(qprefill --trace 'blk.1.router.experts,nor*' --trace-at 3 -f json <ids |
    jq -s -c '[.[0].kind, (.[1] | [.trace, .position, (.choices | length)]),
	(.[2] | [.trace, (.row | length)]), .[1].token == .[2].token]')" \
    '["trace",["blk.1.router.experts",3,2],["norm",256],true]' "as JSON"

# --- .npy
npy() { # FILE: its shape and type
	head -c 128 "$1" | LC_ALL=C tr -d '\223\000-\010\013-\037' |
	    sed -n "1s/.*'descr': '\(...\)'.*'shape': (\([^)]*\)).*/\1 \2/p"
}
qprefill --trace norm -f npy <ids >norm.npy
is "$(npy norm.npy) $(wc -c <norm.npy)" "<f4 40, 256 $((128 + 40 * 256 * 4))" ".npy of a stage"
qprefill --trace 'blk.3.attn.probs.h1' --trace-at 1,4 --trace-out p.npy -f npy <ids >/dev/null
is "$(npy p.npy) $(wc -c <p.npy)" "<f4 2, 5 $((128 + 2 * 5 * 4))" "of rows that grow"
is "$(tail -c 40 p.npy | od -An -v -t u4 | awk 'NR == 1 { print ($3 == 0 && $2 != 0) }')" 1 "with zeros after them"
qprefill --trace 'blk.8.ffn' -f npy <ids >block.npy
is "$(npy block.npy) $(wc -c <block.npy)" "<f4 39, 256 $((128 + 39 * 256 * 4))" "of the block for drafts"
qprefill --draft none --trace 'blk.[78].ffn' -f npy <ids >one.npy
is "$(npy one.npy)" "<f4 40, 256" "of what there is"
qprefill --trace 'blk.0.router.experts' --trace-at last -f npy <ids >e.npy
is "$(npy e.npy) $(tail -c 8 e.npy | od -An -t d4 | xargs)" \
    "<i4 1, 2 $(qprefill --trace 'blk.0.router.experts' --trace-at last -f text <ids | cut -d ' ' -f 4-)" \
    "of choices"
refused 1 "two stages as .npy" qprefill --trace 'norm,logits' -f npy <ids
grep -q -e '-f npz' err
ok $? "names the form that has room for them"
qprefill --logits all -f npy <ids >l.npy
qprefill --logits all -f raw <ids >l.f32
is "$(npy l.npy)" "<f4 40, 4096" ".npy of all logits"
tail -c +129 l.npy | cmp -s - l.f32
ok $? "the rows of -f raw"
qprefill --logits last -f npy <ids >last.npy
is "$(npy last.npy) $(tail -c 16384 l.f32 | cksum)" \
    "<f4 1, 4096 $(tail -c 16384 last.npy | cksum)" "of the last"
qprefill --logits all -f npy -s first.state -o more.state <rest >rest.npy
is "$(npy rest.npy)" "<f4 31, 4096" "after a state, of the tokens that are read"
qprefill -o logits.state --logits last <ids >/dev/null
qprefill -s logits.state --logits last -f npy </dev/null >old.npy
cmp -s old.npy last.npy
ok $? "of a state alone"
qprefill -s logits.state --logits all -f npy </dev/null >none.npy
is "$(npy none.npy) $(wc -c <none.npy)" "<f4 0, 4096 128" "none where none is read"
qprefill --logits all -f npy --trace norm --trace-out n.npy <ids >both.npy
cmp -s norm.npy n.npy && cmp -s both.npy l.npy
ok $? "beside a trace"

# --- .npz: the members are what -f npy writes
qprefill --trace '*' --trace-at 1,4,8-last --trace-out t.npz -f npz -o with.state <ids >/dev/null
cmp -s plain.state with.state
ok $? "the state is what it is without"
if command -v unzip >/dev/null 2>&1; then
	unzip -tqq t.npz >out 2>&1
	is "$?$(cat out)" 0 "a zip whose checksums are right"
	is "$(unzip -Z1 t.npz | wc -l)" "$(gguf-inspect --graph | wc -l)" "with all stages"
	for stage in embed blk.3.attn.probs.h2 blk.8.ffn blk.0.router.experts logits; do
		qprefill --trace $stage --trace-at 1,4,8-last -f npy <ids >one.npy
		unzip -p t.npz $stage.npy | cmp -s - one.npy
		ok $? "$stage is what -f npy writes"
	done
else
	skip "members of .npz" "no unzip"
fi
for how in '-t 1 --batch 1' '-t 3 --batch 7'; do
	qprefill --trace '*' --trace-at 1,4,8-last --trace-out o.npz -f npz $how <ids >/dev/null
	cmp -s t.npz o.npz
	ok $? "the same bytes with $how"
done
for python in python3 /usr/bin/python3 ''; do
	[ -n "$python" ] && $python -c 'import numpy' 2>/dev/null && break
done
if [ -n "$python" ]; then
	is "$($python -c '
import numpy
z, l = numpy.load("t.npz"), numpy.load("l.npy")
at = [1, 4] + list(range(8, 40))
print(len(z.files), z["blk.0.router.experts"].dtype, (z["logits"] == l[at]).all(),
    abs(z["blk.3.attn.probs.h1"].sum(1) - 1).max() < 1e-5)')" \
	    "$(gguf-inspect --graph | wc -l) int32 True True" "numpy.load reads both"
else
	skip "numpy.load" "no numpy"
fi
refused 2 "npz to stdout" qprefill --trace norm -f npz <ids
refused 1 "to a pipe by name" qprefill --trace norm -f npz --trace-out /dev/null <ids
refused 2 "of logits" qprefill --logits all -f npz <ids
refused 2 "beside logits" qprefill --logits all -f npz --trace norm --trace-out x <ids
refused 2 "rows of npy that are cut" qprefill --logits all --top 3 -f npy <ids
refused 2 "npy of nothing" qprefill -f npy <ids

# --- what is refused
refused 1 "a stage that is none" qprefill --trace 'blk.*.nothing' <ids
grep -q 'gguf-inspect --graph' err
ok $? "says where the names are"
refused 1 "a position beyond the end" qprefill --trace norm --trace-at 0,99 <ids
refused 1 "a range that goes beyond it" qprefill --trace norm --trace-at 1-99 <ids
refused 1 "one before the tokens that are read" qprefill -s first.state --trace norm --trace-at 3 <rest
refused 1 "a range that begins before them" qprefill -s first.state --trace norm --trace-at 3-last <rest
refused 1 "no tokens" qprefill -s first.state --trace norm </dev/null
refused 2 "a position that is none" qprefill --trace norm --trace-at x <ids
refused 2 "backwards" qprefill --trace norm --trace-at 9-3 <ids
refused 2 "no stage" qprefill --trace '' <ids
refused 2 "logits on stdout too" qprefill --trace norm --logits all <ids
refused 2 "raw" qprefill --trace norm -f raw <ids
refused 2 "--trace-at alone" qprefill --trace-at 3 <ids
refused 2 "--trace-out alone" qprefill --trace-out x <ids
refused 2 "with --reuse" qprefill --trace norm --reuse plain.state <ids
refused 1 "one file for both" qprefill --trace norm --trace-out x -o x <ids
refused 1 "by two names" qprefill --trace norm --trace-out x -o ./x <ids
is "$(ls -A | grep -c qpipe-tmp)" 0 "and no draft of it stays"
refused 2 "stdout for both" qprefill --trace norm -o - <ids
qprefill --trace norm -o mixed <ids >mixed 2>err
is "$?" 2 "and a file that is stdout"
qprefill --trace norm --trace-out - <ids >a
qprefill --trace norm <ids >b
is "$?$(cmp a b; ls ./- 2>&1 | grep -c '^\./-')" 00 "--trace-out - is stdout"
qprefill --trace norm --trace-out l.cbor --logits last -f text <ids >rows
is "$? $(wc -l <rows) $(wc -l <l.cbor)" "0 1 40" "a trace in a file and logits on stdout"
qprefill --trace '*' <ids | head -c 100 >/dev/null
ok $? "who reads may go away"
if [ -e /dev/full ]; then
	qprefill --trace '*' <ids >/dev/full 2>err
	is "$? $(grep -c . err)" "1 1" "a full disk"
	qprefill --trace '*' --trace-out /dev/full <ids 2>err
	is "$? $(grep -c . err)" "1 1" "also by name"
fi

# --- an interrupted run leaves neither file
mkdir killed
ids 4000 3 4096 | tr '\n' ' ' >long
(cd killed && exec qprefill --trace '*.ffn' --trace-out t.cbor -o s.cbor -t 1 --batch 1 <../long) \
    >/dev/null 2>&1 &
pid=$!
n=0
until [ -e killed/.t.cbor.qpipe-tmp ] && [ -e killed/.s.cbor.qpipe-tmp ] || [ $n -gt 300 ]; do
	sleep 0.1
	n=$((n + 1))
done
[ -e killed/.t.cbor.qpipe-tmp ] && [ -e killed/.s.cbor.qpipe-tmp ]
ok $? "two drafts"
kill -TERM $pid
wait $pid 2>/dev/null
is "$(ls -A killed)" "" "which are gone after SIGTERM"

# --- what is in a trace
is "$(qstate show t.cbor | awk '$2 == "blk.0.router.experts" { print $3, $4, $5, ($7 < 8) }')" \
    "i32 2 40 1" "qstate show"
is "$(qstate show --json t.cbor | jq -c '[.trace, .numerics, (.stages[0] | [.stage, .type, .n, .positions])]')" \
    '["t.cbor",1,["embed","f32",256,40]]' "and as JSON"
is "$(qstate show plain.state t.cbor | grep -c -e ^state -e ^trace)" 2 "states and traces"

# --- where two part
qstate diff t.cbor other >out
is "$?$(cat out)" 0 "equal ones"
qprefill --numerics 4 --trace '*' <ids >v4.cbor
qstate diff t.cbor v4.cbor >out
is "$? $(wc -l <out) $(cut -d ' ' -f 1-3 out)" "1 1 first blk.0.delta.qkv 0" "the first place"
qstate diff --all t.cbor v4.cbor >out
is "$(awk '{ print $1 }' out | sort | uniq -c | xargs)" "1 first $(gguf-inspect --graph | wc -l) stage" \
    "--all: and a line for each stage"
is "$(awk '$2 == "embed" && $1 == "stage"' out)" "stage embed 40 0 0 0 0 1" "one that does not part"
awk '$1 == "stage" && $2 == "blk.0.mixer" { exit !($3 == 40 && $4 == 40 && $5 > $6 && $6 > 0 && $7 > 0 && $7 < 0.1 &&
    $8 > 0.99 && $8 <= 1) }' out
ok $? "and one that does"
worst=$(qstate diff --all t.cbor v4.cbor | awk '$1 == "stage" && $7 > m { m = $7 } END { print m * 3 }')
qstate diff --within "$worst" t.cbor v4.cbor >out
is "$(wc -l <out)" "$(awk -v w="$worst" 'BEGIN { print (w < 0.3) ? 0 : 1 }')" "--within ($worst)"
qstate diff --within 100 t.cbor v4.cbor >out
is "$?$(cat out)" 0 "however far"
is "$(qstate diff --json --all t.cbor v4.cbor | jq -c '[.equal, .differences[0].stage,
    (.stages | length), .stages[0].parted]')" \
    "[false,\"blk.0.delta.qkv\",$(gguf-inspect --graph | wc -l),0]" "as JSON"
qstate diff -q t.cbor v4.cbor >out
is "$?$(cat out)" 1 "-q"
is "$(qprefill --trace '*' <first | qstate diff t.cbor -)" "only a embed 9 $(cut -d ' ' -f 10 ids) 256" \
    "one that ends before"
qprefill --trace '*.ffn' <ids >f.cbor
is "$(qstate diff t.cbor f.cbor | cut -d ' ' -f 1-4)" "only a embed 0" "of other stages"
{ echo 5; cut -d ' ' -f 2- ids; } | tr '\n' ' ' | qprefill --trace embed >e.cbor
qprefill --trace embed <ids | qstate diff - e.cbor >out
is "$(cut -d ' ' -f 1-4 out)" "token a embed 0" "of other tokens"
refused 1 "a trace and a state" qstate diff t.cbor plain.state
echo no state >garbage
: >empty
for f in garbage empty nowhere; do
	refused 1 "a trace and $f" qstate diff t.cbor $f
	is "$(grep -c "^qstate: $f: " err)" 1 "which says what it is"
done
refused 2 "--within of states" qstate diff --within 1 plain.state plain.state
head -c 5000 t.cbor >cut.cbor
refused 1 "a trace that is cut" qstate show cut.cbor
qstate diff cut.cbor t.cbor >out 2>err
is "$? $(wc -l <err)" "1 1" "in diff too"
refused 1 "a trace as a stream of tokens" qprefill -o none <t.cbor
refused 1 "as a state" qprefill -s t.cbor --logits last </dev/null
refused 1 "to verify" qstate verify t.cbor
done_testing
