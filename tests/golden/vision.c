/* SPDX-License-Identifier: ISC */
/*
 * vision.c - the encoder of images: its rows have the bits that qwen-numerics(7)
 * defines, on any number of threads and with any instruction set, and are
 * those of PyTorch's float32.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "gguf/type.h"
#include "vision/vision.h"
#include "../ref/mmproj.h"
#include "../tap.h"

#define VISION "../shared/fixtures/vision/"

static struct qwen_err err;

static float *
room(size_t n)
{
	float *p = qwen_alloc(n, sizeof *p);

	if (p == NULL)
		abort();
	return p;
}

/* ------------------------------------------------------------------ fixtures */

static float *
floats(const char *dir, const char *name, int k, size_t n)
{
	float *x = room(n);
	char path[200];
	FILE *f;

	snprintf(path, sizeof path, VISION "%s/%s-%d.f32", dir, name, k);
	if ((f = fopen(path, "rb")) == NULL || fread(x, sizeof *x, n, f) != n)
		abort();
	fclose(f);
	return x;
}

/* Numbers of patches, [channel][frame][y][x], to those of an image. */
static float *
unfold(const float *patches, size_t height, size_t width)
{
	float *x = room(height * width * 256 * 3);
	size_t i, c, y, k, row, col;

	for (i = 0; i < height * width; i++) {
		row = i / 4 / (width / 2) * 2 + i % 4 / 2;
		col = i / 4 % (width / 2) * 2 + i % 2;
		for (c = 0; c < 3; c++)
		for (y = 0; y < 16; y++)
		for (k = 0; k < 16; k++)
			x[((row * 16 + y) * width * 16 + col * 16 + k) * 3 +
			    c] = patches[i * 1536 + c * 512 + y * 16 + k];
	}
	return x;
}

static double
distance(const float *got, const float *want, size_t n)
{
	double worst = 0;
	size_t i;

	for (i = 0; i < n; i++)
		worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
	return worst;
}

static void
check_fixture(const char *dir)
{
	static const size_t grid[2][2] = { { 4, 6 }, { 6, 10 } };
	const struct qwen_vision_info *f;
	float *patches, *image, *want, *rows;
	struct qwen_vision *v;
	char path[200];
	size_t n;
	double far;
	int k;

	snprintf(path, sizeof path, VISION "%s/mmproj.gguf", dir);
	if (qwen_vision_open(&v, path, NULL, &err) < 0) {
		if (err.code == QWEN_EIO)
			skip("rows of PyTorch", path);
		else
			ok(0, "%s: %s", path, err.msg);
		return;
	}
	f = qwen_vision_info(v);
	for (k = 0; k < 2; k++) {
		n = grid[k][0] * grid[k][1];
		patches = floats(dir, "pixels", k, n * 1536);
		image = unfold(patches, grid[k][0], grid[k][1]);
		want = floats(dir, "embd", k, n / 4 * f->n_row);
		rows = room(n / 4 * f->n_row);
		if (qwen_vision_encode_numbers(v, image, grid[k][1] * 16,
		    grid[k][0] * 16, rows, &err) < 0)
			printf("# %s\n", err.msg);
		far = distance(rows, want, n / 4 * f->n_row);
		ok(far < 1e-5, "%s: rows of image %d, with %zu deepstack "
		    "vectors, are at most %.2g from PyTorch's", dir, k,
		    f->n_deepstack, far);
		free(patches);
		free(image);
		free(want);
		free(rows);
	}
	qwen_vision_close(v);
}

/* ---------------------------------------------------------------------- bits */

/* An encoder and an image, with its rows. */
struct scene {
	struct mmproj	 file;
	const char	*name;
	size_t		 width, height;
};

static const struct scene scenes[] = {
	{ { .n_embd = 96, .n_head = 4, .n_ff = 136, .n_layer = 3, .side = 8,
	    .n_out = 64, .deep = 5, .type = QT_Q8_0, .merge = 2 },
	    "Q8_0 with F16, heads of 24, deepstack", 352, 192 },
	{ { .n_embd = 80, .n_head = 2, .n_ff = 120, .n_layer = 2, .side = 5,
	    .n_out = 48, .type = QT_F16 }, "F16, heads of 40", 32, 416 },
	{ { .n_embd = 32, .n_head = 1, .n_ff = 48, .n_layer = 1, .side = 48,
	    .n_out = 32, .type = QT_BF16, .merge = 2 },
	    "BF16, more patches than go through at once", 512, 544 },
	{ { .n_embd = 24, .n_head = 2, .n_ff = 33, .n_layer = 2, .side = 1,
	    .n_out = 20, .deep = 2, .type = QT_F32, .merge = 2 },
	    "F32, heads of 12, one position", 96, 64 },
};

static void
fill(uint8_t *rgb, size_t n)
{
	uint64_t x = 5;

	while (n-- > 0) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		*rgb++ = (uint8_t)(x >> 56);
	}
}

/* Encodes with some threads and a level; 1 if the rows are those. */
static int
same(const struct qwen_text *file, const struct qwen_vision_image *image,
    const char *level, int threads, const float *rows, size_t n)
{
	struct qwen_vision_opts o = { .n_threads = threads, .cpu = level };
	float *got = room(n);
	struct qwen_vision *v = NULL;
	struct qwen_gguf *g;
	int good;

	if (qwen_gguf_open_memory(&g, file->s, file->n, &err) < 0 ||
	    qwen_vision_open_gguf(&v, g, &o, &err) < 0 ||
	    qwen_vision_encode(v, image, got, NULL, NULL, &err) < 0)
		printf("# %s\n", err.msg);
	good = memcmp(got, rows, n * sizeof *got) == 0;
	qwen_vision_close(v);
	free(got);
	return good;
}

static void
check_bits(const struct scene *s)
{
	static const char *const levels[] = { "scalar", "avx2", "avx512",
	    "neon", NULL };
	struct qwen_text file = { 0 };
	size_t i, n = s->width * s->height * 3, rows = 1;
	uint8_t *rgb = malloc(n);
	float *numbers = room(n), *want;
	struct qwen_vision_image image = { rgb, s->width, s->height };
	struct qwen_gguf *g;

	for (i = 0; i < s->file.n_layer; i++)
		rows += s->file.deep >> i & 1;
	rows *= n / 3 / 1024 * s->file.n_out;
	mmproj_make(&file, &s->file);
	fill(rgb, n);
	for (i = 0; i < n; i++)
		numbers[i] = ((float)rgb[i] / 255.0f - 0.5f) / 0.5f;
	want = room(rows);
	if (qwen_gguf_open_memory(&g, file.s, file.n, &err) < 0)
		abort();
	ref_vision(g, numbers, s->width, s->height, want);
	qwen_gguf_close(g);
	for (i = 0; i < sizeof levels / sizeof levels[0]; i++) {
		if (levels[i] != NULL && qwen_cpu_check(levels[i]) <= 0)
			continue;
		ok(same(&file, &image, levels[i], 1 + (int)(i % 3), want,
		    rows), "%s: with %s on %d threads, the bits of plain C", s->name, levels[i] != NULL ?
		    levels[i] : "the best set", 1 + (int)(i % 3));
	}
	free(want);
	free(numbers);
	free(rgb);
	qwen_text_fini(&file);
}

/* ------------------------------------------------------------------ identity */

static void
check_hash(void)
{
	static uint8_t rgb[64 * 96 * 3], other[64 * 96 * 3];
	struct qwen_vision_image image = { rgb, 96, 64 };
	struct qwen_vision_image turned = { rgb, 64, 96 };
	struct qwen_vision_image changed = { other, 96, 64 };
	struct mmproj m = scenes[3].file;
	struct qwen_text file[2] = { { 0 } };
	struct qwen_vision *v[2];
	struct qwen_gguf *g;
	struct qwen_span a, b, c, d, e;
	int i;

	fill(rgb, sizeof rgb);
	memcpy(other, rgb, sizeof rgb);
	other[9999] ^= 1;
	for (i = 0; i < 2; i++) {
		m.n_out += 4;
		mmproj_make(&file[i], &m);
		if (qwen_gguf_open_memory(&g, file[i].s, file[i].n, &err) < 0 ||
		    qwen_vision_open_gguf(&v[i], g, NULL, &err) < 0)
			abort();
	}
	ok(qwen_vision_span(v[0], &image, &a, &err) == 0 && a.n == 6 &&
	    a.height == 2 && a.width == 3 && a.start == 0,
	    "an image of 96 by 64 pixels has 2 by 3 rows");
	if (qwen_vision_span(v[0], &image, &b, &err) < 0 ||
	    qwen_vision_span(v[0], &turned, &c, &err) < 0 ||
	    qwen_vision_span(v[0], &changed, &d, &err) < 0 ||
	    qwen_vision_span(v[1], &image, &e, &err) < 0)
		abort();
	ok(memcmp(&a.hash, &b.hash, sizeof a.hash) == 0,
	    "the same image has the same hash");
	ok(memcmp(&a.hash, &c.hash, sizeof a.hash) != 0,
	    "another shape another one");
	ok(memcmp(&a.hash, &d.hash, sizeof a.hash) != 0,
	    "a bit of a pixel another one");
	ok(memcmp(&a.hash, &e.hash, sizeof a.hash) != 0,
	    "another encoder another one");
	for (i = 0; i < 2; i++) {
		qwen_vision_close(v[i]);
		qwen_text_fini(&file[i]);
	}
}

int
main(void)
{
	size_t i;

	check_fixture("qwen3_5");
	check_fixture("qwen3_vl");
	for (i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
		check_bits(&scenes[i]);
	check_hash();
	return done_testing();
}
