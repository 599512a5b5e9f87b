/* SPDX-License-Identifier: ISC */
/* tune.c - --tune: show which instruction set multiplies many tokens faster. */
#include <stdio.h>

#include "qbench.h"

static void
show(void *arg, const struct qwen_tune_row *r)
{
	const char *name = qwen_ggml_name(r->type);
	double g = r->macs * 1e-9;

	(void)arg;
	if (qbench_opt.json)
		printf("{\"format\":\"%s\",\"tokens\":%zu,\"variant\":\"%s\","
		    "\"gmac_s\":%.1f,\"chosen\":%s}\n", name, r->tokens,
		    r->variant, g, r->chosen ? "true" : "false");
	else if (qbench_opt.csv)
		printf("%s,%zu,%s,%.1f,%d\n", name, r->tokens,
		    r->variant, g, r->chosen);
	else
		printf("%-8s %6zu %-10s %8.1f %s\n", name, r->tokens,
		    r->variant, g, r->chosen ? "yes" : "-");
}

void
qbench_show_tuning(void)
{
	if (qbench_opt.csv)
		printf("format,tokens,variant,gmac_s,chosen\n");
	else if (!qbench_opt.json)
		printf("%-8s %6s %-10s %8s %s\n", "format", "tokens",
		    "variant", "GMAC/s", "chosen");
	cli_must(NULL, qwen_tune_measure(tool_tuning(), show, NULL, &cli_err));
}
