/* SPDX-License-Identifier: ISC */
/* prompt.c - the prompts of a request as tokens. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/pieces.h"
#include "text/request/parser.h"
#include "text/request/form.h"

enum {
	BYTES_USUAL = 8,	/* bytes per token, more than usual */
	PART = 1 << 16,
};

#define NO_BIAS (-1e6f)		/* added to a logit, prevents the token */

/* Allocates n prompts and their answers. */
static int
make_room(struct qwen_parser *r, size_t n)
{
	struct qwen_request *q = r->q;
	size_t i;

	q->prompt = calloc(n, sizeof *q->prompt);
	q->answer = calloc(n * q->n, sizeof *q->answer);
	if (q->prompt == NULL || q->answer == NULL)
		return qwen_oom(&r->refusal->err);
	q->n_answers = n * q->n;
	for (i = 0; i < q->n_answers; i++)
		q->answer[i] = (struct qwen_answer){
			.request = q, .prompt = &q->prompt[i / q->n]
		};
	return 0;
}

int
qwen_refuse_length(struct qwen_refusal *refusal, const char *param, size_t n,
    int is_least, size_t n_ctx)
{
	return qwen_refuse(refusal, QWEN_TOO_LONG, param, "prompt is too long: "
	    "%s%zu tokens > %zu; this model's maximum context length is %zu "
	    "tokens", is_least ? "at least " : "", n, n > n_ctx ? n_ctx :
	    n_ctx - 1, n_ctx);
}

int
qwen_request_fits(struct qwen_request *q, size_t n_ctx)
{
	static const char *const param[] = {
		[QWEN_FORM_PLAIN] = NULL, [QWEN_FORM_COMPLETION] = "prompt",
		[QWEN_FORM_CHAT] = "messages",
		[QWEN_FORM_RESPONSES] = "input",
		[QWEN_FORM_MESSAGES] = "messages",
		[QWEN_FORM_COMPACT] = "input",
	};
	size_t i;

	for (i = 0; i < q->n_prompts; i++) {
		if (q->prompt[i].n + (q->max > 0) > n_ctx)
			return qwen_refuse_length(&q->refusal, param[q->form],
			    q->prompt[i].n, 0, n_ctx);
	}
	return 0;
}

/*
 * Estimates the number of tokens in parts and stops as soon as it is certainly
 * too large, so a text that is far too long is not encoded to its end.  The ids
 * here may differ from those of the prompt, so only twice the context is
 * certain.
 */
int
qwen_parse_check_length(struct qwen_parser *r, const char *key,
    struct qwen_str s)
{
	size_t max = r->s->n_ctx, all = 0, part, n;
	struct qwen_tok_encoder *e;
	struct qwen_err err;
	const int32_t *ids;
	int rc = 0;

	if (max == 0 || s.len / BYTES_USUAL <= max)
		return 0;
	if (qwen_tok_encoder_new(&e, r->s->tok, QWEN_TOK_SPECIAL, &err) < 0)
		return qwen_refuse_error(r->refusal, key, &err);
	for (; s.len > 0 && rc == 0; s.s += part, s.len -= part) {
		part = s.len < PART ? s.len : PART;
		if (qwen_tok_encoder_feed(e, s.s, part, &ids, &n, &err) < 0)
			rc = qwen_refuse_error(r->refusal, key, &err);
		else if ((all += n) / 2 > max)
			rc = qwen_refuse_length(r->refusal, key, all / 2,
			    1, max);
	}
	qwen_tok_encoder_free(e);
	return rc;
}

/* Encodes a plain prompt, with the suffix if there is one. */
static int
encode_text(struct qwen_parser *r, struct qwen_str s, struct qwen_ids *p)
{
	if (qwen_parse_check_length(r, "prompt", s) < 0)
		return -1;
	if (!r->q->has_control && (r->s->encode & QWEN_TOK_SPECIAL) == 0) {
		r->q->control_id = qwen_tok_named(r->s->tok, s.s, s.len);
		r->q->has_control = r->q->control_id >= 0;
	}
	if (r->suffix.s != NULL)
		return qwen_parse_encode_fim(r, s, NULL, p);
	return qwen_parse_encode(r->refusal, "prompt", r->s->tok, r->s->encode,
	    s.s, s.len, p) < 0 ? -1 : qwen_tok_begin(r->s->tok, &p->id, &p->n,
	    &r->refusal->err);
}

/* The same for a list of token ids. */
static int
take_ids(struct qwen_parser *r, yyjson_val *v, struct qwen_ids *p)
{
	struct qwen_ids ids = { 0 };
	int rc;

	if (r->suffix.s == NULL)
		return qwen_parse_ids(r->refusal, "prompt", v, r->s->n_vocab,
		    p);
	rc = qwen_parse_ids(r->refusal, "prompt", v, r->s->n_vocab, &ids);
	if (rc == 0)
		rc = qwen_parse_encode_fim(r, (struct qwen_str){ "", 0 }, &ids,
		    p);
	free(ids.id);
	return rc;
}

/* Adds one prompt: a string or token ids. */
static int
add_one(struct qwen_parser *r, yyjson_val *v)
{
	struct qwen_ids *p = &r->q->prompt[r->q->n_prompts++];

	if (yyjson_is_str(v)) {
		if (encode_text(r, (struct qwen_str){ yyjson_get_str(v),
		    yyjson_get_len(v) }, p) < 0)
			return -1;
	} else if (!yyjson_is_arr(v))
		return qwen_wrong(r, "prompt", "is not a string, a list of "
		    "token ids, or a list of these");
	else if (take_ids(r, v, p) < 0)
		return -1;
	r->q->n_prompt_tokens += p->n;
	return p->n > 0 ? 0 : qwen_wrong(r, "prompt", "has no tokens");
}

/*
 * Forbids a thought at the start of an answer with a grammar, by a bias against
 * the thinking token.  For plain prompts, and for templates without thinking.
 * Only the prompt can open a thought then, or the request's own bias for that
 * token can allow one.
 */
static int
forbid_thinking(struct qwen_parser *r)
{
	struct qwen_request *q = r->q;
	struct qwen_err err;
	int32_t *ids, think;
	float *bias;
	size_t i;

	if (q->grammar == NULL && !r->s->has_grammar)
		return 0;
	if (qwen_grammars_prepare(r->s->grammars, &err) < 0)
		return qwen_refuse_error(r->refusal, "prompt", &err);
	think = r->s->grammars->pieces->think;
	for (i = 0; i < q->n_bias; i++) {
		if (q->bias_id[i] == think)
			return 0;
	}
	if (think < 0)
		return 0;
	ids = realloc(q->bias_id, (i + 1) * sizeof *ids);
	q->bias_id = ids != NULL ? ids : q->bias_id;
	bias = realloc(q->bias, (i + 1) * sizeof *bias);
	q->bias = bias != NULL ? bias : q->bias;
	if (ids == NULL || bias == NULL)
		return qwen_oom(&r->refusal->err);
	ids[i] = think;
	bias[i] = NO_BIAS;
	q->n_bias++;
	return 0;
}

static int
read_prompt(struct qwen_parser *r, yyjson_val *v)
{
	yyjson_val *first = yyjson_arr_get_first(v);
	int many = yyjson_is_str(first) || yyjson_is_arr(first);
	size_t n = many ? yyjson_arr_size(v) : 1;

	if (n > QWEN_CHOICES_MAX / r->q->n)
		return qwen_invalid(r, "n", "n: more than %d answers",
		    QWEN_CHOICES_MAX);
	if (make_room(r, n) < 0 || forbid_thinking(r) < 0)
		return -1;
	return many ? qwen_parse_each(r, "", v, add_one, "") : add_one(r, v);
}

/* ---------------------------------------------------------------- messages */

static int
check_shape(struct qwen_parser *r)
{
	const char *member;
	struct qwen_err err;

	return qwen_parse_check_shape(r->body, r->s->reads_images, &member,
	    &err) == 0 ? 0 : qwen_invalid(r, member, "%s", err.msg);
}

/* Copies the lines that are not left out; returns 1 if there are any. */
static int
keep_lines(const struct qwen_service *s, yyjson_val *v, struct qwen_text *out)
{
	const char *p = yyjson_get_str(v), *end = p + yyjson_get_len(v), *nl;
	size_t n, n_kept = 0;

	for (;; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		n = (size_t)((nl != NULL ? nl : end) - p);
		if (!s->pass_over(s->pass_over_arg, p, n)) {
			if (n_kept++ > 0)
				qwen_text_add(out, "\n", 1);
			qwen_text_add(out, p, n);
		}
		if (nl == NULL)
			return n_kept > 0;
	}
}

/*
 * Writes a system text, as a part if is_part is set.  Returns 0, and writes
 * nothing, if no line remains.
 */
static int
write_lines(const struct qwen_service *s, struct qwen_text *t,
    yyjson_val *v, int is_part)
{
	struct qwen_text kept = { 0 };
	int any = keep_lines(s, v, &kept);

	if (any)
		qwen_json_put(t, is_part ? ",{'type':'text','text':%pT}" :
		    "%pT", &kept);
	t->failed |= kept.failed;
	qwen_text_fini(&kept);
	return any;
}

/*
 * Writes the content, a string or parts: an image without its bytes; with
 * is_system set, the lines that are not left out.
 */
static void
write_content(const struct qwen_service *s, struct qwen_text *t,
    yyjson_val *content, int is_system)
{
	yyjson_val *part;
	size_t i, n;

	if (yyjson_is_str(content)) {
		if (!is_system)
			qwen_json_value(t, content);
		else if (!write_lines(s, t, content, 0))
			qwen_json_put(t, "''");
		return;
	}
	qwen_text_str(t, "[");
	yyjson_arr_foreach(content, i, n, part) {
		if (qwen_parse_is_image(part))
			qwen_json_put(t, ",{'type':'image'}");
		else if (is_system)
			write_lines(s, t, yyjson_obj_get(part, "text"), 1);
		else
			qwen_json_put(t, ",%p", part);
	}
	qwen_text_str(t, "]");
}

/* Appends a message; a system message without the lines left out. */
static void
write_message(const struct qwen_service *s, struct qwen_text *t, yyjson_val *m)
{
	yyjson_val *role = yyjson_obj_get(m, "role"), *key, *v;
	int is_system = s->pass_over != NULL && (yyjson_equals_str(role,
	    "developer") || yyjson_equals_str(role, "system"));
	size_t i, n;

	qwen_json_put(t, ",{");
	yyjson_obj_foreach(m, i, n, key, v) {
		qwen_json_put(t, ",%p:", key);
		if (yyjson_equals_str(key, "content") && !yyjson_is_null(v))
			write_content(s, t, v, is_system);
		else
			qwen_json_value(t, v);
	}
	qwen_text_str(t, "}");
}

/* Writes the request for the template, without tools that may not be called. */
static int
write_body(struct qwen_parser *r, struct qwen_text *t)
{
	yyjson_val *key, *v, *used, *m;
	size_t i, n, k, max;

	qwen_text_str(t, "{");
	yyjson_obj_foreach(r->body, i, n, key, v) {
		used = yyjson_equals_str(key, "tools") ? r->tools : v;
		if (used == NULL)
			continue;
		qwen_json_put(t, ",%p:", key);
		if (!yyjson_equals_str(key, "messages")) {
			qwen_json_value(t, used);
			continue;
		}
		qwen_text_str(t, "[");
		yyjson_arr_foreach(v, k, max, m)
			write_message(r->s, t, m);
		qwen_text_str(t, "]");
	}
	qwen_text_str(t, "}");
	return t->failed ? qwen_oom(&r->refusal->err) : 0;
}

/*
 * Renders the prompt.  Frees the document first, since a request can be large.
 */
static int
render(struct qwen_parser *r, struct qwen_prompt **p)
{
	struct qwen_text t = { 0 };
	struct qwen_err err;
	int rc = write_body(r, &t);

	yyjson_doc_free(r->doc);
	yyjson_doc_free(r->allowed);
	r->doc = r->allowed = NULL;
	r->body = r->tools = NULL;
	if (rc == 0 && qwen_template_render(r->s->template, t.s, t.n, p,
	    &err) < 0)
		rc = err.code == QWEN_ENOMEM ? qwen_oom(&r->refusal->err) :
		    qwen_invalid(r, "messages", "%s", err.msg);
	qwen_text_fini(&t);
	return rc;
}

/* Notes the images of the messages. */
static int
read_images(struct qwen_parser *r)
{
	struct qwen_image_sources *all = &r->q->images;
	struct qwen_err err;
	size_t i;

	if (!r->s->reads_images)
		return 0;
	if (qwen_parse_images(all, qwen_parse_get(r->body, "messages"), &err) <
	    0)
		return err.code == QWEN_ENOMEM ? qwen_oom(&r->refusal->err) :
		    qwen_invalid(r, "messages", "%s", err.msg);
	for (i = 0; i < all->n; i++) {
		if (all->v[i].kind == QWEN_SOURCE_NONE)
			return qwen_invalid(r, "messages", "image %zu: the "
			    "part has no image", i + 1);
		r->q->n_bytes += all->v[i].n;
	}
	return 0;
}

/* Refuses the request unless the prompt has a place for each image. */
static int
check_places(struct qwen_parser *r, const struct qwen_prompt *p)
{
	size_t n = r->q->images.n, places = n > 0 ? qwen_image_places(p) : 0;

	if (places == n && (n == 0 || r->before.n == 0))
		return 0;
	return places != n ? qwen_invalid(r, "messages", "the chat template "
	    "has %zu places for %zu images here", places, n) : qwen_invalid(r,
	    "context", "context cannot be combined with images: use "
	    "/api/chat");
}

static int
encode(const struct qwen_service *s, const struct qwen_prompt *p,
    struct qwen_ids *ids, struct qwen_err *err)
{
	if (s->encode_prompt != NULL)
		return s->encode_prompt(s->encode_arg, p, ids, err);
	return qwen_prompt_encode(p, s->tok, 0, qwen_prompt_text(p).len,
	    &ids->id, &ids->n, err);
}

/* Encodes the prompt after the ids in r->before, which stay unchanged. */
static int
encode_after(struct qwen_parser *r, const struct qwen_prompt *p,
    struct qwen_ids *ids, struct qwen_err *err)
{
	const struct qwen_ids *b = &r->before;
	struct qwen_ids own = { 0 };

	if (qwen_prompt_encode(p, r->s->tok, 0, qwen_prompt_text(p).len,
	    &own.id, &own.n, err) < 0)
		return -1;
	ids->id = malloc((b->n + own.n + 1) * sizeof *ids->id);
	if (ids->id == NULL) {
		free(own.id);
		return qwen_oom(err);
	}
	memcpy(ids->id, b->id, b->n * sizeof *b->id);
	memcpy(ids->id + b->n, own.id, own.n * sizeof *own.id);
	ids->n = b->n + own.n;
	free(own.id);
	return 0;
}

static int
read_messages(struct qwen_parser *r)
{
	struct qwen_request *q = r->q;
	struct qwen_prompt *p;
	struct qwen_ids *ids;
	struct qwen_err err;
	int rc;

	if (r->s->template == NULL)
		return qwen_wrong(r, "messages", "the model has no chat "
		    "template (%s)", r->s->no_template);
	if (yyjson_doc_get_val_count(r->doc) > QWEN_VALUES_MAX +
	    2 * r->q->n_bias)
		return qwen_invalid(r, "messages", "the request has more than "
		    "%d values", QWEN_VALUES_MAX);
	if (check_shape(r) < 0 || qwen_parse_tools(r) < 0 ||
	    /* a summary calls no tools */
	    (r->tools != NULL && q->form != QWEN_FORM_COMPACT &&
	    qwen_parse_save_tools(r) < 0) || make_room(r, 1) < 0 ||
	    read_images(r) < 0 || render(r, &p) < 0)
		return -1;
	if (r->text != NULL)
		qwen_text_add(r->text, qwen_prompt_text(p).s,
		    qwen_prompt_text(p).len);
	if (check_places(r, p) < 0 || qwen_parse_check_length(r, "messages",
	    qwen_prompt_text(p)) < 0) {
		qwen_prompt_free(p);
		return -1;
	}
	ids = &q->prompt[q->n_prompts++];
	rc = r->before.n > 0 ? encode_after(r, p, ids, &err) :
	    encode(r->s, p, ids, &err);
	q->thinking = qwen_prompt_thinking(p);
	q->continues = qwen_prompt_continues(p);
	if (qwen_prompt_repaired(p))
		qwen_unknown_note(r->s->unknown, "%s", qwen_note_arguments());
	q->thinks = qwen_template_thinks(r->s->template, q->thinking);
	q->n_prompt_tokens = ids->n;
	qwen_prompt_free(p);
	if (rc < 0)
		return qwen_refuse_error(r->refusal, "messages", &err);
	if (!q->thinks && forbid_thinking(r) < 0)
		return -1;
	return ids->n > 0 ? 0 : qwen_invalid(r, "messages", "the prompt has no "
	    "tokens");
}

int
qwen_parse_prompt(struct qwen_parser *r)
{
	yyjson_val *prompt = qwen_parse_get(r->body, "prompt");
	yyjson_val *messages = qwen_parse_get(r->body, "messages");
	yyjson_val *tools = qwen_parse_get(r->body, "tools");
	int chat = qwen_form_is_chat(r->q->form);
	const char *key = chat ? "messages" : "prompt";

	if (r->q->form == QWEN_FORM_INFILL)
		return qwen_parse_infill_ends(r) < 0 ||
		    make_room(r, 1) < 0 ? -1 : qwen_parse_infill_prompt(r);
	if (messages != NULL && qwen_parse_get_text(r->body, "suffix") !=
	    NULL && yyjson_get_len(qwen_parse_get_text(r->body, "suffix")) > 0)
		return qwen_invalid(r, "suffix", "suffix is allowed only with "
		    "prompt, not with messages");
	if (prompt != NULL && messages != NULL)
		return qwen_invalid(r, "messages", "prompt and messages cannot "
		    "be combined");
	if (messages != NULL && r->q->form != QWEN_FORM_COMPLETION)
		return read_messages(r);
	if (prompt == NULL || chat)
		return qwen_invalid(r, key, "%s is missing", key);
	if (yyjson_arr_size(tools) > 0)
		return qwen_wrong(r, "tools", "is allowed only with messages");
	return qwen_parse_suffix(r) < 0 ? -1 : read_prompt(r, prompt);
}
