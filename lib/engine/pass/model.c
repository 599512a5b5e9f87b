/* SPDX-License-Identifier: ISC */
/* model.c - opening a model: its file, its engine, and the devices it is on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/net/lora.h"
#include "engine/pass/open.h"
#include "engine/pass/pass.h"
#include "gguf/gguf.h"

/* Returns f32 if all weights that make the file's keys and values are F32. */
static enum qwen_kv
own_kv(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const char *name;
	int f32 = 0;
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		t = qwen_gguf_tensor(g, i);
		/* not those of a part for images, which Ollama's files have */
		if (strncmp(t->name, "blk.", 4) != 0 ||
		    (name = strstr(t->name, ".attn_")) == NULL ||
		    (strcmp(name, ".attn_k.weight") != 0 &&
		    strcmp(name, ".attn_qkv.weight") != 0))
			continue;
		if (t->type != QT_F32)
			return QWEN_KV_F16;
		f32 = 1;
	}
	return f32 ? QWEN_KV_F32 : QWEN_KV_F16;
}

int
qwen_net_options(struct qwen_net *net, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	net->numerics = opts != NULL && opts->numerics > 0 ? opts->numerics :
	    QWEN_NUMERICS;
	if (net->numerics > QWEN_NUMERICS_MAX || net->numerics == 2)
		return qwen_fail(err, QWEN_ERANGE, "numerics version %u does "
		    "not exist; there are 1, 3 and %d", net->numerics,
		    QWEN_NUMERICS_MAX);
	if (opts != NULL) {
		net->hp.k = opts->k == QWEN_KV_OWN ? own_kv(net->gguf) :
		    opts->k;
		net->hp.v = opts->v == QWEN_KV_OWN ? own_kv(net->gguf) :
		    opts->v;
		net->hp.rope = opts->rope;
	}
	if (qwen_kv_name(net->hp.k) == NULL || qwen_kv_name(net->hp.v) == NULL)
		return qwen_fail(err, QWEN_ERANGE, "unknown KV cache type");
	return 0;
}

/*
 * Returns how many rows at the head's start a draft is chosen from. All rows
 * would be most of a draft's cost. In a vocabulary made by merging pairs, later
 * ids are rarer: of Qwen's 152 thousand ids, the first 32 (64) thousand cover
 * 95 (98) percent of tokens in Python and C, 95 (97) in English and 82 (95) in
 * German. The rows taken cost a twentieth of what the model reads per token: 74
 * thousand rows for the 35B shape in Q6_K.
 */
static size_t
first_rows(const struct qwen_model *m)
{
	enum { LEAST = 16384, SHARE = 20 };
	size_t n = m->net.hp.n_vocab, rows;
	struct qwen_plan p;

	qwen_plan_make(&p, m, 0, 1, 1, 0, NULL);
	rows = (size_t)(p.sum.read / SHARE / m->net.mtp.head.row_bytes);
	rows = rows > LEAST ? rows : LEAST;
	return rows < n ? rows : n;
}

/* Reads the hyperparameters, weights, adapters and MTP block. */
static int
load(struct qwen_model *m, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	struct qwen_net *net = &m->net;
	struct qwen_loader ld = { .m = net, .g = net->gguf, .err = err };

	if (qwen_net_options(net, opts, err) < 0 ||
	    (net->arch = qwen_arch_of(net->gguf, err)) == NULL ||
	    qwen_hparams_read(&net->hp, net->arch, net->gguf, 0, err) < 0 ||
	    qwen_engine_new(&m->engine, opts, err) < 0 ||
	    qwen_loras_open(net, opts, m->engine->pool, err) < 0 ||
	    qwen_load_weights(&ld) < 0 || qwen_mtp_load(net, opts, err) < 0 ||
	    qwen_loras_check(net, err) < 0)
		return -1;
	if (net->mtp.on)
		net->mtp.n_first = first_rows(m);
	return 0;
}

int
qwen_model_open_sized(size_t size, struct qwen_model **out, const char *path,
    const struct qwen_model_opts *opts, struct qwen_err *err)
{
	struct qwen_model_opts own;
	struct qwen_gguf *g;

	*out = NULL;
	if (QWEN_SIZED(opts, own, size, err) < 0 ||
	    qwen_gguf_open(&g, path, err) < 0)
		return -1;
	return qwen_model_open_gguf(out, g, opts, err);
}

int
qwen_model_open_gguf_sized(size_t size, struct qwen_model **out,
    struct qwen_gguf *g, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	struct qwen_model *m = qwen_alloc(1, sizeof *m);
	struct qwen_model_opts own;

	*out = NULL;
	if (m == NULL) {
		qwen_gguf_close(g);
		return qwen_oom(err);
	}
	m->net.gguf = g;
	m->recover = qwen_recover;
	if (QWEN_SIZED(opts, own, size, err) < 0 || load(m, opts, err) < 0 ||
	    qwen_place(m, opts != NULL ? opts->device : NULL, err) < 0) {
		qwen_model_close(m);
		return -1;
	}
	if (opts != NULL) {
		m->note = opts->note;
		m->note_arg = opts->note_arg;
	}
	/* not before: to look at a file, its first pages are enough */
	qwen_gguf_want_huge(m->net.gguf);
	*out = m;
	return 0;
}

void
qwen_net_fini(struct qwen_net *net)
{
	size_t i;

	for (i = 0; i < net->n_owned; i++)
		free(net->owned[i]);
	free(net->owned);
	free(net->layer);
	qwen_hparams_free(&net->hp);
}

void
qwen_model_close(struct qwen_model *m)
{
	if (m == NULL)
		return;
	qwen_unplace(m);
	qwen_engine_free(m->engine);
	qwen_inputs_free(m->inputs);
	qwen_net_fini(&m->net);
	qwen_loras_close(m->net.loras);
	qwen_gguf_close(m->net.mtp.side);
	qwen_gguf_close(m->net.gguf);
	free(m);
}

const struct qwen_gguf *
qwen_model_gguf(const struct qwen_model *m)
{
	return m->net.gguf;
}

const char *
qwen_model_arch(const struct qwen_model *m)
{
	return m->net.arch->name;
}

size_t
qwen_model_n_vocab(const struct qwen_model *m)
{
	return m->net.hp.n_vocab;
}

size_t
qwen_model_n_layer(const struct qwen_model *m)
{
	return m->net.hp.n_layer;
}

size_t
qwen_model_n_ctx(const struct qwen_model *m)
{
	return m->net.hp.n_ctx;
}

size_t
qwen_model_n_embd(const struct qwen_model *m)
{
	return m->net.hp.n_embd;
}

size_t
qwen_model_n_row(const struct qwen_model *m)
{
	return qwen_net_row(&m->net);
}

int
qwen_model_has_mtp(const struct qwen_model *m)
{
	return m->net.mtp.on;
}

int
qwen_model_n_threads(const struct qwen_model *m)
{
	return qwen_pool_threads(m->place.pool);
}

unsigned
qwen_model_numerics(const struct qwen_model *m)
{
	return m->net.numerics;
}

enum qwen_kv
qwen_model_k(const struct qwen_model *m)
{
	return m->net.hp.k;
}

enum qwen_kv
qwen_model_v(const struct qwen_model *m)
{
	return m->net.hp.v;
}

struct qwen_rope
qwen_model_rope(const struct qwen_model *m)
{
	return m->net.hp.rope;
}

struct qwen_rope
qwen_model_rope_of_file(const struct qwen_model *m)
{
	return m->net.hp.rope_file;
}

struct qwen_pool *
qwen_model_pool(const struct qwen_model *m)
{
	return m->place.pool;
}

/* ------------------------------------------------------- what it computes with */

int
qwen_model_profile(struct qwen_model *m, int on, struct qwen_err *err)
{
	struct qwen_resident *r;
	size_t i;

	for (i = 0; i < m->place.n; i++) {
		r = m->place.on[i];
		if (r->dev->profile != NULL && r->dev->profile(r, on) < 0)
			return qwen_oom(err);
	}
	return 0;
}

/* Those of all devices, one after the other. */
static size_t
stats(const struct qwen_model *m, int by_purpose, struct qwen_kernel_stat *out,
    size_t max)
{
	const struct qwen_resident *r;
	size_t i, n = 0;

	for (i = 0; i < m->place.n; i++) {
		r = m->place.on[i];
		if (r->dev->stats != NULL)
			n += r->dev->stats(r, by_purpose, n < max ? out + n :
			    NULL, n < max ? max - n : 0);
	}
	return n;
}

size_t
qwen_model_stats(const struct qwen_model *m, struct qwen_kernel_stat *out,
    size_t max)
{
	return stats(m, 0, out, max);
}

size_t
qwen_model_stats_by_purpose(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max)
{
	return stats(m, 1, out, max);
}

/* "adapter FILE, scale 0.5, 14 matrices of rank 8", one a line. */
static size_t
adapter_lines(const struct qwen_model *m, char *buf, size_t size, size_t at)
{
	const struct qwen_adapter_file *a;
	size_t i;
	int n;

	for (i = 0; i < qwen_loras_n(&m->net); i++) {
		a = qwen_loras_get(&m->net, i);
		n = snprintf(buf + (at < size ? at : size), at < size ?
		    size - at : 0, "adapter %s, scale %.9g, %zu matri%s of "
		    "rank %zu\n", qwen_gguf_path(a->g, 0), a->scale,
		    a->n_matrices, a->n_matrices == 1 ? "x" : "ces", a->rank);
		at += n > 0 ? (size_t)n : 0;
	}
	return at;
}

size_t
qwen_model_describe(const struct qwen_model *m, char *buf, size_t size)
{
	return adapter_lines(m, buf, size, qwen_home_lines(m, buf, size,
	    m->place.on[0]->dev->describe(m->place.on[0], buf, size)));
}
