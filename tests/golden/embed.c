/* SPDX-License-Identifier: ISC */
/*
 * embed.c - embeddings of texts and scores of documents against those of
 * transformers (f32), within the limits of expected.json; ids and prompts are
 * the same as theirs; numerics versions 1 and 4 give the same bits on all
 * levels.
 */
#include <sys/stat.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yyjson.h>

#include "qwen.h"
#include "qwentext.h"
#include "../levels.h"
#include "../tap.h"

enum { MOST = 512, CASES_MAX = 32 };

struct golden {
	const char		*name;
	yyjson_doc		*doc;
	yyjson_val		*root;
	size_t			 width, n;
	float			 want[CASES_MAX * MOST], got[CASES_MAX * MOST];
	struct qwen_tok		*tok;
	struct qwen_embedding	 embedding;
	struct qwen_reranker	*reranker;
	int			 wrong_ids;
};

static struct golden g;
static struct qwen_err err;

static void
must(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s: %s\n", g.name, err.msg);
	exit(1);
}

/* A file of the folder, or as it was before it was compressed. */
static void
find(char *path, size_t size, const char *dir, const char *name)
{
	const char *tmp = getenv("TMPDIR");
	char cmd[2048];
	struct stat st;

	snprintf(path, size, "%s/%s", dir, name);
	if (stat(path, &st) == 0)
		return;
	snprintf(path, size, "%s/%s-%s", tmp != NULL ? tmp : "/tmp", g.name,
	    name);
	snprintf(cmd, sizeof cmd, "zstd -q -d -f -o '%s' '%s/%s.zst'", path,
	    dir, name);
	if (system(cmd) != 0)
		exit(1);
}

static const char *
text_of(yyjson_val *c, const char *key)
{
	return yyjson_get_str(yyjson_obj_get(c, key));
}

static int
is_embedding(void)
{
	return strcmp(text_of(g.root, "kind"), "embedding") == 0;
}

static struct qwen_str
str_of(yyjson_val *c, const char *key)
{
	yyjson_val *v = yyjson_obj_get(c, key);

	return (struct qwen_str){ yyjson_get_str(v), yyjson_get_len(v) };
}

static void
check_ids(yyjson_val *c, const int32_t *ids, size_t n)
{
	yyjson_val *want = yyjson_obj_get(c, "ids");
	size_t i;

	if (yyjson_arr_size(want) != n) {
		g.wrong_ids++;
		return;
	}
	for (i = 0; i < n; i++)
		g.wrong_ids += yyjson_get_sint(yyjson_arr_get(want, i)) !=
		    ids[i];
}

/* -------------------------------------------------------------- the models */

struct item {
	size_t			 i, n_states;
	const struct qwen_model	*m;
	double			 sum[MOST];
	int			 ended;
};

static struct item item[CASES_MAX];

static void
on_hidden(void *arg, size_t at, const float *x)
{
	struct item *it = arg;

	(void)at;
	qwen_embedding_add(it->sum, x, qwen_model_n_embd(it->m));
	it->n_states++;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	struct item *it = arg;

	(void)e;
	it->ended = why == QWEN_JOB_LENGTH;
}

/* Both values, since that is what is written down. */
static void
judge(const struct item *it, float *out)
{
	float hidden[MOST], v[2];
	size_t i, yes, n = qwen_model_n_classes(it->m);
	int32_t ids[2];

	for (i = 0; i < qwen_model_n_embd(it->m); i++)
		hidden[i] = (float)it->sum[i];
	must(qwen_reranker_yes(g.reranker, n, &yes, ids, &err));
	if (n == 0)
		must(qwen_model_logits(it->m, hidden, ids, 2, v, &err));
	else
		must(qwen_model_classify(it->m, hidden, v, &err));
	out[0] = (float)qwen_softmax_share(v, 2, yes);
	out[1] = (float)qwen_softmax_share(v, 2, 1 - yes);
}

static void
add_case(struct qwen_work *w, struct qwen_model *m, yyjson_val *c, size_t i)
{
	struct qwen_embedding last = { .pooling = QWEN_POOLING_LAST };
	struct qwen_job j = { .hidden = on_hidden, .end = on_end,
	    .arg = &item[i] };
	int32_t *ids;

	item[i] = (struct item){ .i = i, .m = m };
	if (is_embedding())
		must(qwen_embedding_encode(&g.embedding, g.tok, NULL,
		    text_of(c, "text"), str_of(c, "text").len,
		    QWEN_TOK_SPECIAL, &ids, &j.n, &err));
	else
		must(qwen_reranker_encode(g.reranker, g.tok, str_of(c, "query"),
		    str_of(c, "document"), QWEN_TOK_SPECIAL, 0, &ids, &j.n,
		    NULL, &err));
	check_ids(c, ids, j.n);
	j.from = qwen_embedding_from(is_embedding() ? &g.embedding : &last,
	    &j.n);
	j.tokens = ids;
	must(qwen_work_add(w, &j, &err));
	free(ids);
}

/* All cases together, into g.got. */
static void
compute(struct qwen_model *m)
{
	struct qwen_work_opts o = { .model = m };
	yyjson_val *cases = yyjson_obj_get(g.root, "cases");
	struct qwen_work *w;
	size_t i, n;
	int rc;

	must(qwen_cache_new(&o.cache, m, 0, &err));
	must(qwen_work_new(&w, &o, &err));
	for (i = 0; i < g.n; i++)
		add_case(w, m, yyjson_arr_get(cases, i), i);
	while ((rc = qwen_work_step(w, &err)) > 0)
		;
	must(rc);
	for (i = 0; i < g.n; i++) {
		if (!item[i].ended)
			exit(1);
		if (is_embedding())
			qwen_embedding_finish(&g.embedding, item[i].sum,
			    item[i].n_states, g.width, g.got + i * g.width, &n);
		else
			judge(&item[i], g.got + i * g.width);
	}
	qwen_work_free(w);
	qwen_cache_free(o.cache);
}

/* ------------------------------------------------------------- comparisons */

static double
limit(const char *key)
{
	return yyjson_get_num(yyjson_obj_get(yyjson_obj_get(g.root,
	    "tolerance"), key));
}

static void
check_distance(unsigned numerics)
{
	double worst = 0, far = 0, d, ab, aa, bb;
	size_t i, k;

	for (i = 0; i < g.n; i++) {
		ab = aa = bb = 0;
		for (k = i * g.width; k < (i + 1) * g.width; k++) {
			d = fabs((double)g.got[k] - (double)g.want[k]);
			worst = d <= worst ? worst : d;
			ab += (double)g.got[k] * (double)g.want[k];
			aa += (double)g.got[k] * (double)g.got[k];
			bb += (double)g.want[k] * (double)g.want[k];
		}
		d = 1 - ab / sqrt(aa) / sqrt(bb);
		far = d <= far ? far : d;
	}
	ok(worst <= limit("max_abs"), "%u: %s: %zu cases, at most %.3g off "
	    "(limit %.3g)", numerics, g.name, g.n, worst, limit("max_abs"));
	if (is_embedding())
		ok(far <= limit("cosine_distance"), "%u: %s: cosine distance "
		    "%.3g (limit %.3g)", numerics, g.name, far,
		    limit("cosine_distance"));
}

static void
check_levels(const char *path, unsigned numerics)
{
	struct qwen_model_opts opts = { .numerics = numerics };
	static float first[CASES_MAX * MOST];
	struct qwen_model *m;
	size_t l, bytes = g.n * g.width * sizeof *first;

	memcpy(first, g.got, bytes);
	for (l = 0; l < N_LEVELS; l++) {
		if (qwen_cpu_check(levels[l]) != 1 ||
		    !level_differs(l, numerics))
			continue;
		opts.cpu = levels[l];
		opts.n_threads = 1 + (int)l % 3;
		must(qwen_model_open(&m, path, &opts, &err));
		compute(m);
		ok(memcmp(first, g.got, bytes) == 0, "%u: %s: the same bits "
		    "with %s, threads: %d", numerics, g.name, levels[l],
		    opts.n_threads);
		qwen_model_close(m);
	}
}

static void
check_version(const char *path, unsigned numerics)
{
	struct qwen_model_opts opts = { .numerics = numerics };
	struct qwen_model *m;

	must(qwen_model_open(&m, path, &opts, &err));
	must(qwen_tok_open(&g.tok, qwen_model_gguf(m), QWEN_TOK_ENCODE, &err));
	must(qwen_embedding_read(&g.embedding, qwen_model_gguf(m), &err));
	if (!is_embedding())
		must(qwen_reranker_open(&g.reranker, qwen_model_gguf(m), NULL,
		    &err));
	ok(g.embedding.pooling == (is_embedding() ? QWEN_POOLING_LAST :
	    QWEN_POOLING_RANK), "%u: %s: pooling", numerics, g.name);
	compute(m);
	ok(g.wrong_ids == 0, "%u: %s: ids", numerics, g.name);
	check_distance(numerics);
	check_levels(path, numerics);
	qwen_reranker_close(g.reranker);
	g.reranker = NULL;
	qwen_tok_close(g.tok);
	qwen_model_close(m);
}

static void
check_model(const char *name)
{
	char dir[1024], path[1200];
	struct stat st;
	FILE *f;

	memset(&g, 0, sizeof g);
	g.name = name;
	snprintf(dir, sizeof dir, "../shared/fixtures/models/%s", name);
	if (stat(dir, &st) != 0)
		snprintf(dir, sizeof dir, "tests/golden/models/%s", name);
	find(path, sizeof path, dir, "expected.json");
	if ((g.doc = yyjson_read_file(path, 0, NULL, NULL)) == NULL)
		exit(1);
	g.root = yyjson_doc_get_root(g.doc);
	g.width = (size_t)yyjson_get_uint(yyjson_obj_get(g.root, "width"));
	g.n = yyjson_arr_size(yyjson_obj_get(g.root, "cases"));
	if (g.width > MOST || g.n == 0 || g.n > CASES_MAX)
		exit(1);
	find(path, sizeof path, dir, text_of(g.root, "expected"));
	if ((f = fopen(path, "rb")) == NULL || fread(g.want, sizeof *g.want *
	    g.width, g.n, f) != g.n)
		exit(1);
	fclose(f);
	find(path, sizeof path, dir, "model.gguf");
	check_version(path, 1);
	check_version(path, 4);
	yyjson_doc_free(g.doc);
}

int
main(void)
{
	check_model("qwen3-embed");
	check_model("qwen3-rerank");
	check_model("qwen3-rerank-head");
	return done_testing();
}
