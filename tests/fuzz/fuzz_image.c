/* SPDX-License-Identifier: ISC */
/*
 * fuzz_image.c - any bytes as an image, decoded in this process: pixels, or a
 * message.
 */
#include <stdlib.h>
#include <string.h>

#include "image/format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* So that no input takes long: a mutated header often says a large size. */
enum { PIXELS_MAX = 1 << 18 };

static volatile unsigned sink;

static uint32_t
checksum(const uint8_t *p, size_t n)
{
	uint32_t crc = 0xffffffff;
	int bit;

	for (; n > 0; n--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* Correct the checksums of a PNG, which hide what is behind them. */
static void
repair_png(uint8_t *p, size_t n)
{
	size_t at = 8, len, i;
	uint32_t crc;

	while (at + 12 <= n) {
		len = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 |
		    (size_t)p[at + 2] << 8 | p[at + 3];
		if (len > n - at - 12)
			break;
		crc = checksum(p + at + 4, len + 4);
		for (i = 0; i < 4; i++)
			p[at + 8 + len + i] = (uint8_t)(crc >> (24 - 8 * i));
		at += len + 12;
	}
}

static void
decode(const uint8_t *data, size_t size)
{
	struct qwen_pixels p;
	struct qwen_err err = { 0 };
	size_t i;

	if (qwen_image_decode(&p, data, size, PIXELS_MAX, &err) < 0) {
		if (err.code == 0 || err.msg[0] == '\0' || p.rgb != NULL)
			abort();
		return;
	}
	if (p.width == 0 || p.height == 0 || p.width > PIXELS_MAX / p.height)
		abort();
	for (i = 0; i < 3 * p.width * p.height; i++)
		sink += p.rgb[i];
	qwen_pixels_fini(&p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	decode(data, size);
	if (size < 8 || memcmp(data, "\x89PNG\r\n\x1a\n", 8) != 0)
		return 0;
	if ((copy = malloc(size)) == NULL)
		abort();
	memcpy(copy, data, size);
	repair_png(copy, size);
	decode(copy, size);
	free(copy);
	return 0;
}
