/* SPDX-License-Identifier: ISC */
/*
 * score_ask.c - what a line of requests for scores says: a context and what
 * goes on from it, or a text, or tokens.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/score.h"
#include <yyjson.h>

struct ask {
	const struct cli_score	*r;
	struct cli_scored	*q;
	yyjson_val		*root;
};

/* Ids, owned. */
struct ids {
	int32_t	*id;
	size_t	 n;
};

struct cli_scored *
cli_scored_new(void)
{
	struct cli_scored *q = calloc(1, sizeof *q);

	if (q == NULL)
		die("out of memory");
	return q;
}

void
cli_scored_free(struct cli_scored *q)
{
	if (q == NULL)
		return;
	free(q->id);
	free(q->tokens);
	free(q->logprob);
	free(q->rank);
	free(q->top);
	free(q);
}

int
cli_scored_fail(struct cli_scored *q, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (q->err.code != 0)
		return -1;
	va_start(ap, fmt);
	vsnprintf(q->err.msg, sizeof q->err.msg, fmt, ap);
	va_end(ap);
	q->err.code = QWEN_EFORMAT;
	q->code = code;
	return -1;
}

#define bad(q, ...)	cli_scored_fail(q, "invalid_request", __VA_ARGS__)

static yyjson_val *
get(const struct ask *a, const char *key)
{
	yyjson_val *v = yyjson_obj_get(a->root, key);

	return yyjson_is_null(v) ? NULL : v;
}

static int
read_id(struct ask *a)
{
	yyjson_val *v = get(a, "id");
	struct cli_text t = { 0 };

	if (v == NULL)
		return 0;
	if (!yyjson_is_str(v) && !yyjson_is_raw(v))
		return bad(a->q, "id: is not a string or a number");
	if (yyjson_get_len(v) > 1024)
		return bad(a->q, "id: more than 1024 bytes");
	if (yyjson_is_str(v))
		cli_text_json(&t, yyjson_get_str(v), yyjson_get_len(v));
	else
		cli_text_add(&t, yyjson_get_raw(v), yyjson_get_len(v));
	a->q->id = t.s;
	return 0;
}

static int
encode(struct ask *a, const char *key, const char *s, size_t n,
    struct ids *out)
{
	struct qwen_err err;

	if (qwen_tok_encode(a->r->tok, s, n, a->r->encode, &out->id, &out->n,
	    &err) < 0)
		return bad(a->q, "%s: %s", key, err.msg);
	return 0;
}

static int
one_id(struct ask *a, const char *key, yyjson_val *v, int32_t *id)
{
	const char *s = yyjson_get_raw(v);
	size_t i, n = yyjson_get_len(v);
	int64_t x = 0;

	if (!yyjson_is_raw(v))
		return bad(a->q, "%s: is not a list of numbers", key);
	for (i = 0; i < n && i < 10 && s[i] >= '0' && s[i] <= '9'; i++)
		x = x * 10 + (s[i] - '0');
	if (i < n || (uint64_t)x >= a->r->n_vocab)
		return bad(a->q, "%s: number %.*s is not a token of this model",
		    key, (int)(n < 20 ? n : 20), s);
	*id = (int32_t)x;
	return 0;
}

static int
read_ids(struct ask *a, const char *key, yyjson_val *v, struct ids *out)
{
	size_t n = yyjson_arr_size(v);
	yyjson_arr_iter it;
	yyjson_val *one;

	if ((out->id = calloc(n + 1, sizeof *out->id)) == NULL)
		die("out of memory");
	yyjson_arr_iter_init(v, &it);
	while ((one = yyjson_arr_iter_next(&it)) != NULL) {
		if (one_id(a, key, one, &out->id[out->n++]) < 0)
			return -1;
	}
	return 0;
}

static int
read_part(struct ask *a, const char *key, struct ids *out)
{
	yyjson_val *v = get(a, key);

	if (yyjson_is_str(v))
		return encode(a, key, yyjson_get_str(v), yyjson_get_len(v),
		    out);
	if (yyjson_is_arr(v))
		return read_ids(a, key, v, out);
	return bad(a->q, v == NULL ? "%s is missing" :
	    "%s: is neither a text nor a list of token ids", key);
}

/* One list of two, the first of which may be empty; both are used up. */
static int
join(struct ask *a, struct ids *c, struct ids *k)
{
	struct cli_scored *q = a->q;
	int front = c->n == 0 || a->r->bos;

	if (front && a->r->first < 0)
		return bad(q, "context: is empty, and the model names no token "
		    "that texts begin with");
	q->n = (size_t)front + c->n + k->n;
	if ((q->tokens = calloc(q->n + 1, sizeof *q->tokens)) == NULL)
		die("out of memory");
	q->tokens[0] = a->r->first;
	q->front = (size_t)front;
	if (c->n > 0)
		memcpy(q->tokens + q->front, c->id, c->n * sizeof *c->id);
	if (k->n > 0)
		memcpy(q->tokens + q->front + c->n, k->id,
		    k->n * sizeof *k->id);
	q->from = q->front + c->n;
	return k->n > 0 ? 0 : bad(q, "continuation: has no token");
}

/*
 * Both are texts: encoded as one, since that is how the model knows it.  Space
 * at the end of the context belongs to the word behind it.  What is scored
 * begins where the ids part from those of the context alone.
 */
static int
split(struct ask *a, yyjson_val *context, yyjson_val *rest)
{
	const char *s = yyjson_get_str(context);
	size_t n = yyjson_get_len(context), same = 0;
	struct cli_text whole = { 0 };
	struct ids c = { 0 }, k = { 0 }, head;
	int rc;

	cli_text_add(&whole, s, n);
	cli_text_add(&whole, yyjson_get_str(rest), yyjson_get_len(rest));
	while (n > 0 && strchr(" \t\n\r", s[n - 1]) != NULL &&
	    s[n - 1] != '\0')
		n--;
	rc = encode(a, "context", s, n, &c) < 0 ||
	    encode(a, "continuation", whole.s, whole.n, &k) < 0 ? -1 : 0;
	if (rc == 0) {
		while (same < c.n && same < k.n && c.id[same] == k.id[same])
			same++;
		head = (struct ids){ k.id, same };
		k.n -= same;
		k.id += same;
		rc = join(a, &head, &k);
		k.id -= same;
	}
	free(c.id);
	free(k.id);
	cli_text_fini(&whole);
	return rc;
}

static int
read_pair(struct ask *a)
{
	yyjson_val *c = get(a, "context"), *k = get(a, "continuation");
	struct ids ci = { 0 }, ki = { 0 };
	int rc = -1;

	if (yyjson_is_str(c) && yyjson_is_str(k)) {
		if (yyjson_get_len(k) == 0)
			return bad(a->q, "continuation: is empty");
		return split(a, c, k);
	}
	if (c == NULL || read_part(a, "context", &ci) == 0) {
		if (read_part(a, "continuation", &ki) == 0)
			rc = join(a, &ci, &ki);
	}
	free(ci.id);
	free(ki.id);
	return rc;
}

void
cli_scored_text(const struct cli_score *r, struct cli_scored *q,
    int32_t *tokens, size_t n)
{
	int32_t *more;

	q->front = r->bos && r->first >= 0;
	q->from = 1;
	q->n = n;
	q->tokens = tokens;
	if (!q->front)
		return;
	if ((more = realloc(tokens, (n + 1) * sizeof *more)) == NULL)
		die("out of memory");
	memmove(more + 1, more, n * sizeof *more);
	more[0] = r->first;
	q->tokens = more;
	q->n++;
}

static int
read_whole(struct ask *a, const char *key)
{
	struct ids ids = { 0 };
	struct cli_scored *q = a->q;

	if (read_part(a, key, &ids) < 0) {
		free(ids.id);
		return -1;
	}
	cli_scored_text(a->r, q, ids.id, ids.n);
	if (q->n < 2)
		return bad(q, "%s: has %zu tokens; there is nothing to score",
		    key, q->n);
	return 0;
}

static void
read_line(struct ask *a)
{
	int pair = get(a, "context") != NULL ||
	    get(a, "continuation") != NULL;
	int text = get(a, "text") != NULL, ids = get(a, "tokens") != NULL;

	if (read_id(a) < 0)
		return;
	if (pair + text + ids != 1)
		bad(a->q, "one of these: context and continuation, text, "
		    "tokens");
	else if (pair)
		read_pair(a);
	else
		read_whole(a, text ? "text" : "tokens");
}

struct cli_scored *
cli_scored_parse(const struct cli_score *r, const struct cli_line *line,
    uint64_t number)
{
	struct ask a = { .r = r, .q = cli_scored_new() };
	yyjson_read_err err;
	yyjson_doc *doc;

	a.q->line = number;
	if (line->s == NULL) {
		cli_scored_fail(a.q, "line_too_long",
		    "the line has more than %d bytes", CLI_LINE_MAX);
		return a.q;
	}
	/* without INSITU it is only read */
	doc = yyjson_read_opts((char *)(uintptr_t)line->s, line->n,
	    YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_ALLOW_BOM, NULL, &err);
	if (doc == NULL && err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		die("out of memory");
	if (doc == NULL)
		cli_scored_fail(a.q, "invalid_json", "byte %zu: %s",
		    err.pos + 1, err.msg);
	else if (!yyjson_is_obj(a.root = yyjson_doc_get_root(doc)))
		cli_scored_fail(a.q, "invalid_request",
		    "the line is not a JSON object");
	else
		read_line(&a);
	yyjson_doc_free(doc);
	return a.q;
}
