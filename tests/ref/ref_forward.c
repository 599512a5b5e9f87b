/* SPDX-License-Identifier: ISC */
/*
 * ref_forward.c - the forward pass, layer by layer, to be read beside a
 * description of the architectures.
 *
 * Rows are numbered t = 0 .. n-1, the whole sequence.  A block takes normed
 * rows a[t] and returns the rows y[t] that are added to x[t].
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ref_model.h"

static int
is_qwen3next(const struct ref_model *m)
{
	return strcmp(m->arch, "qwen3next") == 0;
}

/* Qwen3-Next, Qwen3.5 and later: DeltaNet layers, gated queries. */
static int
is_hybrid(const struct ref_model *m)
{
	return strncmp(m->arch, "qwen35", 6) == 0 || is_qwen3next(m);
}

static double
sigma(double t)
{
	return 1 / (1 + exp(-t));
}

static double
silu(double t)
{
	return t * sigma(t);
}

static double
softplus(double t)
{
	return t > 20 ? t : log1p(exp(t));
}

/* What somebody may look at, of row m->look->t. */
static void
show(const struct ref_model *m, long block, const char *name, const double *v,
    size_t n)
{
	char full[64];

	if (m->look == NULL)
		return;
	if (block >= 0)
		snprintf(full, sizeof full, "blk.%ld.%s", block, name);
	else
		snprintf(full, sizeof full, "%s", name);
	m->look->fn(m->look->arg, full, m->look->t, v, n);
}

static void
at_row(const struct ref_model *m, size_t t)
{
	if (m->look != NULL)
		m->look->t = m->look->first + t;
}

/* Rows are of positions from this one on; from 0 again, when all is done. */
static void
first_row(const struct ref_model *m, size_t first)
{
	if (m->look != NULL)
		m->look->first = first;
}

static void
show_rows(const struct ref_model *m, long block, const char *name,
    const double *v, size_t n, size_t width)
{
	size_t t;

	for (t = 0; t < n; t++) {
		at_row(m, t);
		show(m, block, name, v + t * width, width);
	}
}

/* ---- products and norms */

/* The vector that goes with NAME.weight as NAME.<suffix>, or NULL. */
static const float *
beside(const struct ref_model *m, long block, const char *name,
    const char *suffix)
{
	char other[64];

	snprintf(other, sizeof other, "%.*s.%s",
	    (int)(strrchr(name, '.') - name), name, suffix);
	return ref_has(m, block, other) ? ref_tensor(m, block, other)->v :
	    NULL;
}

/*
 * y = Wx, y[r] = row r of W times x, times the scale that W has; matrix e of a
 * stack.  A matrix that is no stack may have a bias.
 */
static void
product_of(const struct ref_model *m, long block, const char *name, size_t e,
    const double *x, double *y)
{
	const struct ref_tensor *w = ref_tensor(m, block, name);
	const float *row = w->v + e * w->n_in * w->n_out;
	const float *scale = beside(m, block, name, "scale");
	const float *bias = beside(m, block, name, "bias");
	size_t r, c;

	for (r = 0; r < w->n_out; r++, row += w->n_in) {
		y[r] = 0;
		for (c = 0; c < w->n_in; c++)
			y[r] += (double)row[c] * x[c];
		if (scale != NULL)
			y[r] *= (double)scale[e];
		if (bias != NULL)
			y[r] += (double)bias[r];
	}
}

static void
product(const struct ref_model *m, long block, const char *name,
    const double *x, double *y)
{
	product_of(m, block, name, 0, x, y);
}

/* y = x / sqrt(mean(x^2) + eps) * w */
static void
rms(const struct ref_model *m, long block, const char *name, const double *x,
    double *y)
{
	const struct ref_tensor *w = ref_tensor(m, block, name);
	size_t i, n = w->n_in;
	double sum = 0;

	for (i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (i = 0; i < n; i++)
		y[i] = x[i] / sqrt(sum / (double)n + m->eps) *
		    (double)w->v[i];
}

/* x / sqrt(sum x^2 + 1e-6) */
static void
l2(double *x, size_t n)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += x[i] * x[i];
	for (i = 0; i < n; i++)
		x[i] /= sqrt(sum + 1e-6);
}

static void
softmax(double *p, size_t n)
{
	double top = p[0], sum = 0;
	size_t i;

	for (i = 1; i < n; i++)
		top = p[i] > top ? p[i] : top;
	for (i = 0; i < n; i++)
		sum += p[i] = exp(p[i] - top);
	for (i = 0; i < n; i++)
		p[i] /= sum;
}

/* ---- rotary embedding */

/* YaRN's share of interpolation for pair j, 0 .. 1. */
static double
yarn_ramp(const struct ref_model *m, double base, size_t n_rot, size_t j)
{
	double n = (double)n_rot, pi = acos(-1);
	double old = ref_key_real(m, "rope.scaling.original_context_length",
	    ref_key_real(m, "context_length", 0));
	double lo = floor(n * log(old / (2 * pi * 32)) / (2 * log(base)));
	double hi = ceil(n * log(old / (2 * pi * 1)) / (2 * log(base)));
	double t;

	lo = fmax(0, lo);
	hi = fmin(n - 1, hi);
	t = ((double)j - lo) / fmax(0.001, hi - lo);
	return fmin(1, fmax(0, t));
}

static int
scaling_is(const struct ref_model *m, const char *type)
{
	struct qwen_str s = { "", 0 };
	char key[64];
	size_t n = strlen(m->arch);

	memcpy(key, m->arch, n);
	strcpy(key + n, ".rope.scaling.type");
	qwen_gguf_get_str(m->g, key, &s, NULL);
	return s.len == strlen(type) && memcmp(s.s, type, s.len) == 0;
}

/* Turn pairs (x[j], x[j + R/2]) of one head by the angles of position pos. */
static void
rope(const struct ref_model *m, double *x, size_t d, size_t pos)
{
	size_t n_rot = ref_key(m, "rope.dimension_count", 0, d), j;
	double base = ref_key_real(m, "rope.freq_base", 10000);
	double factor = ref_key_real(m, "rope.scaling.factor", 1);

	for (j = 0; j < n_rot / 2; j++) {
		double f = pow(base, -2.0 * (double)j / (double)n_rot);
		double size = 1, a, u = x[j], w = x[j + n_rot / 2];

		if (scaling_is(m, "linear"))
			f /= factor;
		if (scaling_is(m, "yarn")) {
			double t = yarn_ramp(m, base, n_rot, j);

			f *= (1 - t) + t / factor;
			size = 1 + 0.1 * log(factor);
		}
		a = (double)pos * f;
		x[j] = size * (u * cos(a) - w * sin(a));
		x[j + n_rot / 2] = size * (u * sin(a) + w * cos(a));
	}
}

/* ---- full attention */

/*
 * One query against the keys k[s] and values v[s], s = 0 .. t: o, p[s], and
 * their scores.
 */
static void
attend(const double *q, const double *k, const double *v, size_t stride,
    size_t t, size_t d, double scale, double *o, double *p, double *score)
{
	size_t s, i;

	memset(p, 0, (t + 1) * sizeof *p);

	for (s = 0; s <= t; s++) {
		for (i = 0; i < d; i++)
			p[s] += q[i] * k[s * stride + i] * scale;
	}
	memcpy(score, p, (t + 1) * sizeof *p);
	softmax(p, t + 1);
	for (i = 0; i < d; i++) {
		o[i] = 0;
		for (s = 0; s <= t; s++)
			o[i] += p[s] * v[s * stride + i];
	}
}

/* Queries of one row: norm, rotate, attend; gate where there is one. */
static void
attend_row(const struct ref_model *m, long block, size_t t, const double *a,
    const double *k, const double *v, double *y)
{
	size_t h, i, H = ref_key(m, "attention.head_count", (size_t)block, 0);
	size_t Hkv = ref_key(m, "attention.head_count_kv", (size_t)block, H);
	size_t D = ref_key(m, "attention.key_length", 0, m->n_embd / H);
	int gated = is_hybrid(m);
	double scale = ref_key_real(m, "attention.scale", 1 / sqrt((double)D));
	double *q = ref_new((gated ? 2 : 1) * H * D), *o = ref_new(H * D);
	/* what is told has a number for positions without a row too */
	size_t none = m->look != NULL ? m->look->first : 0;
	double *told = ref_new(none + t + 1), *p = told + none;
	double *score = ref_new(none + t + 1), *part = ref_new(H * D);
	char name[40];

	at_row(m, t);
	product(m, block, "attn_q.weight", a, q);
	for (i = 0; i < H * D; i++)
		part[i] = q[gated ? i / D * 2 * D + i % D : i];
	show(m, block, "attn.q", part, H * D);
	for (i = 0; gated && i < H * D; i++)
		part[i] = q[i / D * 2 * D + D + i % D];
	if (gated)
		show(m, block, "attn.gate", part, H * D);
	for (h = 0; h < H; h++) {
		/* per head: query, then gate */
		double *qh = q + h * (gated ? 2 * D : D), *oh = o + h * D;
		size_t kv = h / (H / Hkv);

		if (ref_has(m, block, "attn_q_norm.weight"))
			rms(m, block, "attn_q_norm.weight", qh, qh);
		rope(m, qh, D, t);
		memcpy(part + h * D, qh, D * sizeof *qh);
		attend(qh, k + kv * D, v + kv * D, Hkv * D, t, D, scale, oh,
		    p, score + none);
		snprintf(name, sizeof name, "attn.scores.h%zu", h);
		show(m, block, name, score, none + t + 1);
		snprintf(name, sizeof name, "attn.probs.h%zu", h);
		show(m, block, name, told, none + t + 1);
		for (i = 0; gated && i < D; i++)
			oh[i] *= sigma(qh[D + i]);
	}
	show(m, block, "attn.q_rope", part, H * D);
	show(m, block, "attn.out", o, H * D);
	product(m, block, "attn_output.weight", o, y);
	free(part);
	free(score);
	free(told);
	free(q);
	free(o);
}

/* To the precision of a cache in f16, if that was asked for. */
static void
round_kv(const struct ref_model *m, double *x, size_t n)
{
	size_t i;

	for (i = 0; m->round_kv && i < n; i++)
		x[i] = (double)qwen_f16_f32(qwen_f32_f16((float)x[i]));
}

static void
attention(const struct ref_model *m, long block, const double *a, size_t n,
    double *y)
{
	size_t h, t, E = m->n_embd;
	size_t H = ref_key(m, "attention.head_count", (size_t)block, 0);
	size_t Hkv = ref_key(m, "attention.head_count_kv", (size_t)block, H);
	size_t D = ref_key(m, "attention.key_length", 0, E / H);
	double *k = ref_new(n * Hkv * D), *v = ref_new(n * Hkv * D);

	for (t = 0; t < n; t++) {
		product(m, block, "attn_k.weight", a + t * E, k + t * Hkv * D);
		product(m, block, "attn_v.weight", a + t * E, v + t * Hkv * D);
		at_row(m, t);
		show(m, block, "attn.k", k + t * Hkv * D, Hkv * D);
		show(m, block, "attn.v", v + t * Hkv * D, Hkv * D);
		for (h = 0; h < Hkv; h++) {
			double *kh = k + (t * Hkv + h) * D;

			if (ref_has(m, block, "attn_k_norm.weight"))
				rms(m, block, "attn_k_norm.weight", kh, kh);
			rope(m, kh, D, t);
		}
		show(m, block, "attn.k_rope", k + t * Hkv * D, Hkv * D);
	}
	round_kv(m, k, n * Hkv * D);
	round_kv(m, v, n * Hkv * D);
	for (t = 0; t < n; t++)
		attend_row(m, block, t, a + t * E, k, v, y + t * E);
	free(k);
	free(v);
}

/* ---- gated DeltaNet */

struct delta {
	size_t	 Kc, dk, dv, Hk, Hv;
	size_t	 C;		/* channels: q, k, v */
	double	*window;	/* [Kc][C] rows of qkv, the current one last */
	double	*S;		/* [Hv][dk][dv] */
};

/* Causal depthwise convolution of the window, and silu: y[C]. */
static void
convolve(const struct ref_model *m, long block, const struct delta *d,
    double *y)
{
	const float *w = ref_tensor(m, block, "ssm_conv1d.weight")->v;
	size_t c, j;

	for (c = 0; c < d->C; c++) {
		y[c] = 0;
		for (j = 0; j < d->Kc; j++)
			y[c] += (double)w[c * d->Kc + j] *
			    d->window[j * d->C + c];
		y[c] = silu(y[c]);
	}
}

/* S = decay S; u = b (v - S' k); S += k u'; o = S' q */
static void
delta_rule(double *S, size_t dk, size_t dv, double decay, double b,
    const double *q, const double *k, const double *v, double *o)
{
	size_t i, e;

	for (i = 0; i < dk * dv; i++)
		S[i] *= decay;
	for (e = 0; e < dv; e++) {
		double u = v[e];

		for (i = 0; i < dk; i++)
			u -= S[i * dv + e] * k[i];
		o[e] = 0;
		for (i = 0; i < dk; i++) {
			S[i * dv + e] += k[i] * b * u;
			o[e] += S[i * dv + e] * q[i];
		}
	}
}

/*
 * beta and alpha of all value heads: two projections, or one in which, for each
 * key head, those of its value heads follow one another.
 */
static void
delta_gates(const struct ref_model *m, long block, const struct delta *d,
    const double *a, double *beta, double *alpha)
{
	size_t rep = d->Hv / d->Hk, h;
	double *ba;

	if (!ref_has(m, block, "ssm_ba.weight")) {
		product(m, block, "ssm_beta.weight", a, beta);
		product(m, block, "ssm_alpha.weight", a, alpha);
		return;
	}
	ba = ref_new(2 * d->Hv);
	product(m, block, "ssm_ba.weight", a, ba);
	for (h = 0; h < d->Hv; h++) {
		beta[h] = ba[2 * rep * (h / rep) + h % rep];
		alpha[h] = ba[2 * rep * (h / rep) + rep + h % rep];
	}
	free(ba);
}

/* All value heads of one row: y holds q, k, v after the convolution. */
static void
delta_heads(const struct ref_model *m, long block, const struct delta *d,
    const double *a, double *y, double *o)
{
	const float *A = ref_tensor(m, block, "ssm_a")->v;
	const float *dt = ref_tensor(m, block, ref_has(m, block, "ssm_dt") ?
	    "ssm_dt" : "ssm_dt.bias")->v;
	double *beta = ref_new(d->Hv), *alpha = ref_new(d->Hv);
	double *q = y, *k = y + d->Hk * d->dk, *v = k + d->Hk * d->dk;
	size_t h, i;

	delta_gates(m, block, d, a, beta, alpha);
	for (h = 0; h < d->Hk; h++) {
		l2(q + h * d->dk, d->dk);
		l2(k + h * d->dk, d->dk);
		for (i = 0; i < d->dk; i++)
			q[h * d->dk + i] /= sqrt((double)d->dk);
	}
	for (h = 0; h < d->Hv; h++) {
		/* 1: tiled order */
		size_t kh = ref_key(m, "ssm.v_head_reordered", 0,
		    !is_qwen3next(m)) ? h % d->Hk : h / (d->Hv / d->Hk);
		double g = (double)A[h] * softplus(alpha[h] + (double)dt[h]);

		alpha[h] = exp(g);
		beta[h] = sigma(beta[h]);
		delta_rule(d->S + h * d->dk * d->dv, d->dk, d->dv, alpha[h],
		    beta[h], q + kh * d->dk, k + kh * d->dk,
		    v + h * d->dv, o + h * d->dv);
	}
	show(m, block, "delta.decay", alpha, d->Hv);
	show(m, block, "delta.beta", beta, d->Hv);
	free(beta);
	free(alpha);
}

/* Rows q, k and v to qkv, z to z: as they are, or from those of a key head. */
static void
delta_in(const struct ref_model *m, long block, const struct delta *d,
    const double *a, double *qkv, double *z)
{
	size_t rv = d->Hv / d->Hk * d->dv, one = 2 * d->dk + 2 * rv, h;
	double *all;

	if (!ref_has(m, block, "ssm_in.weight")) {
		product(m, block, "attn_qkv.weight", a, qkv);
		product(m, block, "attn_gate.weight", a, z);
		return;
	}
	all = ref_new(d->Hk * one);
	product(m, block, "ssm_in.weight", a, all);
	for (h = 0; h < d->Hk; h++) {
		const double *p = all + h * one;

		memcpy(qkv + h * d->dk, p, d->dk * sizeof *p);
		memcpy(qkv + (d->Hk + h) * d->dk, p + d->dk,
		    d->dk * sizeof *p);
		memcpy(qkv + 2 * d->Hk * d->dk + h * rv, p + 2 * d->dk,
		    rv * sizeof *p);
		memcpy(z + h * rv, p + 2 * d->dk + rv, rv * sizeof *p);
	}
	free(all);
}

static void
delta_row(const struct ref_model *m, long block, struct delta *d,
    const double *a, double *out)
{
	double *y = ref_new(d->C), *z = ref_new(d->Hv * d->dv);
	double *o = ref_new(d->Hv * d->dv);
	size_t h, i;

	memmove(d->window, d->window + d->C,
	    (d->Kc - 1) * d->C * sizeof *d->window);
	delta_in(m, block, d, a, d->window + (d->Kc - 1) * d->C, z);
	show(m, block, "delta.qkv", d->window + (d->Kc - 1) * d->C, d->C);
	show(m, block, "delta.z", z, d->Hv * d->dv);
	convolve(m, block, d, y);
	show(m, block, "delta.conv", y, d->C);
	delta_heads(m, block, d, a, y, o);
	show(m, block, "delta.out", o, d->Hv * d->dv);
	for (h = 0; h < d->Hv; h++) {
		double *oh = o + h * d->dv, *zh = z + h * d->dv;

		/* norm first, gate after */
		rms(m, block, "ssm_norm.weight", oh, oh);
		for (i = 0; i < d->dv; i++)
			oh[i] *= silu(zh[i]);
	}
	show(m, block, "delta.norm", o, d->Hv * d->dv);
	product(m, block, "ssm_out.weight", o, out);
	free(y);
	free(z);
	free(o);
}

static void
deltanet(const struct ref_model *m, long block, const double *a, size_t n,
    double *y)
{
	struct delta d = {
		.Kc = ref_key(m, "ssm.conv_kernel", 0, 0),
		.dk = ref_key(m, "ssm.state_size", 0, 0),
		.Hk = ref_key(m, "ssm.group_count", 0, 0),
		.Hv = ref_key(m, "ssm.time_step_rank", 0, 0),
	};
	size_t t;

	d.dv = ref_key(m, "ssm.inner_size", 0, 0) / d.Hv;
	d.C = 2 * d.Hk * d.dk + d.Hv * d.dv;
	d.window = ref_new(d.Kc * d.C);
	d.S = ref_new(d.Hv * d.dk * d.dv);
	for (t = 0; t < n; t++) {
		at_row(m, t);
		delta_row(m, block, &d, a + t * m->n_embd, y + t * m->n_embd);
	}
	free(d.window);
	free(d.S);
}

/* ---- feed-forward blocks */

/* What a block computes on the way, of n numbers each: gate, up, their product. */
struct inside {
	size_t	 n;
	double	*gate, *up, *act;
};

/* silu(gate) * up */
static void
activate(const struct inside *in)
{
	size_t i;

	for (i = 0; i < in->n; i++)
		in->act[i] = silu(in->gate[i]) * in->up[i];
}

/* y = down(silu(gate x) * (up x)); e: which of a stack. */
static void
gated_mlp(const struct ref_model *m, long block, const char *gate,
    const char *up, const char *down, size_t e, const double *x, double *y,
    const struct inside *in)
{
	product_of(m, block, gate, e, x, in->gate);
	product_of(m, block, up, e, x, in->up);
	activate(in);
	product_of(m, block, down, e, in->act, y);
}

/* Room for that of k experts, one after another. */
static struct inside
inside_of(const struct ref_model *m, long block, const char *down, size_t k)
{
	struct inside in = { .n = ref_tensor(m, block, down)->n_in };

	in.gate = ref_new(k * in.n);
	in.up = ref_new(k * in.n);
	in.act = ref_new(k * in.n);
	return in;
}

/* Show it, and free it. */
static void
show_inside(const struct ref_model *m, long block, const char *what, size_t k,
    struct inside *in)
{
	const double *v[3] = { in->gate, in->up, in->act };
	static const char *const part[3] = { "gate", "up", "act" };
	char name[40];
	size_t i;

	for (i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "%s.%s", what, part[i]);
		show(m, block, name, v[i], k * in->n);
	}
	free(in->gate);
	free(in->up);
	free(in->act);
}

/* The same where gate rows and up rows are one matrix, gate rows first. */
static void
fused_expert(const struct ref_model *m, long block, size_t e, const double *x,
    double *y, const struct inside *in)
{
	double *gu = ref_new(2 * in->n);

	product_of(m, block, "ffn_gate_up_exps.weight", e, x, gu);
	memcpy(in->gate, gu, in->n * sizeof *gu);
	memcpy(in->up, gu + in->n, in->n * sizeof *gu);
	activate(in);
	product_of(m, block, "ffn_down_exps.weight", e, in->act, y);
	free(gu);
}

static void
shared_expert(const struct ref_model *m, long block, const double *x,
    double *y)
{
	double gate, *s = ref_new(m->n_embd);
	struct inside in = inside_of(m, block, "ffn_down_shexp.weight", 1);
	size_t i;

	product(m, block, "ffn_gate_inp_shexp.weight", x, &gate);
	gate = sigma(gate);
	show(m, block, "router.shared", &gate, 1);
	gated_mlp(m, block, "ffn_gate_shexp.weight", "ffn_up_shexp.weight",
	    "ffn_down_shexp.weight", 0, x, s, &in);
	show_inside(m, block, "shared", 1, &in);
	for (i = 0; i < m->n_embd; i++)
		y[i] += gate * s[i];
	free(s);
}

/* The place of the largest p not taken yet; of equal ones the first. */
static size_t
next_best(const double *p, const char *taken, size_t n)
{
	size_t i, best = n;

	for (i = 0; i < n; i++) {
		if (!taken[i] && (best == n || p[i] > p[best]))
			best = i;
	}
	return best;
}

/*
 * The k experts of best, by ascending number, times share: added to y.  What they
 * compute on the way is shown in the order of best.
 */
static void
run_experts(const struct ref_model *m, long block, const double *best,
    const double *share, size_t k, const double *x, double *y)
{
	struct inside all = inside_of(m, block, "ffn_down_exps.weight", k);
	size_t n = ref_key(m, "expert_count", 0, 0), i, j, e;
	double *f = ref_new(m->n_embd);

	for (e = 0; e < n; e++) {
		for (j = 0; j < k && (size_t)best[j] != e; j++)
			;
		if (j == k)
			continue;
		struct inside in = { all.n, all.gate + j * all.n,
		    all.up + j * all.n, all.act + j * all.n };
		if (ref_has(m, block, "ffn_gate_up_exps.weight"))
			fused_expert(m, block, e, x, f, &in);
		else
			gated_mlp(m, block, "ffn_gate_exps.weight",
			    "ffn_up_exps.weight", "ffn_down_exps.weight", e, x,
			    f, &in);
		for (i = 0; i < m->n_embd; i++)
			y[i] += share[j] * f[i];
	}
	show_inside(m, block, "experts", k, &all);
	free(f);
}

static void
experts(const struct ref_model *m, long block, const double *x, double *y)
{
	size_t n = ref_key(m, "expert_count", 0, 0), i, j;
	size_t k = ref_key(m, "expert_used_count", 0, 0);
	double scale = ref_key_real(m, "expert_weights_scale", 0), sum = 0;
	double *p = ref_new(n), *best = ref_new(2 * k);
	char *taken = calloc(n + 1, 1);

	if (taken == NULL)
		ref_die("out of memory", "experts");
	product(m, block, "ffn_gate_inp.weight", x, p);
	show(m, block, "router.logits", p, n);
	softmax(p, n);
	for (i = 0; i < k; i++) {
		j = next_best(p, taken, n);
		taken[j] = 1;
		sum += p[j];
		best[i] = (double)j;
	}
	if (strcmp(m->arch, "qwen2moe") == 0)
		sum = 1;	/* shares of all experts, not of the chosen */
	for (i = 0; i < k; i++)
		best[k + i] = p[(size_t)best[i]] / sum *
		    (scale != 0 ? scale : 1);
	show(m, block, "router.experts", best, k);
	show(m, block, "router.weights", best + k, k);
	run_experts(m, block, best, best + k, k, x, y);
	if (ref_has(m, block, "ffn_gate_inp_shexp.weight"))
		shared_expert(m, block, x, y);
	free(best);
	free(p);
	free(taken);
}

/* ---- the whole */

/* Is block i DeltaNet? */
static int
recurrent(const struct ref_model *m, size_t i)
{
	size_t interval = ref_key(m, "full_attention_interval", 0, 4), j;

	if (!is_hybrid(m) || i >= m->n_layer)
		return 0;
	/* without an interval, zeros among the head counts tell */
	for (j = 0; !ref_has_key(m, "full_attention_interval") &&
	    !ref_has_key(m, "attention.recurrent_layers") &&
	    j < m->n_layer; j++) {
		if (ref_key(m, "attention.head_count_kv", j, 1) == 0)
			return ref_key(m, "attention.head_count_kv", i, 1) ==
			    0;
	}
	return ref_key(m, "attention.recurrent_layers", i,
	    (i + 1) % interval != 0) != 0;
}

/* x[t] += y[t] */
static void
add(double *x, const double *y, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		x[i] += y[i];
}

static void
ffn(const struct ref_model *m, long b, const double *a, double *y)
{
	struct inside in;

	if (ref_has(m, b, "ffn_gate_inp.weight")) {
		experts(m, b, a, y);
		return;
	}
	in = inside_of(m, b, "ffn_down.weight", 1);
	gated_mlp(m, b, "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight",
	    0, a, y, &in);
	show_inside(m, b, "mlp", 1, &in);
}

static void
run_block(const struct ref_model *m, size_t i, double *x, size_t n)
{
	size_t t, E = m->n_embd;
	double *a = ref_new(n * E), *y = ref_new(n * E);
	long b = (long)i;
	const char *ffn_norm = is_hybrid(m) ? "post_attention_norm.weight" :
	    "ffn_norm.weight";

	for (t = 0; t < n; t++)
		rms(m, b, "attn_norm.weight", x + t * E, a + t * E);
	if (recurrent(m, i))
		deltanet(m, b, a, n, y);
	else
		attention(m, b, a, n, y);
	show_rows(m, b, "mixer", y, n, E);
	add(x, y, n * E);
	show_rows(m, b, "mixer_residual", x, n, E);
	/* a block that predicts may have none */
	if (ref_has(m, b, "ffn_gate_inp.weight") ||
	    ref_has(m, b, "ffn_gate.weight")) {
		memset(y, 0, n * E * sizeof *y);
		for (t = 0; t < n; t++) {
			rms(m, b, ffn_norm, x + t * E, a + t * E);
			at_row(m, t);
			ffn(m, b, a + t * E, y + t * E);
		}
		show_rows(m, b, "ffn", y, n, E);
		add(x, y, n * E);
		show_rows(m, b, "residual", x, n, E);
	}
	free(a);
	free(y);
}

/* The hidden states after the trunk's output norm: h[n][E]. */
static void
run_trunk(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *h)
{
	size_t t, i, E = m->n_embd;
	double *x = ref_new(n * E);

	for (t = 0; t < n; t++) {
		for (i = 0; i < E; i++)
			x[t * E + i] = (double)m->embd.v[(size_t)tokens[t] *
			    E + i];
	}
	show_rows(m, -1, "embed", x, n, E);
	for (i = 0; i < m->n_layer; i++)
		run_block(m, i, x, n);
	for (t = 0; t < n; t++)
		rms(m, -1, "output_norm.weight", x + t * E, h + t * E);
	show_rows(m, -1, "norm", h, n, E);
	free(x);
}

static const char *
head_of(const struct ref_model *m)
{
	return ref_has(m, -1, "output.weight") ? "output.weight" :
	    "token_embd.weight";
}

void
ref_logits(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *logits)
{
	size_t t, E = m->n_embd;
	double *h = ref_new(n * E);

	run_trunk(m, tokens, n, h);
	for (t = 0; t < n; t++)
		product(m, -1, head_of(m), h + t * E, logits +
		    t * ref_n_vocab(m));
	show_rows(m, -1, "logits", logits, n, ref_n_vocab(m));
	free(h);
}

/* ---- the block that predicts */

/* Its input of token id after the hidden state h. */
static void
join(const struct ref_model *m, long b, int32_t id, const double *h, double *x)
{
	const char *name = "nextn.embed_tokens.weight";
	int own = ref_has(m, b, name);
	const struct ref_tensor *embd = own ? ref_tensor(m, b, name) :
	    &m->embd;
	size_t i, E = m->n_embd;
	double *both = ref_new(2 * E);

	/* the embedding first */
	for (i = 0; i < E; i++)
		both[i] = (double)embd->v[(size_t)id * E + i];
	rms(m, b, "nextn.enorm.weight", both, both);
	rms(m, b, "nextn.hnorm.weight", h, both + E);
	product(m, b, "nextn.eh_proj.weight", both, x);
	show(m, b, "nextn.enorm", both, E);
	show(m, b, "nextn.hnorm", both + E, E);
	show(m, b, "nextn.eh_proj", x, E);
	free(both);
}

void
ref_drafts(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *logits)
{
	long b = (long)m->n_layer;
	size_t t, E = m->n_embd;
	int norm = ref_has(m, b, "nextn.shared_head_norm.weight");
	int head = ref_has(m, b, "nextn.shared_head_head.weight");
	double *h = ref_new(n * E), *x = ref_new(n * E), *f = ref_new(E);

	run_trunk(m, tokens, n, h);
	first_row(m, 1);
	for (t = 0; t + 1 < n; t++) {
		at_row(m, t);
		join(m, b, tokens[t + 1], h + t * E, x + t * E);
	}
	run_block(m, m->n_layer, x, n - 1);
	for (t = 0; t + 1 < n; t++) {
		at_row(m, t);
		rms(m, norm ? b : -1, norm ? "nextn.shared_head_norm.weight" :
		    "output_norm.weight", x + t * E, f);
		product(m, head ? b : -1, head ?
		    "nextn.shared_head_head.weight" : head_of(m), f,
		    logits + t * ref_n_vocab(m));
		show(m, b, "nextn.shared_head_norm", f, E);
		show(m, b, "nextn.shared_head_head", logits +
		    t * ref_n_vocab(m), ref_n_vocab(m));
	}
	first_row(m, 0);
	free(h);
	free(x);
	free(f);
}
