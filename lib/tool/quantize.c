/* SPDX-License-Identifier: ISC */
/* quantize.c - --quantize: convert weights when a model is opened. */
#include <string.h>

#include "hub/hub.h"
#include "quantize/quantize.h"
#include "tool/tool.h"

/* The result owns g. */
static struct qwen_gguf *
load(struct qwen_gguf *g, const char *path, int threads)
{
	const struct qwen_quantize_opts opts = { .recipe = "Q8_0",
	    .cpu = tool_cpu(), .threads = threads };
	double start = cli_now();
	struct qwen_gguf *out;
	uint64_t made;

	cli_must(path, g == NULL ? qwen_hub_load(&out, path, QWEN_HUB_Q8_0,
	    threads, tool_memory_free(), &made, &cli_err) :
	    qwen_quantize_load(&out, g, &opts, tool_memory_free(), &made,
	    &cli_err));
	cli_note("%s: weights converted in %.1f s, to %.1f MiB of memory; %s "
	    "writes them to a file", path, cli_now() - start,
	    (double)made / 0x1p20, g == NULL ? "gguf-convert" :
	    "gguf-quantize");
	return out;
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
