/* SPDX-License-Identifier: ISC */
/*
 * quantize.c - the encoders: no worse than llama.cpp's on the same matrices,
 * the same bytes with any instruction set, and only finite numbers.
 *
 * quantize -d FOLDER writes the matrices, to measure another encoder.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "engine/quant/quant.h"
#include "quantize/quantize.h"
#include "synth/synth.h"
#include "../levels.h"
#include "../tap.h"

enum { N_ROW = 512, ROWS = 4, N = N_ROW * ROWS, MATRICES = 100 };

/*
 * A line of quantize.tsv: a format; the mean of the logarithm of llama.cpp's
 * weighted squared error, of MATRICES matrices of normal numbers, of such as
 * models have, and of both weighted (ggml 0.25.3, ggml_quantize_chunk; without
 * an importance matrix where all weigh the same, but where it needs one); FNV-1a
 * of our bytes.
 */
struct row {
	uint32_t	 type;
	double		 error[4];
	uint64_t	 sum;
};

static double
shaped(double u, uint64_t *rng, const double *column, size_t i)
{
	return qwen_gguf_random_normal(rng) * (1.0 + 3.0 * u * u * u * u) *
	    column[i];
}

/* Matrix number k, and weights; kind & 1: as models have, & 2: weights. */
static void
make(int k, int kind, float *x, float *w)
{
	uint64_t rng = (uint64_t)k * 4 + (uint64_t)(kind & 1) + 1000;
	double column[N_ROW], u;
	size_t i;

	for (i = 0; i < N_ROW; i++) {
		u = qwen_gguf_random_uniform(&rng);
		column[i] = (0.5 + 1.5 * u * u) * (i % 171 == 7 ? 4.0 : 1.0);
		u = qwen_gguf_random_uniform(&rng);
		w[i] = kind & 2 ? (float)(0.05 + 6.0 * u * u * u * u) : 1.0f;
	}
	for (i = 0; i < N; i++) {
		u = qwen_gguf_random_uniform(&rng);
		x[i] = (float)(0.02 * (kind & 1 ?
		    shaped(u, &rng, column, i % N_ROW) :
		    qwen_gguf_random_normal(&rng)));
	}
}

static unsigned
level(const char *name)
{
	unsigned f = 0;

	qwen_cpu_level(name, &f);
	return f;
}

static double
error_of(uint32_t type, const float *x, const float *w, unsigned char *bytes)
{
	static float y[N];
	struct qwen_err err;
	double sum = 0.0, d;
	size_t i;

	if (qwen_encode_rows(type, qwen_cpu_detect(), x, w, N_ROW, ROWS, bytes,
	    &err) < 0 || qwen_quant_dequantize(type, bytes, y, N, &err) < 0)
		return INFINITY;
	for (i = 0; i < N; i++) {
		d = (double)x[i] - (double)y[i];
		sum += (double)w[i % N_ROW] * d * d;
	}
	return sum;
}

static void
check_error(const struct row *r)
{
	static const char *const what[] = { "normal", "shaped",
	    "normal, weighted", "shaped, weighted" };
	static unsigned char bytes[N * 4];
	static float x[N], w[N_ROW];
	double sum;
	int kind, k;

	for (kind = 0; kind < 4; kind++) {
		for (sum = 0.0, k = 0; k < MATRICES; k++) {
			make(k, kind, x, w);
			sum += log(error_of(r->type, x, w, bytes));
		}
		sum = exp(sum / MATRICES - r->error[kind]);
		ok(sum <= 1.0, "%s, %s: %.4f of llama.cpp's error",
		    qwen_ggml_name(r->type), what[kind], sum);
	}
}

/* ------------------------------------------------------------------- bytes */

static uint64_t
fnv(const unsigned char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	while (n-- > 0)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

static void
check_bytes(const struct row *r)
{
	static unsigned char one[N * 4], all[N * 4];
	static float x[N], w[N_ROW];
	size_t bytes = qwen_quant_row_bytes(r->type, N), i;
	struct qwen_err err;
	int rc;

	make(3, 3, x, w);
	rc = qwen_encode_rows(r->type, 0, x, w, N_ROW, ROWS, one, &err);
	ok(rc == 0 && fnv(one, bytes) == r->sum, "%s: the bytes of every machine"
	    " (%#llx)", qwen_ggml_name(r->type),
	    (unsigned long long)fnv(one, bytes));
	for (i = 0; i < N_LEVELS; i++) {
		rc = qwen_encode_rows(r->type, level(levels[i]) &
		    qwen_cpu_detect(), x, w, N_ROW, ROWS, all, &err);
		if (rc < 0 || memcmp(one, all, bytes) != 0)
			ok(0, "%s: with %s", qwen_ggml_name(r->type), levels[i]);
	}
	for (i = 0; i < ROWS; i++)
		rc |= qwen_encode_rows(r->type, qwen_cpu_detect(), x + i * N_ROW,
		    w, N_ROW, 1, all + i * bytes / ROWS, &err);
	ok(rc == 0 && memcmp(one, all, bytes) == 0, "%s: row by row",
	    qwen_ggml_name(r->type));
}

/* ----------------------------------------------------------------- extremes */

static int
is_finite(uint32_t type, const float *x, const float *w)
{
	static unsigned char bytes[N * 4];
	static float y[N];
	struct qwen_err err;
	size_t i;

	if (qwen_encode_rows(type, qwen_cpu_detect(), x, w, N_ROW, ROWS, bytes,
	    &err) < 0 || qwen_quant_dequantize(type, bytes, y, N, &err) < 0 ||
	    qwen_quant_find_nonfinite(type, bytes, N) >= 0)
		return 0;
	for (i = 0; i < N; i++) {
		if (!isfinite(y[i]))
			return 0;
	}
	return 1;
}

static void
check_extremes(const struct row *r)
{
	static const float scale[] = { 0.0f, 1e-45f, 1e-38f, 1e-30f, 1e-7f, 1e4f,
	    1e7f, 1e20f, 3e38f };
	static float x[N], w[N_ROW];
	size_t k, i;
	int good = 1;

	for (k = 0; k < sizeof scale / sizeof scale[0]; k++) {
		make(5, 3, x, w);
		for (i = 0; i < N; i++)
			x[i] = scale[k] * (x[i] > 1.0f ? 1.0f :
			    x[i] < -1.0f ? -1.0f : x[i]);
		x[70] = scale[k];
		good &= is_finite(r->type, x, w) && is_finite(r->type, x, NULL);
	}
	for (i = 0; i < N_ROW; i++)
		w[i] = i % 3 == 0 ? 1e30f : 0.0f;
	make(6, 1, x, x + N_ROW);
	good &= is_finite(r->type, x, w);
	for (i = 0; i < N; i++)
		x[i] = 0.25f;
	good &= is_finite(r->type, x, w);
	ok(good, "%s: finite, whatever comes", qwen_ggml_name(r->type));
}

static int
write_matrices(const char *folder)
{
	static float x[N], w[N_ROW];
	char path[4096];
	FILE *f;
	int k, kind;

	for (kind = 0; kind < 4; kind++) {
		snprintf(path, sizeof path, "%s/%d", folder, kind);
		f = fopen(path, "wb");
		for (k = 0; f != NULL && k < MATRICES; k++) {
			make(k, kind, x, w);
			fwrite(x, sizeof x, 1, f);
			fwrite(w, sizeof w, 1, f);
		}
		if (f == NULL || fclose(f) != 0)
			return 1;
	}
	return 0;
}

static uint32_t
type_of(const char *name)
{
	uint32_t i;

	for (i = 0; i < QT_N; i++) {
		if (qwen_ggml_name(i) != NULL &&
		    strcmp(qwen_ggml_name(i), name) == 0)
			return i;
	}
	return QT_N;
}

int
main(int argc, char *argv[])
{
	unsigned char known[QT_N + 1] = { [QT_F32] = 1, [QT_F16] = 1,
	    [QT_BF16] = 1 };
	FILE *f = fopen("tests/unit/quantize.tsv", "r");
	char line[256], name[16];
	struct row r;
	uint32_t i;

	if (argc == 3 && strcmp(argv[1], "-d") == 0)
		return write_matrices(argv[2]);
	ok(f != NULL, "tests/unit/quantize.tsv is there");
	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%15s %lf %lf %lf %lf %" SCNx64, name,
		    &r.error[0], &r.error[1], &r.error[2], &r.error[3],
		    &r.sum) != 6)
			continue;
		r.type = type_of(name);
		known[r.type] = 1;
		check_error(&r);
		check_bytes(&r);
		check_extremes(&r);
	}
	for (i = 0; i < QT_N; i++) {
		if (qwen_encode_known(i) != known[i])
			ok(0, "%s: an encoder and a line", qwen_ggml_name(i));
	}
	if (f != NULL)
		fclose(f);
	return done_testing();
}
