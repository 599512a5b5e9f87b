/* SPDX-License-Identifier: ISC */
/* fuzz_tok_seeds.c - what the fuzzer of the tokenizer starts from, replayed. */
#include "../fuzz/fuzz_tok.c"
#include "fuzz_replay.h"

int
main(void)
{
	return replay_main("tok", 200);
}
