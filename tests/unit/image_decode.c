/* SPDX-License-Identifier: ISC */
/*
 * image_decode.c - the images of tests/files/image have the pixels that Pillow
 * reads, or give the message of INDEX.tsv; and all of that in a child process.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "image/format.h"

#include "../tap.h"

static const char *
folder(void)
{
	static char path[512];
	const char *top = getenv("TOP");

	snprintf(path, sizeof path, "%s/tests/files/image",
	    top != NULL ? top : ".");
	return path;
}

/* A file's bytes in a buffer of just the size, for free(). */
static uint8_t *
read_bytes(const char *name, size_t *n)
{
	static uint8_t bytes[1 << 16];
	char path[1024];
	uint8_t *copy;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", folder(), name);
	if ((f = fopen(path, "rb")) == NULL)
		exit(1);
	*n = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	if ((copy = malloc(*n + !*n)) == NULL)
		exit(1);
	memcpy(copy, bytes, *n);
	return copy;
}

/* Is there a decoder for this name? */
static int
can_read(const char *name)
{
	static const char *const formats[][2] = {
		{ ".jpg", "JPEG" }, { ".png", "PNG" }, { ".webp", "WebP" },
		{ ".gif", "GIF" },
	};
	const char *end = strrchr(name, '.');
	size_t i;

	for (i = 0; end != NULL && i < 4; i++) {
		if (strcmp(end, formats[i][0]) == 0)
			return qwen_image_format(formats[i][1]) != NULL;
	}
	return 1;
}

static void
check_good(const char *name, size_t width, size_t height, uint64_t want)
{
	static const struct qwen_image_limits limits = { 8, 64 };
	struct qwen_pixels p, small, resized = { 0 };
	struct qwen_err err = { 0 };
	uint8_t *bytes;
	size_t n;

	bytes = read_bytes(name, &n);
	if (ok(qwen_image_decode(&p, bytes, n, width * height, &err) == 0,
	    "%s: %s", name, err.msg)) {
		ok(p.width == width && p.height == height &&
		    XXH3_64bits(p.rgb, 3 * width * height) == want,
		    "%s: its pixels", name);
		qwen_image_fit(&width, &height, &limits, &err);
		qwen_image_resize(&resized, &p, width, height, &err);
		ok(qwen_image_read(&small, bytes, n, &limits, &err) == 0 &&
		    small.width == width && small.height == height &&
		    memcmp(small.rgb, resized.rgb, 3 * width * height) == 0,
		    "%s: the same, resized, from a child: %s", name, err.msg);
		qwen_pixels_fini(&small);
		ok(qwen_image_decode(&small, bytes, n, p.width * p.height - 1,
		    &err) < 0 && strstr(err.msg, "more than") != NULL,
		    "%s: one pixel too many: %s", name, err.msg);
		qwen_pixels_fini(&p);
		qwen_pixels_fini(&resized);
	}
	free(bytes);
}

static void
check_bad(const char *name, const char *want)
{
	static const struct qwen_image_limits limits = { 64, 2048 };
	struct qwen_err err = { 0 };
	struct qwen_pixels p;
	uint8_t *bytes;
	size_t n;

	bytes = read_bytes(name, &n);
	ok(qwen_image_read(&p, bytes, n, &limits, &err) < 0 &&
	    p.rgb == NULL && strncmp(err.msg, want, strlen(want)) == 0 &&
	    strlen(err.msg) > strlen(want) - (strchr(want, ' ') != NULL),
	    "%s: %s", name, err.msg);
	free(bytes);
}

/* The bytes before the end are never enough, or enough for all pixels. */
static void
check_cuts(const char *name, uint64_t want)
{
	struct qwen_err err = { 0 };
	struct qwen_pixels p;
	size_t n, cut, bad = 0;
	uint8_t *bytes, *part;

	bytes = read_bytes(name, &n);
	for (cut = 0; cut < n; cut++) {
		part = malloc(cut + 1);
		memcpy(part, bytes, cut);
		err = (struct qwen_err){ 0 };
		if (qwen_image_decode(&p, part, cut, 1 << 20, &err) < 0)
			bad += err.code == 0 || err.msg[0] == '\0';
		else
			bad += XXH3_64bits(p.rgb, 3 * p.width * p.height) !=
			    want;
		qwen_pixels_fini(&p);
		free(part);
	}
	ok(bad == 0, "%s: cut at each byte", name);
	free(bytes);
}

int
main(void)
{
	char line[1024], name[64], width[16], height[16], last[256];
	FILE *f;

	snprintf(line, sizeof line, "%s/INDEX.tsv", folder());
	if ((f = fopen(line, "r")) == NULL)
		return 1;
	while (fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%63[^\t]\t%15[^\t]\t%15[^\t]\t%255[^\n]",
		    name, width, height, last) != 4)
			ok(0, "INDEX.tsv: %s", line);
		else if (!can_read(name))
			skip(name, "built without its library");
		else if (strcmp(width, "-") == 0)
			check_bad(name, last);
		else {
			check_good(name, strtoull(width, NULL, 10),
			    strtoull(height, NULL, 10),
			    strtoull(last, NULL, 16));
			check_cuts(name, strtoull(last, NULL, 16));
		}
	}
	fclose(f);
	return done_testing();
}
