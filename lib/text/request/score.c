/* SPDX-License-Identifier: ISC */
/*
 * score.c - requests for scores: a context and its continuation, or a text, or
 * tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

struct score_parser {
	const struct qwen_scoring *s;
	struct qwen_score_request *q;
	struct qwen_refusal	*refusal;	/* of q */
	yyjson_val		*root;
};

static int
encode(struct score_parser *a, const char *key, const char *s, size_t n,
    struct qwen_ids *out)
{
	return qwen_parse_encode(a->refusal, key, a->s->tok, a->s->encode, s, n,
	    out);
}

static int
read_part(struct score_parser *a, const char *key, struct qwen_ids *out)
{
	yyjson_val *v = qwen_parse_get(a->root, key);

	if (yyjson_is_str(v))
		return encode(a, key, yyjson_get_str(v), yyjson_get_len(v),
		    out);
	if (yyjson_is_arr(v))
		return qwen_parse_ids(a->refusal, key, v, a->s->n_vocab, out);
	return v == NULL ? qwen_invalid(a, key, "%s is missing", key) :
	    qwen_wrong(a, key, "is neither a string nor a list of token ids");
}

/* Joins context and continuation; c, the context, may be empty. */
static int
join(struct score_parser *a, const struct qwen_ids *c, const struct qwen_ids *k)
{
	struct qwen_score_request *q = a->q;
	int front = c->n == 0 || (a->s->bos && c->id[0] != a->s->bos_id);

	if (front && a->s->bos_id < 0)
		return qwen_wrong(a, "context", "is empty, and the model has "
		    "no BOS token");
	q->text.n = (size_t)front + c->n + k->n;
	q->text.id = calloc(q->text.n + 1, sizeof *q->text.id);
	if (q->text.id == NULL)
		return qwen_oom(&a->refusal->err);
	q->text.id[0] = a->s->bos_id;
	q->n_front = (size_t)front;
	if (c->n > 0)
		memcpy(q->text.id + q->n_front, c->id, c->n * sizeof *c->id);
	if (k->n > 0)
		memcpy(q->text.id + q->n_front + c->n, k->id,
		    k->n * sizeof *k->id);
	q->from = q->n_front + c->n;
	return k->n > 0 ? 0 : qwen_wrong(a, "continuation", "has no tokens");
}

/*
 * Encodes context and continuation, both strings, as one text, as the model
 * knows such text.  White space at the end of the context goes with the next
 * word.  Scores the tokens from where they differ from those of the context
 * alone.
 */
static int
split(struct score_parser *a, yyjson_val *context, yyjson_val *rest)
{
	const char *s = yyjson_get_str(context);
	size_t n = yyjson_get_len(context), same = 0;
	struct qwen_text whole = { 0 };
	struct qwen_ids c = { 0 }, k = { 0 }, head, tail;
	int rc;

	qwen_text_add(&whole, s, n);
	qwen_text_add(&whole, yyjson_get_str(rest), yyjson_get_len(rest));
	while (n > 0 && strchr(" \t\n\r", s[n - 1]) != NULL &&
	    s[n - 1] != '\0')
		n--;
	rc = whole.failed ? qwen_oom(&a->refusal->err) :
	    encode(a, "context", s, n, &c) < 0 ||
	    encode(a, "continuation", whole.s, whole.n, &k) < 0 ? -1 : 0;
	if (rc == 0) {
		while (same < c.n && same < k.n && c.id[same] == k.id[same])
			same++;
		head = (struct qwen_ids){ k.id, same };
		tail = (struct qwen_ids){ k.id + same, k.n - same };
		rc = join(a, &head, &tail);
	}
	free(c.id);
	free(k.id);
	qwen_text_fini(&whole);
	return rc;
}

static int
read_pair(struct score_parser *a)
{
	yyjson_val *c = qwen_parse_get(a->root, "context");
	yyjson_val *k = qwen_parse_get(a->root, "continuation");
	struct qwen_ids ci = { 0 }, ki = { 0 };
	int rc = -1;

	if (yyjson_is_str(c) && yyjson_is_str(k))
		return yyjson_get_len(k) > 0 ? split(a, c, k) : qwen_wrong(a,
		    "continuation", "is empty");
	if ((c == NULL || read_part(a, "context", &ci) == 0) &&
	    read_part(a, "continuation", &ki) == 0)
		rc = join(a, &ci, &ki);
	free(ci.id);
	free(ki.id);
	return rc;
}

int
qwen_score_request_text(struct qwen_score_request *q,
    const struct qwen_scoring *s, struct qwen_ids *tokens,
    struct qwen_err *err)
{
	int32_t *more;

	q->n_front = s->bos && s->bos_id >= 0 &&
	    (tokens->n == 0 || tokens->id[0] != s->bos_id);
	q->from = 1;
	q->text = *tokens;
	*tokens = (struct qwen_ids){ 0 };
	if (!q->n_front)
		return 0;
	more = realloc(q->text.id, (q->text.n + 1) * sizeof *more);
	if (more == NULL)
		return qwen_oom(err);
	memmove(more + 1, more, q->text.n++ * sizeof *more);
	more[0] = s->bos_id;
	q->text.id = more;
	return 0;
}

static int
read_whole(struct score_parser *a, const char *key)
{
	struct qwen_score_request *q = a->q;
	struct qwen_ids ids = { 0 };

	if (read_part(a, key, &ids) < 0 ||
	    qwen_score_request_text(q, a->s, &ids, &q->refusal.err) < 0)
		return -1;
	return q->text.n > 1 ? 0 : qwen_wrong(a, key, "has %zu tokens: nothing "
	    "to score", q->text.n);
}

static int
read_line(struct score_parser *a)
{
	int pair = qwen_parse_get(a->root, "context") != NULL ||
	    qwen_parse_get(a->root, "continuation") != NULL;
	int text = qwen_parse_get(a->root, "text") != NULL;
	int ids = qwen_parse_get(a->root, "tokens") != NULL;

	if (qwen_parse_id(a->refusal, a->root, "id", 1, &a->q->id) < 0 ||
	    qwen_parse_check_body(a->refusal, QWEN_BODY_SCORE, a->s->unknown,
	    a->root) < 0)
		return -1;
	if (pair + text + ids != 1)
		return qwen_invalid(a, NULL, "give one of: context and "
		    "continuation, text, tokens");
	return pair ? read_pair(a) : read_whole(a, text ? "text" : "tokens");
}

int
qwen_score_request_parse(struct qwen_score_request *q,
    const struct qwen_scoring *s, const char *json, size_t n,
    struct qwen_err *err)
{
	struct score_parser a = { .s = s, .q = q, .refusal = &q->refusal };
	yyjson_doc *doc = qwen_parse_open(a.refusal, json, n, &a.root);

	if (a.root != NULL)
		read_line(&a);
	yyjson_doc_free(doc);
	return qwen_refusal_oom(&q->refusal, err);
}

void
qwen_score_request_fini(struct qwen_score_request *q)
{
	free(q->id);
	free(q->text.id);
	q->id = NULL;
	q->text = (struct qwen_ids){ 0 };
}
