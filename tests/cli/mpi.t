#!/bin/sh
# --device mpi: a model over several processes has the same bits as in one.
. "$TOP/tests/cli/tap.sh"
needs "mpi" mpirun jq
if [ ! -e "$B/libqwen-mpi.so.0" ]; then
	skip "mpi" "built without mpicc"
	done_testing
fi
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_mpi_yield_when_idle=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM \
    OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_hwloc_base_binding_policy \
    OMPI_MCA_mpi_yield_when_idle
export LD_LIBRARY_PATH="$B${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# ranks N COMMAND...: N processes, within two minutes
ranks() {
	n=$1
	shift
	timeout 120 mpirun -n "$n" "$@"
}

# -- the bits of all golden models, also with layers that move
for level in mpi:1:1:1 moving-mpi; do
	(cd "$TOP" && timeout 500 mpirun -n 1 "$B/tests/golden/bits" $level : \
	    -n 2 sh -c 'exec "$0" $1 >/dev/null' "$B/tests/golden/bits" $level) \
	    >bits 2>err
	is "$? $(grep -c '^not ok' bits)" "0 0" \
	    "$level: $(grep -c '^ok' bits) hashes over 3 ranks"
	sed 's/^/# /' err >&2
done

# -- one process; what others write and read is the same
ids 90 7 400 >ids
head -n 50 ids >some
tail -n +51 ids >rest
qprefill -q --logits all -f raw <ids >one.logits
qprefill -q -o one.cbor <ids >/dev/null
qdecode -q -n 24 -s one.cbor -f text </dev/null >one.text
for n in 1 2 3 5 9; do
	ranks $n qprefill -q --device mpi --logits all -f raw <ids >logits
	cmp -s logits one.logits
	ok $? "logits, $n ranks"
	ranks $n qprefill -q --device mpi -o s.cbor <ids >/dev/null
	cmp -s s.cbor one.cbor
	ok $? "state, $n ranks"
done
for how in none lookup:3 mtp:3; do
	ranks 3 -stdin none qdecode -q --device mpi -n 24 -s one.cbor \
	    --draft $how -f text >text
	cmp -s text one.text
	ok $? "decoded by 3 ranks with --draft $how"
done
ranks 4 qprefill -q --device mpi -o four.cbor <some >/dev/null
for n in 1 3; do
	ranks $n qprefill -q --device mpi -s four.cbor -o s.cbor <rest >/dev/null
	qstate diff s.cbor one.cbor >out
	is "$?$(cat out)" 0 "begun by 4 ranks, ended by $n"
done
for kv in q8_0 f32; do
	qprefill -q --kv $kv -o a.cbor <ids >/dev/null
	ranks 3 qprefill -q --device mpi --kv $kv -o b.cbor <ids >/dev/null
	cmp -s a.cbor b.cbor
	ok $? "state with --kv $kv"
done

# -- long prompts, and many texts, go through in pieces
ids 1000 9 400 >long
qprefill -q --logits all -f raw <long >a
qprefill -q --draft mtp -o a.cbor <long >/dev/null
for n in 2 4; do
	ranks $n qprefill -q --device mpi --logits all -f raw <long >b
	cmp -s a b
	ok $? "logits of 1000 tokens, $n ranks"
	for batch in 333 700; do
		ranks $n qprefill -q --device mpi --draft mtp --batch $batch \
		    -o b.cbor <long >/dev/null
		qstate diff a.cbor b.cbor >out
		is "$?$(cat out)" 0 "state of 1000 tokens in passes of $batch"
	done
done
i=0
while [ $i -lt 150 ]; do
	i=$((i + 1))
	printf '{"prompt":"And %s said, %s","seed":%s,"max_tokens":9}\n' $i $i $i
done >requests
qbatch -q --max-sequences 200 requests >a
for how in none lookup:4; do
	ranks 3 qbatch -q --device mpi --max-sequences 200 --draft $how \
	    requests >b
	cmp -s a b
	ok $? "$(grep -c '"text"' b) texts at a time, --draft $how"
done

# -- a model without recurrent states, and one with experts
for name in qwen3 qwen3moe; do
	(model $name
	qprefill -q --logits all -f raw <ids >a
	ranks 3 qprefill -q --device mpi --logits all -f raw <ids >b
	cmp -s a b)
	ok $? "$name"
done

# -- many texts at a time
for i in 1 2 3 4 5 6 7; do
	printf '{"prompt":"And God said unto him, %s","temperature":0.8,"seed":%s,"max_tokens":%s}\n' \
	    $i $i $((i + 9))
done >requests
qbatch -q requests >a
ranks 3 qbatch -q --device mpi requests >b
cmp -s a b
ok $? "qbatch: $(grep -c '"text"' b) answers"
printf 'In the beginning God created the heaven and the earth.\n' >text
qscore text >a
ranks 3 qscore --device mpi text >b
cmp -s a b
ok $? "qscore"
for i in 1 2 3 4; do
	printf '{"id":"%s","tokens":[%s],"max":9}\n' $i "$(ids 20 $i 400 |
	    paste -sd, -)"
done >requests
qengine -q <requests | jq -Sc 'del(.ms)' | sort >a
ranks 3 qengine -q --device mpi <requests | jq -Sc 'del(.ms)' | sort >b
[ -s a ] && [ "$(jq -r 'select(has("token")) | [.id, .token] | @tsv' a)" = \
    "$(jq -r 'select(has("token")) | [.id, .token] | @tsv' b)" ]
ok $? "qengine"

# -- ranks that die or hang: the same command resumes, on any number of ranks
cat >rank <<'EOT'
echo $$ >pid.new.$$ && mv pid.new.$$ "pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"
exec "$@"
EOT
i=0
while [ $i -lt 200 ]; do
	i=$((i + 1))
	printf '{"prompt":"And God said unto him, %s","temperature":0.8,"seed":%s,"max_tokens":%s}\n' \
	    $i $i $((i + 60))
done >requests
qbatch -q --max-sequences 2 -o all requests
runs=${QPIPE_LONG:+100}
awk -v seed="$SEED" -v n="${runs:-4}" 'BEGIN {
	srand(seed)
	split("KILL STOP", how)
	for (i = 0; i < n; i++) {
		# rank 0 keeps the deadline: it is not stopped
		print 2 + int(2 * rand()), how[1 + i % 2], rand(), rand() / 9
	}
}' >kills
bad= said=0 hung=0 died=0
while read -r n how which wait; do
	rm -f pid.*
	before=$(cat answers 2>/dev/null | wc -c)
	timeout 60 mpirun -n $n sh rank qbatch -q --device mpi/2 --max-sequences 2 --resume \
	    -o answers requests >/dev/null 2>err </dev/null &
	run=$!
	until [ "$(cat answers 2>/dev/null | wc -c)" != "$before" ] ||
	    ! kill -0 $run 2>/dev/null; do sleep 0.02; done
	sleep "$wait"
	r=$(echo "$n $which $how" | awk '{ print int($3 == "STOP" ? \
	    1 + ($1 - 1) * $2 : $1 * $2) }')
	kill -$how "$(cat pid.$r)" 2>/dev/null
	wait $run
	rc=$?
	[ $rc != 124 ] || hung=$((hung + 1))
	[ $rc = 0 ] || died=$((died + 1))
	[ $rc != 0 ] || { cmp -s answers all || bad="$bad $n/$how"; rm -f answers; }
	grep -q '^qbatch: rank . on .*, layers .*, gives no sign of life$' err &&
	    said=$((said + 1))
done <kills
ranks 2 qbatch -q --device mpi --resume -o answers requests
cmp -s answers all
is "$? $bad $hung" "0  0" \
    "qbatch after $(grep -c . kills) kills"
[ $said -gt 0 ] && [ $died -ge $said ]
ok $? "$died runs ended by them; rank 0 reported $said that hung"
qdecode -q -n 300 --ignore-eos -s one.cbor -o whole.cbor -f text </dev/null >text
rm -f pid.*
timeout 60 mpirun -stdin none -n 3 sh rank qdecode -q --device mpi -n 300 \
    --ignore-eos -s one.cbor -o cut.cbor --save-every 0.05 -f text >/dev/null 2>err &
run=$!
until [ -e cut.cbor ] || ! kill -0 $run 2>/dev/null; do :; done
kill -KILL "$(cat pid.1)"
wait $run
ranks 2 -stdin none qdecode -q --device mpi -n 300 --ignore-eos -s one.cbor \
    -o cut.cbor --save-every 5 -f text >again
cmp -s again text && qstate diff cut.cbor whole.cbor
ok $? "qdecode resumes what 3 ranks have saved"

# -- shares
ranks 3 qprefill -v --device mpi:1:0:3 <ids 2>err >/dev/null
is "$(sed -n 's/^qprefill: \(mpi:.\) on .*\(: .*\),.*/\1\2/p' err | xargs)" \
    "mpi:1: nothing mpi:2: layers 2-7" "what -v says of ranks"
for list in mpi: mpi:x mpi:0 mpi:1:2:3/0 mpi:1/2x cpu:0,mpi mpi,mpi; do
	refused 1 "--device $list" qprefill -q --device $list <ids
done
ranks 2 qprefill -q --device mpi:1:2:3 <ids >/dev/null 2>err
is "$? $(grep '^q' err)" "1 qprefill: --device: mpi: 3 shares for 2 ranks" \
    "the message of one rank"

gguf-inspect --plan --ranks 3 "$TOP/demo/demo.gguf" >plan
is "$(awk '$1 == "device" && $2 != "name" { printf "%s %s %s; ", $2, $(NF - 1), $NF }
    ' plan)" "mpi:0 0-1, head; mpi:1 layers 2-4; mpi:2 layers 5-7; " "a plan for 3 ranks"
is "$(awk '$1 == "device" && $2 != "name" { n += $3 } END { print n }' plan)" \
    "$(gguf-inspect --plan --device cpu "$TOP/demo/demo.gguf" |
    awk '$1 == "device" && $2 == "cpu" { print $3 }')" "which have all weights"
refused 1 "a plan without shares" gguf-inspect --plan --device mpi \
    "$TOP/demo/demo.gguf"

timeout 30 mpirun -n 1 qprefill -q --device mpi/1 : \
    -n 1 sh -c 'kill -STOP $$; exec qprefill -q --device mpi/1' <ids >out 2>err
is "$? $(wc -c <out) $(grep -c 'does not start in time$' err)" "1 0 1" \
    "a rank that does not start"
refused 2 "a server of ranks" qserve --listen unix:sock --device mpi

# -- ranks that do not fit together
{
	timeout 60 mpirun -n 1 qprefill -q --device mpi : \
	    -n 1 qprefill -q --device mpi --kv q8_0
} <ids >out 2>err
is "$? $(wc -c <out) $(grep -c '^qprefill: .*other options$' err)" "1 0 1" \
    "another option: $(grep '^q' err)"
timeout 30 mpirun -n 1 qprefill -q --device mpi : \
    -n 1 qprefill -q --device mpi,bogus <ids >out 2>err
is "$? $(wc -c <out) $(grep -c "^qprefill: .*device 'bogus'" err)" "1 0 1" \
    "a rank that cannot open its devices ends all at once"
refused 1 "no library" env -u LD_LIBRARY_PATH qprefill -q --device mpi <ids
done_testing
