/* SPDX-License-Identifier: ISC */
/*
 * codec.c - encodes the data of a record: byte planes, then zstd.
 *
 * The high bytes of neighbouring floats (sign, exponent, first bits of the
 * mantissa) are similar; the low bytes are noise.  As a separate plane, the
 * high bytes compress well, and zstd skips the low bytes at the speed of a
 * copy.
 */
#include <string.h>

#include <zstd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/state.h"

static const struct {
	const char	*name;
	unsigned	 width;
} codecs[] = {
	[QWEN_CODEC_NONE] = { "none", 1 },
	[QWEN_CODEC_ZSTD] = { "zstd", 1 },
	[QWEN_CODEC_ZSTD2] = { "zstd2", 2 },
	[QWEN_CODEC_ZSTD4] = { "zstd4", 4 },
};

struct qwen_coder {
	ZSTD_CCtx	*cctx;
	ZSTD_DCtx	*dctx;
	unsigned char	*planes;	/* QWEN_PIECE_MAX bytes */
	unsigned char	*out;		/* QWEN_PIECE_MAX bytes, for decoding;
					   both are allocated at first use */
};

const char *
qwen_codec_name(enum qwen_codec c)
{
	return codecs[c].name;
}

int
qwen_codec_find(const unsigned char *name, size_t n, enum qwen_codec *out)
{
	size_t i;

	for (i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
		if (strlen(codecs[i].name) == n &&
		    memcmp(codecs[i].name, name, n) == 0) {
			*out = (enum qwen_codec)i;
			return 0;
		}
	}
	return -1;
}

int
qwen_coder_new(struct qwen_coder **out, struct qwen_err *err)
{
	struct qwen_coder *c = qwen_alloc(1, sizeof *c);

	*out = c;
	return c != NULL ? 0 : qwen_oom(err);
}

void
qwen_coder_free(struct qwen_coder *c)
{
	if (c == NULL)
		return;
	ZSTD_freeCCtx(c->cctx);
	ZSTD_freeDCtx(c->dctx);
	free(c->planes);
	free(c->out);
	free(c);
}

static int
need(unsigned char **buf, struct qwen_err *err)
{
	if (*buf == NULL)
		*buf = malloc(QWEN_PIECE_MAX);
	return *buf != NULL ? 0 : qwen_oom(err);
}

/*
 * Plain loops over n numbers of width bytes; -O3 vectorizes them where width is
 * a constant.
 */
static inline void
split(unsigned char *restrict dst, const unsigned char *restrict src, size_t n,
    unsigned width)
{
	unsigned k;
	size_t i;

	for (i = 0; i < n; i++) {
		for (k = 0; k < width; k++)
			dst[k * n + i] = src[width * i + k];
	}
}

static inline void
join(unsigned char *restrict dst, const unsigned char *restrict src, size_t n,
    unsigned width)
{
	unsigned k;
	size_t i;

	for (i = 0; i < n; i++) {
		for (k = 0; k < width; k++)
			dst[width * i + k] = src[k * n + i];
	}
}

/* Saving less than 1/64 is not worth the time of decoding. */
static int
pays(size_t n, size_t packed)
{
	return packed < n - n / 64;
}

/*
 * Compresses n bytes into one frame in dst.  Each plane ends a block, since
 * planes need different entropy tables.  Returns the size of the frame, 0 if it
 * does not fit in n bytes, or zstd's error.
 */
static size_t
compress(struct qwen_coder *c, unsigned char *dst, const unsigned char *src,
    size_t n, unsigned planes, int level)
{
	ZSTD_outBuffer out = { dst, n, 0 };
	ZSTD_inBuffer in = { src, 0, 0 };
	size_t left;
	unsigned i;

	ZSTD_CCtx_reset(c->cctx, ZSTD_reset_session_only);
	ZSTD_CCtx_setParameter(c->cctx, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setPledgedSrcSize(c->cctx, n);
	for (i = 1; i <= planes; i++) {
		in.size = n / planes * i;
		left = ZSTD_compressStream2(c->cctx, &out, &in,
		    i == planes ? ZSTD_e_end : ZSTD_e_flush);
		if (left != 0)	/* no room, or an error */
			return ZSTD_isError(left) ? left : 0;
	}
	return out.pos;
}

int
qwen_coder_encode(struct qwen_coder *c, const void *raw, size_t n,
    unsigned width, int level, unsigned char *buf, enum qwen_codec *codec,
    const unsigned char **data, size_t *n_data, struct qwen_err *err)
{
	const void *src = raw;
	size_t packed;

	*codec = QWEN_CODEC_NONE;
	*data = raw;
	*n_data = n;
	if (level == 0 || n < 64)
		return 0;
	if (need(&c->planes, err) < 0)
		return -1;
	if (c->cctx == NULL && (c->cctx = ZSTD_createCCtx()) == NULL)
		return qwen_oom(err);
	if (n % width != 0)
		width = 1;
	if (width == 2)
		split(c->planes, raw, n / 2, 2);
	else if (width == 4)
		split(c->planes, raw, n / 4, 4);
	if (width > 1)
		src = c->planes;
	packed = compress(c, buf, src, n, width, level);
	if (ZSTD_isError(packed))	/* zstd has no other reason to fail */
		return qwen_oom(err);
	if (packed == 0 || !pays(n, packed))
		return 0;
	*codec = width == 4 ? QWEN_CODEC_ZSTD4 :
	    width == 2 ? QWEN_CODEC_ZSTD2 : QWEN_CODEC_ZSTD;
	*data = buf;
	*n_data = packed;
	return 0;
}

/* Decompresses data, which must be exactly one frame of n bytes. */
static int
unpack(struct qwen_coder *c, unsigned char *dst, size_t n,
    const unsigned char *data, size_t n_data, struct qwen_err *err)
{
	size_t got;

	if (c->dctx == NULL && (c->dctx = ZSTD_createDCtx()) == NULL)
		return qwen_oom(err);
	got = ZSTD_findFrameCompressedSize(data, n_data);
	if (ZSTD_isError(got) || got != n_data)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the data is not a single zstd frame");
	got = ZSTD_decompressDCtx(c->dctx, dst, n, data, n_data);
	if (ZSTD_isError(got))
		return qwen_fail(err, QWEN_EFORMAT, "zstd: %s",
		    ZSTD_getErrorName(got));
	if (got != n)
		return qwen_fail(err, QWEN_EFORMAT,
		    "%zu bytes of data instead of %zu", got, n);
	return 0;
}

int
qwen_coder_decode(struct qwen_coder *c, enum qwen_codec codec,
    const unsigned char *data, size_t n_data, size_t n_raw,
    const unsigned char **raw, struct qwen_err *err)
{
	unsigned width = codecs[codec].width;

	if (n_raw > QWEN_PIECE_MAX || n_raw % width != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "%zu bytes of data, coded as %s", n_raw,
		    codecs[codec].name);
	if (codec == QWEN_CODEC_NONE) {
		*raw = data;
		if (n_data == n_raw)
			return 0;
		return qwen_fail(err, QWEN_EFORMAT,
		    "%zu bytes of data instead of %zu", n_data, n_raw);
	}
	if (need(&c->planes, err) < 0 || need(&c->out, err) < 0)
		return -1;
	*raw = c->out;
	if (unpack(c, width > 1 ? c->planes : c->out, n_raw, data, n_data,
	    err) < 0)
		return -1;
	if (width == 2)
		join(c->out, c->planes, n_raw / 2, 2);
	else if (width == 4)
		join(c->out, c->planes, n_raw / 4, 4);
	return 0;
}

/* Loops without an early exit, so that compilers vectorize them. */
static int
finite16(const unsigned char *p, size_t n)
{
	uint16_t v, bad = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&v, p + 2 * i, sizeof v);
		bad |= (uint16_t)((v & 0x7c00) == 0x7c00);
	}
	return bad == 0;
}

static int
finite32(const unsigned char *p, size_t n)
{
	uint32_t v, bad = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&v, p + 4 * i, sizeof v);
		bad |= (v & 0x7f800000) == 0x7f800000;
	}
	return bad == 0;
}

size_t
qwen_coder_finite(const unsigned char *p, size_t n, unsigned width)
{
	int (*finite)(const unsigned char *, size_t) =
	    width == 2 ? finite16 : finite32;
	size_t i;

	if (finite(p, n / width))
		return n;
	for (i = 0; finite(p + i, 1); i += width)
		;
	return i;
}
