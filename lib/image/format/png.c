/* SPDX-License-Identifier: ISC */
/* png.c - PNG by libpng. */
#include <png.h>
#include <string.h>

#include "base/err.h"
#include "image/format.h"

struct source {
	const uint8_t	*p;
	size_t		 n;
	struct qwen_err	*err;
};

static void
on_error(png_structp png, png_const_charp text)
{
	struct source *s = png_get_error_ptr(png);

	if (strstr(text, "emory") != NULL)	/* "Out of", "insufficient" */
		(void)qwen_oom(s->err);
	else
		(void)qwen_fail(s->err, QWEN_EFORMAT, "%s", text);
	png_longjmp(png, 1);
}

static void
on_warning(png_structp png, png_const_charp text)
{
	(void)png;
	(void)text;
}

static void
take(png_structp png, png_bytep to, size_t n)
{
	struct source *s = png_get_io_ptr(png);

	if (n > s->n)
		png_error(png, "the file is truncated");
	memcpy(to, s->p, n);
	s->p += n;
	s->n -= n;
}

/* Jumps to on_error()'s target on failure. */
static int
read_image(struct qwen_pixels *out, png_structp png, png_infop info,
    size_t max_pixels, struct qwen_err *err)
{
	size_t channels, y, height;
	int passes;

	png_read_info(png, info);
	png_set_expand(png);	/* palettes, few bits, tRNS to alpha */
	png_set_strip_16(png);
	png_set_gray_to_rgb(png);
	passes = png_set_interlace_handling(png);
	png_read_update_info(png, info);
	channels = png_get_channels(png, info);
	height = png_get_image_height(png, info);
	if (qwen_pixels_new(out, png_get_image_width(png, info), height,
	    channels, max_pixels, err) < 0)
		return -1;
	while (passes-- > 0) {
		for (y = 0; y < height; y++)
			png_read_row(png, out->rgb + y * out->width * channels,
			    NULL);
	}
	if (channels == 4)
		qwen_pixels_flatten(out);
	return 0;
}

static int
decode(struct qwen_pixels *out, const uint8_t *p, size_t n, size_t max_pixels,
    struct qwen_err *err)
{
	struct source s = { p, n, err };
	png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s,
	    on_error, on_warning);
	png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
	volatile int rc = -1;

	if (info == NULL) {
		png_destroy_read_struct(&png, NULL, NULL);
		return qwen_oom(err);
	}
	if (setjmp(png_jmpbuf(png)) == 0) {
		png_set_read_fn(png, &s, take);
		rc = read_image(out, png, info, max_pixels, err);
	}
	png_destroy_read_struct(&png, &info, NULL);
	return rc;
}

/* ----------------------------------------------------------------- writing */

static void
put(png_structp png, png_bytep p, size_t n)
{
	qwen_text_add(png_get_io_ptr(png), p, n);
}

static void
flush(png_structp png)
{
	(void)png;
}

static int
encode(struct qwen_text *to, const struct qwen_pixels *p, struct qwen_err *err)
{
	struct source s = { .err = err };
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &s,
	    on_error, on_warning);
	png_infop info = png != NULL ? png_create_info_struct(png) : NULL;
	volatile int rc = -1;
	size_t y;

	if (info == NULL) {
		png_destroy_write_struct(&png, NULL);
		return qwen_oom(err);
	}
	if (setjmp(png_jmpbuf(png)) == 0) {
		png_set_write_fn(png, to, put, flush);
		png_set_IHDR(png, info, (uint32_t)p->width,
		    (uint32_t)p->height, 8, PNG_COLOR_TYPE_RGB,
		    PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
		    PNG_FILTER_TYPE_DEFAULT);
		png_write_info(png, info);
		for (y = 0; y < p->height; y++)
			png_write_row(png, p->rgb + y * p->width * 3);
		png_write_end(png, info);
		rc = to->failed ? qwen_oom(err) : 0;
	}
	png_destroy_write_struct(&png, &info);
	return rc;
}

const struct qwen_image_format qwen_image_png_format = { "PNG", decode, encode };
