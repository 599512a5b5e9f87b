/* SPDX-License-Identifier: ISC */
/* fuzz_chat_seeds.c - what the fuzzer of templates starts from, replayed. */
#include "../fuzz/fuzz_chat.c"
#include "fuzz_replay.h"

int
main(void)
{
	return replay_main("chat", 40);
}
