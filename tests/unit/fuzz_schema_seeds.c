/* SPDX-License-Identifier: ISC */
/* fuzz_schema_seeds.c - what the fuzzer of schemas starts from, replayed. */
#include "../fuzz/fuzz_schema.c"
#include "fuzz_replay.h"

int
main(void)
{
	return replay_main("schema", 40);
}
