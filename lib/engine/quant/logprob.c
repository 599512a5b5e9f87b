/* SPDX-License-Identifier: ISC */
/* logprob.c - the logarithm of a softmax: how likely a token was. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/quant/math.h"
#include "engine/quant/logprob.h"

enum { BLOCK = 128, LANES = 8 };	/* fixed trip counts: vectorised */

#define LOG2E		0x1.71547652b82fep+0
#define LN2_HI		0x1.62e42fee00000p-1
#define LN2_LO		0x1.a39ef35793c76p-33
#define ROUND		0x1.8p+52	/* added, it rounds to a whole number */
#define EXP_MIN		-500.0
#define HUGE_LOGIT	0x1p32	/* floats are 256 apart and more */

/* The higher one, by masks: a comparison that branches is not vectorised. */
static inline float
higher(float a, float b)
{
	uint32_t take = (uint32_t)-(int32_t)(a > b);

	return qwen_bits_f32((qwen_f32_bits(a) & take) |
	    (qwen_f32_bits(b) & ~take));
}

/*
 * e^x of numbers from -700 to 0, 3e-13 off at most.  Without fma, which
 * the oldest processors lack: a multiplication and an addition round the same
 * everywhere.
 */
static inline double
exp_negative(double x)
{
	double t, n, r, p;
	uint64_t u;

	t = x * LOG2E + ROUND;
	n = t - ROUND;
	r = (x - n * LN2_HI) - n * LN2_LO;
	p = 1.0 / 3628800.0;
	p = p * r + 1.0 / 362880.0;
	p = p * r + 1.0 / 40320.0;
	p = p * r + 1.0 / 5040.0;
	p = p * r + 1.0 / 720.0;
	p = p * r + 1.0 / 120.0;
	p = p * r + 1.0 / 24.0;
	p = p * r + 1.0 / 6.0;
	p = p * r + 0.5;
	p = p * r + 1.0;
	p = p * r + 1.0;
	memcpy(&u, &t, sizeof u);
	u = (u + 1023) << 52;
	memcpy(&n, &u, sizeof n);
	return p * n;
}

static void
add_block(double lane[LANES], const float *x, double max)
{
	float y[BLOCK], least = (float)(max + EXP_MIN);
	double e[BLOCK];
	size_t i, j;

	/* what is lost beside the 1 of the highest is as good as nothing */
	for (i = 0; i < BLOCK; i++)
		y[i] = higher(x[i], least);
	for (i = 0; i < BLOCK; i++)
		e[i] = exp_negative((double)y[i] - max);
	for (i = 0; i < BLOCK; i += LANES) {
		for (j = 0; j < LANES; j++)
			lane[j] += e[i + j];
	}
}

static float
highest(const float *x, size_t n)
{
	float lane[LANES], max;
	size_t i, j;

	for (j = 0; j < LANES; j++)
		lane[j] = x[0];
	for (i = 0; i + LANES <= n; i += LANES) {
		for (j = 0; j < LANES; j++)
			lane[j] = higher(x[i + j], lane[j]);
	}
	for (max = x[0]; i < n; i++)
		max = higher(x[i], max);
	for (j = 0; j < LANES; j++)
		max = higher(lane[j], max);
	return max;
}

static double
add_lanes(const double x[LANES])
{
	return ((x[0] + x[1]) + (x[2] + x[3])) +
	    ((x[4] + x[5]) + (x[6] + x[7]));
}

/* Next to a logit that large, another one is equal to it or nothing. */
static double
count_equal(const float *x, size_t n, double max)
{
	size_t i, k = 0;

	for (i = 0; i < n; i++)
		k += (double)x[i] == max;
	return (double)k;
}

static double
sum_part(const float *x, size_t n, double max)
{
	double lane[LANES] = { 0 };
	float rest[BLOCK];
	size_t i;

	if (fabs(max) >= HUGE_LOGIT)
		return count_equal(x, n, max);
	for (i = 0; i + BLOCK <= n; i += BLOCK)
		add_block(lane, x + i, max);
	if (i < n) {
		memcpy(rest, x + i, (n - i) * sizeof *rest);
		for (n -= i; n < BLOCK; n++)
			rest[n] = -INFINITY;	/* lost likewise */
		add_block(lane, rest, max);
	}
	return add_lanes(lane);
}

/* Of n logits, those above v; with ties, those that are not below. */
static size_t
count_above(const float *x, size_t n, float v, int ties)
{
	size_t above = 0, i, j, end;
	uint32_t k;

	for (i = 0; i < n; i = end) {
		end = n - i < BLOCK ? n : i + BLOCK;
		k = 0;
		if (ties) {
			for (j = i; j < end; j++)
				k += x[j] >= v;
		} else {
			for (j = i; j < end; j++)
				k += x[j] > v;
		}
		above += k;
	}
	return above;
}

void
qwen_logprob_part(struct qwen_logprob_part *p, const float *logits, size_t n,
    size_t i, int32_t id)
{
	size_t at = i * QWEN_LOGPROB_PART, split;
	const float *x = logits + at;

	n = n - at < QWEN_LOGPROB_PART ? n - at : QWEN_LOGPROB_PART;
	p->max = highest(x, n);
	p->sum = sum_part(x, n, (double)p->max);
	p->above = 0;
	if (id < 0 || p->max < logits[id])
		return;
	/* of equals, the first is the best */
	split = (size_t)id <= at ? 0 : (size_t)id - at < n ? (size_t)id - at :
	    n;
	p->above = count_above(x, split, logits[id], 1) +
	    count_above(x + split, n - split, logits[id], 0);
}

/* Add a part to the sum, which is relative to max. */
static double
weigh(const struct qwen_logprob_part *p, double max)
{
	double d = (double)p->max - max;

	return d > EXP_MIN ? p->sum * qwen_exp(d) : 0.0;
}

double
qwen_logprob_join(const struct qwen_logprob_part *p, size_t n_part,
    size_t *above)
{
	double max = (double)p[0].max, sum = 0;
	size_t i;

	for (i = 1; i < n_part; i++)
		max = (double)p[i].max > max ? (double)p[i].max : max;
	*above = 0;
	for (i = 0; i < n_part; i++) {
		sum += weigh(&p[i], max);
		*above += p[i].above;
	}
	return max + qwen_log(sum);
}

double
qwen_logprob_sum(const float *logits, size_t n, int32_t id, size_t *above)
{
	struct qwen_logprob_part p;
	size_t i, n_part = qwen_logprob_n_parts(n);
	double max = (double)highest(logits, n), sum = 0;

	*above = 0;
	for (i = 0; i < n_part; i++) {
		qwen_logprob_part(&p, logits, n, i, id);
		sum += weigh(&p, max);
		*above += p.above;
	}
	return max + qwen_log(sum);
}

/* ------------------------------------------------------------ the best ones */

/* Whether any of BLOCK numbers is above the least that counts. */
static int
any_above(const float *x, float least)
{
	int i, any = 0;

	for (i = 0; i < BLOCK; i++)
		any |= x[i] > least;
	return any;
}

/* Put it after those that are not worse; of k, the last one goes. */
static size_t
insert(struct qwen_sample_top *out, size_t n, size_t k, float x, int32_t id)
{
	size_t i;

	if (n == k && !(x > out[n - 1].logit))
		return n;
	n += n < k;
	for (i = n - 1; i > 0 && x > out[i - 1].logit; i--)
		out[i] = out[i - 1];
	out[i].logit = x;
	out[i].id = id;
	return n;
}

size_t
qwen_logprob_top(const float *logits, size_t n, double sum,
    struct qwen_sample_top *out, size_t n_out)
{
	size_t i, at, end, k = 0;

	for (at = 0; at < n && n_out > 0; at = end) {
		end = n - at < BLOCK ? n : at + BLOCK;
		/* few blocks have one that is better than those before */
		if (k == n_out && end - at == BLOCK &&
		    !any_above(logits + at, out[k - 1].logit))
			continue;
		for (i = at; i < end; i++)
			k = insert(out, k, n_out, logits[i], (int32_t)i);
	}
	for (i = 0; i < k; i++)
		out[i].logprob = (double)out[i].logit - sum;
	return k;
}

/* ----------------------------------------------------------------- two rows */

/*
 * Add a block of e^(p - max) to the sum, and, each times p - q, to the other one.
 */
static void
add_difference(double sum[LANES], double diff[LANES], const float *p,
    const float *q, double max)
{
	double d[BLOCK], e[BLOCK];
	size_t i, j;

	for (i = 0; i < BLOCK; i++) {
		d[i] = (double)p[i] - max;
		e[i] = exp_negative(d[i] > EXP_MIN ? d[i] : EXP_MIN);
	}
	for (i = 0; i < BLOCK; i += LANES) {
		for (j = 0; j < LANES; j++) {
			sum[j] += e[i + j];
			diff[j] += e[i + j] * ((double)p[i + j] -
			    (double)q[i + j]);
		}
	}
}

/* The mean of p - q, by the softmax of p. */
static double
mean_difference(const float *p, const float *q, size_t n)
{
	double sum[LANES] = { 0 }, diff[LANES] = { 0 };
	double max = (double)highest(p, n);
	float a[BLOCK], b[BLOCK] = { 0 };
	size_t i;

	for (i = 0; i + BLOCK <= n; i += BLOCK)
		add_difference(sum, diff, p + i, q + i, max);
	if (i < n) {
		memcpy(a, p + i, (n - i) * sizeof *a);
		memcpy(b, q + i, (n - i) * sizeof *b);
		/* what is as low as that counts for nothing */
		for (n -= i; n < BLOCK; n++)
			a[n] = b[n] = -FLT_MAX;
		add_difference(sum, diff, a, b, max);
	}
	return add_lanes(diff) / add_lanes(sum);
}

static size_t
best(const float *x, size_t n)
{
	float max = highest(x, n);
	size_t i = 0;

	while (x[i] != max)
		i++;
	return i;
}

void
qwen_compare_rows(const float *logits, const float *base, size_t n, int32_t id,
    struct qwen_row_pair *out)
{
	size_t above;
	double sum = qwen_logprob_sum(logits, n, -1, &above);
	double base_sum = qwen_logprob_sum(base, n, -1, &above);

	out->logprob = (double)logits[id] - sum;
	out->base_logprob = (double)base[id] - base_sum;
	out->kl = mean_difference(base, logits, n) + (sum - base_sum);
	/* rows that are nearly the same: it is never below 0 but by rounding */
	if (out->kl < 0)
		out->kl = 0;
	out->same_best = best(logits, n) == best(base, n);
}

double
qwen_perplexity(double nats)
{
	return nats > 700 ? INFINITY : nats < -700 ? 0 : qwen_exp(nats);
}
