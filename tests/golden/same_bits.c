/* SPDX-License-Identifier: ISC */
/*
 * same_bits.c - the numerics contract: logits and state are bit for bit the
 * same for any number of threads, instruction set, and division of a prompt.
 */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "engine/model.h"
#include "engine/timeline/timeline.h"
#include "qwen.h"
#include "qwentext.h"
#include "../levels.h"
#include "../tap.h"

struct rows {
	float	*got;
	size_t	 n_vocab, n;
};

static int
keep(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct rows *r = arg;

	(void)err;
	memcpy(r->got + pos * r->n_vocab, logits, r->n_vocab * sizeof *logits);
	r->n++;
	return 0;
}

/* Evaluate in pieces: first, then pieces of step; all logits into r. */
static struct qwen_session *
evaluate(struct qwen_model *m, const struct golden_case *c, size_t first,
    size_t step, size_t batch, struct rows *r)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep,
	    .arg = r, .batch = batch };
	struct qwen_session *s = NULL;
	size_t i, n;

	r->n = 0;
	if (qwen_session_new(&s, m, NULL) < 0)
		return NULL;
	for (i = 0; i < c->n_tokens; i += n) {
		n = i == 0 ? first : step;
		n = n < c->n_tokens - i ? n : c->n_tokens - i;
		if (qwen_session_eval(s, c->tokens + i, n, &how, NULL) < 0) {
			qwen_session_free(s);
			return NULL;
		}
	}
	return s;
}

static int
same_state(const struct qwen_session *a, const struct qwen_session *b)
{
	size_t i, j;

	for (i = 0; i < a->mem.n_layer; i++) {
		const struct qwen_layer_state *p = &a->mem.layer[i];
		const struct qwen_layer_state *q = &b->mem.layer[i];

		if (p->n_block != q->n_block)
			return 0;
		for (j = 0; j < p->n_block; j++) {
			if (memcmp(p->block[j], q->block[j],
			    p->kv_block_bytes) != 0)
				return 0;
		}
		if ((p->n_s > 0 && memcmp(p->s, q->s,
		    p->n_s * sizeof *p->s) != 0) || (p->n_conv > 0 &&
		    memcmp(p->conv, q->conv, p->n_conv * sizeof *p->conv)
		    != 0))
			return 0;
	}
	return 1;
}

struct want {
	struct qwen_session	*s;
	struct rows		 rows;
};

static void
compare(struct qwen_model *m, const struct golden_case *c, size_t first,
    size_t step, size_t batch, const struct want *w, const char *what)
{
	struct rows r = w->rows;
	struct qwen_session *s;

	r.got = calloc(c->n_tokens * r.n_vocab, sizeof *r.got);
	s = r.got == NULL ? NULL : evaluate(m, c, first, step, batch, &r);
	ok(s != NULL && r.n == c->n_tokens && memcmp(r.got, w->rows.got,
	    c->n_tokens * r.n_vocab * sizeof *r.got) == 0 &&
	    same_state(s, w->s), "%s, %zu + %zu, batch %zu", what, first, step,
	    batch);
	qwen_session_free(s);
	free(r.got);
}

static void
check_model(const struct golden_model *g, const struct golden_case *c,
    unsigned numerics, enum qwen_kv k, enum qwen_kv v)
{
	static const size_t splits[][3] = { { 1, 999, 0 }, { 64, 999, 0 },
	    { 65, 999, 0 }, { 1, 1, 0 }, { 999, 1, 7 }, { 13, 50, 16 } };
	struct qwen_model_opts opts = { .n_threads = 1, .cpu = "scalar",
	    .numerics = numerics, .k = k, .v = v };
	struct qwen_model *base, *m;
	struct qwen_err err;
	struct want w = { .rows = { .n_vocab = g->n_vocab } };
	int few = getenv("QPIPE_LONG") == NULL && (numerics == 4 ||
	    k != QWEN_KV_F16 || v != QWEN_KV_F16);
	char what[128];
	size_t i, l;

	int r = qwen_model_open(&base, g->path, &opts, &err);

	if (r < 0 && k != QWEN_KV_F16 && strstr(err.msg, "head size 16"))
		return;
	if (!ok(r == 0, "%s opens", g->name))
		return;
	if (numerics == 3 && !base->net.operands[QWEN_AS_BF16]) {
		qwen_model_close(base);	/* as version 1 */
		return;
	}
	w.rows.got = calloc(c->n_tokens * g->n_vocab, sizeof *w.rows.got);
	w.s = evaluate(base, c, c->n_tokens, 1, 0, &w.rows);
	ok(w.s != NULL, "%s: plain C, one thread", g->name);
	for (l = 0; w.s != NULL && l < N_LEVELS; l++) {
		if (qwen_cpu_check(levels[l]) != 1) {
			skip(levels[l], "this CPU lacks it");
			continue;
		}
		if (!level_differs(l, numerics))
			continue;
		for (opts.n_threads = 1; opts.n_threads <= 3;
		    opts.n_threads++) {
			/*
			 * Plain C is slow, and by one thread it is what all
			 * are compared with.
			 */
			if (l == 0 && (opts.n_threads == 1 ||
			    (opts.n_threads == 2 && few)))
				continue;
			opts.cpu = levels[l];
			if (qwen_model_open(&m, g->path, &opts, NULL) < 0)
				continue;
			snprintf(what, sizeof what, "%s, version %u, keys %s, "
			    "values %s: %s, %d threads", g->name, numerics,
			    qwen_kv_name(k), qwen_kv_name(v), levels[l],
			    opts.n_threads);
			compare(m, c, c->n_tokens, 1, 0, &w, what);
			/* plain C is slow: splits where they differ most */
			for (i = 0; opts.n_threads == 2 && i < 6; i++)
				compare(m, c, splits[i][0], splits[i][1],
				    splits[i][2], &w, what);
			qwen_model_close(m);
		}
	}
	qwen_session_free(w.s);
	free(w.rows.got);
	qwen_model_close(base);
}

int
main(void)
{
	struct golden_model *g;
	size_t i, j, n = golden_load(&g);

	for (i = 0; i < n; i++) {
		for (j = 0; j < g[i].n_case; j++) {
			const struct golden_case *c = &g[i].cases[j];

			if (c->n_rows == 0 || (strcmp(c->name, "n65") != 0 &&
			    (strcmp(c->name, "n600") != 0 ||
			    getenv("QPIPE_LONG") == NULL)))
				continue;
			check_model(&g[i], c, 1, QWEN_KV_F16, QWEN_KV_F16);
			check_model(&g[i], c, 4, QWEN_KV_F16, QWEN_KV_F16);
			check_model(&g[i], c, 3, QWEN_KV_F16, QWEN_KV_F16);
			check_model(&g[i], c, 1, QWEN_KV_Q8_0, QWEN_KV_Q8_0);
			check_model(&g[i], c, 1, QWEN_KV_Q8_0, QWEN_KV_Q4_0);
			check_model(&g[i], c, 1, QWEN_KV_Q4_0, QWEN_KV_F16);
			check_model(&g[i], c, 1, QWEN_KV_F32, QWEN_KV_F32);
			check_model(&g[i], c, 1, QWEN_KV_F32, QWEN_KV_Q8_0);
		}
	}
	golden_free(g, n);
	return done_testing();
}
