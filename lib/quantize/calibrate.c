/* SPDX-License-Identifier: ISC */
/*
 * calibrate.c - measures, with a text, how much errors in each kind of tensor
 * change a model's predictions.
 *
 * Tensors of one kind in a quarter of the layers are a group.  The model reads
 * the text unchanged, and once per group with this group in a format of few
 * bits.  The KL divergence from the unchanged predictions, divided by the
 * errors of that format, is the cost of one unit of error in that group.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/quant.h"
#include "gguf/gguf.h"
#include "quantize/calibrate.h"
#include "qwen/sample.h"
#include "qwen/session.h"

enum {
	BANDS = 4,			/* quarters of the layers */
	WINDOW = 512,			/* tokens of the text read at once */
	ROW_BYTES = 256 << 20,		/* bytes of logits kept */
	GROUP_BYTES = 256 << 20,	/* bytes of tensors changed at once */
	KIND_BYTES = 64,
};

struct group {
	char		 kind[KIND_BYTES];
	unsigned	 band;
	size_t		 n;		/* number of trials */
	double		 weight;
};

struct calibration {
	struct qwen_quantize	*p;
	struct quantize_trial	*trial;
	size_t			 n_trial;
	struct group		*group;
	size_t			 n_groups, cap_groups;
	/* logits of the unchanged model after each step-th token */
	float			*row;
	size_t			 n_rows, n_vocab, step;
	uint64_t		 done, total;	/* tokens */
	/* the current run */
	size_t			 from;		/* token at which the window
						   begins */
	int			 base;		/* 1: keep rows; 0: compare with
						   them */
	double			 kl;
};

/* ------------------------------------------------------------------- groups */

/* Returns "attn_q.weight" for "blk.7.attn_q.weight", and sets *layer to 7. */
static const char *
kind_of(const char *name, unsigned *layer)
{
	int n = 0;

	if (sscanf(name, "blk.%4u.%n", layer, &n) == 1 && n > 0)
		return name + n;
	*layer = 0;
	return name;
}

static int
sort_in(struct calibration *c, size_t i, unsigned n_layer,
    struct qwen_err *err)
{
	unsigned layer, band;
	const char *kind = kind_of(c->trial[i].it->t->name, &layer);
	struct group *g;
	size_t k;

	band = (unsigned)((uint64_t)layer * BANDS / n_layer);
	for (k = 0; k < c->n_groups; k++) {
		if (c->group[k].band == band &&
		    strcmp(c->group[k].kind, kind) == 0)
			break;
	}
	if (k == c->n_groups) {
		g = qwen_push(&c->group, &c->cap_groups, &c->n_groups,
		    sizeof *g, err);
		if (g == NULL)
			return -1;
		snprintf(g->kind, sizeof g->kind, "%s", kind);
		g->band = band;
	}
	c->group[k].n++;
	c->trial[i].group = k;
	return 0;
}

/* ---------------------------------------------------------------- the text */

static int
take_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct calibration *c = arg;
	size_t at = c->from + pos;
	struct qwen_row_pair pair;
	float *row;

	(void)err;
	if (at % c->step != 0 || at / c->step >= c->n_rows)
		return 0;
	row = c->row + at / c->step * c->n_vocab;
	if (c->base) {
		memcpy(row, logits, c->n_vocab * sizeof *row);
		return 0;
	}
	qwen_compare_rows(logits, row, c->n_vocab, 0, &pair);
	c->kl += pair.kl;
	return 0;
}

static int
read_text(struct calibration *c, struct qwen_session *s, struct qwen_err *err)
{
	const struct qwen_quantize_opts *o = &c->p->opts;
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = take_row,
	    .arg = c };
	size_t most = qwen_model_n_ctx(qwen_session_model(s)), n, at;

	most = most < WINDOW ? most : WINDOW;
	for (c->from = 0; c->from < o->n_calibration; c->from += n) {
		n = o->n_calibration - c->from;
		n = n < most ? n : most;
		if (qwen_session_rewind(s, 0, 0, &at, err) < 0 ||
		    qwen_session_eval(s, o->calibration + c->from, n, &how,
		    err) < 0)
			return -1;
		c->done += n;
		if (o->measuring != NULL)
			o->measuring(o->measuring_arg, c->done, c->total);
	}
	return 0;
}

/* Allocates as many rows as ROW_BYTES allow, spread over the text. */
static int
get_rows(struct calibration *c, const struct qwen_model *m,
    struct qwen_err *err)
{
	size_t n = c->p->opts.n_calibration, most;

	c->n_vocab = qwen_model_n_vocab(m);
	most = ROW_BYTES / (c->n_vocab * sizeof *c->row);
	most = most > 0 ? most : 1;
	c->step = (n + most - 1) / most;
	c->n_rows = (n + c->step - 1) / c->step;
	c->row = qwen_alloc(c->n_rows, c->n_vocab * sizeof *c->row);
	return c->row == NULL ? qwen_oom(err) : 0;
}

/* Reads the text with the model in g, which it closes. */
static int
run(struct calibration *c, struct qwen_gguf *g, struct qwen_err *err)
{
	struct qwen_model_opts o = { .n_threads = c->p->opts.threads,
	    .cpu = c->p->opts.cpu };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	int rc;

	if (qwen_model_open_gguf(&m, g, &o, err) < 0)
		return -1;
	rc = c->row == NULL ? get_rows(c, m, err) : 0;
	if (rc == 0)
		rc = qwen_session_new(&s, m, err);
	c->kl = 0.0;
	if (rc == 0)
		rc = read_text(c, s, err);
	qwen_session_free(s);
	qwen_model_close(m);
	return rc;
}

/* --------------------------------------------------------- changed tensors */

/*
 * Replaces a tensor in g by itself in the trial's format; *data is its new
 * memory.
 */
static int
change(struct calibration *c, struct qwen_gguf *g,
    const struct quantize_trial *t, unsigned char **data, struct qwen_err *err)
{
	size_t i = (size_t)(t->it - c->p->item);
	struct qwen_gguf_tensor *to = &g->dir.v[i].t;
	struct quantize_pass *pass = qwen_quantize_pass_new(c->p, -1, err);
	int rc = -1;

	*data = qwen_alloc((size_t)t->bytes, 1);
	if (*data == NULL)
		(void)qwen_oom(err);
	else if (pass != NULL)
		rc = qwen_quantize_tensor(pass, t->it, t->type, *data,
		    (size_t)t->bytes, err);
	qwen_quantize_pass_free(pass);
	to->type = t->type;
	to->bytes = t->bytes;
	to->data = *data;
	to->part = NULL;
	return rc;
}

/*
 * Returns how many tensors of a group of n, of `bytes' bytes each, fit in
 * GROUP_BYTES.
 */
static size_t
how_many(uint64_t bytes, size_t n)
{
	uint64_t most = bytes > 0 ? GROUP_BYTES / bytes : n;

	return most < 1 ? 1 : most < n ? (size_t)most : n;
}

/*
 * Changes the tensors of group k; if memory does not allow all, some spread
 * over the group.  Adds up their errors.
 */
static int
change_group(struct calibration *c, size_t k, struct qwen_gguf *g,
    unsigned char **data, double *error, struct qwen_err *err)
{
	size_t i, seen = 0, taken = 0, most = 0, n = c->group[k].n;

	*error = 0.0;
	for (i = 0; i < c->n_trial; i++) {
		if (c->trial[i].group != k)
			continue;
		if (most == 0)
			most = how_many(c->trial[i].bytes, n);
		if (seen++ * most / n < taken)
			continue;
		if (change(c, g, &c->trial[i], &data[taken++], err) < 0)
			return -1;
		*error += c->trial[i].error;
	}
	return 0;
}

static int
measure(struct calibration *c, size_t k, struct qwen_err *err)
{
	struct group *group = &c->group[k];
	unsigned char **data = calloc(group->n, sizeof *data);
	struct qwen_gguf *g;
	double error;
	size_t i;
	int rc;

	if (data == NULL)
		return qwen_oom(err);
	rc = qwen_gguf_again(&g, c->p->in, err);
	if (rc == 0 && (rc = change_group(c, k, g, data, &error, err)) < 0)
		qwen_gguf_close(g);
	else if (rc == 0)
		rc = run(c, g, err);
	if (rc == 0 && error > 0.0 && isfinite(c->kl))
		group->weight = c->kl / (double)c->n_rows / error;
	for (i = 0; i < group->n; i++)
		free(data[i]);
	free(data);
	return rc;
}

/*
 * Gives groups without a measured weight the least weight of the others.  The
 * text does not use MTP blocks, nor all experts.
 */
static void
fill_in(struct calibration *c)
{
	double least = 0.0;
	size_t k;

	for (k = 0; k < c->n_groups; k++) {
		if (c->group[k].weight > 0.0 &&
		    (least == 0.0 || c->group[k].weight < least))
			least = c->group[k].weight;
	}
	for (k = 0; k < c->n_groups; k++) {
		if (c->group[k].weight == 0.0)
			c->group[k].weight = least > 0.0 ? least : 1.0;
	}
}

static int
measure_all(struct calibration *c, struct qwen_err *err)
{
	struct qwen_gguf *g;
	size_t i;
	unsigned layer, n_layer = 0;

	for (i = 0; i < c->n_trial; i++) {
		(void)kind_of(c->trial[i].it->t->name, &layer);
		n_layer = layer + 1 > n_layer ? layer + 1 : n_layer;
	}
	for (i = 0; i < c->n_trial; i++) {
		if (sort_in(c, i, n_layer, err) < 0)
			return -1;
	}
	c->total = (uint64_t)c->p->opts.n_calibration * (c->n_groups + 1);
	c->base = 1;
	if (qwen_gguf_again(&g, c->p->in, err) < 0 || run(c, g, err) < 0)
		return -1;
	c->base = 0;
	for (i = 0; i < c->n_groups; i++) {
		if (measure(c, i, err) < 0)
			return -1;
	}
	fill_in(c);
	return 0;
}

int
qwen_quantize_calibrate(struct qwen_quantize *p, struct quantize_trial *trial,
    size_t n, struct qwen_err *err)
{
	struct calibration c = { .p = p, .trial = trial, .n_trial = n };
	size_t i;
	int rc = measure_all(&c, err);

	for (i = 0; i < n && rc == 0; i++)
		trial[i].weight = c.group[trial[i].group].weight;
	free(c.group);
	free(c.row);
	return rc;
}
