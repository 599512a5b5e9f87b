/* SPDX-License-Identifier: ISC */
/*
 * ref_vision.c - the encoder of images, as qwen-numerics(7) defines it: one
 * number after another, the patches in the order of tokens.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/quant/math.h"
#include "engine/quant/quant.h"
#include "mmproj.h"

enum { CHUNK = 256 };

struct image {
	const struct qwen_gguf	*g;
	size_t	 D, F, E, head, d, patch, side, n, width;
	float	 eps;
	size_t	*row, *col;	/* [n] where each patch is */
	float	*x;		/* [n][D] */
};

static void *
room(size_t n)
{
	float *p = qwen_alloc(n, sizeof *p);

	if (p == NULL)
		abort();
	return p;
}

/* ------------------------------------------------------------------ the file */

static size_t
key(const struct qwen_gguf *g, const char *name)
{
	char full[96];
	uint64_t n = 0;

	snprintf(full, sizeof full, "clip.vision.%s", name);
	if (qwen_gguf_get_u64(g, full, 0, &n, NULL) < 0)
		abort();
	return (size_t)n;
}

/* Return the tensor PREFIX + name as f32, for free(). */
static float *
tensor(const struct image *m, const char *prefix, const char *name)
{
	const struct qwen_gguf_tensor *t;
	char full[96];
	float *p;
	size_t n;

	snprintf(full, sizeof full, "%s%s", prefix, name);
	if ((t = qwen_gguf_find_tensor(m->g, full)) == NULL) {
		printf("# no tensor %s\n", full);
		abort();
	}
	n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]);
	p = room(n);
	qwen_quant_values(qwen_quant_find(t->type), t->data, n, p);
	return p;
}

/* --------------------------------------------------------------- its numbers */

/* Add sixteen partial sums as a tree. */
static float
tree(float s[16])
{
	int n, i;

	for (n = 8; n > 0; n /= 2)
		for (i = 0; i < n; i++)
			s[i] += s[i + n];
	return s[0];
}

static float
dot(const float *a, const float *b, size_t n)
{
	float s[16] = { 0 };
	size_t i;

	for (i = 0; i < n; i++)
		s[i % 16] = fmaf(a[i], b[i], s[i % 16]);
	for (; i % 16 != 0; i++)
		s[i % 16] += 0.0f;
	return tree(s);
}

static float
sum(const float *x, size_t n)
{
	float s[16] = { 0 };
	size_t i;

	for (i = 0; i < n; i++)
		s[i % 16] += x[i];
	return tree(s);
}

/* Product and bias of n rows, for free(). */
static float *
linear(const struct image *m, const char *name, const float *x, size_t n_in,
    size_t n_out, size_t n)
{
	float *w = tensor(m, name, ".weight"), *b = tensor(m, name, ".bias");
	float *y = room(n * n_out);
	size_t i, r;

	for (i = 0; i < n; i++)
		for (r = 0; r < n_out; r++)
			y[i * n_out + r] = dot(w + r * n_in, x + i * n_in,
			    n_in) + b[r];
	free(w);
	free(b);
	return y;
}

/* Norm of n rows, for free(). */
static float *
norm(const struct image *m, const char *name, const float *x, size_t width,
    size_t n)
{
	float *w = tensor(m, name, ".weight"), *b = tensor(m, name, ".bias");
	float *y = room(n * width), mean, r;
	size_t i, k;

	for (i = 0; i < n; i++, x += width, y += width) {
		mean = sum(x, width) / (float)width;
		for (k = 0; k < width; k++)
			y[k] = x[k] - mean;
		r = 1.0f / sqrtf(dot(y, y, width) / (float)width + m->eps);
		for (k = 0; k < width; k++)
			y[k] = fmaf(y[k] * r, w[k], b[k]);
	}
	free(w);
	free(b);
	return y - n * width;
}

static float
gelu(float x)
{
	float z = fmaf(x * x, QWEN_GELU_3, QWEN_GELU_1) * x;

	return x / (1.0f + qwen_expf(-z));
}

/* ------------------------------------------------------------------ positions */

/* Patches to the residual stream. */
static void
embed(struct image *m, const float *numbers)
{
	size_t p = m->patch, n_in = 3 * p * p, i, k;
	float *w = tensor(m, "v.patch_embd", ".weight");
	float *w1 = tensor(m, "v.patch_embd", ".weight.1");
	float *b = tensor(m, "v.patch_embd", ".bias"), *in = room(n_in);

	for (k = 0; k < m->D * n_in; k++)
		w[k] += w1[k];
	for (i = 0; i < m->n; i++) {
		for (k = 0; k < n_in; k++)
			in[k] = numbers[((m->row[i] * p + k / p % p) *
			    m->width * p + m->col[i] * p + k % p) * 3 +
			    k / (p * p)];
		for (k = 0; k < m->D; k++)
			m->x[i * m->D + k] = dot(w + k * n_in, in, n_in) +
			    b[k];
	}
	free(w);
	free(w1);
	free(b);
	free(in);
}

static void
add_positions(struct image *m)
{
	float *t = tensor(m, "v.position_embd", ".weight"), s, y, x;
	size_t height = m->n / m->width, i, k, c, at[4];
	double py, px;

	for (i = 0; i < m->n; i++) {
		py = height > 1 ? (double)(m->row[i] * (m->side - 1)) /
		    (double)(height - 1) : 0;
		px = m->width > 1 ? (double)(m->col[i] * (m->side - 1)) /
		    (double)(m->width - 1) : 0;
		y = (float)(py - floor(py));
		x = (float)(px - floor(px));
		for (c = 0; c < 4; c++) {
			size_t r = (size_t)py + c / 2, q = (size_t)px + c % 2;

			at[c] = (r < m->side ? r : m->side - 1) * m->side +
			    (q < m->side ? q : m->side - 1);
		}
		for (k = 0; k < m->D; k++) {
			for (c = 0, s = 0; c < 4; c++)
				s = fmaf((c / 2 ? y : 1 - y) *
				    (c % 2 ? x : 1 - x), t[at[c] * m->D + k],
				    s);
			m->x[i * m->D + k] += s;
		}
	}
	free(t);
}

/* Rotate a head of patch i. */
static void
rotate(const struct image *m, size_t i, float *p)
{
	size_t half = m->d / 2, n = half / 2, j;
	double s, c;
	float u, v;

	for (j = 0; j < half; j++) {
		qwen_sincos((double)(j < n ? m->row[i] : m->col[i]) *
		    qwen_exp(-((double)(j % n) / (double)n) *
		    0x1.26bb1bbb55516p+3), &s, &c);
		u = p[j];
		v = p[j + half];
		p[j] = fmaf(u, (float)c, -(v * (float)s));
		p[j + half] = fmaf(u, (float)s, v * (float)c);
	}
}

/* ----------------------------------------------------------------- the blocks */

/* A query's attention to all keys, by chunks: o has d numbers. */
static void
attend(const struct image *m, const float *q, const float *k, const float *v,
    float *o)
{
	float p[CHUNK], part[16], top = 0, all = 0, most, l, old, new, x, y;
	size_t step = 3 * m->D, c, n, i, j;

	for (c = 0; c < m->n; c += n) {
		n = m->n - c < CHUNK ? m->n - c : CHUNK;
		most = -INFINITY;
		memset(part, 0, sizeof part);
		for (i = 0; i < n; i++) {
			for (j = 0, p[i] = 0; j < m->d; j++)
				p[i] = fmaf(q[j], k[(c + i) * step + j], p[i]);
			most = p[i] > most ? p[i] : most;
		}
		for (i = 0; i < n; i++) {
			p[i] = qwen_expf(p[i] - most);
			part[i % 16] += p[i];
		}
		l = tree(part);
		x = c == 0 || most > top ? most : top;
		old = c == 0 ? 0.0f : qwen_expf(top - x);
		new = qwen_expf(most - x);
		top = x;
		all = c == 0 ? l : fmaf(all, old, l * new);
		for (j = 0; j < m->d; j++) {
			for (i = 0, y = 0; i < n; i++)
				y = fmaf(p[i], v[(c + i) * step + j], y);
			o[j] = c == 0 ? y : fmaf(o[j], old, y * new);
		}
	}
	for (j = 0; j < m->d; j++)
		o[j] = fmaf(o[j], 1.0f / all, 0.0f);
}

/* Add n rows to the residual stream; frees them. */
static void
add(struct image *m, float *y)
{
	size_t i;

	for (i = 0; i < m->n * m->D; i++)
		m->x[i] += y[i];
	free(y);
}

static void
block(struct image *m, size_t b)
{
	const float scale = (float)(1.0 / sqrt((double)m->d));
	float *h, *qkv, *o = room(m->n * m->D), *up;
	size_t i, j, D = m->D, k;
	char name[5][64];
	static const char *const of[5] = { "ln1", "attn_qkv", "attn_out",
	    "ffn_up", "ffn_down" };

	for (i = 0; i < 5; i++)
		snprintf(name[i], sizeof name[i], "v.blk.%zu.%s", b, of[i]);
	h = norm(m, name[0], m->x, D, m->n);
	qkv = linear(m, name[1], h, D, 3 * D, m->n);
	for (i = 0; i < m->n; i++) {
		for (j = 0; j < 2 * m->head; j++)
			rotate(m, i, qkv + i * 3 * D + j * m->d);
		for (k = 0; k < D; k++)
			qkv[i * 3 * D + k] *= scale;
	}
	for (i = 0; i < m->n; i++)
		for (j = 0; j < D; j += m->d)
			attend(m, qkv + i * 3 * D + j, qkv + D + j,
			    qkv + 2 * D + j, o + i * D + j);
	add(m, linear(m, name[2], o, D, D, m->n));
	free(h);
	free(qkv);
	free(o);
	snprintf(name[0], sizeof name[0], "v.blk.%zu.ln2", b);
	h = norm(m, name[0], m->x, D, m->n);
	up = linear(m, name[3], h, D, m->F, m->n);
	for (i = 0; i < m->n * m->F; i++)
		up[i] = gelu(up[i]);
	add(m, linear(m, name[4], up, m->F, D, m->n));
	free(h);
	free(up);
}

/* A merger: the norm is of rows of `width'. Row i goes to y + i * step. */
static void
merge(const struct image *m, const char *by, size_t width, const char *up,
    const char *down, float *y, size_t step)
{
	size_t n = m->n / 4, wide = 4 * m->D, i;
	float *h = norm(m, by, m->x, width, m->n * m->D / width), *mid, *out;

	mid = linear(m, up, h, wide, wide, n);
	for (i = 0; i < n * wide; i++)
		mid[i] = qwen_geluf(mid[i]);
	out = linear(m, down, mid, wide, m->E, n);
	for (i = 0; i < n; i++)
		memcpy(y + i * step, out + i * m->E, m->E * sizeof *y);
	free(h);
	free(mid);
	free(out);
}

void
ref_vision(const struct qwen_gguf *g, const float *numbers, size_t width,
    size_t height, float *rows)
{
	struct image m = { .g = g, .D = key(g, "embedding_length"),
	    .F = key(g, "feed_forward_length"), .E = key(g, "projection_dim"),
	    .head = key(g, "attention.head_count"),
	    .patch = key(g, "patch_size") };
	size_t i, k, layers = key(g, "block_count"), n_deep = 0, at = 0;
	static const char *const list = "clip.vision.is_deepstack_layers";
	char name[3][64];
	double eps;
	int on = 0;

	m.d = m.D / m.head;
	m.side = key(g, "image_size") / m.patch;
	m.width = width / m.patch;
	m.n = m.width * (height / m.patch);
	m.x = room(m.n * m.D);
	m.row = qwen_alloc(m.n, sizeof *m.row);
	m.col = qwen_alloc(m.n, sizeof *m.col);
	qwen_gguf_get_f64(g, "clip.vision.attention.layer_norm_epsilon", 0,
	    &eps, NULL);
	m.eps = (float)eps;
	for (i = 0; i < m.n; i++) {
		m.row[i] = i / 4 / (m.width / 2) * 2 + i % 4 / 2;
		m.col[i] = i / 4 % (m.width / 2) * 2 + i % 2;
	}
	for (i = 0; qwen_gguf_find(g, list) != NULL && i < layers; i++)
		n_deep += qwen_gguf_get_bool(g, list, i, &on, NULL) > 0 && on;
	embed(&m, numbers);
	add_positions(&m);
	for (i = 0; i < layers; i++) {
		block(&m, i);
		if (n_deep == 0 || qwen_gguf_get_bool(g, list, i, &on,
		    NULL) <= 0 || !on)
			continue;
		for (k = 0; k < 3; k++)
			snprintf(name[k], sizeof name[k], "v.deepstack.%zu.%s",
			    i, k == 0 ? "norm" : k == 1 ? "fc1" : "fc2");
		merge(&m, name[0], 4 * m.D, name[1], name[2],
		    rows + ++at * m.E, (1 + n_deep) * m.E);
	}
	merge(&m, "v.post_ln", m.D, "mm.0", "mm.2", rows, (1 + n_deep) * m.E);
	free(m.x);
	free(m.row);
	free(m.col);
}
