/* SPDX-License-Identifier: ISC */
/*
 * gif.c - the first frame of a GIF, by giflib.  Where the frame covers less than
 * the canvas, the rest is transparent if the frame has a transparent colour;
 * else it has the frame's first colour.  This is what Pillow does.
 */
#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "image/format.h"

struct source {
	const uint8_t	*p;
	size_t		 n;
};

static int
take(GifFileType *g, GifByteType *to, int want)
{
	struct source *s = g->UserData;
	size_t n = want < 0 ? 0 : (size_t)want;

	if (n > s->n)
		n = s->n;
	memcpy(to, s->p, n);
	s->p += n;
	s->n -= n;
	return (int)n;
}

static int
fail_gif(struct qwen_err *err, int code)
{
	const char *text = GifErrorString(code);

	if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
		return qwen_oom(err);
	if (code == D_GIF_ERR_READ_FAILED || code == D_GIF_ERR_EOF_TOO_SOON)
		text = "the file is truncated";
	return qwen_fail(err, QWEN_EFORMAT, "%s",
	    text != NULL ? text : "the file is damaged");
}

/* Read up to the first frame, and its transparent colour, or -1. */
static int
find_frame(GifFileType *g, int *transparent, struct qwen_err *err)
{
	GraphicsControlBlock control;
	GifRecordType type;
	GifByteType *p;
	int code;

	*transparent = NO_TRANSPARENT_COLOR;
	for (;;) {
		if (DGifGetRecordType(g, &type) == GIF_ERROR)
			return fail_gif(err, g->Error);
		if (type == IMAGE_DESC_RECORD_TYPE)
			break;
		if (type == TERMINATE_RECORD_TYPE)
			return qwen_fail(err, QWEN_EFORMAT,
			    "the file has no frame");
		if (DGifGetExtension(g, &code, &p) == GIF_ERROR)
			return fail_gif(err, g->Error);
		if (p != NULL && code == GRAPHICS_EXT_FUNC_CODE &&
		    DGifExtensionToGCB(p[0], p + 1, &control) == GIF_OK)
			*transparent = control.TransparentColor;
		while (p != NULL) {
			if (DGifGetExtensionNext(g, &p) == GIF_ERROR)
				return fail_gif(err, g->Error);
		}
	}
	return DGifGetImageDesc(g) == GIF_ERROR ? fail_gif(err, g->Error) : 0;
}

/* Each index as RGBA; without a colour map, indices are levels of grey. */
static void
list_colours(uint8_t rgba[256][4], const GifFileType *g, int transparent)
{
	const ColorMapObject *map = g->Image.ColorMap != NULL ?
	    g->Image.ColorMap : g->SColorMap;
	int i;

	for (i = 0; i < 256; i++) {
		memset(rgba[i], map != NULL ? 0 : i, 3);
		if (map != NULL && i < map->ColorCount)
			memcpy(rgba[i], (uint8_t[]){ map->Colors[i].Red,
			    map->Colors[i].Green, map->Colors[i].Blue }, 3);
		rgba[i][3] = i == transparent ? 0 : 255;
	}
}

/* Read the frame's rows, in their order in the file, to the canvas. */
static int
read_rows(struct qwen_pixels *out, GifFileType *g, uint8_t rgba[256][4],
    struct qwen_err *err)
{
	static const size_t first[] = { 0, 4, 2, 1 }, step[] = { 8, 8, 4, 2 };
	size_t w = (size_t)g->Image.Width, h = (size_t)g->Image.Height, i, y;
	size_t passes = g->Image.Interlace ? 4 : 1, pass;
	GifPixelType *line = malloc(w);
	uint8_t *to;

	if (line == NULL)
		return qwen_oom(err);
	for (pass = 0; pass < passes; pass++) {
		for (y = passes > 1 ? first[pass] : 0; y < h;
		    y += passes > 1 ? step[pass] : 1) {
			if (DGifGetLine(g, line, (int)w) == GIF_ERROR) {
				free(line);
				return fail_gif(err, g->Error);
			}
			to = out->rgb + 4 * (((size_t)g->Image.Top + y) *
			    out->width + (size_t)g->Image.Left);
			for (i = 0; i < w; i++)
				memcpy(to + 4 * i, rgba[line[i]], 4);
		}
	}
	free(line);
	return 0;
}

static int
read_image(struct qwen_pixels *out, GifFileType *g, size_t max_pixels,
    struct qwen_err *err)
{
	uint8_t rgba[256][4];
	size_t w, h, i;
	int transparent;

	if (find_frame(g, &transparent, err) < 0)
		return -1;
	if (g->Image.Left < 0 || g->Image.Top < 0 || g->Image.Width <= 0 ||
	    g->Image.Height <= 0)
		return qwen_fail(err, QWEN_EFORMAT, "the frame has no pixels");
	list_colours(rgba, g, transparent);
	w = (size_t)g->Image.Left + (size_t)g->Image.Width;
	h = (size_t)g->Image.Top + (size_t)g->Image.Height;
	if (g->SWidth > 0 && (size_t)g->SWidth > w)
		w = (size_t)g->SWidth;
	if (g->SHeight > 0 && (size_t)g->SHeight > h)
		h = (size_t)g->SHeight;
	if (qwen_pixels_new(out, w, h, 4, max_pixels, err) < 0)
		return -1;
	for (i = 0; i < w * h && transparent == NO_TRANSPARENT_COLOR; i++)
		memcpy(out->rgb + 4 * i, rgba[0], 4);
	if (read_rows(out, g, rgba, err) < 0)
		return -1;
	qwen_pixels_flatten(out);
	return 0;
}

static int
decode(struct qwen_pixels *out, const uint8_t *p, size_t n, size_t max_pixels,
    struct qwen_err *err)
{
	struct source s = { p, n };
	int code = 0, rc;
	GifFileType *g = DGifOpen(&s, take, &code);

	if (g == NULL)
		return fail_gif(err, code);
	rc = read_image(out, g, max_pixels, err);
	DGifCloseFile(g, &code);
	return rc;
}

const struct qwen_image_format qwen_image_gif_format = { "GIF", decode, NULL };
