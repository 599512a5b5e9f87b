/* SPDX-License-Identifier: ISC */
/*
 * vector.c - texts to embed and documents to rank: lines of requests, and plain
 * texts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

/*
 * Refuses an object with an image: a vector or score of its text alone would
 * look like one of both.  what names the field for the message; NULL: the
 * image's own.
 */
static int
refuse_image(struct qwen_refusal *refusal, const char *what, yyjson_val *v)
{
	static const char *const names[] = { "image", "images", "image_url",
	    "video" };
	size_t i;

	for (i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (qwen_parse_get(v, names[i]) != NULL)
			return qwen_refuse_field(refusal, what != NULL ? what :
			    names[i], "images are not read for vectors "
			    "and scores: give only text");
	}
	return 0;
}

/* ------------------------------------------------------------------ vectors */

/* Checks and truncates the tokens, when all are there. */
static int
finish(struct qwen_vector_request *q, const struct qwen_vectors *s)
{
	if (q->text.n == 0)
		return qwen_refuse_invalid(&q->refusal, NULL, "the text has no "
		    "tokens, and the model adds none");
	if (s->cut > 0 && q->text.n > s->cut) {
		qwen_embedding_cut(&s->how, q->text.id, &q->text.n, s->cut);
		q->is_cut = 1;
	}
	return 0;
}

/* Refuses an instruction that leaves no room for text: it is not truncated. */
static int
has_room(struct qwen_vector_request *q, const struct qwen_vectors *s,
    const char *instruct)
{
	struct qwen_err err;
	int32_t *id;
	size_t n;

	if (qwen_embedding_encode(&s->how, s->tok, instruct, "", 0, s->encode,
	    &id, &n, &err) < 0)
		return qwen_refuse_error(&q->refusal, NULL, &err);
	free(id);
	return n < s->cut ? 0 : qwen_refuse_invalid(&q->refusal, NULL, "the "
	    "instruction alone takes %zu of %zu tokens: shorten it", n, s->cut);
}

static int
encode(struct qwen_vector_request *q, const struct qwen_vectors *s,
    const char *instruct, const char *text, size_t n)
{
	struct qwen_err err;

	if (qwen_embedding_encode(&s->how, s->tok, instruct, text, n,
	    s->encode, &q->text.id, &q->text.n, &err) < 0)
		return qwen_refuse_error(&q->refusal, NULL, &err);
	if (instruct != NULL && s->cut > 0 && q->text.n > s->cut &&
	    has_room(q, s, instruct) < 0)
		return -1;
	return finish(q, s);
}

int
qwen_vector_request_text(struct qwen_vector_request *q,
    const struct qwen_vectors *s, const char *text, size_t n,
    struct qwen_err *err)
{
	if (text == NULL)
		qwen_refuse_long(&q->refusal, n);
	else
		encode(q, s, s->instruct, text, n);
	return qwen_refusal_oom(&q->refusal, err);
}

int
qwen_vector_request_ids(struct qwen_vector_request *q,
    const struct qwen_vectors *s, struct qwen_ids *ids, struct qwen_err *err)
{
	q->text = *ids;
	*ids = (struct qwen_ids){ 0 };
	if (qwen_embedding_enclose(&s->how, &q->text.id, &q->text.n, err) < 0)
		return -1;
	finish(q, s);
	return qwen_refusal_oom(&q->refusal, err);
}

static int
read_vector(struct qwen_vector_request *q, const struct qwen_vectors *s,
    yyjson_val *root)
{
	yyjson_val *tokens = qwen_parse_get(root, "tokens");
	struct qwen_str text = { NULL, 0 }, instruct = { s->instruct, 0 };
	struct qwen_ids ids = { 0 };

	if (qwen_parse_id(&q->refusal, root, "id", 1, &q->id) < 0 ||
	    refuse_image(&q->refusal, NULL, root) < 0 ||
	    qwen_parse_check_body(&q->refusal, QWEN_BODY_VECTOR, s->unknown,
	    root) < 0 || qwen_parse_string(&q->refusal, root, "text", &text) <
	    0 || qwen_parse_string(&q->refusal, root, "instruct", &instruct) <
	    0)
		return -1;
	if ((text.s != NULL) == (tokens != NULL))
		return qwen_refuse_invalid(&q->refusal, NULL, "give one of: "
		    "text, tokens");
	if (instruct.len > 0 && strlen(instruct.s) != instruct.len)
		return qwen_refuse_field(&q->refusal, "instruct", "contains a "
		    "NUL");
	if (text.s != NULL)
		return encode(q, s, instruct.s, text.s, text.len);
	if (instruct.len > 0)
		return qwen_refuse_field(&q->refusal, "instruct", "is allowed "
		    "only with text, not with tokens");
	if (!yyjson_is_arr(tokens))
		return qwen_refuse_field(&q->refusal, "tokens", "is not a list "
		    "of token ids");
	return qwen_parse_ids(&q->refusal, "tokens", tokens, s->n_vocab,
	    &ids) < 0 ? -1 : qwen_vector_request_ids(q, s, &ids,
	    &q->refusal.err);
}

int
qwen_vector_request_parse(struct qwen_vector_request *q,
    const struct qwen_vectors *s, const char *json, size_t n,
    struct qwen_err *err)
{
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open(&q->refusal, json, n, &root);

	if (root != NULL)
		read_vector(q, s, root);
	yyjson_doc_free(doc);
	return qwen_refusal_oom(&q->refusal, err);
}

void
qwen_vector_request_fini(struct qwen_vector_request *q)
{
	free(q->id);
	free(q->text.id);
	q->id = NULL;
	q->text = (struct qwen_ids){ 0 };
}

/* ------------------------------------------------------------------ ranking */

/* Adds a document; q->prompt must have room for it. */
static int
add_document(struct qwen_rank_request *q, const struct qwen_ranking *s,
    struct qwen_str query, struct qwen_str document)
{
	struct qwen_ids *p = &q->prompt[q->n];
	struct qwen_err err;
	size_t all;

	if (qwen_reranker_encode(s->how, s->tok, query, document, s->encode,
	    s->cut, &p->id, &p->n, &all, &err) < 0)
		return qwen_refuse_error(&q->refusal, NULL, &err);
	q->n_cut += p->n < all;
	q->n_tokens += p->n;
	q->n++;
	return 0;
}

static int
make_room(struct qwen_rank_request *q, size_t n)
{
	q->prompt = calloc(n + 1, sizeof *q->prompt);
	return q->prompt == NULL ? qwen_oom(&q->refusal.err) : 0;
}

int
qwen_rank_request_text(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *text, size_t n,
    struct qwen_err *err)
{
	if (text == NULL)
		qwen_refuse_long(&q->refusal, n);
	else if (make_room(q, 1) == 0)
		add_document(q, s, s->query, (struct qwen_str){ text, n });
	return qwen_refusal_oom(&q->refusal, err);
}

int
qwen_parse_documents(struct qwen_rank_request *q, const struct qwen_ranking *s,
    struct qwen_str query, yyjson_val *list, int objects)
{
	size_t i, n = yyjson_arr_size(list);
	yyjson_val *v;

	if (list == NULL)
		return qwen_refuse_invalid(&q->refusal, "documents",
		    "documents is missing");
	if (!yyjson_is_arr(list))
		return qwen_refuse_field(&q->refusal, "documents", "is not a "
		    "list");
	if (n > QWEN_DOCUMENTS_MAX)
		return qwen_refuse_field(&q->refusal, "documents", "%zu "
		    "documents; at most %d are allowed", n, QWEN_DOCUMENTS_MAX);
	q->is_list = 1;
	if (make_room(q, n) < 0)
		return -1;
	yyjson_arr_foreach(list, i, n, v) {
		if (refuse_image(&q->refusal, "documents", v) < 0)
			return -1;
		if (objects && yyjson_is_obj(v))
			v = yyjson_obj_get(v, "text");
		if (!yyjson_is_str(v))
			return qwen_refuse_field(&q->refusal, "documents",
			    "number %zu is not a string", i);
		if (add_document(q, s, query, qwen_parse_str(v)) < 0)
			return -1;
	}
	return 0;
}

static int
read_rank(struct qwen_rank_request *q, const struct qwen_ranking *s,
    yyjson_val *root)
{
	struct qwen_str query = { NULL, 0 }, one = { NULL, 0 };
	yyjson_val *list = qwen_parse_get(root, "documents");

	if (qwen_parse_id(&q->refusal, root, "id", 1, &q->id) < 0 ||
	    refuse_image(&q->refusal, NULL, root) < 0 ||
	    qwen_parse_check_body(&q->refusal, QWEN_BODY_RANK, s->unknown, root)
	    < 0 || qwen_parse_string(&q->refusal, root, "query", &query) < 0 ||
	    qwen_parse_string(&q->refusal, root, "document", &one) < 0)
		return -1;
	if (query.s == NULL)
		return qwen_refuse_invalid(&q->refusal, "query", "query is "
		    "missing");
	if ((one.s != NULL) == (list != NULL))
		return qwen_refuse_invalid(&q->refusal, NULL, "give one of: "
		    "document, documents");
	if (list != NULL)
		return qwen_parse_documents(q, s, query, list, 0);
	return make_room(q, 1) < 0 ? -1 : add_document(q, s, query, one);
}

int
qwen_rank_request_parse(struct qwen_rank_request *q,
    const struct qwen_ranking *s, const char *json, size_t n,
    struct qwen_err *err)
{
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open(&q->refusal, json, n, &root);

	if (root != NULL)
		read_rank(q, s, root);
	yyjson_doc_free(doc);
	return qwen_refusal_oom(&q->refusal, err);
}

void
qwen_rank_request_free_prompts(struct qwen_rank_request *q)
{
	size_t i;

	for (i = 0; q->prompt != NULL && i < q->n; i++)
		free(q->prompt[i].id);
	free(q->prompt);
	q->prompt = NULL;
}

void
qwen_rank_request_fini(struct qwen_rank_request *q)
{
	qwen_rank_request_free_prompts(q);
	free(q->id);
	q->id = NULL;
	q->n = 0;
}
