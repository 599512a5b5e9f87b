/* SPDX-License-Identifier: ISC */
/*
 * size.c - chooses formats for a given file size: those that damage the model
 * least.
 *
 * The damage by a format is its squared error relative to the tensor's squares,
 * weighted by the importance matrix and by the sensitivity of this model, or of
 * the demo model, to errors there.  It is measured on some rows.  All tensors
 * whose format is open start in the smallest one; then, step by step, the change
 * that reduces the damage most per byte is made.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/quant.h"
#include "gguf/recipe.h"
#include "quantize/calibrate.h"
#include "quantize/imatrix.h"

enum {
	SAMPLE = 1 << 15,	/* numbers sampled from a tensor */
	N_WIDE = 11, N_NARROW = 5, N_TYPES = N_WIDE,
	HEAD_MORE = 512,	/* bytes of keys that only the new file has */
	ALIGN = 32,
};

/*
 * Formats from small to large for rows of whole 256 numbers (wide), and of
 * whole 32 (narrow).  All other rows become F16.
 */
static const uint32_t wide[N_WIDE] = { QT_IQ2_XXS, QT_IQ2_XS, QT_IQ2_S,
	QT_IQ3_XXS, QT_IQ3_S, QT_IQ4_XS, QT_Q4_K, QT_Q5_K, QT_Q6_K, QT_Q8_0,
	QT_F16 };
static const uint32_t narrow[N_NARROW] = { QT_IQ4_NL, QT_Q5_0, QT_Q5_1,
	QT_Q8_0, QT_F16 };

/* A tensor whose format is to be chosen from type[0 .. n - 1]. */
struct choice {
	struct quantize_item	*it;
	const uint32_t		*type;
	int			 n, now;
	uint64_t		 bytes[N_TYPES];
	double			 damage[N_TYPES];
	double			 trial;		/* damage by the trial format */
};

struct fit {
	struct qwen_quantize	*p;
	struct choice		*v;
	size_t			 n;
	struct qwen_err		*bad;		/* [n] errors */
};

static uint64_t
bytes_of(const struct qwen_gguf_tensor *t, uint32_t type)
{
	return (uint64_t)qwen_quant_row_bytes(type, t->ne[0]) * t->ne[1] *
	    t->ne[2] * t->ne[3];
}

static uint64_t
room_of(const struct qwen_gguf_tensor *t, uint32_t type)
{
	return (bytes_of(t, type) + ALIGN - 1) / ALIGN * ALIGN;
}

/*
 * Returns the default sensitivity to errors: the growth of the demo model's KL
 * divergence with one tensor of this kind in Q3_K and all else unchanged,
 * relative to ffn_up of its experts.
 */
static double
weight_of(const char *name)
{
	static const struct {
		const char	*part;
		double		 weight;
	} weights[] = {
		{ "token_embd", 20 }, { "attn_output", 1.1 },
		{ "output.weight", 48 }, { "attn_qkv", 6 }, { "attn_q", 0.8 },
		{ "attn_k", 0.6 }, { "attn_v", 1.2 }, { "attn_gate", 3 },
		{ "ssm_out", 4.9 }, { "ssm_", 0.3 }, { "ffn_gate_shexp", 0.6 },
		{ "ffn_up_shexp", 0.5 }, { "ffn_down_shexp", 0.9 },
		{ "ffn_gate", 1.2 }, { "ffn_down", 2.1 },
	};
	size_t i;

	for (i = 0; i < sizeof weights / sizeof weights[0]; i++) {
		if (strstr(name, weights[i].part) != NULL)
			return weights[i].weight;
	}
	return 1.0;
}

/* Returns the format with which the sensitivity is measured. */
static uint32_t
trial_type(const struct choice *c)
{
	return c->type == wide ? QT_Q3_K : c->type[0];
}

/* Rows spread over a tensor, and the weights of their columns. */
struct sample {
	float		*x, *w, *y;	/* [rows][n_row] each; x owns all */
	unsigned char	*bytes;
	size_t		 n_row, rows;
};

static int
get_sample(struct fit *f, const struct quantize_item *it, struct sample *s,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = it->t;
	uint64_t all = t->ne[1] * t->ne[2] * t->ne[3], row, k;
	size_t size;
	float *w = NULL;

	s->n_row = (size_t)t->ne[0];
	s->rows = s->n_row < SAMPLE ? SAMPLE / s->n_row : 1;
	s->rows = s->rows < all ? s->rows : (size_t)all;
	if (qwen_mul(s->n_row, s->rows, &size) < 0)
		return qwen_oom(err);
	s->x = qwen_alloc(size, 3 * sizeof *s->x + 4);
	s->w = s->x + size;
	s->y = s->w + size;
	s->bytes = (unsigned char *)(s->y + size);
	if (s->x == NULL)
		return qwen_oom(err);
	if (it->weighted && (w = qwen_imatrix_weights(f->p->opts.imatrix, t,
	    err)) == NULL)
		return -1;
	for (k = 0; k < s->rows; k++) {
		row = all * k / s->rows;
		qwen_quant_values(qwen_quant_find(t->type),
		    (const unsigned char *)t->data + row *
		    qwen_quant_row_bytes(t->type, t->ne[0]), s->n_row,
		    s->x + k * s->n_row);
		for (size = 0; size < s->n_row; size++)
			s->w[k * s->n_row + size] = w == NULL ? 1.0f :
			    w[row / t->ne[1] * s->n_row + size];
	}
	free(w);
	return 0;
}

/* Measures the weighted squared error of a format, relative to the squares. */
static int
measure(struct fit *f, struct sample *s, uint32_t type, double *damage,
    struct qwen_err *err)
{
	size_t k, i, n = s->n_row;
	double wrong = 0.0, whole = 0.0, d, w;

	for (k = 0; k < s->rows; k++) {
		if (qwen_encode_rows(type, f->p->cpu, s->x + k * n,
		    s->w + k * n, n, 1, s->bytes, err) < 0)
			return -1;
		qwen_quant_values(qwen_quant_find(type), s->bytes, n,
		    s->y + k * n);
		for (i = k * n; i < (k + 1) * n; i++) {
			d = (double)s->x[i] - (double)s->y[i];
			w = (double)s->w[i];
			wrong += w * d * d;
			whole += w * (double)s->x[i] * (double)s->x[i];
		}
	}
	*damage = whole > 0.0 ? wrong / whole : 0.0;
	return isfinite(*damage) ? 0 : qwen_fail(err, QWEN_EFORMAT,
	    "a weight is NaN or infinite");
}

static void
look(void *arg, size_t i, int thread)
{
	struct fit *f = arg;
	struct choice *c = &f->v[i];
	struct sample s = { NULL };
	struct qwen_err *err = &f->bad[i];
	int k, rc;

	(void)thread;
	rc = get_sample(f, c->it, &s, err);
	for (k = 0; k < c->n && rc == 0; k++)
		rc = measure(f, &s, c->type[k], &c->damage[k], err);
	if (rc == 0 && f->p->opts.n_calibration > 0)
		rc = measure(f, &s, trial_type(c), &c->trial, err);
	free(s.x);
}

/*
 * Multiplies the damage by the sensitivities: measured, or else the default
 * ones.
 */
static int
weigh(struct fit *f, struct qwen_err *err)
{
	struct quantize_trial *t = calloc(f->n > 0 ? f->n : 1, sizeof *t);
	struct choice *c;
	size_t i;
	int k, rc = 0;

	if (t == NULL)
		return qwen_oom(err);
	for (i = 0; i < f->n; i++) {
		c = &f->v[i];
		t[i].it = c->it;
		t[i].type = trial_type(c);
		t[i].bytes = bytes_of(c->it->t, t[i].type);
		t[i].error = c->trial;
		t[i].weight = weight_of(c->it->t->name);
	}
	if (f->p->opts.n_calibration > 0)
		rc = qwen_quantize_calibrate(f->p, t, f->n, err);
	for (i = 0; i < f->n; i++) {
		for (k = 0; k < f->v[i].n; k++)
			f->v[i].damage[k] *= t[i].weight;
	}
	free(t);
	return rc;
}

/*
 * Returns the tensor, and in *to the format, that reduces the damage most per
 * byte and needs at most `left' more bytes; NULL if no tensor does.
 */
static struct choice *
best_step(struct fit *f, uint64_t left, int *to)
{
	struct choice *best = NULL, *c;
	double gain, most = 0.0;
	uint64_t more;
	int k;

	for (c = f->v; c < f->v + f->n; c++) {
		for (k = c->now + 1; k < c->n; k++) {
			more = c->bytes[k] - c->bytes[c->now];
			if (c->bytes[k] < c->bytes[c->now] || more > left)
				continue;
			gain = (c->damage[c->now] - c->damage[k]) /
			    (double)(more > 0 ? more : 1);
			if (gain > most) {
				most = gain;
				best = c;
				*to = k;
			}
		}
	}
	return best;
}

/* Returns the file type that belongs to the format of most bytes. */
static uint32_t
likeliest(const struct fit *f)
{
	uint64_t bytes[QT_N] = { 0 }, most = 0;
	uint32_t type = QT_F16;
	const struct choice *c;
	size_t i;

	for (c = f->v; c < f->v + f->n; c++) {
		bytes[c->type[c->now]] += c->bytes[c->now];
		if (bytes[c->type[c->now]] > most) {
			most = bytes[c->type[c->now]];
			type = c->type[c->now];
		}
	}
	for (i = 0; qwen_recipe_name(i) != NULL; i++) {
		if (qwen_recipe_is_stock(i) && qwen_recipe_rest(i) == type)
			return qwen_recipe_file_type(i);
	}
	return 0;
}

static int
spend(struct fit *f, uint64_t least, struct qwen_err *err)
{
	uint64_t left = f->p->opts.size;
	struct choice *c;
	int to = 0;

	if (least > left)
		return qwen_fail(err, QWEN_ERANGE, "needs %llu bytes even with "
		    "the smallest formats", (unsigned long long)least);
	left -= least;
	while ((c = best_step(f, left, &to)) != NULL) {
		left -= c->bytes[to] - c->bytes[c->now];
		c->now = to;
	}
	for (c = f->v; c < f->v + f->n; c++)
		c->it->type = c->type[c->now];
	f->p->file_type = likeliest(f);
	return 0;
}

/* Returns a limit for the bytes before the data. */
static uint64_t
head_of(const struct qwen_quantize *p)
{
	uint64_t sum = HEAD_MORE;
	struct qwen_str s = { NULL, 0 };
	unsigned i;

	for (i = 0; i < qwen_gguf_n_shards(p->in); i++)
		sum += qwen_gguf_data_offset(p->in, i);
	if (p->opts.imatrix_name != NULL)
		sum += strlen(p->opts.imatrix_name);
	if (p->opts.imatrix != NULL && qwen_imatrix_dataset(p->opts.imatrix,
	    &s))
		sum += s.len;
	return sum;
}

/*
 * Lists the tensors to choose for; returns the file size with the smallest
 * formats.
 */
static uint64_t
list(struct fit *f)
{
	uint64_t sum = head_of(f->p);
	struct quantize_item *it;
	struct choice *c;
	int k;

	for (it = f->p->item; it < f->p->item + f->p->n; it++) {
		if (!it->open) {
			sum += room_of(it->t, it->type);
			continue;
		}
		c = &f->v[f->n++];
		c->it = it;
		c->type = it->t->ne[0] % 256 == 0 ? wide :
		    it->t->ne[0] % 32 == 0 ? narrow : wide + N_WIDE - 1;
		c->n = it->t->ne[0] % 256 == 0 ? N_WIDE :
		    it->t->ne[0] % 32 == 0 ? N_NARROW : 1;
		for (k = 0; k < c->n; k++)
			c->bytes[k] = room_of(it->t, c->type[k]);
		sum += c->bytes[0];
	}
	return sum;
}

int
qwen_quantize_fit(struct qwen_quantize *p, struct qwen_err *err)
{
	struct fit f = { .p = p };
	uint64_t least;
	size_t i;
	int rc = -1;

	f.v = calloc(p->n > 0 ? p->n : 1, sizeof *f.v);
	f.bad = calloc(p->n > 0 ? p->n : 1, sizeof *f.bad);
	if (f.v == NULL || f.bad == NULL) {
		free(f.v);
		free(f.bad);
		return qwen_oom(err);
	}
	least = list(&f);
	qwen_pool_run(p->pool, look, &f, f.n);
	for (i = 0; i < f.n && f.bad[i].code == 0; i++)
		continue;
	if (i < f.n)
		*err = f.bad[i];
	else if (weigh(&f, err) == 0)
		rc = spend(&f, least, err);
	free(f.v);
	free(f.bad);
	return rc;
}
