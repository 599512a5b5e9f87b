/* SPDX-License-Identifier: ISC */
/* fuzz_score_seeds.c - what the fuzzer of requests for scores starts from, replayed. */
#include "../fuzz/fuzz_score.c"
#include "fuzz_replay.h"

int
main(void)
{
	return replay_main("score", 60);
}
