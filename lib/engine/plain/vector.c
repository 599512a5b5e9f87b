/* SPDX-License-Identifier: ISC */
/* vector.c - sums, norms and rotations of rows of f32. */
#include "engine/plain/plain.h"

enum { PARTS = 16 };		/* partial sums */

/* Adds partial sums: i and i + 8, then i + 4, i + 2, i + 1. */
static float
add_parts(float *part)
{
	int half, i;

	for (half = PARTS / 2; half > 0; half /= 2) {
		for (i = 0; i < half; i++)
			part[i] += part[i + half];
	}
	return part[0];
}

/* Missing terms at the end are zero, which may change the sign of a zero. */
float
qwen_plain_dot(const float *a, const float *b, size_t n)
{
	float part[PARTS] = { 0 };
	size_t k;

	for (k = 0; k < n; k++)
		part[k % PARTS] = fmaf(a[k], b[k], part[k % PARTS]);
	for (; k % PARTS != 0; k++)
		part[k % PARTS] += 0.0f;
	return add_parts(part);
}

float
qwen_plain_sum(const float *x, size_t n)
{
	float part[PARTS] = { 0 };
	size_t k;

	for (k = 0; k < n; k++)
		part[k % PARTS] += x[k];
	return add_parts(part);
}

float
qwen_plain_rms_norm(float *y, const float *x, const float *w, size_t n,
    float eps)
{
	float sum = qwen_plain_dot(x, x, n);
	float r = 1.0f / sqrtf(sum / (float)n + eps);
	size_t i;

	for (i = 0; i < n; i++)
		y[i] = x[i] * r * w[i];
	return sum;
}

void
qwen_plain_rope(const struct qwen_hparams *h, float *x, const uint32_t pos[3])
{
	const size_t *section = h->rope_section;
	size_t half = h->n_rot / 2, i;
	double sine, cosine;
	float u, w, c, s;

	for (i = 0; i < half; i++) {
		uint32_t p = pos[0];

		if (i % 3 == 1 && i < 3 * section[1])
			p = pos[1];
		if (i % 3 == 2 && i < 3 * section[2])
			p = pos[2];
		qwen_sincos((double)p * h->rope_freq[i], &sine, &cosine);
		c = (float)(cosine * h->rope_mscale);
		s = (float)(sine * h->rope_mscale);
		u = x[i];
		w = x[half + i];
		x[i] = fmaf(u, c, -(w * s));
		x[half + i] = fmaf(u, s, w * c);
	}
}

/* One matrix, as large as n, which is a power of two. */
static void
transform(float *x, size_t n)
{
	float k = 1.0f / sqrtf((float)n), a, b;
	size_t h, i;

	for (h = n / 2; h > 0; h /= 2) {
		for (i = 0; i < n; i++) {
			if ((i & h) != 0)
				continue;
			a = x[i];
			b = x[i + h];
			x[i] = a + b;
			x[i + h] = a - b;
		}
	}
	for (i = 0; i < n; i++)
		x[i] *= k;
}

void
qwen_plain_hadamard(float *x, size_t n)
{
	size_t piece = n & -n, i;	/* the largest power of two in n */

	for (i = 0; i < n; i += piece)
		transform(x + i, piece);
}
