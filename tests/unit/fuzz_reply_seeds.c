/* SPDX-License-Identifier: ISC */
/* fuzz_reply_seeds.c - what the fuzzer of replies starts from, replayed. */
#include "../fuzz/fuzz_reply.c"
#include "fuzz_replay.h"

int
main(void)
{
	return replay_main("reply", 40);
}
