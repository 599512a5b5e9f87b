/* SPDX-License-Identifier: ISC */
/* tune.c - --tune: show which instruction set multiplies many tokens faster. */
#include "qbench.h"

static void
show(void *arg, const struct qwen_tune_row *r)
{
	const struct qbench_cell cell[] = {
		QBENCH_TEXT("format", "format", -8, qwen_ggml_name(r->type)),
		QBENCH_REAL("tokens", "tokens", 6, 0, (double)r->tokens),
		QBENCH_TEXT("variant", "variant", -10, r->variant),
		QBENCH_REAL("gmac_s", "GMAC/s", 8, 1, r->macs * 1e-9),
		QBENCH_YES("chosen", "chosen", r->chosen),
	};
	int *n = arg;

	qbench_show_row(cell, sizeof cell / sizeof cell[0], (*n)++ == 0);
}

void
qbench_show_tuning(void)
{
	int n = 0;

	cli_must(NULL, qwen_tune_measure(tool_tuning(), show, &n, &cli_err));
}
