/* SPDX-License-Identifier: ISC */
/*
 * jpeg.c - JPEG by libjpeg-turbo, with its defaults (islow, fancy upsampling),
 * which are those of Pillow.
 */
#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

#include "base/err.h"
#include "image/format.h"

struct handler {
	struct jpeg_error_mgr	 mgr;	/* first: the library has its address */
	jmp_buf			 jump;
	struct qwen_err		*err;
};

static void
on_error(j_common_ptr c)
{
	struct handler *h = (struct handler *)c->err;
	char text[JMSG_LENGTH_MAX];

	c->err->format_message(c, text);
	if (c->err->msg_code == JERR_OUT_OF_MEMORY)
		(void)qwen_oom(h->err);
	else
		(void)qwen_fail(h->err, QWEN_EFORMAT, "%s", text);
	longjmp(h->jump, 1);
}

/* Damage is only a warning, but the pixels of a truncated file are missing. */
static void
on_message(j_common_ptr c, int level)
{
	struct handler *h = (struct handler *)c->err;

	if (level >= 0 || c->err->msg_code != JWRN_JPEG_EOF)
		return;
	(void)qwen_fail(h->err, QWEN_EFORMAT, "the file is truncated");
	longjmp(h->jump, 1);
}

/* Pixels of inverted CMYK, as Adobe writes it, to RGB, as Pillow does it. */
static void
from_cmyk(uint8_t *rgb, const uint8_t *cmyk, size_t n)
{
	unsigned k, product, c;

	for (; n > 0; n--, cmyk += 4) {
		k = cmyk[3];
		for (c = 0; c < 3; c++) {
			product = (255u - cmyk[c]) * k + 128;
			*rgb++ = (uint8_t)(k - ((product >> 8) + product) / 256);
		}
	}
}

/* Jumps to on_error()'s target on failure. */
static int
read_image(struct qwen_pixels *out, struct jpeg_decompress_struct *c,
    const uint8_t *p, size_t n, size_t max_pixels, struct qwen_err *err)
{
	JSAMPARRAY line;
	uint8_t *row;

	jpeg_create_decompress(c);
	jpeg_mem_src(c, p, (unsigned long)n);
	jpeg_read_header(c, TRUE);
	c->out_color_space = c->jpeg_color_space == JCS_CMYK ||
	    c->jpeg_color_space == JCS_YCCK ? JCS_CMYK : JCS_RGB;
	if (qwen_pixels_new(out, c->image_width, c->image_height, 3, max_pixels,
	    err) < 0)
		return -1;
	jpeg_start_decompress(c);
	line = c->mem->alloc_sarray((j_common_ptr)c, JPOOL_IMAGE,
	    4 * c->output_width, 1);
	while (c->output_scanline < c->output_height) {
		row = out->rgb + 3 * out->width * c->output_scanline;
		if (c->out_color_space == JCS_RGB) {
			jpeg_read_scanlines(c, &row, 1);
			continue;
		}
		jpeg_read_scanlines(c, line, 1);
		from_cmyk(row, line[0], out->width);
	}
	return 0;
}

static int
decode(struct qwen_pixels *out, const uint8_t *p, size_t n, size_t max_pixels,
    struct qwen_err *err)
{
	struct jpeg_decompress_struct c = { 0 };
	struct handler h;
	volatile int rc = -1;

	c.err = jpeg_std_error(&h.mgr);
	h.mgr.error_exit = on_error;
	h.mgr.emit_message = on_message;
	h.err = err;
	if (setjmp(h.jump) == 0)
		rc = read_image(out, &c, p, n, max_pixels, err);
	jpeg_destroy_decompress(&c);
	return rc;
}

const struct qwen_image_format qwen_image_jpeg_format = { "JPEG", decode, NULL };
