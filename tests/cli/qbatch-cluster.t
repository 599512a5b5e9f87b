#!/bin/sh
# The recipes of examples/: a Slurm job array and GNU parallel, each with one
# task that is killed within a line, started again, and resumed; and a
# Kubernetes Job, whose manifest is parsed and whose command is run.  One model
# over two tasks of srun.
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

# --- Kubernetes: what the manifest says, and its command in two pods
python=
for p in python3 /usr/bin/python3; do
	[ -n "$python" ] || ! $p -c 'import yaml' 2>/dev/null || python=$p
done
if [ -n "$python" ]; then
	$python - "$TOP/examples/kubernetes-job.yaml" >command 2>err <<'E'
import sys, yaml
(job,) = yaml.safe_load_all(open(sys.argv[1]))
spec = job["spec"]
pod = spec["template"]["spec"]
(c,) = pod["containers"]
env = {e["name"]: e for e in c["env"]}
mounts = {m["name"] for m in c["volumeMounts"]}
rules = spec["podFailurePolicy"]["rules"]
assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
assert spec["completionMode"] == "Indexed"
assert env["PARTS"]["value"] == str(spec["completions"]), "PARTS"
assert 1 <= spec["parallelism"] <= spec["completions"]
# podFailurePolicy asks for pods that are not restarted in place
assert pod["restartPolicy"] == "Never"
assert mounts == {v["name"] for v in pod["volumes"]}
assert c["workingDir"] in {m["mountPath"] for m in c["volumeMounts"]}
assert env["QWEN_MODEL"]["value"].startswith(c["workingDir"] + "/")
assert env["THREADS"]["valueFrom"]["resourceFieldRef"]["resource"] == "limits.cpu"
assert c["resources"]["limits"] == c["resources"]["requests"]
assert c["command"] == ["/bin/sh", "-c"] and len(c["args"]) == 1
for r in rules:
    codes = r.get("onExitCodes", {"containerName": c["name"], "values": []})
    assert codes["containerName"] == c["name"]
    assert not {0, 3} & set(codes["values"])
assert {r["action"] for r in rules} == {"Ignore", "FailJob"}
print(c["args"][0])
E
	is "$?, $(cat err)" "0, " "Kubernetes: the manifest is an indexed Job"
	mkdir pods
	cp lines.jsonl pods/in.jsonl
	qbatch -n 200 lines.jsonl >pods/want 2>err
	for i in 0 1; do
		(cd pods && JOB_COMPLETION_INDEX=$i PARTS=2 THREADS=1 \
		    /bin/sh -c "$(cat ../command)" 2>>../err)
		echo $?
	done >statuses
	is "$(xargs <statuses)" "0 0" "its command, in two pods"
	(cd pods && qbatch --merge --of in.jsonl -o all.jsonl part.*.jsonl 2>../err)
	is "$?, $(cmp pods/all.jsonl pods/want && echo same)" "3, same" \
	    "and the merge that it names"
	(cd pods && QWEN_MODEL=none JOB_COMPLETION_INDEX=0 PARTS=1 THREADS=1 \
	    /bin/sh -c "$(cat ../command)" 2>../err)
	is $? 1 "without a model it fails: $(cat err)"
else
	skip "Kubernetes" "no python3 with yaml"
fi

if [ -z "$QPIPE_LONG" ]; then
	skip "job arrays and GNU parallel" "make check-long has them"
	done_testing
fi
seq 60 | awk '{ printf "{\"prompt\":\"And it came to pass\"," \
    "\"temperature\":0.9,\"max_tokens\":12,\"seed\":%d}\n", $1 }' >in.jsonl
qbatch in.jsonl >want
is "$?, $(wc -l <want)" "0, 60" "60 lines, in one process"

# a qbatch that is killed in part 2, the first time, in the midst of a line
mkdir killer
REAL=$(command -v qbatch); HERE=$PWD; export REAL HERE
cat >killer/qbatch <<'END'
#!/bin/sh
echo "$SLURM_JOB_NAME $*" >>"$HERE/called"
case "$SLURM_ARRAY_TASK_ID $*" in
"2 --shard slurm"* | *"--shard 2/3"*)
	if mkdir "$HERE/died" 2>/dev/null; then
		for a; do
			[ "$o" != -o ] || file=$a
			o=$a
		done
		"$REAL" --arrivals 10 "$@" &
		n=0
		while [ "$(cat "$file" 2>/dev/null | wc -l)" -lt 5 ] &&
		    [ $n -lt 1000 ]; do
			sleep 0.02
			n=$((n + 1))
		done
		kill -9 $!
		printf '{"line":44,"te' >>"$file"
		kill -9 $$
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
rm -rf died called

# --- Slurm, on this machine alone, for as long as this test runs
for c in munged slurmctld slurmd sbatch scontrol sinfo; do
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
mkdir -m 700 munge
head -c 128 /dev/urandom >munge/key
chmod 600 munge/key
# the socket's path has to be short, and its folder open to all
sock=$(mktemp -d /tmp/qpipe-munge.XXXXXX)
chmod 755 "$sock"
munged --foreground --force --key-file="$PWD/munge/key" --socket="$sock/s" \
    --pid-file="$PWD/munge/pid" --log-file="$PWD/munge/log" \
    --seed-file="$PWD/munge/seed" >munge/out 2>&1 &
munge=$!
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
AuthType=auth/munge
AuthInfo=socket=$sock/s
StateSaveLocation=$PWD/state
SlurmdSpoolDir=$PWD/spool
SlurmctldPidFile=$PWD/ctld.pid
SlurmdPidFile=$PWD/d.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
SLURM_CONF=$PWD/slurm.conf; export SLURM_CONF
n=0
while [ ! -S "$sock/s" ] && [ $n -lt 50 ]; do
	sleep 0.2
	n=$((n + 1))
done
slurmctld -D >ctld.log 2>&1 &
ctld=$!
slurmd -D >d.log 2>&1 &
d=$!
trap 'kill $d $ctld $munge 2>/dev/null; wait; rm -rf "$sock"' EXIT
n=0
while ! sinfo -h -o %t 2>/dev/null | grep -q idle && [ $n -lt 300 ]; do
	sleep 0.2
	n=$((n + 1))
done
if ! sinfo -h -o %t 2>/dev/null | grep -q idle; then
	sed 's/^/# /' munge/out ctld.log d.log >&2
	skip "Slurm" "it does not start here"
	done_testing
fi
# jobs_end: wait for all of them, those that were requeued, too, which would
# otherwise start in two minutes
jobs_end() {
	n=0
	while [ -n "$(squeue -h 2>/dev/null)" ] && [ $n -lt 3000 ]; do
		for id in $(squeue -h -t PD -o '%A %r' 2>/dev/null |
		    awk '$2 == "BeginTime" { print $1 }'); do
			scontrol update JobId="$id" StartTime=now 2>/dev/null
		done
		sleep 0.2
		n=$((n + 1))
	done
}
# as the comment in the script says
job=$(sbatch --parsable --array=1-3 -o log.%a "$TOP/examples/slurm-array.sh" \
    in.jsonl results)
sbatch --dependency=afterany:"$job" -J merge -o log.merge --wrap \
    'qbatch --merge --of in.jsonl -o all.jsonl results/part.*.jsonl' >out 2>&1
jobs_end
sed 's/^/# /' out log.* >&2
is "$(ls -d died; ls results | xargs)" "died
part.1.jsonl part.2.jsonl part.3.jsonl" "Slurm: three tasks, one was killed"
cmp -s all.jsonl want
ok $? "requeued, it was resumed, and then merged: the bytes of one process"
is "$(grep -c -- ' --shard slurm .*-t 1 ' called), $(grep -c '^merge --merge' called)" "4, 1" \
    "a thread for the processor of each task, a merge after them"
# one model over two tasks
if [ -e "$B/libqwen-mpi.so.0" ] && srun --mpi=list 2>&1 | grep -qw pmix; then
	LD_LIBRARY_PATH=$B timeout 120 srun -n 2 --mpi=pmix "$REAL" -q \
	    --device mpi:1:1 in.jsonl >ranks 2>err
	is "$?, $(cmp ranks want && echo same)" "0, same" "srun: two ranks of MPI"
	sed 's/^/# /' err >&2
else
	skip "srun: two ranks of MPI" "no MPI, or srun without PMIx"
fi
# a task that its time limit stops: it needs 75 seconds, and has less
rm called
job=$(sbatch --parsable --array=1 --cpus-per-task=2 --time=1 --signal=B:TERM@40 \
    -o log.time "$TOP/examples/slurm-array.sh" in.jsonl timed --arrivals 0.8)
jobs_end
sed 's/^/# /' log.time >&2
qbatch --merge --of in.jsonl timed/part.* 2>err | cmp -s - want
ok $? "a task that its time limit stopped was requeued, and is complete"
n=$(grep -c -- ' -t 2 ' called)
[ "$n" -ge 2 ]
ok $? "it ran $n times, with the threads of --cpus-per-task"
done_testing
