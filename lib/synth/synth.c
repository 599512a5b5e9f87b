/* SPDX-License-Identifier: ISC */
/*
 * synth.c - models with the names, shapes, formats and metadata of published
 * files, and random weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "synth/shape.h"
#include "gguf/write.h"

enum { CHUNK_BYTES = 1 << 20 };

static double
special(enum qwen_synth_content content, double inputs, uint64_t *rng)
{
	double u = qwen_gguf_random_uniform(rng);

	switch (content) {
	case SCALE:
		return (1.0 + 0.1 * qwen_gguf_random_normal(rng)) /
		    sqrt(inputs);
	case NORM:
		return 1.0 + 0.1 * qwen_gguf_random_normal(rng);
	case DECAY:
		return -(1.0 + 15.0 * u);
	case DT_BIAS:	/* without exp or log, which differ between libms */
		return -6.9 + u * 4.65;
	case CONV:
		return (2.0 * u - 1.0) / sqrt(inputs);
	default:
		return 0.0;
	}
}

/*
 * Returns the seed of a tensor (FNV-1a): its weights depend on seed and name,
 * not on other tensors of the file.
 */
static uint64_t
seed_of(uint64_t seed, const char *name)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h ^ seed * 0x9e3779b97f4a7c15u;
}

int
qwen_synth_put_random(struct qwen_gguf_writer *w, int fd, uint32_t type,
    uint64_t n, double sd, uint64_t *rng, struct qwen_err *err)
{
	size_t len = qwen_ggml_block_len(type);
	size_t size = qwen_ggml_block_bytes(type), m;
	uint64_t most = CHUNK_BYTES / size * len;
	unsigned char *buf = malloc(CHUNK_BYTES);
	int rc = buf != NULL ? 0 : qwen_oom(err);

	for (; rc == 0 && n > 0; n -= m) {
		m = (size_t)(n < most ? n : most);
		rc = qwen_gguf_random(type, buf, m, sd, rng, err);
		if (rc == 0)
			rc = qwen_gguf_write_data(w, fd, buf, m / len * size,
			    err);
	}
	free(buf);
	return rc;
}

/* Writes n numbers in F32, such as those of norms. */
static int
put_special(struct qwen_synth *p, int fd, const struct qwen_synth_tensor *t,
    size_t n, uint64_t *rng, struct qwen_err *err)
{
	unsigned char *buf = qwen_alloc(n, 4);
	size_t i;
	int rc;

	if (buf == NULL)
		return qwen_oom(err);
	for (i = 0; i < n; i++)
		qwen_put_le32(buf + 4 * i, qwen_f32_bits((float)
		    special(t->content, t->inputs, rng)));
	rc = qwen_gguf_write_data(p->w, fd, buf, 4 * n, err);
	free(buf);
	return rc;
}

static int
write_data(struct qwen_synth *p, int fd, struct qwen_err *err)
{
	const struct qwen_synth_tensor *t;
	uint64_t n, rng;
	int rc = 0;

	for (t = p->t; t < p->t + p->n && rc == 0; t++) {
		n = t->ne[0] * (t->ne[1] ? t->ne[1] : 1) *
		    (t->ne[2] ? t->ne[2] : 1) * (t->ne[3] ? t->ne[3] : 1);
		rng = seed_of(p->seed, t->name);
		rc = t->content == WEIGHT ? qwen_synth_put_random(p->w, fd,
		    t->type, n, t->type == QT_NVFP4 ? 1.0 :
		    1.0 / sqrt(t->inputs), &rng, err) :
		    put_special(p, fd, t, (size_t)n, &rng, err);
	}
	return rc < 0 ? -1 : qwen_gguf_write_end(p->w, err);
}

/* --------------------------------------------------------------- interface */

const struct qwen_synth_info *
qwen_synth_info(size_t shape)
{
	const struct qwen_synth_shape *s = qwen_synth_shape(shape);

	return s != NULL ? &s->info : NULL;
}

int
qwen_synth_find(size_t *shape, const char *name, struct qwen_err *err)
{
	const struct qwen_synth_info *s, *found = NULL;
	size_t i;

	for (i = 0; (s = qwen_synth_info(i)) != NULL; i++) {
		if (strncasecmp(s->name, name, strlen(name)) != 0)
			continue;
		if (found != NULL)
			return qwen_fail(err, QWEN_ERANGE, "shape %s is "
			    "ambiguous: %s or %s", name, found->name, s->name);
		found = s;
		*shape = i;
	}
	if (found == NULL)
		return qwen_fail(err, QWEN_EUNSUP, "unknown shape %s", name);
	return 0;
}

static int
adjust(struct qwen_synth_shape *s, const struct qwen_synth_opts *o,
    struct qwen_err *err)
{
	if (o->n_expert && s->info.n_expert == 0)
		return qwen_fail(err, QWEN_ERANGE, "%s has no experts",
		    s->info.name);
	if (o->mtp_only && (o->no_mtp || s->info.n_mtp == 0))
		return qwen_fail(err, QWEN_ERANGE, "%s has no MTP block",
		    s->info.name);
	s->mtp_only = o->mtp_only;
	if (o->n_layer)
		s->info.n_layer = o->n_layer;
	if (o->no_mtp)
		s->info.n_mtp = 0;
	if (o->n_vocab)
		s->info.n_vocab = o->n_vocab;
	if (o->n_expert)
		s->info.n_expert = o->n_expert;
	if (s->used > s->info.n_expert)
		s->used = s->info.n_expert;
	s->arch = qwen_arch_find((struct qwen_str){ s->info.arch,
	    strlen(s->info.arch) });
	return qwen_recipe_find(&s->recipe, o->recipe != NULL ?
	    o->recipe : s->info.recipe, err);
}

/* Chooses the encoder and its number format, instead of a model's. */
static int
adjust_encoder(struct qwen_synth *p, const struct qwen_synth_opts *o,
    struct qwen_err *err)
{
	return qwen_synth_choose_encoder(&p->encoder, &p->s, o->n_layer,
	    err) < 0 || qwen_recipe_find(&p->s.recipe, o->recipe != NULL ?
	    o->recipe : "F16", err) < 0 ? -1 :
	    qwen_synth_encoder_recipe(p->s.recipe, err);
}

static int
put_file(struct qwen_synth *p, const struct qwen_gguf *vocab,
    struct qwen_err *err)
{
	int encoder = p->encoder.n_layer > 0;
	size_t i;

	(encoder ? qwen_synth_plan_encoder : qwen_synth_plan)(p);
	if (p->failed)
		return qwen_oom(err);
	if (qwen_gguf_writer_new(&p->w, err) < 0)
		return -1;
	if (encoder)
		qwen_synth_put_encoder_keys(p->w, p);
	else
		qwen_synth_put_keys(p->w, &p->s);
	if (!encoder && vocab != NULL &&
	    qwen_synth_put_vocab(p->w, &p->s, vocab, err) < 0)
		return -1;
	for (i = 0; i < p->n; i++)
		qwen_gguf_put_tensor(p->w, p->t[i].name, p->t[i].type,
		    p->t[i].n_dims, p->t[i].ne);
	return 0;
}

int
qwen_synth_new(struct qwen_synth **out, size_t shape,
    const struct qwen_synth_opts *opts, struct qwen_err *err)
{
	const struct qwen_synth_shape *s = qwen_synth_shape(shape);
	struct qwen_synth *p;

	*out = NULL;
	if (s == NULL)
		return qwen_fail(err, QWEN_ERANGE, "no shape %zu", shape);
	p = calloc(1, sizeof *p);
	if (p == NULL)
		return qwen_oom(err);
	p->s = *s;
	p->seed = opts->seed;
	p->sparse = opts->sparse;
	if ((opts->mmproj ? adjust_encoder(p, opts, err) :
	    adjust(&p->s, opts, err)) < 0 ||
	    put_file(p, opts->vocab, err) < 0) {
		qwen_synth_free(p);
		return -1;
	}
	snprintf(p->name, sizeof p->name, "%s%s-%s", opts->mmproj ?
	    "mmproj-" : "", p->s.title, qwen_recipe_name(p->s.recipe));
	*out = p;
	return 0;
}

void
qwen_synth_free(struct qwen_synth *p)
{
	if (p == NULL)
		return;
	qwen_gguf_writer_free(p->w);
	free(p->t);
	free(p);
}

const char *
qwen_synth_name(const struct qwen_synth *p)
{
	return p->name;
}

struct qwen_gguf_writer *
qwen_synth_writer(const struct qwen_synth *p)
{
	return p->w;
}

int
qwen_synth_write(struct qwen_synth *p, int fd, struct qwen_err *err)
{
	if (p->sparse)
		return qwen_gguf_write_outline(p->w, fd, err);
	return qwen_gguf_write_head(p->w, fd, err) < 0 ? -1 :
	    write_data(p, fd, err);
}
