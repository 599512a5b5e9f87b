/* SPDX-License-Identifier: ISC */
/*
 * trace.c - traces of a session: the names of stages in order; values of the
 * reference pass; sums that are exact to the last bit; the same bytes however
 * the pass is divided.  Includes the MTP block of models that have one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_util.h"
#include "../ref/ref.h"
#include "../tap.h"

/* The numbers of a stage at a position, or NULL. */
static const float *
find(const struct log *l, const char *stage, uint64_t position, size_t *n)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (l->e[i].position == position &&
		    strcmp(l->e[i].stage, stage) == 0) {
			*n = l->e[i].n;
			return l->v + l->e[i].at;
		}
	}
	return NULL;
}

/* Whatever was told before is not taken again. */
static void
keep_ref(void *arg, const char *stage, size_t t, const double *v, size_t n)
{
	size_t i;
	float *to;

	if (find(arg, stage, t, &i) != NULL)
		return;
	to = add(arg, stage, t, n);
	for (i = 0; i < n; i++)
		to[i] = (float)v[i];
}

static int
same(const struct log *a, const struct log *b)
{
	return a->n == b->n && a->n_v == b->n_v && a->n > 0 &&
	    memcmp(a->e, b->e, a->n * sizeof *a->e) == 0 &&
	    memcmp(a->v, b->v, a->n_v * sizeof *a->v) == 0;
}

/* ------------------------------------------------------- names, in their order */

struct listed {
	const struct log	*l;
	size_t			 next, wrong;
	uint64_t		 position;
};

static int
compare_stage(void *arg, const struct qwen_trace_stage *st)
{
	struct listed *x = arg;
	const struct entry *e;

	if (x->position < st->first)
		return 0;
	e = &x->l->e[x->next++ % x->l->n];
	x->wrong += strcmp(e->stage, st->name) != 0 || e->choices !=
	    st->choices || e->n != (st->n > 0 ? st->n : e->position + 1) ||
	    e->position != x->position;
	return 0;
}

static void
check_names(const struct golden_model *g, const struct log *l, size_t n)
{
	struct listed x = { .l = l };
	struct qwen_gguf *f = NULL;
	int rc;

	rc = qwen_gguf_open(&f, g->path, &err);
	for (; x.position < n && rc == 0; x.position++)
		rc = qwen_trace_stages(f, compare_stage, &x, &err);
	ok(rc == 0 && x.next == l->n && x.wrong == 0, "%s: told of up to %zu "
	    "stages at each of %zu positions, as they are listed", g->name,
	    (x.next + n - 1) / n, n);
	qwen_gguf_close(f);
}

/* -------------------------------------------------------------- exact sums */

/* Is stage c = a + b, to the last bit, at a position? */
static int
adds_up(const struct log *l, uint64_t pos, const char *a, const char *b,
    const char *c)
{
	size_t n = 0, i;
	const float *x = find(l, a, pos, &n), *y = find(l, b, pos, &n);
	const float *z = find(l, c, pos, &n);

	if (x == NULL || y == NULL || z == NULL)
		return 0;
	for (i = 0; i < n && x[i] + y[i] == z[i]; i++)
		;
	return i == n;
}

static void
check_sums(const struct golden_model *g, const struct log *l, uint64_t pos)
{
	char before[64] = "embed", mixer[64], ffn[64], mid[64], after[64];
	char joined[64];
	size_t i, n, bad = 0, layer;

	for (layer = 0;; layer++) {
		snprintf(mixer, sizeof mixer, "blk.%zu.mixer", layer);
		snprintf(mid, sizeof mid, "blk.%zu.mixer_residual", layer);
		snprintf(ffn, sizeof ffn, "blk.%zu.ffn", layer);
		snprintf(after, sizeof after, "blk.%zu.residual", layer);
		snprintf(joined, sizeof joined, "blk.%zu.nextn.eh_proj",
		    layer);
		if (find(l, mixer, pos, &n) == NULL)
			break;
		if (find(l, joined, pos, &n) != NULL)
			memcpy(before, joined, sizeof before);
		bad += !adds_up(l, pos, before, mixer, mid);
		/* which the block that predicts may lack */
		if (find(l, ffn, pos, &n) != NULL || before[0] == 'e')
			bad += !adds_up(l, pos, mid, ffn, after);
		memcpy(before, after, sizeof before);
	}
	ok(layer > 0 && bad == 0, "%s: residuals of %zu layers add up exactly",
	    g->name, layer);
	for (i = 0, bad = n = 0; i < l->n; i++) {
		const float *p = l->v + l->e[i].at;
		double sum = 0;
		size_t k;

		if (strstr(l->e[i].stage, ".attn.probs.h") == NULL)
			continue;
		for (k = 0, n++; k < l->e[i].n; k++) {
			sum += (double)p[k];
			bad += !(p[k] >= 0);
		}
		bad += fabs(sum - 1) > 1e-5;
	}
	ok(n > 0 && bad == 0, "%s: %zu rows of probabilities add up to 1",
	    g->name, n);
}

/* The logits of a session that nobody looks at. */
static int
compare_logits(void *arg, size_t pos, const float *row, struct qwen_err *e)
{
	struct listed *x = arg;
	size_t n = 0;
	const float *v = find(x->l, "logits", pos, &n);

	(void)e;
	x->next++;
	x->wrong += v == NULL || memcmp(v, row, n * sizeof *v) != 0;
	return 0;
}

static void
check_logits(const struct golden_model *g, const struct log *l,
    const int32_t *tokens, size_t n, const float *last)
{
	struct qwen_model_opts o = { .n_threads = 2 };
	struct listed x = { .l = l };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL,
	    .row = compare_logits, .arg = &x };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;

	ok(qwen_model_open(&m, g->path, &o, &err) == 0 &&
	    qwen_session_new(&s, m, &err) == 0 &&
	    qwen_session_eval(s, tokens, n, &how, &err) == 0 &&
	    x.next == n && x.wrong == 0 && memcmp(last, qwen_session_logits(s),
	    g->n_vocab * sizeof *last) == 0, "%s: logits are those of a "
	    "session that nobody looks at, and none changes", g->name);
	qwen_session_free(s);
	qwen_model_close(m);
}

/* ------------------------------------------------------------- the reference */

/* How far a stage is from the reference's, at all positions, squared. */
struct apart {
	double	 diff, all;
};

/*
 * Is it of other experts, or of the same in another order, than that of the
 * reference?  The choice itself is compared elsewhere.
 */
static int
of_others(const struct log *l, const struct entry *e, const struct log *ref)
{
	const char *at = strstr(e->stage, ".experts.");
	const float *a, *b;
	char name[64];
	size_t n = 0, m = 0;

	if (at == NULL)
		return 0;
	snprintf(name, sizeof name, "%.*s.router.experts",
	    (int)(at - e->stage), e->stage);
	a = find(l, name, e->position, &n);
	b = find(ref, name, e->position, &m);
	return a == NULL || b == NULL || n != m ||
	    memcmp(a, b, n * sizeof *a) != 0;
}

/* Returns whether the reference has it; counts choices, and those that differ. */
static int
set_apart(struct apart *sum, const struct log *l, const struct entry *e,
    const struct log *ref, size_t choices[2])
{
	size_t k, n = 0;
	const float *a = l->v + e->at, *b = find(ref, e->stage, e->position,
	    &n);

	if (b == NULL || n != e->n)
		return 0;
	for (k = 0; k < n && !of_others(l, e, ref); k++) {
		double d = (double)a[k] - (double)b[k];

		if (e->choices) {
			choices[0]++;
			choices[1] += d != 0;
			continue;
		}
		sum->diff += d * d;
		sum->all += (double)b[k] * (double)b[k];
	}
	return 1;
}

/*
 * What is left beside a pass in double.  Of weights whose products are of floats
 * it is keys and values in f16, which the reference has too, and single
 * precision; of others, inputs that are rounded to 8 bits, and where experts are
 * nearly equal, another choice.
 */
static void
check_reference(const struct golden_model *g, const struct log *l,
    const int32_t *tokens, size_t n, double limit, size_t others)
{
	struct ref_model *r = ref_open(g->path);
	struct log want = { 0 };
	struct ref_look look = { .fn = keep_ref, .arg = &want };
	double *logits = calloc(n * g->n_vocab, sizeof *logits), x, worst = 0;
	size_t i, k, per = l->n / n + 1, missing = 0, choices[2] = { 0 };
	struct apart *sum = calloc(per, sizeof *sum);
	const char *where = "";

	if (logits == NULL || sum == NULL)
		abort();
	ref_round_kv(r);
	ref_look(r, &look);
	ref_logits(r, tokens, n, logits);
	if (has_block(l))
		ref_drafts(r, tokens, n, logits);
	for (i = k = 0; i < l->n; i++, k++) {
		if (i > 0 && l->e[i].position > l->e[i - 1].position)
			k = 0;
		missing += !set_apart(&sum[k], l, &l->e[i], &want, choices);
	}
	/* the last position has all */
	for (i = 0; i < k; i++) {
		x = sum[i].all > 0 ? sqrt(sum[i].diff / sum[i].all) : 0;
		if (!(x <= worst)) {
			worst = x;
			where = l->e[l->n - k + i].stage;
		}
	}
	ok(missing == 0 && want.n == l->n, "%s: the reference has the same "
	    "stages", g->name);
	ok(worst <= limit, "%s: stages are within %.3g of the reference's: "
	    "%.2g (%s)", g->name, limit, worst, where);
	ok(choices[1] * 1000 <= choices[0] * others, "%s: of %zu choices of "
	    "experts %zu are others", g->name, choices[0], choices[1]);
	empty(&want);
	free(sum);
	free(logits);
	ref_close(r);
}

/* ------------------------------------------------------------- in other ways */

static void
check_ways(const struct golden_model *g, const struct log *want,
    const int32_t *tokens, size_t n)
{
	static const struct how ways[] = {
		{ .n_threads = 1, .batch = 1 },
		{ .n_threads = 3, .batch = 7 },
		{ .n_threads = 2, .batch = 64, .cpu = "scalar" },
		{ .n_threads = 2, .cpu = "avx2" },
		{ .n_threads = 2, .cut = 5 },
		{ .n_threads = 2, .in_company = 1 },
	};
	size_t i;

	for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		struct log l = { 0 };

		ok(trace(&l, g->path, tokens, n, &ways[i], NULL) == 0 &&
		    same(&l, want), "%s: the same bytes in way %zu", g->name,
		    i);
		empty(&l);
	}
}

/* Chosen positions and stages are those of all. */
static void
check_chosen(const struct golden_model *g, const struct log *all,
    const int32_t *tokens, size_t n)
{
	const struct qwen_trace_range at[] = { { n - 1, n - 1 }, { 2, 4 },
	    { 3, 3 }, { 1000, 2000 } };
	const struct how h = { .n_threads = 2, .at = at, .n_at = 4,
	    .pattern = "*[rn].[!h]*" };
	struct log l = { 0 };
	size_t i, bad = 0, m = 0;
	const float *v;
	int rc = trace(&l, g->path, tokens, n, &h, NULL);

	for (i = 0; i < l.n; i++) {
		v = find(all, l.e[i].stage, l.e[i].position, &m);
		bad += v == NULL || m != l.e[i].n || memcmp(v, l.v +
		    l.e[i].at, m * sizeof *v) != 0;
		bad += l.e[i].token != tokens[l.e[i].position];
		bad += i > 0 && l.e[i].position < l.e[i - 1].position;
	}
	ok(rc == 0 ? l.n > 0 && bad == 0 && l.n % 4 == 0 &&
	    l.e[0].position == 2 && l.e[l.n - 1].position == n - 1 :
	    strstr(err.msg, "no stage") != NULL, "%s: chosen positions and "
	    "stages", g->name);
	empty(&l);
}

/* ------------------------------------------------------------- what is refused */

static void
check_refused(const struct golden_model *g, const int32_t *tokens, size_t n)
{
	struct how h = { .n_threads = 1, .pattern = "blk.*.nothing" };
	const struct qwen_trace_range none = { 1000, 1000 };
	struct log l = { 0 };

	ok(trace(&l, g->path, tokens, n, &h, NULL) == -1 &&
	    err.code == QWEN_ERANGE && strstr(err.msg, "blk.*.nothing") != NULL
	    && l.n == 0, "a stage that is none: %s", err.msg);
	h.pattern = NULL;
	l.stop = 3;
	ok(trace(&l, g->path, tokens, n, &h, NULL) == -1 && l.n == 3 &&
	    strcmp(err.msg, "enough") == 0, "stopped by who looks on");
	empty(&l);
	h.at = &none;
	h.n_at = 1;
	ok(trace(&l, g->path, tokens, n, &h, NULL) == 0 && l.n == 0,
	    "positions that are not read are not told of");
	empty(&l);
}

/* Of keys as whole numbers, these are about the same. */
static void
check_kv(const struct golden_model *g, const struct log *all,
    const int32_t *tokens, size_t n, enum qwen_kv kv, double limit)
{
	const struct how h = { .n_threads = 2, .kv = kv,
	    .pattern = "*.probs.h*" };
	struct log l = { 0 };
	double worst = 0, d, sum;
	size_t i, k, m = 0;
	const float *v;
	int rc = trace(&l, g->path, tokens, n, &h, NULL);

	if (rc < 0 && strstr(err.msg, "multiple") != NULL) {
		skip(g->name, err.msg);
		return;
	}
	for (i = 0; i < l.n; i++) {
		v = find(all, l.e[i].stage, l.e[i].position, &m);
		for (k = 0, sum = d = 0; v != NULL && k < m; k++) {
			sum += (double)l.v[l.e[i].at + k];
			d += fabs((double)l.v[l.e[i].at + k] - (double)v[k]);
		}
		d += fabs(sum - 1);
		worst = d > worst ? d : worst;
	}
	ok(rc == 0 && l.n > 0 && worst <= limit, "%s: keys as %s: attention "
	    "goes elsewhere for %.3g at most (limit %.3g) %s", g->name,
	    qwen_kv_name(kv), worst, limit, rc < 0 ? err.msg : "");
	empty(&l);
}

static const struct golden_case *
case_of(const struct golden_model *g, const char *name)
{
	size_t i;

	for (i = 0; i < g->n_case; i++) {
		if (strcmp(g->cases[i].name, name) == 0)
			return &g->cases[i];
	}
	return NULL;
}

/* Are the products of the model those of floats? */
static int
is_float(const struct golden_model *g)
{
	const struct qwen_gguf_tensor *t;
	struct qwen_gguf *f;
	int all = qwen_gguf_open(&f, g->path, &err) == 0;
	size_t i;

	for (i = 0; all && (t = qwen_gguf_tensor(f, i)) != NULL; i++)
		all = t->n_dims < 2 || strchr("FB", qwen_ggml_name(
		    t->type)[0]) != NULL;	/* F32, F16, BF16 */
	qwen_gguf_close(f);
	return all;
}

enum { LENGTH = 40 };

/*
 * All that is to be seen of a model, which may be one of random weights: of
 * these, coarser keys move some much farther than what was trained.
 */
static void
check_model(const struct golden_model *g, const int32_t *tokens,
    const struct tiny_shape *tiny)
{
	const struct how plain = { .n_threads = 2 };
	float *last = calloc(g->n_vocab, sizeof *last);
	struct log l = { 0 };
	int exact = is_float(g);

	if (last == NULL)
		abort();
	err.msg[0] = '\0';
	if (ok(trace(&l, g->path, tokens, LENGTH, &plain, last) == 0 &&
	    (tiny == NULL || has_block(&l)), "%s: is traced %s", g->name,
	    err.msg)) {
		check_names(g, &l, LENGTH);
		check_sums(g, &l, LENGTH - 1);
		check_logits(g, &l, tokens, LENGTH, last);
		check_reference(g, &l, tokens, LENGTH, tiny != NULL ? 1e-3 :
		    exact ? 1e-4 : 0.2, exact ? 0 : 50);
		check_ways(g, &l, tokens, LENGTH);
		check_chosen(g, &l, tokens, LENGTH);
	}
	if (tiny == NULL || strcmp(tiny->arch, "qwen35") == 0) {
		check_kv(g, &l, tokens, LENGTH, QWEN_KV_Q8_0, 0.2);
		check_kv(g, &l, tokens, LENGTH, QWEN_KV_Q4_0, 0.8);
	}
	empty(&l);
	free(last);
}

static void
check_tiny(const struct tiny_case *c)
{
	check_model(&c->g, c->tokens, c->shape);
}

int
main(void)
{
	struct golden_model *g;
	size_t i, n = golden_load(&g);

	ok(n >= 4, "%zu models found", n);
	for (i = 0; i < n; i++) {
		const struct golden_case *c = case_of(&g[i], "n65");

		if (!ok(c != NULL, "%s: has a text", g[i].name))
			continue;
		check_model(&g[i], c->tokens, NULL);
		if (i == 0)
			check_refused(&g[i], c->tokens, 9);
	}
	golden_free(g, n);
	each_tiny(check_tiny);
	return done_testing();
}
