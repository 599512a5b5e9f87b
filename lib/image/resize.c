/* SPDX-License-Identifier: ISC */
/*
 * resize.c - the size that an image gets, and its pixels.
 *
 * The bytes are those of Pillow's bicubic filter.  Each pixel of the result is a
 * sum of pixels times weights.  The weights are computed in double and rounded
 * to integers of 22 bits after the point.
 */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/image.h"

enum { BITS = 22, RATIO_MAX = 200, UNIT = QWEN_IMAGE_UNIT };

/* --------------------------------------------------------------- the size */

/* v units, at least one. */
static double
at_least_one(double v)
{
	return v < 1 ? 1 : v;
}

int
qwen_image_fit(size_t *width, size_t *height,
    const struct qwen_image_limits *limits, struct qwen_err *err)
{
	double w = (double)*width, h = (double)*height, b;
	double min = limits->min_tokens, max = limits->max_tokens;
	double area = (double)UNIT * UNIT, uw, uh;	/* in units */

	if (w > RATIO_MAX * h || h > RATIO_MAX * w)
		return qwen_fail(err, QWEN_ERANGE, "%zu x %zu pixels: one side "
		    "is more than %d times the other; cut the image", *width,
		    *height, RATIO_MAX);
	uw = rint(w / UNIT);	/* half to even, as Python's round() */
	uh = rint(h / UNIT);
	if (uw * uh < min) {
		b = sqrt(min * area / (h * w));
		uw = ceil(w * b / UNIT);
		uh = ceil(h * b / UNIT);
	}
	if (uw * uh > max) {
		b = sqrt(h * w / (max * area));
		uw = at_least_one(floor(w / b / UNIT));
		uh = at_least_one(floor(h / b / UNIT));
	}
	/* one side is one unit: models take more, but the user has a limit */
	if (uw * uh > max && uw > uh)
		uw = max;
	else if (uw * uh > max)
		uh = max;
	*width = (size_t)uw * UNIT;
	*height = (size_t)uh * UNIT;
	return 0;
}

/* -------------------------------------------------------------- the weights */

/* Of one axis: each output is a sum over n inputs from first on. */
struct axis {
	size_t	*first, *n;
	int32_t	*weights;		/* [outputs][stride] */
	size_t	 stride;
};

static double
bicubic(double x)
{
	x = fabs(x);
	if (x < 1)
		return (1.5 * x - 2.5) * x * x + 1;
	return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

static void
axis_fini(struct axis *a)
{
	free(a->first);
	free(a->n);
	free(a->weights);
}

/* k has room for the weights of one output. */
static void
set_weights(struct axis *a, double *k, size_t out, size_t n_in, size_t n_out)
{
	double scale = (double)n_in / (double)n_out, stretch = fmax(scale, 1);
	double support = 2 * stretch, inverse = 1 / stretch, sum = 0;
	double centre = ((double)out + 0.5) * scale;
	double lo = centre - support + 0.5, hi = centre + support + 0.5;
	size_t first = lo > 0 ? (size_t)lo : 0, i;
	size_t n = (hi < (double)n_in ? (size_t)hi : n_in) - first;

	for (i = 0; i < n; i++) {
		k[i] = bicubic(((double)i + (double)first - centre + 0.5) *
		    inverse);
		sum += k[i];
	}
	for (i = 0; i < n; i++) {
		if (sum != 0)
			k[i] /= sum;
		a->weights[out * a->stride + i] = (int32_t)(k[i] *
		    (1 << BITS) + (k[i] < 0 ? -0.5 : 0.5));
	}
	a->first[out] = first;
	a->n[out] = n;
}

static int
axis_init(struct axis *a, size_t n_in, size_t n_out)
{
	size_t i, span = n_in > n_out ? 4 * ((n_in - 1) / n_out + 1) : 4;
	double *k;

	*a = (struct axis){ .stride = span + 2 };
	a->first = calloc(n_out, sizeof *a->first);
	a->n = calloc(n_out, sizeof *a->n);
	a->weights = qwen_alloc(n_out, a->stride * sizeof *a->weights);
	k = calloc(a->stride, sizeof *k);
	for (i = 0; i < n_out && a->first != NULL && a->n != NULL &&
	    a->weights != NULL && k != NULL; i++)
		set_weights(a, k, i, n_in, n_out);
	free(k);
	return i < n_out ? -1 : 0;
}

/* --------------------------------------------------------------- the pixels */

static uint8_t
clamp(int32_t sum)
{
	sum >>= BITS;
	return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void
resize_row(uint8_t *to, const uint8_t *from, const struct axis *a, size_t n_out)
{
	const uint8_t *p;
	const int32_t *k;
	int32_t r, g, b;
	size_t o, i;

	for (o = 0; o < n_out; o++) {
		p = from + 3 * a->first[o];
		k = a->weights + o * a->stride;
		r = g = b = 1 << (BITS - 1);
		for (i = 0; i < a->n[o]; i++, p += 3) {
			r += p[0] * k[i];
			g += p[1] * k[i];
			b += p[2] * k[i];
		}
		*to++ = clamp(r);
		*to++ = clamp(g);
		*to++ = clamp(b);
	}
}

/* One row of the result from rows of n bytes; sums has room for n. */
static void
mix_rows(uint8_t *to, const uint8_t *from, const struct axis *a, size_t out,
    int32_t *sums, size_t n)
{
	const uint8_t *p = from + a->first[out] * n;
	const int32_t *k = a->weights + out * a->stride;
	size_t i, x;

	for (x = 0; x < n; x++)
		sums[x] = 1 << (BITS - 1);
	for (i = 0; i < a->n[out]; i++, p += n) {
		for (x = 0; x < n; x++)
			sums[x] += p[x] * k[i];
	}
	for (x = 0; x < n; x++)
		to[x] = clamp(sums[x]);
}

static int
resize_width(struct qwen_pixels *out, const struct qwen_pixels *in,
    size_t width)
{
	struct axis a;
	size_t y;
	int rc = axis_init(&a, in->width, width);

	*out = (struct qwen_pixels){ .width = width, .height = in->height };
	out->rgb = qwen_alloc_large(in->height, 3 * width);
	if (out->rgb == NULL)
		rc = -1;
	for (y = 0; y < in->height && rc == 0; y++)
		resize_row(out->rgb + 3 * width * y,
		    in->rgb + 3 * in->width * y, &a, width);
	axis_fini(&a);
	return rc;
}

static int
resize_height(struct qwen_pixels *out, const struct qwen_pixels *in,
    size_t height)
{
	struct axis a;
	size_t y, n = 3 * in->width;
	int32_t *sums = qwen_alloc(n, sizeof *sums);
	int rc = axis_init(&a, in->height, height);

	*out = (struct qwen_pixels){ .width = in->width, .height = height };
	out->rgb = qwen_alloc_large(height, n);
	if (out->rgb == NULL || sums == NULL)
		rc = -1;
	for (y = 0; y < height && rc == 0; y++)
		mix_rows(out->rgb + n * y, in->rgb, &a, y, sums, n);
	axis_fini(&a);
	free(sums);
	return rc;
}

int
qwen_image_resize(struct qwen_pixels *out, const struct qwen_pixels *in,
    size_t width, size_t height, struct qwen_err *err)
{
	struct qwen_pixels wide = { 0 };
	int rc = resize_width(&wide, in, width);

	*out = (struct qwen_pixels){ 0 };
	if (rc == 0)
		rc = resize_height(out, &wide, height);
	qwen_pixels_fini(&wide);
	if (rc == 0)
		return 0;
	qwen_pixels_fini(out);
	return qwen_oom(err);
}
