/* SPDX-License-Identifier: ISC */
/*
 * sampling.c - the sampling options of every tool that chooses tokens, made
 * from what the library declares, so that no two tools can differ.
 */
#include <stdlib.h>

#include "base/text.h"
#include "tool/tool.h"

static void
set(const struct cli_opt *row, const char *arg)
{
	struct qwen_sampler **s = row->to;
	struct qwen_err err;

	if (qwen_sampler_set(*s, row->name, arg, &err) < 0) {
		if (err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &err);
		cli_usage("--%s: %s", row->name, err.msg);
	}
}

/* What it does, and the default. */
static const char *
help(const struct qwen_sample_opt *o)
{
	struct qwen_text t = { 0 };

	qwen_text_str(&t, o->help);
	if (o->type != QWEN_SAMPLE_TEXT && o->type != QWEN_SAMPLE_LIST)
		qwen_text_fmt(&t, " (%g)", o->def);
	return cli_got(t.failed ? NULL : t.s);
}

const struct cli_opt *
tool_sampling_rows(void *to)
{
	static struct cli_opt *rows;
	size_t n = qwen_sample_n_opts(), i;
	const struct qwen_sample_opt *o;
	struct qwen_err err;

	if (qwen_sampler_new(to, &err) < 0)
		cli_die_err(NULL, &err);
	if (rows == NULL)
		rows = cli_got(calloc(n + 2, sizeof *rows));
	rows[0].kind = CLI_KIND_GROUP;
	rows[0].help = "sampling:";
	for (i = 0; i < n && rows[i + 1].help == NULL; i++) {
		o = qwen_sample_opt(i);
		rows[i + 1] = (struct cli_opt){ .kind = CLI_KIND_CALL,
		    .name = o->name, .arg = o->arg, .help = help(o), .to = to,
		    .call = set };
	}
	return rows;
}

int32_t *
tool_unused(const struct qwen_gguf *g, size_t *n)
{
	struct qwen_err err;
	int32_t *ids;

	if (qwen_tok_unused(g, NULL, 0, n, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	if (*n == 0)
		return NULL;
	ids = cli_got(calloc(*n, sizeof *ids));
	if (qwen_tok_unused(g, ids, *n, n, &err) < 0)
		cli_die_err(NULL, &err);
	return ids;
}

void
tool_sampling_check(struct qwen_sampler *s)
{
	struct qwen_err err;

	if (qwen_sampler_cpu(s, tool_cpu(), &err) < 0)
		cli_die_err(NULL, &err);
	if (qwen_sampler_check(s, &err) < 0)
		cli_usage("%s", err.msg);
}

struct qwen_pieces *
tool_sampling_pieces(struct qwen_sampler *s, const struct qwen_gguf *g)
{
	struct qwen_pieces *p = NULL;
	struct qwen_err err;

	if (qwen_sampler_needs_pieces(s) && qwen_pieces_open(&p, g, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	qwen_sampler_pieces(s, p);
	return p;
}

void
tool_mask_unused(struct qwen_sampler *s, const struct qwen_gguf *g)
{
	struct qwen_err err;
	size_t n;
	int32_t *ids = tool_unused(g, &n);

	if (n > 0 && qwen_sampler_mask(s, ids, n, &err) < 0)
		cli_die_err(NULL, &err);
	free(ids);
}
