#!/bin/sh
# SPDX-License-Identifier: ISC
#
# Answers a batch of prompts in the tasks of a Slurm job array.  A second job merges
# the parts when all tasks have ended:
#
#   job=$(sbatch --parsable --array=1-8 --cpus-per-task=4 slurm-array.sh \
#       in.jsonl results -n 200)
#   sbatch --dependency=afterany:$job --wrap \
#       'qbatch --merge --of in.jsonl -o all.jsonl results/part.*.jsonl'
#
# Task I answers its part of the lines into results/part.I.jsonl.  The merge writes
# the results in the order of the input, and names lines that have no result.  With
# afterok in place of afterany it runs only if no task failed.
#
# A task uses as many threads as it has processors.  A minute before its time
# limit Slurm sends it SIGTERM: then it stops and goes back to the queue.  A task
# that was killed, for lack of memory for instance, is requeued, too: each time if it
# has written results, otherwise at most three times.  A task that is requeued or run
# again, on any node, resumes where its file ends and gives the same bytes.
#
# A task does not fail if some of its results are errors.  The merge then has exit
# status 3, and qbatch --retry-failed -o all.jsonl in.jsonl, with the same options,
# answers these requests again.
#
#SBATCH --job-name=qbatch
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@60

in=$1 results=$2
shift 2
mkdir -p "$results"
part=$results/part.$SLURM_ARRAY_TASK_ID.jsonl
# --cpus-per-task if given, else the processors of the job on this node
threads=${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}
before=$(cat "$part" 2>/dev/null | wc -l)

qbatch --shard slurm --resume -t "$threads" -o "$part" "$@" "$in" &
pid=$!
trap 'stopped=1; kill "$pid" 2>/dev/null' TERM
wait "$pid"
status=$?
# the trap ends the first wait before qbatch has ended
[ -z "$stopped" ] || { wait "$pid"; status=$?; }

if [ "$status" -gt 128 ]; then
	after=$(cat "$part" 2>/dev/null | wc -l)
	if [ "$after" -gt "$before" ] || [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]
	then
		scontrol requeue "$SLURM_JOB_ID"
	fi
fi
# Each request has a result, some of them errors: dependent jobs may run.
[ "$status" != 3 ] || status=0
exit "$status"
