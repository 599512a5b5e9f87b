/* SPDX-License-Identifier: ISC */
/* decode.c - which format a file has, and its decoder. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/format.h"

#define FORMAT(name) extern const struct qwen_image_format name;
#include "images.inc"
#undef FORMAT

static const struct qwen_image_format *const formats[] = {
#define FORMAT(name) &name,
#include "images.inc"
#undef FORMAT
	NULL
};

/* How files begin; "?" stands for any byte. */
static const struct magic {
	const char	*name;
	const char	*library;	/* that decodes it; NULL: none */
	size_t		 len;
	const char	*bytes;
} magics[] = {
	{ "JPEG", "libjpeg", 3, "\xff\xd8\xff" },
	{ "PNG", "libpng", 8, "\x89PNG\r\n\x1a\n" },
	{ "WebP", "libwebp", 12, "RIFF????WEBP" },
	{ "GIF", "giflib", 6, "GIF8?a" },
	/* named for the message only */
	{ "HEIC", NULL, 12, "????ftypheic" },
	{ "HEIC", NULL, 12, "????ftypmif1" },
	{ "AVIF", NULL, 12, "????ftypavif" },
	{ "TIFF", NULL, 4, "II*\0" },
	{ "TIFF", NULL, 4, "MM\0*" },
	{ "BMP", NULL, 2, "BM" },
	{ "PDF", NULL, 5, "%PDF-" },
};

const struct qwen_image_format *
qwen_image_format(const char *name)
{
	size_t i;

	for (i = 0; formats[i] != NULL; i++) {
		if (strcmp(formats[i]->name, name) == 0)
			return formats[i];
	}
	return NULL;
}

static const struct magic *
find_magic(const uint8_t *p, size_t n)
{
	const struct magic *m, *end = magics + sizeof magics / sizeof magics[0];
	size_t i;

	for (m = magics; m < end; m++) {
		for (i = 0; n >= m->len && i < m->len; i++) {
			if (m->bytes[i] != '?' && (uint8_t)m->bytes[i] != p[i])
				break;
		}
		if (i == m->len)
			return m;
	}
	return NULL;
}

int
qwen_image_decode(struct qwen_pixels *out, const uint8_t *p, size_t n,
    size_t max_pixels, struct qwen_err *err)
{
	const struct magic *m = find_magic(p, n);
	const struct qwen_image_format *f;

	*out = (struct qwen_pixels){ 0 };
	if (n == 0)
		return qwen_fail(err, QWEN_EFORMAT, "empty: no image");
	if (m == NULL)
		return qwen_fail(err, QWEN_EFORMAT, "not an image: neither "
		    "JPEG, PNG, WebP nor GIF");
	if (m->library == NULL)
		return qwen_fail(err, QWEN_EUNSUP, "%s files are not supported: "
		    "convert the image to PNG or JPEG", m->name);
	if ((f = qwen_image_format(m->name)) == NULL)
		return qwen_fail(err, QWEN_EUNSUP, "this program was built "
		    "without %s, so it reads no %s images", m->library,
		    m->name);
	if (f->decode(out, p, n, max_pixels, err) == 0)
		return 0;
	qwen_pixels_fini(out);
	return qwen_fail_in(err, "%s", m->name);
}

int
qwen_image_png(struct qwen_text *to, const struct qwen_pixels *p,
    struct qwen_err *err)
{
	const struct qwen_image_format *f = qwen_image_format("PNG");

	return f != NULL ? f->encode(to, p, err) : qwen_fail(err, QWEN_EUNSUP,
	    "this program was built without libpng, so it writes no PNG");
}

void
qwen_pixels_fini(struct qwen_pixels *p)
{
	free(p->rgb);
	*p = (struct qwen_pixels){ 0 };
}

int
qwen_pixels_new(struct qwen_pixels *out, size_t width, size_t height,
    size_t channels, size_t max_pixels, struct qwen_err *err)
{
	if (width == 0 || height == 0)
		return qwen_fail(err, QWEN_EFORMAT, "%zu x %zu: no pixels",
		    width, height);
	if (width > max_pixels / height)
		return qwen_fail(err, QWEN_ERANGE, "%zu x %zu pixels: more than "
		    "%zu; make the image smaller", width, height, max_pixels);
	out->width = width;
	out->height = height;
	out->rgb = calloc(width * height, channels);
	return out->rgb == NULL ? qwen_oom(err) : 0;
}

void
qwen_pixels_flatten(struct qwen_pixels *p)
{
	const uint8_t *from = p->rgb;
	size_t i, n = p->width * p->height;
	uint8_t *to = p->rgb;
	unsigned a, c;

	for (i = 0; i < n; i++, from += 4) {
		a = from[3];
		for (c = 0; c < 3; c++)
			*to++ = (uint8_t)((from[c] * a + 255 * (255 - a) + 127) /
			    255);
	}
}
