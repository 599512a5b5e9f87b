/* SPDX-License-Identifier: ISC */
/* quantize.c - --quantize: convert weights when a model is opened. */
#include <string.h>

#include "hub/hub.h"
#include "quantize/quantize.h"
#include "tool/tool.h"

static struct qwen_gguf *
load_hub(const char *path, int threads, uint64_t *made)
{
	struct qwen_gguf *g;

	cli_must(path, qwen_hub_load(&g, path, QWEN_HUB_Q8_0, threads,
	    tool_memory_free(), made, &cli_err));
	return g;
}

/* The result owns g. */
static struct qwen_gguf *
load_file(struct qwen_gguf *g, const char *path, int threads, uint64_t *made)
{
	const struct qwen_quantize_opts opts = { .recipe = "Q8_0",
	    .cpu = tool_cpu(), .threads = threads };
	struct qwen_gguf *out;

	cli_must(path, qwen_quantize_load(&out, g, &opts, tool_memory_free(),
	    made, &cli_err));
	return out;
}

static struct qwen_gguf *
load(struct qwen_gguf *g, const char *path, int threads)
{
	double start = cli_now();
	uint64_t made;
	int hub = g == NULL;

	g = hub ? load_hub(path, threads, &made) :
	    load_file(g, path, threads, &made);
	cli_note("%s: weights converted in %.1f s, to %.1f MiB of memory; %s "
	    "writes them to a file",
	    path, cli_now() - start, (double)made / 0x1p20,
	    hub ? "gguf-convert" : "gguf-quantize");
	return g;
}

void
tool_quantize_parse(const struct cli_opt *o, const char *arg)
{
	tool_quantize_fn **fn = o->to;

	if (strcmp(arg, "q8_0") == 0)
		*fn = load;
	else if (strcmp(arg, "none") == 0)
		*fn = NULL;
	else
		cli_usage("--quantize: '%s' is not one of none and q8_0", arg);
}
