/* SPDX-License-Identifier: ISC */
/*
 * rows.c - the float kernels of this CPU against the plain C ones, bit by bit,
 * and against double precision where that finds more.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernel/kernel.h"
#include "engine/quant/math.h"
#include "engine/timeline/timeline.h"
#include "../tap.h"
#include "random.h"
#include "variants.h"

#define N 300
/* Of the attention test: 80 of them in f16, all where there are blocks of 32. */
#define HEAD 96
#define KEYS 700
#define QUERIES 70

static int quick;

static void
fill(float *x, size_t n, float scale)
{
	while (n-- > 0)
		*x++ = random_float() * scale;
}

/* One buffer with everything the functions make from the same input. */
struct made {
	float		f[19 * N + 2048 + 64];
	struct qwen_q8	q[2], two[4];
	uint16_t	h[N], b[N];
	int8_t		k8[256], k4[256];
	uint16_t	scale[16];
};

/* Keys and values as whole numbers; a 32 that is all zero, a small one. */
static void
make_kv(const struct qwen_vec *v, const float *x, size_t n, struct made *m,
    float *p)
{
	float t[256];
	size_t i;

	for (i = 0; i < 256; i++)
		t[i] = i >= n || i / 32 == 1 ? 0.0f : i / 32 == 2 ?
		    x[i] * 1e-6f : x[i];
	v->round_kv(m->k8, m->scale, t, 256, QWEN_KV_Q8_0);
	v->round_kv(m->k4, m->scale + 8, t, 256, QWEN_KV_Q4_0);
	memcpy(p, t, sizeof t);
	v->hadamard(p, 256);
	v->hadamard(p, 96);
	v->query(p, 256);
}

static void
make_rows(const struct qwen_vec *v, size_t n, struct made *m)
{
	float x[N], y[N], w[N], hist[3 * N], *p = m->f;
	size_t i;

	random_state = 1234567 + n;
	memset(m, 0, sizeof *m);
	fill(x, n, 3.0f);
	fill(y, n, 30.0f);
	fill(w, n, 1.0f);
	fill(hist, 3 * n, 1.0f);
	p[N - 1] = v->rmsnorm(p, x, w, n, 1e-6f), p += N;
	memcpy(p, x, sizeof x);
	v->gated_norm(p, w, y, n, 1e-6f), p += N;
	memcpy(p, x, sizeof x);
	v->l2norm(p, n, 1e-6f, 0.125f), p += N;
	v->swiglu(p, y, x, n), p += N;
	memcpy(p, x, sizeof x);
	v->gate(p, y, n), p += N;
	memcpy(p, x, sizeof x);
	v->axpy(p, 0.7f, y, n), p += N;
	memcpy(p, x, sizeof x);
	v->rope(p, w, y, n / 2), p += N;
	for (i = 0; i < 3; i++)
		memcpy(p + i * N, x, n * sizeof *x);
	v->conv(p, N, 3, hist, hist, 4, n / 4, 1, n / 4), p += 3 * N;
	memcpy(p, x, sizeof x);
	p[N - 1] = 1.5f;
	p[N - 2] = 2.5f;
	v->attn_merge(&p[N - 1], &p[N - 2], p, 1.75f, 3.0f, y,
	    n < N - 2 ? n : N - 2);
	p += N;
	v->attn_finish(p, x, 3.0f, n), p += N;
	v->layernorm(p, y, w, hist, n, 1e-6f), p += N;
	memcpy(p, y, sizeof y);
	v->gelu(p, n), p += N;
	v->to_f16(m->h, y, n);
	make_kv(v, y, n, m, p), p += N;
	v->quantize(m->q, x, n);
	v->quantize_twice(m->two, x, n);
	/* halfway, the least that counts, what is below it, and no numbers */
	for (i = 0; i < n; i++)
		y[i] = i % 4 == 0 ? qwen_bits_f32(random_u32() << 16 |
		    0x8000) : i % 4 == 1 ? ldexpf(x[i], -61) : i % 4 == 2 ?
		    qwen_bits_f32(random_u32()) : y[i];
	v->to_bf16(m->b, y, n);
}

static int
same_rows(const struct qwen_vec *a, const struct qwen_vec *b)
{
	static struct made x, y;
	size_t n;

	for (n = 4; n <= N; n += n < 40 ? 1 : 37) {
		make_rows(a, n, &x);
		make_rows(b, n, &y);
		if (memcmp(x.f, y.f, sizeof x.f) != 0 ||
		    memcmp(x.h, y.h, sizeof x.h) != 0 ||
		    memcmp(x.b, y.b, sizeof x.b) != 0 ||
		    memcmp(x.q, y.q, sizeof x.q) != 0 ||
		    memcmp(x.two, y.two, sizeof x.two) != 0)
			return 0;
	}
	return 1;
}

/*
 * What a low-rank matrix adds, to any rows of its blocks, as it is defined; what
 * is beside stays.
 */
static int
is_low(const struct qwen_vec *v)
{
	enum { ROWS = 3 * QWEN_LOW_ROWS, RANK = 20, TOKENS = 15, WIDE = 2 };
	static float b[ROWS * RANK], low[TOKENS][RANK + 1];
	static float y[TOKENS][ROWS + WIDE], want[TOKENS][ROWS + WIDE];
	float *yp[TOKENS];
	size_t n, t, i, k;

	random_state = 4321;
	for (n = 0; n < 200; n++) {
		struct qwen_low p = { .b = b, .rank = random_u32() % RANK + 1,
		    .r = random_u32() % (ROWS - 1), .low = low[0],
		    .low_stride = RANK + 1, .y = yp, .y_at = n % WIDE,
		    .n_tok = random_u32() % TOKENS + 1 };

		p.n_rows = random_u32() % (ROWS - p.r) + 1;
		fill(b, ROWS * RANK, 1.0f);
		fill(low[0], TOKENS * (RANK + 1), 1.0f);
		fill(y[0], TOKENS * (ROWS + WIDE), 9.0f);
		memcpy(want, y, sizeof y);
		for (t = 0; t < p.n_tok; t++) {
			yp[t] = y[t];
			for (i = 0; i < p.n_rows; i++)
			for (k = 0; k < p.rank; k++)
				want[t][p.y_at + i] = fmaf(low[t][k],
				    b[(p.r + i) / QWEN_LOW_ROWS *
				    QWEN_LOW_ROWS * p.rank +
				    k * QWEN_LOW_ROWS + (p.r + i) %
				    QWEN_LOW_ROWS], want[t][p.y_at + i]);
		}
		v->low(&p);
		if (memcmp(y, want, sizeof y) != 0)
			return 0;
	}
	return 1;
}

static void
make_delta(const struct qwen_kernel *k, size_t n, size_t c0, size_t c1,
    float *s, float *o)
{
	static float in[3][40 * 96];
	float g[40], b[40];
	size_t i;
	struct qwen_delta d = { .s = s, .dk = 64, .dv = 96, .c0 = c0,
	    .c1 = c1, .q = in[0], .k = in[1], .qk_stride = 96, .v = in[2],
	    .v_stride = 96, .g = g, .b = b, .gb_stride = 1, .o = o,
	    .o_stride = 96 };
	struct qwen_delta before = { .n_tok = 0 };
	size_t at, m, early = 0;

	random_state = 99;
	fill(s, 64 * 96, 1.0f);
	for (i = 0; i < 3; i++)
		fill(in[i], 40 * 96, i == 2 ? 2.0f : 0.2f);
	for (i = 0; i < 40; i++) {
		g[i] = 0.5f + 0.5f * fabsf(random_float());
		b[i] = fabsf(random_float());
	}
	/* in batches of n, of which the first ones come a batch too early */
	for (at = 0; at < 40; at += m) {
		m = n < 40 - at ? n : 40 - at;
		d.n_tok = m;
		d.q = in[0] + at * 96;
		d.k = in[1] + at * 96;
		d.v = in[2] + at * 96;
		d.g = g + at;
		d.b = b + at;
		d.o = o + at * 96;
		if (early > 0) {
			before = d;
			before.n_tok = early;
			before.n_ahead = 0;
			before.before = NULL;
			before.o = d.o + (m - 1) * 96;
			before.o_stride = 0;
			d.n_tok -= early;
			d.q += early * 96;
			d.k += early * 96;
			d.v += early * 96;
			d.g += early;
			d.b += early;
			d.o += early * 96;
		}
		d.before = early > 0 ? &before : NULL;
		early = n > 1 && 40 - at - m < n ? (40 - at - m) / 2 :
		    n > 1 ? n / 2 : 0;
		d.n_ahead = early;
		k->run.delta(&d);
	}
}

static int
same_delta(const struct qwen_kernel *a, const struct qwen_kernel *b)
{
	static float s[2][64 * 96], o[2][40 * 96];
	static const size_t steps[] = { 40, 1, 7, 39, 2 };
	size_t i;

	memset(o, 0, sizeof o);
	make_delta(b, 40, 0, 96, s[1], o[1]);
	for (i = 0; i < sizeof steps / sizeof *steps; i++) {
		memset(o[0], 0, sizeof o[0]);
		make_delta(a, steps[i], 0, 96, s[0], o[0]);
		if (memcmp(s[0], s[1], sizeof s[0]) != 0 ||
		    memcmp(o[0], o[1], sizeof o[0]) != 0)
			return 0;
	}
	return 1;
}

/* What queries make of their keys: one after another, for memcmp. */
struct seen {
	float	m[QUERIES], l[QUERIES], o[QUERIES][HEAD];
};

static float work[QWEN_ATTN_WORK(HEAD)] __attribute__((aligned(64)));

/* Scales are numbers, all else any bits. */
static void
fill_head(enum qwen_kv kv, size_t d, uint8_t *p)
{
	size_t i, n = qwen_kv_head_bytes(kv, d) / 2;

	if (kv == QWEN_KV_F32) {
		fill((float *)(void *)p, n / 2, 1.0f);
		return;
	}
	for (i = 0; i < n; i++)
		((uint16_t *)(void *)p)[i] = kv == QWEN_KV_F16 || i < d / 2 ?
		    qwen_f32_f16(random_float()) : (uint16_t)random_u32();
}

/* Numbers at the end of a head that may be left out, since they are 0. */
static size_t
zeros_of(const struct qwen_kv_shape *s)
{
	return s->k == QWEN_KV_F32 && s->v == QWEN_KV_F32 ? 8 : 0;
}

static void
fill_block(const struct qwen_kv_shape *s, uint16_t *p)
{
	float *v = (float *)(void *)((uint8_t *)p + qwen_kv_v_at(s, 0));
	size_t i, zeros = zeros_of(s);

	fill_head(s->k, s->d, (uint8_t *)p);
	fill_head(s->v, s->d, (uint8_t *)v);
	for (i = 1; i <= 16 && zeros > 0; i++)
		memset(v + i * s->d - zeros, 0, zeros * sizeof *v);
}

static const struct qwen_vec *
plain_vec(void)
{
	return qwen_kernel_choose(QWEN_OP_VEC, NULL, 0, SIZE_MAX)->run.vec;
}

/* Keys, values and queries, the same for all kernels and groups of a shape. */
static struct asked {
	struct qwen_kv_shape	shape;
	uint16_t		kv[(KEYS + 15) / 16][4 * 16 * HEAD]
	    __attribute__((aligned(64)));
	float			q[QUERIES][HEAD];
} asked;

static void
fill_asked(const struct qwen_kv_shape *s)
{
	size_t j;

	if (asked.shape.d == s->d && asked.shape.k == s->k &&
	    asked.shape.v == s->v)
		return;
	asked.shape = *s;
	random_state = 77;
	for (j = 0; j < (KEYS + 15) / 16; j++)
		fill_block(s, asked.kv[j]);
	for (j = 0; j < QUERIES; j++) {
		fill(asked.q[j], HEAD, 0.5f);
		memset(asked.q[j] + s->d - zeros_of(s), 0, zeros_of(s) *
		    sizeof(float));
		if (qwen_kv_width(s->k) == 0)
			plain_vec()->query(asked.q[j], s->d);
	}
}

/* One chunk for n queries from i on, into what s holds or over it. */
static void
run_attn(const struct qwen_kernel *k, const struct qwen_kv_shape *shape,
    size_t i, size_t n, size_t chunk, int merge, struct seen *s)
{
	uint16_t *block[(KEYS + 15) / 16];
	size_t j;
	struct qwen_attn a = { .d = shape->d, .k = shape->k, .v = shape->v,
	    .n_zero = n > 1 ? zeros_of(shape) : 0, .n_q = n, .chunk = chunk,
	    .merge = merge, .block = block, .next = chunk == 0 ? block + 16 :
	    NULL, .k_off = 0, .v_off = qwen_kv_v_at(shape, 0) / 2,
	    .m = s->m + i, .l = s->l + i, .work = work };

	for (j = 0; j < (KEYS + 15) / 16; j++)
		block[j] = asked.kv[j];
	for (j = 0; j < n; j++) {
		a.q[j] = asked.q[i + j];
		/* some see nothing of it */
		a.limit[j] = 200 + (i + j) * 7;
		a.o[j] = s->o[i + j];
	}
	k->run.attn(&a);
}

/* All chunks, queries n at a time; each chunk merged by whom: merge or vec. */
static void
make_attn(const struct qwen_kernel *k, const struct qwen_kv_shape *shape,
    const struct qwen_vec *vec, size_t n, int merge, struct seen *s)
{
	static struct seen one;
	size_t c, i, m;

	memset(s, 0, sizeof *s);
	fill_asked(shape);
	for (c = 0; c < 3; c++) {
		for (i = 0; i < QUERIES; i += m) {
			m = n < QUERIES - i ? n : QUERIES - i;
			run_attn(k, shape, i, m, c, merge && c > 0,
			    merge || c == 0 ? s : &one);
		}
		for (i = 0; !merge && c > 0 && i < QUERIES; i++) {
			if (200 + i * 7 > c * QWEN_ATTN_CHUNK)
				vec->attn_merge(&s->m[i], &s->l[i], s->o[i],
				    one.m[i], one.l[i], one.o[i],
				    shape->d);
		}
	}
}

/*
 * The same for any number of queries at once, merged here or there.  Keys and
 * values do not meet in a kernel: where they are of two kinds, few numbers do.
 */
static int
same_attn(const struct qwen_kernel *a, const struct qwen_kernel *b,
    const struct qwen_kv_shape *s, const struct qwen_vec *vec)
{
	static const size_t many[] = { 4, 8, 47, 1, 2, 3, 5, 6, 7, 9, 15, 16,
	    24, 32, 63, 64 };
	const size_t n = quick || s->k != s->v ? 3 :
	    sizeof many / sizeof many[0];
	static struct seen x, y;
	size_t i;

	make_attn(b, s, vec, 1, 0, &y);
	for (i = 0; i < n; i++) {
		make_attn(a, s, vec, many[i], 1, &x);
		if (memcmp(&x, &y, sizeof x) != 0)
			return 0;
		make_attn(a, s, vec, many[i], 0, &x);
		if (memcmp(&x, &y, sizeof x) != 0)
			return 0;
	}
	return 1;
}

static void
check_attn(const struct qwen_kernel *k, const struct qwen_kernels *plain)
{
	int i;

	for (i = 0; i < QWEN_KV_N * QWEN_KV_N; i++) {
		struct qwen_kv_shape s = { .n_head = 1, .d = HEAD,
		    .k = (enum qwen_kv)(i / QWEN_KV_N),
		    .v = (enum qwen_kv)(i % QWEN_KV_N) };

		if (s.k == s.v && qwen_kv_width(s.k) > 0)
			s.d = 80;	/* no multiple of 32 */
		ok(same_attn(k, plain->attn, &s, plain->vec->run.vec),
		    "attn %s equals plain C in any groups, keys %s, values %s",
		    k->name, qwen_kv_name(s.k), qwen_kv_name(s.v));
	}
}

/*
 * Attention to whole numbers, in double: what the numbers stand for, with
 * nothing lost but the last of 16 bits of queries and weights.
 */
static void
check_attn_sense(void)
{
	enum { D = 64, N_KEY = 40 };
	struct qwen_kv_shape s = { .n_head = 1, .d = D, .k = QWEN_KV_Q8_0,
	    .v = QWEN_KV_Q8_0 };
	static float k[N_KEY][D], v[N_KEY][D], q[D], qi[D], o[D];
	static uint16_t mem[3][1 << 12];
	uint16_t *block[3] = { mem[0], mem[1], mem[2] }, scale[D / 32];
	const struct qwen_vec *vec = plain_vec();
	double p[N_KEY], sum = 0, worst = 0, want, dot;
	float m, l;
	struct qwen_attn a = { .d = D, .k = s.k, .v = s.v, .n_q = 1,
	    .block = block, .v_off = qwen_kv_v_at(&s, 0) / 2, .m = &m, .l = &l,
	    .work = work };
	int8_t w[D];
	size_t i, j;

	fill(q, D, 1.0f);
	for (i = 0; i < N_KEY; i++) {
		fill(k[i], D, 1.0f);
		fill(v[i], D, 1.0f);
		vec->round_kv(w, scale, k[i], D, s.k);
		qwen_kv_put(&s, block[i / 16], 0, 0, i % 16, w, scale);
		for (j = 0; j < D; j++)
			k[i][j] = (float)w[j] * qwen_f16_f32(scale[j / 32]);
		vec->round_kv(w, scale, v[i], D, s.v);
		qwen_kv_put(&s, block[i / 16], 0, 1, i % 16, w, scale);
		for (j = 0; j < D; j++)
			v[i][j] = (float)w[j] * qwen_f16_f32(scale[j / 32]);
		for (dot = 0, j = 0; j < D; j++)
			dot += (double)q[j] * k[i][j];
		p[i] = exp(dot);
		sum += p[i];
	}
	memcpy(qi, q, sizeof q);
	vec->query(qi, D);
	a.q[0] = qi;
	a.o[0] = o;
	a.limit[0] = N_KEY;
	qwen_kernel_choose(QWEN_OP_ATTN, NULL, 0, SIZE_MAX)->run.attn(&a);
	for (j = 0; j < D; j++) {
		for (want = 0, i = 0; i < N_KEY; i++)
			want += p[i] / sum * v[i][j];
		want = fabs(want - o[j] / l);
		worst = want > worst ? want : worst;
	}
	ok(worst < 2e-4, "attention to q8_0 is that to what it stands for, "
	    "within %.1e", worst);
}

static void
check_hadamard(void)
{
	static float x[96], y[96];
	const struct qwen_vec *vec = plain_vec();
	double worst = 0, want;
	size_t i, j;

	fill(x, 96, 1.0f);
	memcpy(y, x, sizeof x);
	vec->hadamard(y, 96);
	for (i = 0; i < 96; i++) {
		for (want = 0, j = i / 32 * 32; j < i / 32 * 32 + 32; j++)
			want += (__builtin_popcount((unsigned)(i & j & 31)) % 2 ?
			    -1 : 1) * (double)x[j] / sqrt(32);
		worst = fabs(want - y[i]) > worst ? fabs(want - y[i]) : worst;
	}
	ok(worst < 1e-6, "the rotation is that of Hadamard in 32s");
	vec->hadamard(y, 96);
	for (worst = 0, i = 0; i < 96; i++)
		worst = fabs((double)y[i] - x[i]) > worst ?
		    fabs((double)y[i] - x[i]) : worst;
	ok(worst < 1e-6, "and its own inverse");
}

/* What is not finite is told, and leaves nothing. */
static void
check_not_finite(void)
{
	static const float bad[] = { INFINITY, -INFINITY, NAN, 3e38f };
	const struct qwen_vec *vec = plain_vec();
	uint16_t scale[2];
	float x[64], q[64];
	int8_t w[64];
	size_t i, j;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		fill(x, 64, 1.0f);
		x[40] = bad[i];
		memset(w, 1, sizeof w);
		memcpy(q, x, sizeof x);
		for (j = 0; vec->round_kv(w, scale, x, 64, QWEN_KV_Q4_0) == 0 &&
		    j < 64 && w[j] == 0;)
			j++;
		ok(j == 64 && scale[0] == 0 && scale[1] == 0 &&
		    vec->query(q, 64) == (i == 3),
		    "%g is no key, nor a value", (double)bad[i]);
	}
}

static void
check_variants(void)
{
	unsigned have = qwen_cpu_detect();
	struct qwen_kernels plain;
	size_t i;

	qwen_kernels_init(&plain, 0, 1);
	for (i = 0; i < qwen_kernel_count(); i++) {
		const struct qwen_kernel *k = qwen_kernel_get(i);

		if ((k->need & ~have) != 0) {
			if (!variant_is_product(k))
				skip(k->name, "this CPU lacks it");
			continue;
		}
		if (k->op == QWEN_OP_VEC) {
			ok(same_rows(k->run.vec, plain.vec->run.vec),
			    "rows %s equal plain C", k->name);
			ok(is_low(k->run.vec),
			    "low %s is as it is defined", k->name);
		} else if (k->op == QWEN_OP_DELTA)
			ok(same_delta(k, plain.delta),
			    "delta %s equals plain C in any batches, ahead of them too", k->name);
		else if (k->op == QWEN_OP_ATTN)
			check_attn(k, &plain);
	}
}

/* Against libm, in units of the last place of f32 or of double. */
static void
check_math(void)
{
	double e_exp = 0, e_sp = 0, e_sc = 0, e_log = 0, s, c, x, e;
	int i;

	for (i = 0; i < 400000; i++) {
		x = -86.0 + 172.0 * i / 400000;
		e = fabs(qwen_expf((float)x) / exp((double)(float)x) - 1);
		e_exp = e > e_exp ? e : e_exp;
		e = fabs(qwen_softplusf((float)x) /
		    log1p(exp((double)(float)x)) - 1);
		e_sp = e > e_sp ? e : e_sp;
		qwen_sincos(x * 3000, &s, &c);
		e = fabs(s - sin(x * 3000)) + fabs(c - cos(x * 3000));
		e_sc = e > e_sc ? e : e_sc;
		e = fabs(qwen_log(exp(x)) - x) / (fabs(x) + 1);
		e_log = e > e_log ? e : e_log;
	}
	ok(e_exp < 1e-7, "expf within %.3g", e_exp);
	ok(e_sp < 1e-7, "softplusf within %.3g", e_sp);
	ok(e_sc < 1e-15, "sincos within %.3g", e_sc);
	ok(e_log < 1e-15, "log within %.3g", e_log);
	ok(qwen_expf(-INFINITY) == 0 && qwen_expf(INFINITY) == INFINITY &&
	    isnan(qwen_expf(NAN)) && qwen_expf(0) == 1, "expf at the ends");
}

/* All f16 values, and roundings halfway between them. */
static void
check_half(void)
{
	uint32_t h;
	int bad = 0;

	for (h = 0; h < 0x7c00; h++) {
		float f = qwen_f16_f32((uint16_t)h);
		float g = qwen_f16_f32((uint16_t)(h + 1));
		float mid = (f + g) / 2;

		bad += qwen_f32_f16(f) != h || qwen_f32_f16(-f) !=
		    (h | 0x8000);
		if (h < 0x7bff)
			bad += qwen_f32_f16(mid) != (h + (h & 1)) ||
			    qwen_f32_f16(nextafterf(mid, 0)) != h ||
			    qwen_f32_f16(nextafterf(mid, 1e9f)) != h + 1;
	}
	ok(bad == 0, "f16 to f32 and back, ties to even");
	ok(qwen_f32_f16(65519.0f) == 0x7bff && qwen_f32_f16(65520.0f) ==
	    0x7c00 && (qwen_f32_f16(NAN) & 0x7fff) > 0x7c00,
	    "f16 at the upper end");
}

/* All bf16 values, roundings halfway between them, and what counts as 0. */
static void
check_bf16(void)
{
	static const float x[6] = { 0x1p-60f, -0x1p-60f, 0x1.fffffep-61f,
	    -0x1.fffffep-61f, 0x1p-149f, NAN };
	struct qwen_kernels k;
	uint16_t y[6];
	uint32_t h;
	int bad = 0;

	for (h = 0; h < 0x7f80; h++) {
		float f = qwen_bf16_f32((uint16_t)h);
		float mid = qwen_bits_f32(h << 16 | 0x8000);

		bad += qwen_f32_bf16(f) != h || qwen_f32_bf16(-f) !=
		    (h | 0x8000);
		bad += qwen_f32_bf16(mid) != h + (h & 1) ||
		    qwen_f32_bf16(nextafterf(mid, 0)) != h ||
		    qwen_f32_bf16(nextafterf(mid, INFINITY)) != h + 1;
	}
	ok(bad == 0, "f32 to bf16, ties to even");
	ok(qwen_f32_bf16(INFINITY) == 0x7f80 &&
	    (qwen_f32_bf16(qwen_bits_f32(0x7f800001)) & 0x7fff) > 0x7f80,
	    "bf16: infinity, and a NaN stays one");
	qwen_kernels_init(&k, 0, 3);
	k.vec->run.vec->to_bf16(y, x, 6);
	ok(y[0] == 0x2180 && y[1] == 0xa180 && y[2] == 0 && y[3] == 0 &&
	    y[4] == 0 && (y[5] & 0x7fff) > 0x7f80,
	    "activations below 2^-60 count as 0");
}

/* With an argument, few shapes: what could go wrong on another processor. */
int
main(int argc, char **argv)
{
	(void)argv;
	quick = argc > 1;
	check_variants();
	check_attn_sense();
	check_hadamard();
	check_not_finite();
	check_math();
	check_half();
	check_bf16();
	return done_testing();
}
