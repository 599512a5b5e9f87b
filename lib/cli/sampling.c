/* SPDX-License-Identifier: ISC */
/*
 * sampling.c - the sampling options of every tool that chooses tokens, made
 * from what the library declares, so that no two tools can differ.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/internal.h"

enum { FIRST = 0x4000, MAX_SAMPLING = 48 };

static void
print_help(FILE *f)
{
	const struct qwen_sample_opt *o;
	char left[64];
	size_t i;

	fprintf(f, "sampling options:\n");
	for (i = 0; (o = qwen_sample_opt(i)) != NULL; i++) {
		snprintf(left, sizeof left, "--%s%s%s", o->name,
		    o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
		fprintf(f, "  %-26s %s", left, o->help);
		if (o->type != QWEN_SAMPLE_TEXT && o->type != QWEN_SAMPLE_LIST)
			fprintf(f, " (%g)", o->def);
		putc('\n', f);
	}
}

const struct cli_option *
cli_sampling_options(void)
{
	static struct cli_option table[MAX_SAMPLING + 1];
	const struct qwen_sample_opt *o;
	int i;

	for (i = 0; i < MAX_SAMPLING; i++) {
		if ((o = qwen_sample_opt((size_t)i)) == NULL)
			break;
		table[i].c = FIRST + i;
		table[i].name = o->name;
		table[i].arg = o->type != QWEN_SAMPLE_FLAG;
	}
	cli_print_more = print_help;
	return table;
}

int
cli_sampling_set(struct qwen_sampler *s, int c, const char *arg)
{
	const struct qwen_sample_opt *o;
	struct qwen_err err;

	if (c < FIRST || c >= FIRST + MAX_SAMPLING)
		return 0;
	o = qwen_sample_opt((size_t)(c - FIRST));
	if (qwen_sampler_set(s, o->name, arg, &err) < 0) {
		if (err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &err);
		cli_usage("--%s: %s", o->name, err.msg);
	}
	return 1;
}

int32_t *
cli_unused(const struct qwen_gguf *g, size_t *n)
{
	struct qwen_err err;
	int32_t *ids;

	if (qwen_tok_unused(g, NULL, 0, n, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	if (*n == 0)
		return NULL;
	if ((ids = calloc(*n, sizeof *ids)) == NULL)
		die("out of memory");
	if (qwen_tok_unused(g, ids, *n, n, &err) < 0)
		cli_die_err(NULL, &err);
	return ids;
}

void
cli_sampling_check(struct qwen_sampler *s)
{
	struct qwen_err err;

	if (qwen_sampler_cpu(s, cli_cpu(), &err) < 0)
		cli_die_err(NULL, &err);
	if (qwen_sampler_check(s, &err) < 0)
		cli_usage("%s", err.msg);
}

struct qwen_pieces *
cli_sampling_pieces(struct qwen_sampler *s, const struct qwen_gguf *g)
{
	struct qwen_pieces *p = NULL;
	struct qwen_err err;

	if (qwen_sampler_needs_pieces(s) && qwen_pieces_open(&p, g, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	qwen_sampler_pieces(s, p);
	return p;
}

void
cli_mask_unused(struct qwen_sampler *s, const struct qwen_gguf *g)
{
	struct qwen_err err;
	size_t n;
	int32_t *ids = cli_unused(g, &n);

	if (n > 0 && qwen_sampler_mask(s, ids, n, &err) < 0)
		cli_die_err(NULL, &err);
	free(ids);
}
