/* SPDX-License-Identifier: ISC */
/* fuzz_batch_seeds.c - what the fuzzer of batches starts from, replayed. */
#include "../fuzz/fuzz_batch.c"
#include "fuzz_replay.h"

int
main(void)
{
	return replay_main("batch", 60);
}
