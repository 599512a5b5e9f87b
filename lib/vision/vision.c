/* SPDX-License-Identifier: ISC */
/* vision.c - opening an mmproj file, and the identity of an image. */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/model.h"
#include "engine/pass/open.h"
#include "gguf/gguf.h"
#include "vision/encoder.h"
#include "wire/record.h"

int
qwen_vision_open(struct qwen_vision **out, const char *path,
    const struct qwen_vision_opts *opts, struct qwen_err *err)
{
	struct qwen_gguf *g;

	*out = NULL;
	if (qwen_gguf_open(&g, path, err) < 0)
		return -1;
	return qwen_vision_open_gguf(out, g, opts, err);
}

int
qwen_vision_open_gguf(struct qwen_vision **out, struct qwen_gguf *g,
    const struct qwen_vision_opts *opts, struct qwen_err *err)
{
	struct qwen_model_opts m = { 0 };
	struct qwen_vision *v = qwen_alloc(1, sizeof *v);

	*out = NULL;
	if (v == NULL) {
		qwen_gguf_close(g);
		return qwen_oom(err);
	}
	v->gguf = g;
	if (opts != NULL)
		m = (struct qwen_model_opts){ .n_threads = opts->n_threads,
		    .cpu = opts->cpu, .share = opts->share };
	if (qwen_vision_load(v, err) < 0 ||
	    qwen_fingerprint(g, &v->info.fp, err) < 0 ||
	    qwen_engine_new(&v->engine, &m, err) < 0) {
		qwen_vision_close(v);
		return -1;
	}
	qwen_kernels_init(&v->kernels, v->engine->features, QWEN_NUMERICS);
	qwen_gguf_want_huge(g);
	*out = v;
	return 0;
}

void
qwen_vision_close(struct qwen_vision *v)
{
	size_t i;

	if (v == NULL)
		return;
	for (i = 0; i < v->n_owned; i++)
		free(v->owned[i]);
	free(v->owned);
	free(v->block);
	free(v->deep);
	qwen_engine_free(v->engine);
	qwen_gguf_close(v->gguf);
	free(v);
}

const struct qwen_vision_info *
qwen_vision_info(const struct qwen_vision *v)
{
	return &v->info;
}

int
qwen_vision_match(const struct qwen_vision *v, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	uint64_t n_embd = 0, n_deep = 0;

	if (qwen_gguf_get_u64(g, qwen_gguf_arch_key(g, "embedding_length").s,
	    0, &n_embd, err) < 0 || qwen_gguf_get_u64(g, qwen_gguf_arch_key(g,
	    "n_deepstack_layers").s, 0, &n_deep, err) < 0)
		return -1;
	if (n_embd != v->info.n_embd)
		return qwen_fail(err, QWEN_EMISMATCH, "the mmproj file makes "
		    "rows of %zu numbers, and the model's have %llu: give the "
		    "mmproj file of this model", v->info.n_embd,
		    (unsigned long long)n_embd);
	if (n_deep != v->info.n_deepstack)
		return qwen_fail(err, QWEN_EMISMATCH, "the mmproj file makes "
		    "%zu deepstack vectors, and the model takes %llu: give the "
		    "mmproj file of this model", v->info.n_deepstack,
		    (unsigned long long)n_deep);
	return 0;
}

/* Hashes what the rows depend on. */
static int
hash(const struct qwen_vision *v, const struct qwen_vision_image *image,
    struct qwen_fp *out, struct qwen_err *err)
{
	XXH3_state_t *st = qwen_fp_start();
	unsigned char head[24];

	if (st == NULL)
		return qwen_oom(err);
	qwen_put_le64(head, QWEN_VISION_VERSION);
	qwen_put_le64(head + 8, image->width);
	qwen_put_le64(head + 16, image->height);
	XXH3_128bits_update(st, head, sizeof head);
	XXH3_128bits_update(st, v->info.fp.b, sizeof v->info.fp.b);
	XXH3_128bits_update(st, image->rgb, image->width * image->height * 3);
	qwen_fp_get(st, out);
	XXH3_freeState(st);
	return 0;
}

int
qwen_vision_span(const struct qwen_vision *v,
    const struct qwen_vision_image *image, struct qwen_span *out,
    struct qwen_err *err)
{
	size_t unit = v->info.unit, w = image->width / unit;
	size_t h = image->height / unit;

	memset(out, 0, sizeof *out);
	if (image->width % unit != 0 || image->height % unit != 0)
		return qwen_fail(err, QWEN_ERANGE, "an image of %zu times %zu "
		    "pixels: the encoder takes multiples of %zu", image->width,
		    image->height, unit);
	if (w > ROWS_MAX || h > ROWS_MAX || w * h < QWEN_SPAN_MIN ||
	    w * h > ROWS_MAX)
		return qwen_fail(err, QWEN_ERANGE, "an image of %zu times %zu "
		    "pixels would be %zu rows, not %d to %d", image->width,
		    image->height, w * h, QWEN_SPAN_MIN, ROWS_MAX);
	out->n = w * h;
	out->height = (uint32_t)h;
	out->width = (uint32_t)w;
	return hash(v, image, &out->hash, err);
}
