/* SPDX-License-Identifier: ISC */
/* file.c - converts a GGUF file to one with smaller weights. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cpu.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "gguf/recipe.h"
#include "quantize/imatrix.h"
#include "quantize/plan.h"

enum { QUANT_VERSION = 2 };

const char *
qwen_quantize_recipe(size_t i)
{
	size_t k;

	for (k = 0; qwen_recipe_name(k) != NULL; k++) {
		if (qwen_recipe_is_stock(k) &&
		    qwen_encode_known(qwen_recipe_rest(k)) && i-- == 0)
			return qwen_recipe_name(k);
	}
	return NULL;
}

/* Like in llama.cpp, Q4_K means Q4_K_M. */
int
qwen_quantize_find(size_t *recipe, const char *name, struct qwen_err *err)
{
	static const char *const medium[] = { "Q3_K", "Q4_K", "Q5_K" };
	char full[16];
	size_t i;

	for (i = 0; i < sizeof medium / sizeof medium[0]; i++) {
		if (strcasecmp(name, medium[i]) == 0) {
			memcpy(full, medium[i], 4);
			memcpy(full + 4, "_M", 3);
			name = full;
		}
	}
	if (qwen_recipe_find(recipe, name, err) < 0)
		return -1;
	if (!qwen_recipe_is_stock(*recipe) ||
	    !qwen_encode_known(qwen_recipe_rest(*recipe)))
		return qwen_fail(err, QWEN_EUNSUP, "weights cannot be "
		    "quantised to %s", name);
	return 0;
}

/* ---------------------------------------------------------------- metadata */

static int
use_recipe(struct qwen_quantize *p, struct qwen_err *err)
{
	if (p->opts.size > 0 || qwen_quantize_keeps(p))
		return 0;
	if (qwen_quantize_find(&p->recipe, p->opts.recipe, err) < 0)
		return -1;
	p->file_type = qwen_recipe_file_type(p->recipe);
	return 0;
}

/* Returns 1 for a key that describes the file, not the model. */
static int
is_own(const struct qwen_quantize *p, const struct qwen_gguf_kv *kv)
{
	static const char *const own[] = { "split.", "quantize.imatrix.",
	    "general.quantization_version", "general.file_type" };
	size_t len, i, n = !qwen_quantize_keeps(p) ? sizeof own / sizeof own[0] :
	    p->opts.imatrix != NULL ? 2 : 1;

	for (i = 0; i < n; i++) {
		len = strlen(own[i]);
		if (kv->key.len >= len && memcmp(kv->key.s, own[i], len) == 0)
			return 1;
	}
	return 0;
}

static int
put_imatrix(struct qwen_quantize *p, struct qwen_err *err)
{
	const struct qwen_imatrix *m = p->opts.imatrix;
	struct qwen_str s;
	char *name;

	qwen_gguf_put_str(p->w, "quantize.imatrix.file",
	    p->opts.imatrix_name != NULL ? p->opts.imatrix_name : "");
	if (qwen_imatrix_dataset(m, &s)) {
		if ((name = qwen_format("%.*s", (int)s.len, s.s)) == NULL)
			return qwen_oom(err);
		qwen_gguf_put_str(p->w, "quantize.imatrix.dataset", name);
		free(name);
	}
	qwen_gguf_put_u32(p->w, "quantize.imatrix.entries_count",
	    (uint32_t)qwen_imatrix_entries(m));
	qwen_gguf_put_u32(p->w, "quantize.imatrix.chunks_count",
	    qwen_imatrix_chunks(m));
	return 0;
}

static int
put_head(struct qwen_quantize *p, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;
	uint64_t align;
	size_t i;

	for (i = 0; (kv = qwen_gguf_kv(p->in, i)) != NULL; i++) {
		if (is_own(p, kv))
			continue;
		if (qwen_str_is(kv->key, "general.alignment") &&
		    qwen_gguf_get_u64(p->in, "general.alignment", 0, &align,
		    err) == 1)
			qwen_gguf_put_u32(p->w, "general.alignment",
			    (uint32_t)align);
		else
			qwen_gguf_put_kv(p->w, kv);
	}
	if (!qwen_quantize_keeps(p)) {
		qwen_gguf_put_u32(p->w, "general.quantization_version",
		    QUANT_VERSION);
		qwen_gguf_put_u32(p->w, "general.file_type", p->file_type);
	}
	if (p->opts.imatrix != NULL && put_imatrix(p, err) < 0)
		return -1;
	for (i = 0; i < p->n; i++)
		qwen_gguf_put_tensor(p->w, p->item[i].t->name, p->item[i].type,
		    p->item[i].t->n_dims, p->item[i].t->ne);
	return 0;
}

/* ------------------------------------------------------------------- a plan */

/* Refuses files that are not models, such as adapters and projectors. */
static int
check_kind(const struct qwen_gguf *g, struct qwen_err *err)
{
	struct qwen_str type = { NULL, 0 };

	if (qwen_gguf_get_str(g, "general.type", &type, err) < 0)
		return -1;
	if (type.s != NULL && !qwen_str_is(type, "model"))
		return qwen_fail(err, QWEN_EUNSUP, "not a model: general.type "
		    "is %.*s", (int)(type.len < 40 ? type.len : 40), type.s);
	return 0;
}

int
qwen_quantize_new(struct qwen_quantize **out, const struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, struct qwen_err *err)
{
	struct qwen_quantize *p = calloc(1, sizeof *p);

	*out = NULL;
	if (p == NULL)
		return qwen_oom(err);
	p->in = in;
	p->opts = *opts;
	if (qwen_cpu_limit(&p->cpu, opts->cpu != NULL && opts->cpu[0] != '\0' ?
	    opts->cpu : NULL, err) < 0 || use_recipe(p, err) < 0 ||
	    check_kind(in, err) < 0 || qwen_pool_new(&p->pool, opts->threads > 0 ?
	    opts->threads : qwen_cpu_count(), err) < 0 || (opts->n_adapters >
	    0 && qwen_merge_open(&p->merge, in, opts->adapters,
	    opts->n_adapters, err) < 0) || qwen_gguf_writer_new(&p->w, err) <
	    0 || qwen_quantize_plan(p, err) < 0 || put_head(p, err) < 0) {
		qwen_quantize_free(p);
		return -1;
	}
	*out = p;
	return 0;
}

void
qwen_quantize_free(struct qwen_quantize *p)
{
	if (p == NULL)
		return;
	qwen_pool_free(p->pool);
	qwen_merge_close(p->merge);
	qwen_gguf_writer_free(p->w);
	free(p->item);
	free(p);
}

struct qwen_gguf_writer *
qwen_quantize_writer(const struct qwen_quantize *p)
{
	return p->w;
}

/* ------------------------------------------------------------------ writing */

int
qwen_quantize_write(struct qwen_quantize *p, int fd, struct qwen_err *err)
{
	struct quantize_pass *s = qwen_quantize_pass_new(p, fd, err);
	size_t i;
	int rc;

	if (s == NULL)
		return -1;
	rc = qwen_gguf_write_head(p->w, fd, err);
	for (i = 0; i < p->n && rc == 0; i++)
		rc = qwen_quantize_tensor(s, &p->item[i], p->item[i].type,
		    NULL, 0, err);
	qwen_quantize_pass_free(s);
	return rc < 0 ? -1 : qwen_gguf_write_end(p->w, err);
}
