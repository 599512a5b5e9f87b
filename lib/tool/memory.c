/* SPDX-License-Identifier: ISC */
/* memory.c - what texts under way at the same time share, and what it takes. */
#include "tool/tool.h"

/* Before the start: what there will be, and whether it has a limit. */
static void
tell(const struct qwen_cache *c, size_t n_sequences)
{
	struct qwen_cache_usage u;

	qwen_cache_usage(c, &u);
	cli_note("memory: a sequence takes %.2f MiB of recurrent state and "
	    "%.1f KiB for each 16 tokens; %zu sequences take %.1f MiB of "
	    "state", (double)u.state_bytes / 0x1p20,
	    (double)u.block_bytes / 0x1p10, n_sequences,
	    (double)n_sequences * (double)u.state_bytes / 0x1p20);
	if (u.limit > 0)
		cli_note("memory: %.1f MiB for all of these",
		    (double)u.limit / 0x1p20);
	else
		cli_note("memory: no limit (--mem)");
}

struct qwen_cache *
tool_cache_new(struct qwen_model *m, uint64_t mem, size_t n_sequences)
{
	uint64_t least = qwen_cache_need(m, 1);
	struct qwen_cache *c;

	if (mem > 0 && mem < least)
		cli_usage("--mem: %llu bytes are too little for one sequence; "
		    "the least is %llu", (unsigned long long)mem,
		    (unsigned long long)least);
	cli_must(NULL, qwen_cache_new(&c, m, mem, &cli_err));
	if (cli_verbose)
		tell(c, n_sequences);
	return c;
}
