#!/bin/sh
# SPDX-License-Identifier: ISC
#
# A batch of prompts over the tasks of a Slurm job array:
#
#   sbatch --array=1-8 slurm-array.sh in.jsonl results [qbatch options]
#
# Task I answers its part of the lines into results/part.I.jsonl; when all are
# done,
#
#   qbatch --merge -o all.jsonl results/part.*.jsonl
#
# puts them in the order of the input.  A task that is requeued or run again
# goes on where its file ends, on whatever node, and gives the same bytes.
# Requests that are answered by errors do not fail a task; the merge's exit
# status is 3 then, and qbatch --retry-failed -o all.jsonl in.jsonl does them
# again.
#
#SBATCH --job-name=qbatch
#SBATCH --requeue
#SBATCH --open-mode=append

in=$1 results=$2
shift 2
mkdir -p "$results"
qbatch --shard slurm --resume -t "${SLURM_CPUS_PER_TASK:-0}" \
    -o "$results/part.$SLURM_ARRAY_TASK_ID.jsonl" "$@" "$in"
status=$?

# Killed, for want of memory say: try again, but not for ever.
if [ $status -gt 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	scontrol requeue "$SLURM_JOB_ID"
fi
# Each request has a result, some of them errors: a task that depends on this
# one can go on.
[ $status != 3 ] || status=0
exit $status
