/* SPDX-License-Identifier: ISC */
/*
 * image_resize.c - sizes, and pixels after resizing, of the 200 random images of
 * image_resize.tsv, which image_resize.py wrote and compares with Pillow.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "image/image.h"

#include "../tap.h"

/* As pixels() of image_resize.py. */
static uint8_t
pixel(uint32_t seed, size_t i, size_t w)
{
	uint32_t v = (uint32_t)i * 2654435761u + seed * 40503;

	if (seed % 3 == 2)
		return (uint8_t)(i / 3 % w * (seed + i % 3 + 1) +
		    i / (3 * w) * 5);
	v = (v ^ v >> 15) * 2246822519u;
	v ^= v >> 13;
	return (uint8_t)(seed % 3 == 0 ? v : v % 2 * 255);
}

static void
check_line(const char *line)
{
	struct qwen_image_limits limits;
	struct qwen_pixels in, out;
	struct qwen_err err = { 0 };
	size_t w, h, want_w, want_h, n, i;
	uint32_t seed;
	uint64_t want;

	if (!ok(sscanf(line, "%" SCNu32 "%zu%zu%" SCNu32 "%" SCNu32 "%zu%zu%"
	    SCNx64, &seed, &w, &h, &limits.min_tokens, &limits.max_tokens,
	    &want_w, &want_h, &want) == 8, "%.*s", (int)strcspn(line, "\n"),
	    line))
		return;
	in = (struct qwen_pixels){ malloc(3 * w * h), w, h };
	n = 3 * w * h;
	for (i = 0; i < n; i++)
		in.rgb[i] = pixel(seed, i, w);
	ok(qwen_image_fit(&w, &h, &limits, &err) == 0 && w == want_w &&
	    h == want_h, "its size: %zu x %zu", w, h);
	ok(qwen_image_resize(&out, &in, want_w, want_h, &err) == 0 &&
	    out.width == want_w && out.height == want_h &&
	    XXH3_64bits(out.rgb, 3 * want_w * want_h) == want, "its pixels");
	free(in.rgb);
	qwen_pixels_fini(&out);
}

/* Sizes by transformers' Qwen2VLImageProcessor, height first as there. */
static void
check_sizes(void)
{
	static const struct qwen_image_limits limits = { 64, 16384 };
	static const size_t t[][4] = {
		{ 1, 1, 256, 256 }, { 100, 100, 256, 256 },
		{ 300, 420, 288, 416 }, { 64, 900, 96, 960 },
		{ 16, 3200, 32, 3648 }, { 333, 1000, 320, 992 },
		{ 1080, 1920, 1088, 1920 }, { 3000, 4000, 3008, 4000 },
		{ 8000, 6000, 4704, 3520 },
	};
	size_t i, w, h;

	for (i = 0; i < sizeof t / sizeof t[0]; i++) {
		h = t[i][0];
		w = t[i][1];
		ok(qwen_image_fit(&w, &h, &limits, NULL) == 0 &&
		    h == t[i][2] && w == t[i][3], "%zu x %zu: %zu x %zu",
		    t[i][1], t[i][0], w, h);
	}
}

/* No size is above the limit, nor has fewer rows than a span needs. */
static void
check_limits(void)
{
	struct qwen_image_limits l;
	size_t w, h, a, b, n, bad = 0, all = 0;
	struct qwen_err err = { 0 };

	for (a = 1; a < 2500; a += a / 4 + 1) {
		for (b = a; b <= 200 * a; b += b / 5 + 1) {
			for (l.max_tokens = 8; l.max_tokens < 3000;
			    l.max_tokens += l.max_tokens / 3) {
				l.min_tokens = all % 2 ? l.max_tokens : 8;
				w = all % 3 ? a : b;
				h = all % 3 ? b : a;
				bad += qwen_image_fit(&w, &h, &l, NULL) < 0;
				n = w / QWEN_IMAGE_UNIT *
				    (h / QWEN_IMAGE_UNIT);
				bad += n > l.max_tokens || n < QWEN_SPAN_MIN ||
				    w % QWEN_IMAGE_UNIT || h % QWEN_IMAGE_UNIT;
				all++;
			}
		}
	}
	ok(bad == 0 && all > 10000, "%zu sizes are within limits", all);
	w = 201;
	h = 1;
	l = (struct qwen_image_limits){ 64, 2048 };
	ok(qwen_image_fit(&w, &h, &l, &err) == -1, "%s", err.msg);
}

int
main(void)
{
	const char *top = getenv("TOP");
	char line[512];
	FILE *f;

	check_sizes();
	check_limits();
	snprintf(line, sizeof line, "%.400s/tests/unit/image_resize.tsv",
	    top != NULL ? top : ".");
	if ((f = fopen(line, "r")) == NULL)
		return 1;
	while (fgets(line, sizeof line, f) != NULL)
		check_line(line);
	fclose(f);
	return done_testing();
}
