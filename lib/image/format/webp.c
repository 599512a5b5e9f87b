/* SPDX-License-Identifier: ISC */
/* webp.c - WebP by libwebp; of an animation, the first frame. */
#include <webp/decode.h>
#include <webp/demux.h>

#include "base/err.h"
#include "image/format.h"

/* Decode a frame to its place on a transparent canvas. */
static int
put_frame(struct qwen_pixels *out, const WebPIterator *frame,
    struct qwen_err *err)
{
	size_t x = (size_t)frame->x_offset, y = (size_t)frame->y_offset;
	size_t at = 4 * (y * out->width + x);
	WebPDecoderConfig c;

	if (x >= out->width || y >= out->height || !WebPInitDecoderConfig(&c))
		return qwen_fail(err, QWEN_EFORMAT, "the frame has no pixels");
	c.output.colorspace = MODE_RGBA;
	c.output.is_external_memory = 1;
	c.output.u.RGBA = (WebPRGBABuffer){ out->rgb + at,
	    (int)(4 * out->width), 4 * out->width * out->height - at };
	switch (WebPDecode(frame->fragment.bytes, frame->fragment.size, &c)) {
	case VP8_STATUS_OK:
		qwen_pixels_flatten(out);
		return 0;
	case VP8_STATUS_OUT_OF_MEMORY:
		return qwen_oom(err);
	default:
		return qwen_fail(err, QWEN_EFORMAT,
		    "the image data are damaged or truncated");
	}
}

static int
decode(struct qwen_pixels *out, const uint8_t *p, size_t n, size_t max_pixels,
    struct qwen_err *err)
{
	WebPDemuxer *d = WebPDemux(&(WebPData){ p, n });
	WebPIterator frame;
	int rc = -1;

	if (d == NULL)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the file is damaged or truncated");
	if (!WebPDemuxGetFrame(d, 1, &frame)) {
		(void)qwen_fail(err, QWEN_EFORMAT, "the file has no frame");
	} else {
		if (qwen_pixels_new(out,
		    WebPDemuxGetI(d, WEBP_FF_CANVAS_WIDTH),
		    WebPDemuxGetI(d, WEBP_FF_CANVAS_HEIGHT), 4, max_pixels,
		    err) == 0)
			rc = put_frame(out, &frame, err);
		WebPDemuxReleaseIterator(&frame);
	}
	WebPDemuxDelete(d);
	return rc;
}

const struct qwen_image_format qwen_image_webp_format = { "WebP", decode, NULL };
