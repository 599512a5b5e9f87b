/* SPDX-License-Identifier: ISC */
/* model.c - opening a model: hyperparameters, layers, kernels, threads. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "gguf/gguf.h"
#include "engine/cpu/tune.h"
#include "engine/model/inputs.h"
#include "engine/model/lora.h"

int
qwen_cpu_check(const char *level)
{
	unsigned want;

	if (qwen_cpu_level(level, &want) < 0)
		return -1;
	return (want & ~qwen_cpu_detect()) == 0;
}

/* F32, if that is what makes keys and values of this file. */
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

static int
threads_here(const struct qwen_model *m, const struct qwen_model_opts *opts)
{
	if (opts == NULL || opts->cpu != NULL || opts->tuning == NULL)
		return qwen_cpu_count();
	return qwen_tune_threads(opts->tuning, m->features,
	    qwen_cpu_cores(QWEN_CPU_TREE), qwen_cpu_count());
}

static int
set_up(struct qwen_model *m, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	unsigned limit;
	int n_threads = opts != NULL ? opts->n_threads : 0;

	m->net.numerics = opts != NULL && opts->numerics > 0 ? opts->numerics :
	    QWEN_NUMERICS;
	if (m->net.numerics > QWEN_NUMERICS_MAX || m->net.numerics == 2)
		return qwen_fail(err, QWEN_ERANGE, "numerics version %u does "
		    "not exist; there are 1, 3 and %d", m->net.numerics,
		    QWEN_NUMERICS_MAX);
	if (opts != NULL) {
		m->net.hp.k = opts->k == QWEN_KV_OWN ? own_kv(m->net.gguf) : opts->k;
		m->net.hp.v = opts->v == QWEN_KV_OWN ? own_kv(m->net.gguf) : opts->v;
		m->net.hp.rope = opts->rope;
	}
	if (qwen_kv_name(m->net.hp.k) == NULL || qwen_kv_name(m->net.hp.v) == NULL)
		return qwen_fail(err, QWEN_ERANGE,
		    "unknown KV cache type");
	m->features = qwen_cpu_detect();
	if (opts != NULL && opts->cpu != NULL) {
		if (qwen_cpu_level(opts->cpu, &limit) < 0)
			return qwen_fail(err, QWEN_ERANGE,
			    "unknown instruction-set level %s", opts->cpu);
		m->features &= limit;
	}
	qwen_kernels_init(&m->kernels, m->features, m->net.numerics);
	if (n_threads == 0)
		n_threads = threads_here(m, opts);
	return qwen_pool_new(&m->pool, n_threads, err);
}

/* Where a group of activations has which form, of those that are taken. */
static void
place_operands(struct qwen_model *m)
{
	static const size_t bytes[QWEN_OPERANDS] = {
		[QWEN_AS_Q8] = sizeof(struct qwen_q8),
		[QWEN_AS_BF16] = QWEN_GROUP * sizeof(uint16_t),
		[QWEN_AS_TWO_Q8] = 2 * sizeof(struct qwen_q8),
	};
	size_t i;

	for (i = 0; i < QWEN_OPERANDS; i++) {
		m->x_at[i] = m->x_bytes;
		m->x_bytes += m->net.operands[i] ? bytes[i] : 0;
	}
}

/*
 * Choose among levels by what was measured, for the formats of the weights, which
 * alone get scratch memory.
 */
static void
tune(struct qwen_model *m, const struct qwen_model_opts *opts)
{
	struct qwen_tuning t = { .k = &m->kernels, .features = m->features,
	    .used = m->net.used };

	qwen_kernels_packing(&m->kernels, m->net.used);
	if (opts == NULL || opts->cpu != NULL || opts->tuning == NULL)
		return;
	t.path = opts->tuning;
	qwen_tune(&t);
}

/*
 * Rows of the head that a draft is chosen from.  Ids of a vocabulary made by
 * merging pairs ascend as these get rarer: of Qwen's 152 thousand the first 32
 * (64) thousand are 95 (98) of 100 tokens of Python and C, 95 (97) of English
 * and 82 (95) of German.  All of them would be most of a draft's cost; so many
 * are taken as are a twentieth of what a token of the model costs to read, 74
 * thousand for the 35B shape in Q6_K.
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
	struct qwen_loader ld = { .m = &m->net, .g = g, .err = err };
	struct qwen_model_opts own;

	*out = NULL;
	if (m == NULL) {
		qwen_gguf_close(g);
		return qwen_oom(err);
	}
	m->net.gguf = g;
	if (QWEN_SIZED(opts, own, size, err) < 0 ||
	    set_up(m, opts, err) < 0 ||
	    (m->net.arch = qwen_arch_of(m->net.gguf, err)) == NULL ||
	    qwen_hparams_read(&m->net.hp, m->net.arch, m->net.gguf, 0, err) < 0 ||
	    qwen_loras_open(&m->net, opts, m->pool, err) < 0 ||
	    qwen_load_weights(&ld) < 0 ||
	    qwen_mtp_load(&m->net, opts, err) < 0 ||
	    qwen_loras_check(&m->net, err) < 0) {
		qwen_model_close(m);
		return -1;
	}
	if (m->net.mtp.on)
		m->net.mtp.n_first = first_rows(m);
	place_operands(m);
	tune(m, opts);
	/* not before: to look at a file, its first pages are enough */
	qwen_gguf_want_huge(m->net.gguf);
	*out = m;
	return 0;
}

/* All but the file. */
static void
fini(struct qwen_model *m)
{
	size_t i;

	qwen_pool_free(m->pool);
	qwen_profile_set(&m->profile, 0, 0);
	for (i = 0; i < m->net.n_owned; i++)
		free(m->net.owned[i]);
	free(m->net.owned);
	free(m->net.layer);
	qwen_inputs_free(m->inputs);
	qwen_hparams_free(&m->net.hp);
}

void
qwen_model_close(struct qwen_model *m)
{
	if (m == NULL)
		return;
	fini(m);
	qwen_loras_close(m->net.loras);
	qwen_gguf_close(m->net.mtp.side);
	qwen_gguf_close(m->net.gguf);
	free(m);
}

/* ------------------------------------------------------------- will it open? */

enum { TYPES = 64, OTHERS_MAX = 8 };

/* What was found to be wrong: tensors of each type, and what else. */
struct trial {
	const struct qwen_gguf_checker	*c;
	const char			*first[TYPES];
	uint64_t			 n_type[TYPES];
	uint64_t			 n_other;
	int				 n;
};

static void
tell(struct trial *t, const char *msg)
{
	t->c->problem(t->c->arg, msg);
	t->n++;
}

static void
note_type(struct trial *t, const struct qwen_gguf_tensor *x)
{
	if (t->n_type[x->type % TYPES]++ == 0)
		t->first[x->type % TYPES] = x->name;
}

/* Of what is missing or misshapen, the first ones. */
static void
wrong(struct qwen_loader *ld, const struct qwen_gguf_tensor *x)
{
	struct trial *t = ld->arg;

	if (x != NULL)
		note_type(t, x);
	else if (t->n_other++ < OTHERS_MAX)
		tell(t, ld->err->msg);
}

/* Where the architecture is not known, any tensor may be needed. */
static void
note_types(struct trial *t, const struct qwen_gguf *g)
{
	size_t i;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		if (qwen_quant_find(qwen_gguf_tensor(g, i)->type) == NULL)
			note_type(t, qwen_gguf_tensor(g, i));
	}
}

static void
tell_types(struct trial *t)
{
	struct qwen_err e;
	uint32_t i;

	if (t->n_other > OTHERS_MAX) {
		qwen_fail(&e, QWEN_EFORMAT, "%llu more tensors are wrong",
		    (unsigned long long)(t->n_other - OTHERS_MAX));
		tell(t, e.msg);
	}
	for (i = 0; i < TYPES; i++) {
		if (t->n_type[i] == 0)
			continue;
		if (t->n_type[i] == 1)
			qwen_fail(&e, QWEN_EUNSUP, "%s has %s", t->first[i],
			    qwen_ggml_name(i));
		else
			qwen_fail(&e, QWEN_EUNSUP, "%s and %llu more have %s",
			    t->first[i], (unsigned long long)t->n_type[i] - 1,
			    qwen_ggml_name(i));
		tell(t, e.msg);
	}
}

int
qwen_model_check_sized(size_t size, const struct qwen_gguf *g,
    const struct qwen_gguf_checker *c, struct qwen_err *err)
{
	static const struct qwen_model_opts opts = { .n_threads = 1 };
	/* it is not closed */
	struct qwen_model m = { .net.gguf = (struct qwen_gguf *)(uintptr_t)g };
	struct trial t = { 0 };
	struct qwen_err e = { 0 };
	struct qwen_loader ld = { .m = &m.net, .g = g, .err = &e, .wrong = wrong,
	    .arg = &t };
	struct qwen_gguf_checker own;
	int rc;

	if (QWEN_SIZED(c, own, size, err) < 0)
		return -1;
	t.c = c;
	rc = set_up(&m, &opts, &e);
	if (rc == 0 && ((m.net.arch = qwen_arch_of(g, &e)) == NULL ||
	    qwen_hparams_read(&m.net.hp, m.net.arch, g, 0, &e) < 0)) {
		note_types(&t, g);
		rc = -1;
	} else if (rc == 0)
		rc = qwen_load_weights(&ld);
	fini(&m);
	if (rc < 0 && e.code == QWEN_ENOMEM)
		return qwen_oom(err);
	if (rc < 0)
		tell(&t, e.msg);
	tell_types(&t);
	return t.n;
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

int
qwen_model_has_mtp(const struct qwen_model *m)
{
	return m->net.mtp.on;
}

int
qwen_model_n_threads(const struct qwen_model *m)
{
	return qwen_pool_threads(m->pool);
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
	return m->pool;
}

static size_t
line(char *buf, size_t size, size_t at, const char *op, const char *name)
{
	int n = snprintf(buf + (at < size ? at : size), at < size ? size - at :
	    0, "kernel %s %s\n", op, name);

	return at + (n > 0 ? (size_t)n : 0);
}

/* "kernel gemm.Q4_K avx512vnni, from 32 tokens amx"; or nothing. */
static size_t
gemm_line(char *buf, size_t size, size_t at, const struct qwen_gemms *g,
    uint32_t type)
{
	const struct qwen_kernel *k, *last = NULL;
	char op[32], names[320] = "";	/* each class may have its own */
	size_t c, n = 0;

	for (c = 0; c < QWEN_TOKEN_CLASSES; c++, last = k) {
		k = g->by[c];
		if (k == NULL || (last != NULL && k == last))
			continue;
		if (n == 0)
			n = (size_t)snprintf(names, sizeof names, "%s",
			    k->name);
		else
			n += (size_t)snprintf(names + n, sizeof names - n,
			    ", from %zu tokens %s", (size_t)1 << c, k->name);
	}
	if (n == 0)
		return at;
	snprintf(op, sizeof op, "gemm.%s", qwen_ggml_name(type));
	return line(buf, size, at, op, names);
}

/* "adapter FILE, scale 0.5, 14 matrices of rank 8", one a line. */
static size_t
adapter_lines(const struct qwen_model *m, char *buf, size_t size, size_t at)
{
	const struct qwen_gguf *g;
	size_t i, n_matrices, rank;
	double scale;
	int n;

	for (i = 0; i < qwen_loras_n(&m->net); i++) {
		g = qwen_loras_get(&m->net, i, &scale, &n_matrices, &rank);
		n = snprintf(buf + (at < size ? at : size), at < size ?
		    size - at : 0, "adapter %s, scale %.9g, %zu matri%s of "
		    "rank %zu\n", qwen_gguf_path(g, 0), scale, n_matrices,
		    n_matrices == 1 ? "x" : "ces", rank);
		at += n > 0 ? (size_t)n : 0;
	}
	return at;
}

size_t
qwen_model_describe(const struct qwen_model *m, char *buf, size_t size)
{
	unsigned char used[QT_N] = { 0 };
	char op[32];
	size_t i, n = 0;

	for (i = 0; i < qwen_gguf_n_tensors(m->net.gguf); i++) {
		uint32_t type = qwen_gguf_tensor(m->net.gguf, i)->type;

		if (type < QT_N)
			used[type] = 1;
	}
	for (i = 0; i < QT_N; i++) {
		if (!used[i] || m->kernels.matmul[i] == NULL)
			continue;
		snprintf(op, sizeof op, "matmul.%s",
		    qwen_ggml_name((uint32_t)i));
		n = line(buf, size, n, op, m->kernels.matmul[i]->name);
		n = gemm_line(buf, size, n, &m->kernels.gemm[i], (uint32_t)i);
	}
	n = line(buf, size, n, "delta", m->kernels.delta->name);
	n = line(buf, size, n, "attn", m->kernels.attn->name);
	n = line(buf, size, n, "vec", m->kernels.vec->name);
	return adapter_lines(m, buf, size, n);
}
