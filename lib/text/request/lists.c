/* SPDX-License-Identifier: ISC */
/* lists.c - posted requests for vectors and for ranking, and their bodies. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

/* Reads a whole number of at least 1; *out is unchanged if it is absent. */
static int
read_size(struct qwen_refusal *refusal, yyjson_val *root, const char *key,
    size_t *out)
{
	int64_t n;
	int got = qwen_parse_whole(refusal, root, key, 1, INT64_MAX, &n);

	if (got > 0)
		*out = (size_t)n;
	return got;
}

/*
 * Reads how to truncate texts. truncate_prompt_tokens is a number of tokens, as
 * in vLLM; -1 is the context length. truncate is true or false, as in TEI and
 * Ollama, or "END" or "NONE", as in Cohere.  Without both, *cut is unchanged.
 */
static int
read_cut(struct qwen_refusal *refusal, yyjson_val *root, size_t n_ctx,
    size_t *cut)
{
	static const char key[] = "truncate_prompt_tokens";
	yyjson_val *v = qwen_parse_get(root, "truncate");
	char buf[QWEN_NUMBER_SIZE];
	int got;

	if (yyjson_is_true(v) || yyjson_equals_str(v, "END"))
		*cut = n_ctx;
	else if (v != NULL && !yyjson_is_false(v) &&
	    !yyjson_equals_str(v, "NONE"))
		return qwen_refuse_field(refusal, "truncate", "is not true, "
		    "false, \"END\" or \"NONE\"");
	got = qwen_parse_number_of(refusal, root, key, buf);
	if (got <= 0 || strcmp(buf, "-1") != 0)
		return got < 0 ? -1 : read_size(refusal, root, key, cut);
	*cut = n_ctx;
	return 0;
}

static void
add_usage(struct qwen_text *t, size_t n)
{
	qwen_json_put(t, ",'usage':{'prompt_tokens':%zu,'total_tokens':%zu}}",
	    n, n);
}

static void
add_refusal(struct qwen_text *t, const struct qwen_refusal *refusal)
{
	qwen_error_body(QWEN_FORM_PLAIN, qwen_refusal_status(refusal),
	    refusal->code, refusal->param, refusal->err.msg, t);
}

/* ------------------------------------------------------------------ vectors */

/* Returns 1 for an empty string or list, which has no vector. */
static int
is_empty(yyjson_val *v)
{
	return (yyjson_is_str(v) && yyjson_get_len(v) == 0) ||
	    (yyjson_is_arr(v) && yyjson_arr_size(v) == 0);
}

/* Adds a text, a string or token ids; its refusal becomes the request's. */
static int
add_text(struct qwen_embeddings_request *q, const struct qwen_vectors *s,
    yyjson_val *v)
{
	struct qwen_vector_request one = { .id = NULL };
	struct qwen_ids ids = { 0 };
	struct qwen_err err;
	int rc;

	if (yyjson_is_str(v))
		rc = qwen_vector_request_text(&one, s, yyjson_get_str(v),
		    yyjson_get_len(v), &err);
	else if (!yyjson_is_arr(v))
		return qwen_refuse_field(&q->refusal, "input", "is not a "
		    "string, a list of token ids, or a list of these");
	else if (qwen_parse_ids(&q->refusal, "input", v, s->n_vocab, &ids) < 0)
		return -1;
	else
		rc = qwen_vector_request_ids(&one, s, &ids, &err);
	if (rc < 0)
		qwen_oom(&q->refusal.err);
	else if (one.refusal.err.code != 0)
		qwen_refuse_field(&q->refusal, "input", "%s",
		    one.refusal.err.msg);
	else {
		q->text[q->n++] = one.text;
		q->n_tokens += one.text.n;
		one.text = (struct qwen_ids){ 0 };
	}
	qwen_vector_request_fini(&one);
	return q->refusal.err.code != 0 ? -1 : 0;
}

static int
read_input(struct qwen_embeddings_request *q, const struct qwen_vectors *s,
    yyjson_val *v)
{
	yyjson_val *first = yyjson_arr_get_first(v), *one;
	int many = yyjson_is_str(first) || yyjson_is_arr(first);
	size_t i, n = many ? yyjson_arr_size(v) : 1;

	if (v == NULL)
		return qwen_refuse_invalid(&q->refusal, "input", "input is "
		    "missing");
	if (is_empty(v))
		return qwen_refuse_field(&q->refusal, "input", "is empty");
	if (n > QWEN_INPUTS_MAX)
		return qwen_refuse_field(&q->refusal, "input", "%zu texts; at "
		    "most %d are allowed", n, QWEN_INPUTS_MAX);
	if ((q->text = calloc(n, sizeof *q->text)) == NULL)
		return qwen_oom(&q->refusal.err);
	if (!many)
		return add_text(q, s, v);
	yyjson_arr_foreach(v, i, n, one) {
		if (is_empty(one))
			return qwen_refuse_field(&q->refusal, "input", "entry "
			    "%zu is empty", i);
		if (add_text(q, s, one) < 0)
			return -1;
	}
	return 0;
}

static int
read_embeddings(struct qwen_embeddings_request *q, const struct qwen_vectors *s,
    yyjson_val *root)
{
	yyjson_val *format = qwen_parse_get(root, "encoding_format");
	yyjson_val *instruct = qwen_parse_get(root, "instruct");
	struct qwen_vectors how = *s;

	if (qwen_parse_check_body(&q->refusal, QWEN_BODY_EMBEDDINGS, s->unknown,
	    root) < 0 || qwen_parse_model(&q->refusal, root, &q->model) < 0 ||
	    read_size(&q->refusal, root, "dimensions", &q->dimensions) < 0 ||
	    read_cut(&q->refusal, root, s->n_ctx, &how.cut) < 0)
		return -1;
	q->untrained = s->untrained;
	q->base64 = yyjson_equals_str(format, "base64");
	if (format != NULL && !q->base64 &&
	    !yyjson_equals_str(format, "float"))
		return qwen_refuse_field(&q->refusal, "encoding_format",
		    "is not float or base64");
	if (instruct != NULL && (!yyjson_is_str(instruct) ||
	    strlen(yyjson_get_str(instruct)) != yyjson_get_len(instruct)))
		return qwen_refuse_field(&q->refusal, "instruct", "is not a "
		    "string");
	if (instruct != NULL)
		how.instruct = yyjson_get_str(instruct);
	return read_input(q, &how, qwen_parse_get(root, "input"));
}

int
qwen_embeddings_parse(struct qwen_embeddings_request *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err)
{
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open_mended(&q->refusal, s->unknown, json,
	    n, &root);

	if (root != NULL)
		read_embeddings(q, s, root);
	yyjson_doc_free(doc);
	return qwen_refusal_oom(&q->refusal, err);
}

void
qwen_embeddings_fini(struct qwen_embeddings_request *q)
{
	while (q->n > 0)
		free(q->text[--q->n].id);
	free(q->text);
	free(q->model);
	q->text = NULL;
	q->model = NULL;
}

/* Writes the numbers as little-endian bytes in base64. */
static void
add_base64(struct qwen_text *t, const float *v, size_t n)
{
	unsigned char *p = malloc(4 * n + 1);
	uint32_t bits;
	size_t i;

	for (i = 0; p != NULL && i < 4 * n; i++) {
		memcpy(&bits, &v[i / 4], sizeof bits);
		p[i] = (unsigned char)(bits >> 8 * (i % 4));
	}
	t->failed |= p == NULL;
	qwen_json_put(t, "'");
	if (p != NULL)
		qwen_json_base64(t, p, 4 * n);
	qwen_json_put(t, "'");
	free(p);
}

void
qwen_embeddings_body(const struct qwen_embeddings_request *q, const char *model,
    const float *vectors, size_t n_embd, struct qwen_text *t)
{
	size_t i;

	if (q->refusal.err.code != 0) {
		add_refusal(t, &q->refusal);
		return;
	}
	qwen_json_put(t, "{'object':'list','data':[");
	for (i = 0; i < q->n; i++, vectors += n_embd) {
		qwen_json_put(t, ",{'object':'embedding','index':%zu,"
		    "'embedding':", i);
		if (q->base64)
			add_base64(t, vectors, n_embd);
		else
			qwen_form_vector(t, vectors, n_embd);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]");
	if (q->untrained)
		qwen_json_put(t, ",'warning':'this model was not trained for "
		    "embeddings: its vectors say little'");
	qwen_form_model(t, q->model, model);
	add_usage(t, q->n_tokens);
}

/* ------------------------------------------------------------------ ranking */

static int
read_documents(struct qwen_rerank_request *q, const struct qwen_ranking *s,
    struct qwen_str query, yyjson_val *list, int back)
{
	struct qwen_refusal *refusal = &q->rank.refusal;
	size_t i, n = yyjson_arr_size(list);
	yyjson_val *v;

	if (qwen_parse_documents(&q->rank, s, query, list, 1) < 0)
		return -1;
	q->n_top = q->n_top == 0 || q->n_top > n ? n : q->n_top;
	if (!back)
		return 0;
	if ((q->document = calloc(n + 1, sizeof *q->document)) == NULL)
		return qwen_oom(&refusal->err);
	yyjson_arr_foreach(list, i, n, v) {
		if (qwen_parse_to_json(refusal, yyjson_is_obj(v) ?
		    yyjson_obj_get(v, "text") : v, &q->document[i]) < 0)
			return -1;
	}
	return 0;
}

static int
read_rerank(struct qwen_rerank_request *q, const struct qwen_ranking *s,
    yyjson_val *root)
{
	struct qwen_refusal *refusal = &q->rank.refusal;
	struct qwen_str query = { NULL, 0 };
	struct qwen_ranking how = *s;
	int back;

	if (qwen_parse_check_body(refusal, QWEN_BODY_RERANK, s->unknown, root) <
	    0 || qwen_parse_model(refusal, root, &q->model) < 0 ||
	    read_size(refusal, root, "top_n", &q->n_top) < 0 ||
	    read_cut(refusal, root, s->n_ctx, &how.cut) < 0)
		return -1;
	back = qwen_parse_truth(refusal, root, "return_documents", 0);
	if (back < 0 || qwen_parse_string(refusal, root, "query", &query) < 0)
		return -1;
	return query.s == NULL ? qwen_refuse_invalid(refusal, "query", "query "
	    "is missing") : read_documents(q, &how, query, qwen_parse_get(root,
	    "documents"), back);
}

int
qwen_rerank_parse(struct qwen_rerank_request *q, const struct qwen_ranking *s,
    const char *json, size_t n, struct qwen_err *err)
{
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open_mended(&q->rank.refusal, s->unknown,
	    json, n, &root);

	if (root != NULL)
		read_rerank(q, s, root);
	yyjson_doc_free(doc);
	return qwen_refusal_oom(&q->rank.refusal, err);
}

void
qwen_rerank_fini(struct qwen_rerank_request *q)
{
	size_t i;

	for (i = 0; q->document != NULL && i < q->rank.n; i++)
		free(q->document[i]);
	free(q->document);
	free(q->model);
	q->document = NULL;
	q->model = NULL;
	qwen_rank_request_fini(&q->rank);
}

struct scored {
	size_t	i;
	double	score;
};

/* Higher scores first; NaN last. */
static int
by_score(const void *a, const void *b)
{
	const struct scored *x = a, *y = b;

	if (x->score > y->score || (y->score != y->score &&
	    x->score == x->score))
		return -1;
	if (y->score > x->score || (x->score != x->score &&
	    y->score == y->score))
		return 1;
	return (x->i > y->i) - (x->i < y->i);
}

int
qwen_rerank_body(const struct qwen_rerank_request *q, uint64_t number,
    const char *model, const double *scores, struct qwen_text *t,
    struct qwen_err *err)
{
	struct scored *s;
	size_t i;

	if (q->rank.refusal.err.code != 0) {
		add_refusal(t, &q->rank.refusal);
		return 0;
	}
	if ((s = calloc(q->rank.n + 1, sizeof *s)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < q->rank.n; i++)
		s[i] = (struct scored){ i, scores[i] };
	qsort(s, q->rank.n, sizeof *s, by_score);
	qwen_json_put(t, "{'id':'rerank-%llu','object':'list'",
	    (unsigned long long)number);
	qwen_form_model(t, q->model, model);
	qwen_json_put(t, ",'results':[");
	for (i = 0; i < q->n_top; i++) {
		qwen_json_put(t, ",{'index':%zu,'relevance_score':%.9g", s[i].i,
		    s[i].score == s[i].score ? s[i].score : 0);
		if (q->document != NULL)
			qwen_json_put(t, ",'document':{'text':%s}",
			    q->document[s[i].i]);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]");
	add_usage(t, q->rank.n_tokens);
	free(s);
	return 0;
}
