#!/bin/sh
# SPDX-License-Identifier: ISC
#
# A batch of prompts over the hosts that GNU parallel knows:
#
#   parallel-hosts.sh parts in.jsonl out.jsonl [qbatch options]
#
# With a file of host names in $HOSTS they are reached by ssh, and have the
# input, the model and this folder under the same names (a shared file system);
# without, the parts are done here.  A part that was killed is tried again, by
# whichever host is free, goes on where its file ends, and gives the same bytes.
# If some fail all the same, the parts stay; the same line again goes on.
# Requests that are answered by errors end nothing: the exit status is 3 then,
# and qbatch --retry-failed -o out.jsonl in.jsonl does these again.
set -e
n=$1 in=$2 out=$3
shift 3

# a part is done with 0 or 3: each of its requests has a result
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
