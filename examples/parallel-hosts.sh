#!/bin/sh
# SPDX-License-Identifier: ISC
#
# Answers a batch of prompts on several hosts, with GNU parallel:
#
#   parallel-hosts.sh parts in.jsonl out.jsonl [qbatch options]
#
# $HOSTS is a file of host names, which parallel reaches by ssh.  The hosts must
# have the input, the model and this folder under the same names (on a shared
# file system).  Without $HOSTS all parts run on this machine.
#
# A part that was killed is started again, on any free host.  It resumes where
# its file ends, and gives the same bytes.  If a part still fails, the files of
# all parts stay, and the same command resumes them.
#
# Requests answered by errors do not stop the batch.  The exit status is then 3,
# and qbatch --retry-failed -o out.jsonl in.jsonl answers these requests again.
set -e
n=$1 in=$2 out=$3
shift 3

# a part is complete if qbatch exits with 0 or 3: each request has a result
seq "$n" | parallel --quote --will-cite ${HOSTS:+--sshloginfile "$HOSTS"} \
    ${HOSTS:+--workdir .} --jobs "${JOBS:-1}" --retries 3 \
    sh -c 'qbatch "$@" || [ $? = 3 ]' sh \
    --shard "{}/$n" --resume -o "$out.part{}" "$@" "$in"
set --
for i in $(seq "$n"); do
	set -- "$@" "$out.part$i"
done
status=0
qbatch --merge --of "$in" -o "$out" "$@" || status=$?
[ $status = 0 ] || [ $status = 3 ] || exit $status
rm "$@"
exit $status
