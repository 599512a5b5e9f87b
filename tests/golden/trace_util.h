/* SPDX-License-Identifier: ISC */
/*
 * trace_util.h - records the traced values of a session, and makes small models
 * with an MTP block.
 */
#ifndef TRACE_UTIL_H
#define TRACE_UTIL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "qwen.h"
#include "../kernel/random.h"
#include "../ref/tiny.h"

/* A traced row; the log has them in the order of the callbacks. */
struct entry {
	char	 stage[QWEN_TRACE_NAME];
	uint64_t position;
	int32_t	 token;
	size_t	 n, at;		/* its values are v[at .. at + n - 1] */
	int	 choices;
};

struct log {
	struct entry	*e;
	size_t		 n, cap;
	float		*v;
	size_t		 n_v, cap_v;
	size_t		 stop;		/* stop after this many rows; 0:
					   never */
};

static struct qwen_err err;

static inline void *
more(void *p, size_t *cap, size_t n, size_t size)
{
	if (n <= *cap)
		return p;
	*cap = 2 * n;
	if ((p = realloc(p, *cap * size)) == NULL)
		abort();
	return p;
}

static inline float *
add(struct log *l, const char *stage, uint64_t position, size_t n)
{
	struct entry *e;

	l->e = more(l->e, &l->cap, l->n + 1, sizeof *l->e);
	l->v = more(l->v, &l->cap_v, l->n_v + n, sizeof *l->v);
	e = &l->e[l->n++];
	memset(e, 0, sizeof *e);
	snprintf(e->stage, sizeof e->stage, "%s", stage);
	e->position = position;
	e->n = n;
	e->at = l->n_v;
	l->n_v += n;
	return l->v + e->at;
}

static inline int
keep(void *arg, const struct qwen_trace_value *v, struct qwen_err *e)
{
	struct log *l = arg;
	float *to = add(l, v->stage, v->position, v->n);
	size_t i;

	l->e[l->n - 1].token = v->token;
	l->e[l->n - 1].choices = v->choices != NULL;
	for (i = 0; i < v->n; i++)
		to[i] = v->row != NULL ? v->row[i] : (float)v->choices[i];
	if (l->n != l->stop)
		return 0;
	snprintf(e->msg, sizeof e->msg, "enough");
	return 1;
}

static inline void
empty(struct log *l)
{
	free(l->e);
	free(l->v);
	memset(l, 0, sizeof *l);
}

/* Return 1 if the last row is of the MTP block. */
static inline int
has_block(const struct log *l)
{
	return l->n > 0 && strstr(l->e[l->n - 1].stage, ".nextn.") != NULL;
}

/* ------------------------------------------------------------- a traced pass */

struct how {
	const char	*cpu;
	int		 n_threads;
	size_t		 batch, cut;	/* cut: evaluate in two calls, the first
					   one of cut tokens */
	int		 in_company;	/* evaluate together with another
					   session */
	int		 no_block;	/* open without the MTP block */
	enum qwen_kv	 kv;
	const struct qwen_trace_range *at;
	size_t		 n_at;
	const char	*pattern;	/* NULL: "*" */
};

static inline int
run_parts(struct qwen_session *s, struct qwen_session *other,
    const int32_t *tokens, size_t n)
{
	struct qwen_part part[2] = {
		{ .s = other, .tokens = tokens + 1, .n = n - 1 },
		{ .s = s, .tokens = tokens, .n = n },
	};
	int rc = qwen_eval_parts(part, 2, &err);

	if (rc == 0 && part[1].failed) {
		err = part[1].err;
		rc = -1;
	}
	return rc;
}

/* Trace the tokens; set last, if not NULL, to the last logits. */
static inline int
trace(struct log *l, const char *path, const int32_t *tokens, size_t n,
    const struct how *h, float *last)
{
	const char *all = h->pattern != NULL ? h->pattern : "*";
	struct qwen_model_opts o = { .n_threads = h->n_threads,
	    .cpu = h->cpu, .k = h->kv, .v = h->kv, .draft = !h->no_block };
	struct qwen_trace t = { .patterns = &all, .n_patterns = 1,
	    .at = h->at, .n_at = h->n_at, .value = keep, .arg = l };
	struct qwen_eval how = { .batch = h->batch };
	struct qwen_session *s = NULL, *other = NULL;
	struct qwen_cache *c = NULL;
	struct qwen_model *m = NULL;
	int rc = -1;

	if (qwen_model_open(&m, path, &o, &err) == 0 &&
	    qwen_cache_new(&c, m, 0, &err) == 0 &&
	    qwen_session_new_in(&s, c, &err) == 0 &&
	    qwen_session_new_in(&other, c, &err) == 0 &&
	    qwen_session_trace(s, &t, &err) == 0)
		rc = h->in_company ? run_parts(s, other, tokens, n) :
		    qwen_session_eval(s, tokens, h->cut > 0 ? h->cut : n, &how,
		    &err);
	if (rc == 0 && h->cut > 0)
		rc = qwen_session_eval(s, tokens + h->cut, n - h->cut, &how,
		    &err);
	if (rc == 0 && last != NULL)
		memcpy(last, qwen_session_logits(s), qwen_model_n_vocab(m) *
		    sizeof *last);
	qwen_session_free(other);
	qwen_session_free(s);
	qwen_cache_free(c);
	qwen_model_close(m);
	return rc;
}

/* -------------------------------------------- models with an MTP block */

/* The weights are random; blk.4 is the MTP block. */
enum { TINY_LENGTH = 40, TINY_VOCAB = 71, TINY_EMBD = 64 };

struct tiny_case {
	struct golden_model	 g;	/* only name, path and n_vocab are
					   set */
	const struct tiny_shape	*shape;
	int			 own_head;
	int32_t			 tokens[TINY_LENGTH];
};

static const struct tiny_shape tiny_shapes[] = {
	{ .arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = TINY_EMBD,
	    .n_vocab = TINY_VOCAB, .n_head = 4, .n_head_kv = 2,
	    .n_embd_head = 32, .n_rot = 8, .n_ff = 96, .conv_kernel = 4,
	    .dk = 32, .dv = 32, .n_head_k = 2, .n_head_v = 4 },
	{ .arch = "qwen35moe", .n_layer = 4, .n_nextn = 1,
	    .n_embd = TINY_EMBD, .n_vocab = TINY_VOCAB, .n_head = 4,
	    .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8, .conv_kernel = 4,
	    .dk = 32, .dv = 32, .n_head_k = 2, .n_head_v = 4, .n_expert = 7,
	    .n_expert_used = 3, .n_ff_exp = 32, .n_ff_shexp = 64 },
	{ .arch = "qwen3", .n_layer = 4, .n_nextn = 1, .n_embd = TINY_EMBD,
	    .n_vocab = TINY_VOCAB, .n_head = 4, .n_head_kv = 2,
	    .n_embd_head = 32, .n_rot = 32, .n_ff = 96 },
};

static inline void
tiny_case(const struct tiny *t, const char *what, int own_head,
    void (*fn)(const struct tiny_case *c))
{
	const char *dir = getenv("TMPDIR");
	struct tiny_case c = { .g = { .n_vocab = TINY_VOCAB },
	    .shape = &t->shape, .own_head = own_head };
	size_t i;

	snprintf(c.g.name, sizeof c.g.name, "%s %s", t->shape.arch, what);
	snprintf(c.g.path, sizeof c.g.path, "%s/trace-%ld.gguf",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	for (i = 0; i < TINY_LENGTH; i++)
		c.tokens[i] = (int32_t)(random_u32() % TINY_VOCAB);
	tiny_write(t, c.g.path);
	fn(&c);
	unlink(c.g.path);
}

/*
 * Call fn for each shape with an MTP block: as in most models; with its own
 * embedding, norm and head; and also without feed-forward part.
 */
static inline void
each_tiny(void (*fn)(const struct tiny_case *c))
{
	const struct tiny_shape *s;
	struct tiny *t;
	char name[64];
	size_t i;

	for (s = tiny_shapes; s < tiny_shapes + 3; s++) {
		t = tiny_new(s);
		tiny_case(t, "with a block", 0, fn);
		tiny_add(t, "blk.4.nextn.shared_head_norm.weight", 0,
		    TINY_EMBD, 1, 1, 1, 0.3);
		tiny_add(t, "blk.4.nextn.embed_tokens.weight", 0, TINY_EMBD,
		    TINY_VOCAB, 1, 0, 1);
		tiny_add(t, "blk.4.nextn.shared_head_head.weight", 0,
		    TINY_EMBD, TINY_VOCAB, 1, 0, 0.2);
		tiny_case(t, "with one and its own ends", 1, fn);
		for (i = 0; i < t->n_tensor; ) {
			snprintf(name, sizeof name, "%s", t->tensor[i].name);
			if (strncmp(name, "blk.4.ffn_", 10) == 0)
				tiny_drop(t, name);
			else
				i++;
		}
		if (s->conv_kernel > 0)
			tiny_drop(t, "blk.4.post_attention_norm.weight");
		tiny_case(t, "with half of one", 1, fn);
		tiny_free(t);
	}
}

#endif
