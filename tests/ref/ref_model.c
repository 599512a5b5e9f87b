/* SPDX-License-Identifier: ISC */
/* ref_model.c - keys and weights of a file, for the reference pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref_model.h"

void
ref_die(const char *what, const char *name)
{
	fprintf(stderr, "ref: %s: %s\n", what, name);
	exit(1);
}

double *
ref_new(size_t n)
{
	double *p = calloc(n > 0 ? n : 1, sizeof *p);

	if (p == NULL)
		ref_die("out of memory", "numbers");
	return p;
}

static void
full_key(const struct ref_model *m, const char *key, char out[128])
{
	snprintf(out, 128, "%s.%s", m->arch, key);
}

int
ref_has_key(const struct ref_model *m, const char *key)
{
	char full[128];

	full_key(m, key, full);
	return qwen_gguf_find(m->g, full) != NULL;
}

size_t
ref_key(const struct ref_model *m, const char *key, size_t i, size_t def)
{
	const struct qwen_gguf_kv *kv;
	struct qwen_err err;
	char full[128];
	uint64_t v = def;
	int flag, r;

	full_key(m, key, full);
	kv = qwen_gguf_find(m->g, full);
	if (kv == NULL)
		return def;
	if (kv->type != QWEN_GGUF_ARRAY)
		i = 0;
	if (kv->elem == QWEN_GGUF_BOOL) {
		r = qwen_gguf_get_bool(m->g, full, i, &flag, &err);
		v = flag != 0;
	} else
		r = qwen_gguf_get_u64(m->g, full, i, &v, &err);
	if (r < 0)
		ref_die(full, err.msg);
	return (size_t)v;
}

double
ref_key_real(const struct ref_model *m, const char *key, double def)
{
	struct qwen_err err;
	char full[128];

	full_key(m, key, full);
	if (qwen_gguf_get_f64(m->g, full, 0, &def, &err) < 0)
		ref_die(full, err.msg);
	return def;
}

/* Index in the file's directory, or -1. */
static long
find(const struct ref_model *m, long block, const char *name)
{
	char full[128];
	size_t i;

	if (block >= 0)
		snprintf(full, sizeof full, "blk.%ld.%s", block, name);
	else
		snprintf(full, sizeof full, "%s", name);
	for (i = 0; i < qwen_gguf_n_tensors(m->g); i++) {
		if (strcmp(qwen_gguf_tensor(m->g, i)->name, full) == 0)
			return (long)i;
	}
	return -1;
}

int
ref_has(const struct ref_model *m, long block, const char *name)
{
	return find(m, block, name) >= 0;
}

const struct ref_tensor *
ref_tensor(const struct ref_model *m, long block, const char *name)
{
	long i = find(m, block, name);

	if (i < 0)
		ref_die("no tensor", name);
	return &m->tensor[i];
}

static void
decode(struct ref_tensor *r, const struct qwen_gguf_tensor *t)
{
	struct qwen_err err;
	size_t n;

	r->n_in = (size_t)t->ne[0];
	r->n_out = (size_t)t->ne[1];
	r->n_matrix = (size_t)t->ne[2];
	n = r->n_in * r->n_out * r->n_matrix;
	r->v = malloc(n * sizeof *r->v);
	if (r->v == NULL ||
	    qwen_quant_dequantize(t->type, t->data, r->v, n, &err) < 0)
		ref_die("cannot decode", t->name);
}

struct ref_model *
ref_open(const char *path)
{
	struct ref_model *m = calloc(1, sizeof *m);
	struct qwen_str arch = { "", 0 };
	struct qwen_err err;
	size_t i, n;

	if (m == NULL || qwen_gguf_open(&m->g, path, &err) < 0)
		ref_die(path, m == NULL ? "out of memory" : err.msg);
	qwen_gguf_get_str(m->g, "general.architecture", &arch, NULL);
	snprintf(m->arch, sizeof m->arch, "%.*s",
	    arch.len < 31 ? (int)arch.len : 31, arch.s);
	n = qwen_gguf_n_tensors(m->g);
	m->tensor = calloc(n + 1, sizeof *m->tensor);
	if (m->tensor == NULL)
		ref_die(path, "out of memory");
	for (i = 0; i < n; i++)
		decode(&m->tensor[i], qwen_gguf_tensor(m->g, i));
	m->embd = *ref_tensor(m, -1, "token_embd.weight");
	m->n_layer = ref_key(m, "block_count", 0, 0) -
	    ref_key(m, "nextn_predict_layers", 0, 0);
	m->n_embd = ref_key(m, "embedding_length", 0, 0);
	m->eps = ref_key_real(m, "attention.layer_norm_rms_epsilon", 0);
	return m;
}

void
ref_close(struct ref_model *m)
{
	size_t i;

	if (m == NULL)
		return;
	for (i = 0; i < qwen_gguf_n_tensors(m->g); i++)
		free(m->tensor[i].v);
	if (m->own_embd)
		free(m->embd.v);
	free(m->tensor);
	qwen_gguf_close(m->g);
	free(m);
}

/* v[e] += s * B[e] A[e]; of an embedding A has rows for its ids. */
static void
add_product(const struct ref_tensor *w, const struct ref_tensor *a,
    const struct ref_tensor *b, int embedding, double s)
{
	size_t rank = b->n_in, e, r, c, k;

	for (e = 0; e < b->n_matrix; e++) {
		const float *ae = a->v + e * a->n_in * a->n_out;
		const float *be = b->v + e * b->n_in * b->n_out;
		float *v = w->v + e * w->n_in * w->n_out;

		for (r = 0; r < w->n_out; r++) {
			for (c = 0; c < w->n_in; c++) {
				double sum = 0;

				for (k = 0; k < rank; k++)
					sum += embedding ?
					    (double)ae[r * rank + k] *
					    (double)be[c * rank + k] :
					    (double)ae[k * w->n_in + c] *
					    (double)be[r * rank + k];
				v[r * w->n_in + c] = (float)((double)
				    v[r * w->n_in + c] + s * sum);
			}
		}
	}
}

/* The embedding's table, no longer that of a head. */
static void
own_embd(struct ref_model *m)
{
	size_t n = m->embd.n_in * m->embd.n_out;
	float *v = malloc(n * sizeof *v);

	if (v == NULL)
		ref_die("out of memory", "embedding");
	memcpy(v, m->embd.v, n * sizeof *v);
	m->embd.v = v;
	m->own_embd = 1;
}

void
ref_add_lora(struct ref_model *m, const char *path, double scale)
{
	const struct qwen_gguf_tensor *ta, *tb;
	struct ref_tensor a, b;
	struct qwen_gguf *g;
	struct qwen_err err;
	char name[80];
	double alpha = 0;
	size_t i, n;

	if (qwen_gguf_open(&g, path, &err) < 0 || qwen_gguf_get_f64(g,
	    "adapter.lora.alpha", 0, &alpha, &err) < 0)
		ref_die(path, err.msg);
	for (i = 0; (ta = qwen_gguf_tensor(g, i)) != NULL; i++) {
		n = strlen(ta->name) - 7;
		if (strcmp(ta->name + n, ".lora_a") != 0)
			continue;
		snprintf(name, sizeof name, "%.*s.lora_b", (int)n, ta->name);
		if ((tb = qwen_gguf_find_tensor(g, name)) == NULL)
			ref_die("no tensor", name);
		decode(&a, ta);
		decode(&b, tb);
		name[n] = '\0';
		if (strcmp(name, "token_embd.weight") == 0 && !m->own_embd)
			own_embd(m);
		add_product(strcmp(name, "token_embd.weight") == 0 ?
		    &m->embd : ref_tensor(m, -1, name), &a, &b,
		    strcmp(name, "token_embd.weight") == 0, alpha != 0 ?
		    scale * alpha / (double)b.n_in : scale);
		free(a.v);
		free(b.v);
	}
	qwen_gguf_close(g);
}

void
ref_round_kv(struct ref_model *m)
{
	m->round_kv = 1;
}

void
ref_look(struct ref_model *m, struct ref_look *look)
{
	m->look = look;
}

size_t
ref_n_vocab(const struct ref_model *m)
{
	return ref_tensor(m, -1, "token_embd.weight")->n_out;
}
