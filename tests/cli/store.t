#!/bin/sh
# The prefix store in the tools: a tool does not read again what another has
# read, whatever happens to the store, and the bits are the same.
. "$TOP/tests/cli/tap.sh"
DEMO=$TOP/demo/demo.gguf

# taken: how many tokens -v says came from the store
taken() {
	sed -n 's/^qprefill: \([0-9]*\) tokens\{0,1\} from store .*/\1/p' err
}

# cuts at random: some here, many in check-long
cuts=${QPIPE_LONG:+40}

# --- a hit has the bits of a cold run, on every architecture
for name in qwen3 qwen35-tied qwen35moe-ud; do
	model "$name"
	QWEN_MODEL=$MODEL; export QWEN_MODEL
	vocab=$(gguf-inspect --json | jq '.tensors[] |
	    select(.name == "token_embd.weight") | .shape[1]')
	ids 150 5 "$vocab" >old
	qprefill --store S --checkpoint-every 32 -o old.cbor <old >/dev/null 2>err
	is "$?$(cat err)" 0 "$name: a store is made"
	for cut in 0 1 32 $(ids "${cuts:-2}" "$SEED" 149 | awk '{ print $1 + 1 }') 150; do
		[ -e "done.$name.$cut" ] && continue
		: >"done.$name.$cut"
		# 9 more, the first one not what old goes on with
		{ head -n "$cut" old
		    awk -v n="$((cut + 1))" -v v="$vocab" \
		    'NR == n { print ($1 + 1) % v }' old
		    ids 9 "$cut" "$vocab"; } >new
		qprefill -v --store S -o new.cbor <new 2>err >/dev/null
		qprefill -o cold.cbor <new >/dev/null
		qstate diff new.cbor cold.cbor
		ok $? "$name: $cut in common, $(taken) from the store"
		[ "$(taken)" -le "$cut" ] && [ "$(taken)" -ge $((cut / 33 * 32)) ]
		ok $? "$name: not more than that, and not much less"
		qprefill --store S --logits=last -f raw <new >l1
		qprefill --logits=last -f raw <new >l2
		cmp -s l1 l2
		ok $? "$name: the logits of the next token"
	done
	rm -f "$MODEL"
done
qstate verify --store S
ok $? "three models share a store, and all of it is whole"
is "$(qstate du --store S | grep -c '^model')" 3 "du tells them apart"

# --- who uses it
QWEN_MODEL=$DEMO; export QWEN_MODEL
ids 100 6 500 >text
QWEN_STORE=E qprefill -o a.cbor <text >/dev/null
[ -d E ]
ok $? "\$QWEN_STORE"
QWEN_STORE=E qprefill -v -o b.cbor <text 2>err >/dev/null
is "$(taken)" 100 "all of it is there"
cmp -s a.cbor b.cbor
ok $? "the same bytes"
QWEN_STORE=E qprefill -v --no-store -o b.cbor <text 2>err >/dev/null
is "$(taken)" "" "--no-store"
QWEN_STORE=E qprefill -v --store F -o b.cbor <text 2>err >/dev/null
is "$(taken)" 0 "--store in place of it"
QWEN_STORE='' qprefill -v -o b.cbor <text 2>err >/dev/null
is "$(taken)" "" "an empty one is none"
# the state's own tokens count
head -n 40 text | qprefill -o s40.cbor >/dev/null
tail -n +41 text >rest
qprefill -v --store E -s s40.cbor -o b.cbor <rest 2>err >/dev/null
is "$(taken)" 100 "after a state: the tokens of both"
qstate diff a.cbor b.cbor
ok $? "the same state"
tail -n +41 text | head -n 30 >rest
qprefill -s s40.cbor --store G -o b.cbor <rest >/dev/null
head -n 70 text >new
qprefill -v --store G -o c.cbor <new 2>err >/dev/null
is "$(taken)" 70 "what is read after a state goes into the store"
# a state that is nearer goes before the store
head -n 90 text | qprefill -o s90.cbor >/dev/null
{ head -n 95 text; echo 1; } >new
qprefill -v --store G --reuse s90.cbor -o b.cbor <new 2>err >/dev/null
grep -q '^qprefill: 90 tokens from s90.cbor' err
ok $? "--reuse with a store: the longer one is taken"
qprefill -o c.cbor <new >/dev/null
qstate diff b.cbor c.cbor
ok $? "and is right"
qprefill --store E --logits=all -f raw <text >l1
qprefill --logits=all -f raw <text >l2
cmp -s l1 l2
ok $? "--logits=all with a store has all rows"

# a run that is killed was not for nothing; should it end before it is killed,
# all of it is there.  A run comes after its checkpoint.
ids 3500 7 500 >long
qprefill --no-store -o cold.cbor <long >/dev/null
qprefill --batch 2 --store K -o b.cbor <long >/dev/null &
pid=$!
while kill -0 $pid 2>/dev/null &&
    ! qstate ls --store K 2>/dev/null | awk '$1 == "kv" && $3 >= 1024 { n++ }
	END { exit !n }'; do
	sleep 0.02
done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
qstate verify --store K
ok $? "after kill -9 the store is whole"
qprefill -v --store K -o b.cbor <long 2>err >/dev/null
[ "$(taken)" -ge 1024 ]
ok $? "and has what the run had read: $(taken)"
qstate diff b.cbor cold.cbor
ok $? "with the right bits"

# --- what is in it
is "$(qstate ls --store E | awk '{ print $1 }' | sort -u | xargs)" "checkpoint kv model" "ls"
qstate ls --store E --json | jq -s -e --argjson size "$(find E -type f -size +0 \
    -exec wc -c {} + | awk '$2 ~ /^E/ { n += $1 } END { print n }')" '
    ([.[].bytes] | add) <= $size and all(.[]; .end <= 100) and
    all(.[]; .path | length > 0)' >/dev/null
ok $? "ls --json"
is "$(qstate du --store E --json | jq -s -c '[.[-1].total, .[-1].tokens]')" '["all",100]' \
    "du --json"
# the first words, with a model
printf 'In the beginning\nGod \033[31m created' | qtok |
    qprefill --store W -o b.cbor >/dev/null
qstate ls --store W -m "$DEMO" >out
is "$(sed -n 's/^kv .* text //p' out)" 'In the beginning God \x1b[31m created' \
    "ls -m: $(tail -n 1 out)"
is "$(grep -c '^checkpoint .* text' out)" 0 "of runs alone"
is "$(qstate ls --store W -m "$DEMO" --json | jq -r 'select(.text) | .text[0:16]')" \
    "In the beginning" "ls -m --json"
is "$(qstate ls --store S -m "$DEMO" | grep -c ' text ')" 0 "of its vocabulary alone"
hash=$(qstate ls --store E --json | jq -r 'select(.end == 100) | .prefix' | head -n 1)
qstate rm --store E "$hash" >out
is "$? $(cut -d ' ' -f 1 out | xargs)" "0 removed left" "rm of one"
left=$(find E -name '*.kv' -o -name '*.cp' | wc -l)
cp out left.out
qprefill -v --store E -o b.cbor <text 2>err >/dev/null
[ "$(taken)" -lt 100 ] && qstate diff a.cbor b.cbor
ok $? "which then is read again"
refused 1 "rm of what is not there" qstate rm --store E -q ffffffffffffffffffffffffffffffff
is "$(sed -n 's/^left \([0-9]*\) .*/\1/p' left.out)" "$left" "which tells what is left"
# what has a checkpoint's name and is none: a run's tokens go all the same
for what in link folder fifo; do
	cp -r E P
	cp=$(find P -name '*.cp' | head -n 1)
	echo mine >mine
	rm "$cp"
	case $what in
	link) ln -s "$PWD/mine" "$cp" ;;
	folder) mkdir "$cp" ;;
	fifo) mkfifo "$cp" ;;
	esac
	cp -r P Q
	qstate rm --store P --all >out
	is "$?$(find P -name '*.kv')" 0 "rm --all, a $what in place of a checkpoint"
	is "$(tail -n 1 out) $(cat mine)" "left $(find P -name '*.cp' | wc -l) 0 mine" \
	    "what it is and points to stays, and is told of: $what"
	qstate gc --store Q --store-max 1 >/dev/null
	is "$?$(find Q -name '*.kv')" 0 "gc likewise: $what"
	rm -rf P Q mine
done
qstate rm --store E --all >out
is "$?$(qstate ls --store E | wc -l) $(tail -n 1 out)" "00 left 0 0" "rm --all"
qstate gc --store G --store-max 1 >out
is "$? $(qstate ls --store G | wc -l)" "0 0" "gc to nothing"
qprefill --store H --store-max 600K -o b.cbor <text >/dev/null
for i in 1 2 3 4 5; do
	ids 60 $i 500 | qprefill --store H --store-max 600K -o b.cbor >/dev/null
done
[ "$(qstate du --store H --json | jq 'select(.total) | .bytes')" -le 614400 ]
ok $? "--store-max is kept"

# --- what killed writers left goes with the next who writes; what others write stays
ids 90 8 500 | qprefill --store L -o b.cbor >/dev/null
dir=$(dirname "$(find L -name '*.cp' | head -n 1)")
head -c 100000 /dev/zero >"$dir/.tmp-0000000000000001"
head -c 100000 /dev/zero >"$dir/.tmp-0000000000000002"
if command -v python3 >/dev/null; then
	mkfifo locked
	python3 -c 'import fcntl, sys, time
f = open(sys.argv[1], "r+b")
fcntl.lockf(f, fcntl.LOCK_EX)
open("locked", "w").write("x")
time.sleep(60)' "$dir/.tmp-0000000000000002" &
	locker=$!
	read -r _ <locked
	ids 90 9 500 | qprefill --store L -o b.cbor >/dev/null
	is "$(cd "$dir" && echo .tmp-*)" .tmp-0000000000000002 \
	    "a temporary that nobody has locked goes, the other one stays"
	kill $locker
	wait $locker 2>/dev/null
else
	skip "temporaries that are locked" "no python3"
fi
qstate gc --store L >out 2>err
is "$?$(cd "$dir" && echo .tmp-*) $(grep -c '^removed [12] [12]00000$' out)" \
    "0.tmp-* 1" "gc removes what is left"
grep -q '^qstate: freed 0\.[12] MB in [12] files*; .* MB in [0-9]* files are left$' err
ok $? "and says how much that was: $(cat err)"

# --- verify while others remove files and write them again
(while [ ! -e enough ]; do
	ids 90 8 500 | qprefill -q --store L -o c.cbor >/dev/null
	qstate gc -q --store L --store-max 1 >/dev/null
done) &
turns=$!
bad=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	qstate verify --store L 2>>bad.err || bad=$((bad + 1))
done
: >enough
wait $turns
is "$bad$(cat bad.err)" 0 "verify beside gc: nothing is called bad"

# --- whatever happens to it
cp -r S T
find T -type f -size +100c | while read -r f; do
	n=$(($(wc -c <"$f") / 2))
	printf '\377\376\375\374' | dd of="$f" bs=1 seek=$n conv=notrunc 2>/dev/null
done
model qwen35moe-ud
QWEN_MODEL=$MODEL; export QWEN_MODEL
ids 150 5 "$(gguf-inspect --json | jq '.tensors[] |
    select(.name == "token_embd.weight") | .shape[1]')" >old
qprefill -o cold.cbor <old >/dev/null
qstate verify --store T 2>err
is "$? $([ -s err ] && echo told)" "1 told" "verify of a damaged store"
qprefill --store T -o new.cbor <old 2>err >/dev/null
is "$? $(wc -l <err)" "0 1" "a damaged store: one warning: $(cat err)"
qstate diff new.cbor cold.cbor
ok $? "and the right state"
cp -r S T2
find T2 -type f -size +100c | while read -r f; do
	n=$(($(wc -c <"$f") / 2))
	printf '\377\376\375\374' | dd of="$f" bs=1 seek=$n conv=notrunc 2>/dev/null
done
qstate verify --store T2 --remove 2>/dev/null
qstate verify --store T2
ok $? "verify --remove leaves what is whole"
: >file
qprefill --store file -o new.cbor <old 2>err >/dev/null
is "$? $(wc -l <err)" "0 1" "a file for a store: one warning: $(cat err)"
qprefill --store no/such/folder -o new.cbor <old 2>err >/dev/null
is "$? $(wc -l <err)" "0 1" "a folder that cannot be made: one warning: $(cat err)"
qstate diff new.cbor cold.cbor
ok $? "and the right state"

# --- the command line
refused 1 "ls of a store that is not there" qstate ls --store nowhere
[ ! -e nowhere ]
ok $? "which is not made"
refused 2 "ls without a store" qstate ls
refused 2 "rm of nothing" qstate rm --store S
refused 2 "rm of all and of one" qstate rm --store S --all 12
refused 2 "gc with a bad size" qstate gc --store S --store-max 12X
refused 2 "gc with a unit of two letters" qstate gc --store S --store-max 12MB
qstate gc --store S --store-max 12t >/dev/null
ok $? "units in small letters"
refused 2 "--store ''" qprefill --store '' <old
for max in 0 none; do
	qprefill --store S --store-max $max -o new.cbor <old >/dev/null 2>err
	is "$?$(cat err)" 0 "--store-max $max: no limit"
done
refused 2 "--store-max nothing" qprefill --store S --store-max nothing <old
refused 2 "--store-max without a store" qprefill --store-max 1G <old
refused 2 "--store-max 99999999999T" qprefill --store S --store-max 99999999999T <old
refused 2 "an operand" qstate ls --store S x
for c in ls du 'ls --json' 'du --json'; do
	# shellcheck disable=SC2086
	qstate $c --store S >/dev/full 2>err
	is "$? $(grep -c . err)" "1 1" "$c: a full disk"
done
done_testing
