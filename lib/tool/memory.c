/* SPDX-License-Identifier: ISC */
/*
 * memory.c - checks whether the model fits into memory before it starts.
 *
 * Mapped files in the page cache count as free, since they can be dropped and
 * read again.  But if the weights do not fit beside everything else, each token
 * would read them from disk.
 */
#include <sys/resource.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>

#include "base/cgroup.h"
#include "tool/tool.h"

enum { PASS = 1024 };		/* tokens */

int tool_force;

static uint64_t
less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the bytes that a limit of the process (ulimit(1)) leaves. */
static uint64_t
left_in_limit(int which, const char *used)
{
	struct rlimit r;

	if (getrlimit(which, &r) == -1 || r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return less(r.rlim_cur, 1024 * qwen_number_in("/proc/self/status",
	    "", used, 0));
}

/* Returns at most left, less what limits of the process exclude. */
static uint64_t
left_in_process(uint64_t left)
{
	left = least(left, left_in_limit(RLIMIT_DATA, "VmData:"));
	return least(left, left_in_limit(RLIMIT_AS, "VmSize:"));
}

/*
 * Takes the weights that other ranks of MPI have from p, and returns which share
 * of keys, values and states this rank has: 1 without other ranks.
 */
static double
leave_to_ranks(struct qwen_plan *p, const struct qwen_model *m)
{
	static struct qwen_plan_home home[64];
	double here = 1, all;
	size_t k, n;

	if (qwen_plan_homes(home, 64, &n, m, NULL, p->n_tokens,
	    p->n_sequences, 0, NULL) < 0 || n == 0)
		return 1;
	all = here = 1 + (double)home[0].kv + (double)home[0].state;
	for (k = 1; k < n; k++) {
		if (strncmp(home[k].device, "mpi:", 4) != 0)
			continue;
		p->weights = less(p->weights, home[k].weights);
		all += (double)home[k].kv + (double)home[k].state;
	}
	return here / all;
}

/* Of a cache for all ranks, each has memory for its own layers. */
uint64_t
tool_memory_share(const struct qwen_model *m, unsigned eighths)
{
	uint64_t left = tool_memory_free(), part, one, first;
	struct qwen_plan p;
	double here;

	if (left == UINT64_MAX)
		return 0;
	/* includes the memory of a pass of many tokens */
	qwen_plan_make(&p, m, PASS, 1, 0, 0, NULL);
	here = leave_to_ranks(&p, m);
	/* converted weights are in memory already, so left excludes them */
	left = less(left, tool_quantize != NULL ? 0 : p.weights);
	left = less(left_in_process(left), p.own);
	part = left / 8 * eighths;
	/* a rank that has nearly nothing does not say what the others have */
	part = (uint64_t)((double)part / (here > 1.0 / 8 ? here : 1.0 / 8));
	one = least(qwen_cache_need(m, qwen_model_n_ctx(m)), left / 8 * 7);
	first = qwen_cache_need(m, 1);
	part = part > one ? part : one;
	return part > first ? part : first;
}

void
tool_memory_check(const struct qwen_model *m, const struct tool_need *need)
{
	const struct tool_draft *d = need->draft;
	uint64_t free_bytes = tool_memory_free(), all;
	uint64_t own = left_in_process(free_bytes);
	struct qwen_plan p;
	char text[32] = "";
	double unit, elsewhere;

	qwen_plan_make(&p, m, need->n_tokens, need->n_sequences, need->batch,
	    d == NULL || d->mode == QWEN_DRAFT_NONE ? 0 : d->n > 0 ? d->n :
	    QWEN_GUESS_MAX, need->keep);
	if (need->cache > 0 && p.own != UINT64_MAX)
		p.own -= less(p.kv + p.state, need->cache);
	elsewhere = (1 - leave_to_ranks(&p, m)) * (double)(need->cache > 0 ?
	    need->cache : p.kv + p.state);
	if (p.own != UINT64_MAX && elsewhere > 0)
		p.own = less(p.own, (uint64_t)elsewhere);
	all = need->in_memory || tool_quantize != NULL ? 0 : p.weights;
	all = p.own > UINT64_MAX - all ? UINT64_MAX : p.own + all;
	if (own != UINT64_MAX)
		snprintf(text, sizeof text, ", %.1f free", (double)own /
		    0x1p30);
	if (cli_verbose)
		cli_note("memory: %.3f GiB besides the weights, which take "
		    "%.2f%s", (double)p.own / 0x1p30,
		    (double)p.weights / 0x1p30, text);
	if (tool_force || (p.own <= own && all <= free_bytes))
		return;
	all = p.own > own ? p.own : all;
	unit = all < 1 << 27 ? 0x1p20 : 0x1p30;
	die(p.own > own ?
	    "%s: needs %.1f %s besides the weights, and %.1f are free; --force "
	    "runs anyway" :
	    "%s: needs %.1f %s including the weights, and %.1f are free: "
	    "weights would be read from disk for every token; --force runs anyway",
	    qwen_gguf_path(qwen_model_gguf(m), 0), (double)all / unit,
	    all < 1 << 27 ? "MiB" : "GiB",
	    (double)(p.own > own ? own : free_bytes) / unit);
}

struct qwen_cache *
tool_cache_open(struct qwen_model *m, uint64_t *mem, struct tool_need need)
{
	uint64_t first = qwen_cache_need(m, 1);
	struct qwen_cache *c;

	if (*mem > 0 && *mem < first)
		cli_usage("--mem: %llu bytes are too few for one sequence: "
		    "give at least %llu", cli_llu(*mem), cli_llu(first));
	if (*mem == 0)
		*mem = tool_memory_share(m, 7);
	else if (*mem > tool_memory_free())
		cli_note("--mem: %.1f GiB, but only %.1f are free",
		    (double)*mem / 0x1p30, (double)tool_memory_free() / 0x1p30);
	need.cache = *mem;
	tool_memory_check(m, &need);
	cli_must(NULL, qwen_cache_new(&c, m, *mem, &cli_err));
	return c;
}

void
tool_memory_return(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
