#!/bin/sh
# The recipes of examples/: a Slurm job array and GNU parallel, each with one
# task that is killed in the midst of a line, tried again, and goes on.
. "$TOP/tests/cli/tap.sh"
QWEN_MODEL=$TOP/demo/demo.gguf; export QWEN_MODEL

# --- lines that cannot be answered end nothing
cat >lines.jsonl <<'E'
{"prompt":"And it came to pass","max_tokens":2}
not json
{"custom_id":"c","body":{"prompt":"And","max_tokens":"x"}}
{"prompt":"In the beginning","max_tokens":2}
{"custom_id":"e","body":{"prompt":"And God","max_tokens":2}}
E
qbatch lines.jsonl >want 2>err
is "$?, $(wc -l <want)" "3, 5" "five lines, two of them bad"
sed 's/"x"/2/; s/not json/{"prompt":"Amen"}/' lines.jsonl >mended.jsonl
qbatch -n 2 mended.jsonl >mended 2>err
# mend FILE: what failed in it, once the input is mended
mend() {
	qbatch -n 2 --retry-failed -o "$1" mended.jsonl 2>err &&
	    qbatch --merge -o "$1" "$1" && cmp -s "$1" mended
	ok $? "mended, what failed is done again"
}
for i in 1 2 3; do
	SLURM_ARRAY_TASK_ID=$i SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_COUNT=3 \
	    sh "$TOP/examples/slurm-array.sh" lines.jsonl bad.results 2>>err
	echo $?
done >statuses
is "$(xargs <statuses)" "0 0 0" "a job array: its tasks end well"
qbatch --merge -o merged bad.results/part.* 2>err
is "$?, $(cmp merged want && echo same)" "3, same" "and its parts are merged"
mend merged
if parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
	sh "$TOP/examples/parallel-hosts.sh" 2 lines.jsonl "bad all" >out 2>err
	is "$?, $(ls | grep -c 'bad all.part'), $(cmp "bad all" want && echo same)" \
	    "3, 0, same" "parallel: parts with bad lines are merged"
	mend "bad all"
	sh "$TOP/examples/parallel-hosts.sh" 2 lines.jsonl no/folder >out 2>err
	is "$?, $(ls no 2>/dev/null)" "2, " "parts that cannot be done are not"
else
	skip "GNU parallel" "it is not installed"
fi

if [ -z "$QPIPE_LONG" ]; then
	skip "job arrays and GNU parallel" "make check-long has them"
	done_testing
fi
seq 60 | awk '{ printf "{\"prompt\":\"And it came to pass\"," \
    "\"temperature\":0.9,\"max_tokens\":12,\"seed\":%d}\n", $1 }' >in.jsonl
qbatch in.jsonl >want
is "$?, $(wc -l <want)" "0, 60" "60 lines, in one process"

# a qbatch that part 2 of does not survive, the first time: the file that it
# writes cannot have more than so many blocks
mkdir killer
REAL=$(command -v qbatch); HERE=$PWD; export REAL HERE
cat >killer/qbatch <<'END'
#!/bin/sh
case "$SLURM_ARRAY_TASK_ID $*" in
"2 --shard slurm"* | *"--shard 2/3"*)
	if mkdir "$HERE/died" 2>/dev/null; then
		ulimit -f 4
		exec "$REAL" "$@"
	fi ;;
esac
exec "$REAL" "$@"
END
chmod +x killer/qbatch
PATH=$PWD/killer:$PATH; export PATH

# --- GNU parallel
if parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
	sh "$TOP/examples/parallel-hosts.sh" 3 in.jsonl "all of it" >out 2>err
	is "$?, $(ls -d died), $(ls | grep -c part)" "0, died, 0" \
	    "parallel: a part was killed, and the whole is done"
	cmp -s "all of it" want
	ok $? "with the bytes of one process"
else
	skip "GNU parallel" "it is not installed"
fi
rm -rf died

# --- Slurm, on this machine alone, for as long as this test runs
for c in slurmctld slurmd sbatch scontrol sinfo; do
	if ! command -v $c >/dev/null 2>&1; then
		skip "Slurm" "no $c"
		done_testing
	fi
done
if [ "$(id -u)" != 0 ]; then
	skip "Slurm" "slurmd wants to be root"
	done_testing
fi
mkdir state spool
host=$(hostname)
# free ports are not to be had for certain: another pair each time
port=$((20000 + $$ % 20000))
cat >slurm.conf <<END
ClusterName=qpipe
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
SlurmctldPidFile=$PWD/ctld.pid
SlurmdPidFile=$PWD/d.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=$host NodeAddr=127.0.0.1 CPUs=3 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
SLURM_CONF=$PWD/slurm.conf; export SLURM_CONF
slurmctld -D >ctld.log 2>&1 &
ctld=$!
slurmd -D >d.log 2>&1 &
d=$!
trap 'kill $d $ctld 2>/dev/null; wait' EXIT
n=0
while ! sinfo -h -o %t 2>/dev/null | grep -q idle && [ $n -lt 300 ]; do
	sleep 0.2
	n=$((n + 1))
done
if ! sinfo -h -o %t 2>/dev/null | grep -q idle; then
	sed 's/^/# /' ctld.log d.log >&2
	skip "Slurm" "it does not start here"
	done_testing
fi
timeout 600 sbatch --wait --array=1-3 -o log.%a "$TOP/examples/slurm-array.sh" \
    in.jsonl results >out 2>&1
sed 's/^/# /' out log.* >&2
# --wait does not wait for what was requeued
n=0
while [ -n "$(squeue -h 2>/dev/null)" ] && [ $n -lt 3000 ]; do
	# which would otherwise be in two minutes
	for id in $(squeue -h -t PD -o %A 2>/dev/null); do
		scontrol update JobId="$id" StartTime=now 2>/dev/null
	done
	sleep 0.2
	n=$((n + 1))
done
is "$(ls -d died; ls results | xargs)" "died
part.1.jsonl part.2.jsonl part.3.jsonl" "Slurm: three tasks, one was killed"
qbatch --merge results/part.* | cmp -s - want
ok $? "requeued, it went on: the bytes of one process"
done_testing
