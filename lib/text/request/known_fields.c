/* SPDX-License-Identifier: ISC */
/*
 * known_fields.c - the fields that requests may have: used, ignored because
 * they change nothing here, or refused because they would.  Unknown fields are
 * noted, since they may be misspelt.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/near.h"
#include "qwen/sample.h"
#include "text/request/parser.h"

enum { FIELDS_MAX = 1000 };

#define USED QWEN_FIELD_USED
#define IGNORED QWEN_FIELD_IGNORED
#define REFUSED QWEN_FIELD_REFUSED
#define ALIAS QWEN_FIELD_ALIAS
#define COPIED QWEN_FIELD_COPIED

/*
 * Fields of requests.  COPIED fields have the same name and meaning in all
 * chats.  So have the fields of sampling options (struct qwen_sample_opt),
 * which are not listed here.
 */

static const struct qwen_field chat_fields[] = {
	{ "add_generation_prompt", USED, NULL },
	{ "allowed_token_ids", REFUSED, NULL },
	{ "audio", REFUSED, NULL },
	{ "bad_words", REFUSED, NULL },
	{ "best_of", USED, NULL },
	{ "cache_prompt", IGNORED, NULL },
	{ "chat_template", REFUSED, NULL },
	{ "chat_template_kwargs", COPIED, NULL },
	{ "continue_final_message", USED, NULL },
	{ "documents", USED, NULL },
	{ "dry_sequence_breakers", COPIED, NULL },
	{ "dynatemp_range", COPIED, NULL },
	{ "ebnf", COPIED, NULL },
	{ "echo", USED, NULL },
	{ "enable_thinking", COPIED, NULL },
	{ "function_call", REFUSED, NULL },
	{ "functions", REFUSED, NULL },
	{ "grammar", COPIED, NULL },
	{ "guided_choice", COPIED, NULL },
	{ "guided_grammar", COPIED, NULL },
	{ "guided_json", COPIED, NULL },
	{ "guided_regex", COPIED, NULL },
	{ "id", USED, NULL },
	{ "id_slot", IGNORED, NULL },
	{ "ignore_eos", COPIED, NULL },
	{ "include_stop_str_in_output", COPIED, NULL },
	{ "input", ALIAS, "messages" },
	{ "json_schema", COPIED, NULL },
	{ "logit_bias", COPIED, NULL },
	{ "logits_processors", REFUSED, NULL },
	{ "logprobs", USED, NULL },
	{ "max_completion_tokens", USED, NULL },
	{ "max_length", ALIAS, "max_tokens" },
	{ "max_new_tokens", USED, NULL },
	{ "max_output_tokens", ALIAS, "max_tokens" },
	{ "max_tokens", USED, NULL },
	{ "messages", USED, NULL },
	{ "metadata", IGNORED, NULL },
	{ "min_keep", REFUSED, "1" },
	{ "mirostat", COPIED, NULL },
	{ "mirostat_eta", COPIED, NULL },
	{ "mirostat_tau", COPIED, NULL },
	{ "modalities", USED, NULL },
	{ "model", COPIED, NULL },
	{ "n", USED, NULL },
	{ "n_predict", USED, NULL },
	{ "num_predict", USED, NULL },
	{ "parallel_tool_calls", USED, NULL },
	{ "prediction", IGNORED, NULL },
	{ "prompt", USED, NULL },
	{ "prompt_cache_key", IGNORED, NULL },
	{ "prompt_cache_retention", IGNORED, NULL },
	{ "prompt_logprobs", REFUSED, NULL },
	{ "reasoning_effort", USED, NULL },
	{ "regex", COPIED, NULL },
	{ "response_format", USED, NULL },
	{ "return_progress", USED, NULL },
	{ "safety_identifier", IGNORED, NULL },
	{ "samplers", COPIED, NULL },
	{ "service_tier", IGNORED, NULL },
	{ "stop", USED, NULL },
	{ "stop_sequences", ALIAS, "stop" },
	{ "stop_token_ids", COPIED, NULL },
	{ "store", IGNORED, NULL },
	{ "stream", COPIED, NULL },
	{ "stream_options", USED, NULL },
	{ "structural_tag", REFUSED, NULL },
	{ "structured_outputs", COPIED, NULL },
	{ "suffix", USED, NULL },
	{ "timings_per_token", IGNORED, NULL },
	{ "tool_choice", USED, NULL },
	{ "tools", USED, NULL },
	{ "top_logprobs", USED, NULL },
	{ "truncate_prompt_tokens", REFUSED, NULL },
	{ "use_beam_search", REFUSED, NULL },
	{ "user", IGNORED, NULL },
	{ "verbosity", IGNORED, NULL },
	{ "web_search_options", REFUSED, NULL },
}, envelope[] = {
	{ "body", USED, NULL },
	{ "custom_id", USED, NULL },
	{ "method", USED, NULL },
	{ "url", USED, NULL },
}, score[] = {
	{ "context", USED, NULL },
	{ "continuation", USED, NULL },
	{ "id", USED, NULL },
	{ "text", USED, NULL },
	{ "tokens", USED, NULL },
}, vector[] = {
	{ "id", USED, NULL },
	{ "input", ALIAS, "text" },
	{ "instruct", USED, NULL },
	{ "text", USED, NULL },
	{ "tokens", USED, NULL },
}, ranking[] = {
	{ "document", USED, NULL },
	{ "documents", USED, NULL },
	{ "id", USED, NULL },
	{ "query", USED, NULL },
}, embeddings[] = {
	{ "dimensions", USED, NULL },
	{ "encoding_format", USED, NULL },
	{ "input", USED, NULL },
	{ "instruct", USED, NULL },
	{ "model", USED, NULL },
	{ "text", ALIAS, "input" },
	{ "truncate", USED, NULL },
	{ "truncate_prompt_tokens", USED, NULL },
	{ "user", IGNORED, NULL },
}, ollama_embed[] = {
	{ "dimensions", USED, NULL },
	{ "input", USED, NULL },
	{ "keep_alive", IGNORED, NULL },
	{ "model", USED, NULL },
	{ "options", IGNORED, NULL },
	{ "prompt", USED, NULL },
	{ "truncate", USED, NULL },
}, rerank[] = {
	{ "documents", USED, NULL },
	{ "max_chunks_per_doc", REFUSED, NULL },
	{ "max_tokens_per_doc", REFUSED, NULL },
	{ "model", USED, NULL },
	{ "query", USED, NULL },
	{ "return_documents", USED, NULL },
	{ "texts", ALIAS, "documents" },
	{ "top_n", USED, NULL },
	{ "truncate", USED, NULL },
	{ "truncate_prompt_tokens", USED, NULL },
	{ "user", IGNORED, NULL },
};

#define TABLE(rows) { rows, sizeof rows / sizeof rows[0] }

/* A check of the fields of an object. */
struct field_check {
	struct qwen_fields	 table;
	const struct qwen_fields *chats;	/* fields of all chats, or
						   NULL */
	const struct qwen_service *s;	/* gives more known fields, of sampling
					   options and the template; or NULL */
	struct qwen_unknown	*unknown;	/* where to note unknown fields,
						   or NULL */
	struct qwen_refusal	*refusal;
};

static int
by_name(const void *key, const void *row)
{
	return strcmp(key, ((const struct qwen_field *)row)->name);
}

/* Returns the row of a name, or NULL. */
static const struct qwen_field *
find_field(const struct qwen_fields *t, yyjson_val *key)
{
	const char *name = yyjson_get_str(key);

	return strlen(name) != yyjson_get_len(key) ? NULL :
	    bsearch(name, t->row, t->n, sizeof *t->row, by_name);
}

/* The same among the fields that chats of every form have. */
static const struct qwen_field *
find_common(const struct qwen_fields *t, yyjson_val *key)
{
	const struct qwen_field *m = find_field(t, key);

	return m != NULL && (m->use == COPIED || m->use == REFUSED) ? m :
	    NULL;
}

/* Returns field k of sampling option i, or NULL; *more: option i exists. */
static const char *
sampling_field(const struct qwen_service *s, size_t i, size_t k, int *more)
{
	const struct qwen_sample_opt *o = s != NULL && s->sample_opt != NULL ?
	    s->sample_opt(i) : NULL;

	*more = o != NULL;
	return o != NULL ? o->fields[k] : NULL;
}

/* Returns 1 for a field of a sampling option. */
static int
is_sampling(const struct qwen_service *s, yyjson_val *key)
{
	const char *field;
	size_t i, k;
	int more = 1;

	for (i = 0; more; i++) {
		for (k = 0; (field = sampling_field(s, i, k, &more)) != NULL;
		    k++) {
			if (yyjson_equals_str(key, field))
				return 1;
		}
	}
	return 0;
}

/* Returns the name that is more similar to name; *least is its distance. */
static const char *
nearer(const char *best, const char *other, const char *name, int *least)
{
	int d = qwen_near(name, strlen(name), other);

	/* a short name is near to every other name */
	if (d >= *least || d >= (int)strlen(other))
		return best;
	*least = d;
	return other;
}

/* Returns the most similar known name, or NULL; passed: only COPIED fields. */
static const char *
nearest_in(const struct qwen_fields *t, const char *name, int passed,
    int *least)
{
	const char *best = NULL;
	size_t i;

	for (i = 0; t != NULL && i < t->n; i++) {
		if (t->row[i].use == REFUSED || t->row[i].use == ALIAS ||
		    (passed && t->row[i].use != COPIED))
			continue;
		best = nearer(best, t->row[i].name, name, least);
	}
	return best;
}

static const char *
nearest(const struct field_check *l, const char *name)
{
	int least = qwen_near_enough(strlen(name));
	const char *own = nearest_in(&l->table, name, 0, &least);
	const char *common = nearest_in(l->chats, name, 1, &least);
	const char *best = common != NULL ? common : own, *field;
	size_t i, k;
	int more = 1;

	for (i = 0; more; i++) {
		for (k = 0; (field = sampling_field(l->s, i, k, &more)) != NULL;
		    k++)
			best = nearer(best, field, name, &least);
	}
	return best;
}

/* Notes an unknown field, once; or refuses it. */
static int
is_unknown(const struct field_check *l, const char *name, const char *near)
{
	struct qwen_unknown *u = l->unknown;
	size_t i;

	if (u == NULL)
		return 0;
	if (u->strict)
		return qwen_refuse_invalid(l->refusal, NULL, "unknown field "
		    "%.40s%s%s%s", name, near != NULL ? " (did you mean " : "",
		    near != NULL ? near : "", near != NULL ? "?)" : "");
	for (i = 0; i < u->n; i++) {
		if (strncmp(u->field[i].name, name,
		    sizeof u->field[i].name - 1) == 0)
			return 0;
	}
	if (u->n == QWEN_UNKNOWN_MAX) {
		u->more = 1;
		return 0;
	}
	snprintf(u->field[u->n].name, sizeof u->field[0].name, "%s", name);
	u->field[u->n++].nearest = near;
	return 0;
}

/* Returns 1 if a value of an unsupported field asks for nothing. */
static int
is_nothing(const struct qwen_field *m, yyjson_val *v)
{
	return (m->hint != NULL && yyjson_is_raw(v) &&
	    strtod(yyjson_get_raw(v), NULL) <= strtod(m->hint, NULL)) ||
	    yyjson_is_null(v) || yyjson_is_false(v) ||
	    (yyjson_is_ctn(v) && unsafe_yyjson_get_len(v) == 0) ||
	    (yyjson_is_str(v) && yyjson_get_len(v) == 0);
}

static int
template_has(const struct qwen_service *s, const char *name)
{
	return s != NULL && s->template != NULL &&
	    qwen_template_names(s->template, name);
}

static int
check(const struct field_check *l, yyjson_val *object)
{
	const struct qwen_field *m;
	yyjson_val *key, *v;
	const char *name;
	size_t i, n;

	if (yyjson_obj_size(object) > FIELDS_MAX)
		return qwen_refuse_invalid(l->refusal, NULL, "more than %d "
		    "fields", FIELDS_MAX);
	yyjson_obj_foreach(object, i, n, key, v) {
		name = yyjson_get_str(key);
		if ((m = find_field(&l->table, key)) == NULL &&
		    l->chats != NULL)
			m = find_common(l->chats, key);
		if (m == NULL && is_sampling(l->s, key))
			continue;
		if (m == NULL || m->use == ALIAS) {
			if (!template_has(l->s, name) && is_unknown(l, name,
			    m != NULL ? m->hint : nearest(l, name)) < 0)
				return -1;
			continue;
		}
		if (m->use == REFUSED && !is_nothing(m, v))
			return qwen_refuse_invalid(l->refusal, m->name, "%s is "
			    "not supported", name);
	}
	return 0;
}

static const struct qwen_fields openai_fields = TABLE(chat_fields);

int
qwen_parse_check_object(struct qwen_parser *r, const struct qwen_fields *table,
    yyjson_val *object)
{
	const struct field_check l = { table != NULL ? *table : openai_fields,
	    table != NULL ? &openai_fields : NULL, r->s, r->s->unknown,
	    r->refusal };

	return check(&l, object);
}

int
qwen_parse_check_fields(struct qwen_parser *r, const struct qwen_fields *table)
{
	return qwen_parse_check_object(r, table, r->body);
}

int
qwen_parse_is_copied(const struct qwen_parser *r,
    const struct qwen_fields *table, yyjson_val *key)
{
	const struct qwen_field *m = find_field(table, key);

	if (m == NULL)
		m = find_field(&openai_fields, key);
	return m != NULL ? m->use == COPIED : is_sampling(r->s, key) ||
	    template_has(r->s, yyjson_get_str(key));
}

int
qwen_parse_check_envelope(struct qwen_parser *r, yyjson_val *root)
{
	const struct field_check l = { TABLE(envelope), NULL, NULL,
	    r->s->unknown, r->refusal };

	return check(&l, root);
}

int
qwen_parse_skip(struct qwen_parser *r, const char *key, const char *what)
{
	struct qwen_unknown *u = r->s->unknown;

	if (u != NULL && u->strict)
		return qwen_refuse_invalid(r->refusal, key, "%s: not supported",
		    what);
	qwen_unknown_note(u, "left out of requests: %s", what);
	return 0;
}

int
qwen_parse_skip_type(struct qwen_parser *r, const char *key, const char *what,
    yyjson_val *type)
{
	char text[80];

	snprintf(text, sizeof text, "%s of type %.40s", what,
	    yyjson_is_str(type) ? yyjson_get_str(type) : "?");
	return qwen_parse_skip(r, key, text);
}

int
qwen_parse_check_body(struct qwen_refusal *refusal, enum qwen_body_kind kind,
    struct qwen_unknown *u, yyjson_val *root)
{
	static const struct qwen_fields tables[] = {
		[QWEN_BODY_SCORE] = TABLE(score),
		[QWEN_BODY_VECTOR] = TABLE(vector),
		[QWEN_BODY_RANK] = TABLE(ranking),
		[QWEN_BODY_EMBEDDINGS] = TABLE(embeddings),
		[QWEN_BODY_RERANK] = TABLE(rerank),
		[QWEN_BODY_OLLAMA_EMBED] = TABLE(ollama_embed),
	};
	const struct field_check l = { tables[kind], NULL, NULL, u, refusal };

	return check(&l, root);
}

void
qwen_unknown_note(struct qwen_unknown *u, const char *fmt, ...)
{
	char *to;
	va_list ap;
	size_t i;

	if (u == NULL || u->n_notes == QWEN_NOTES_MAX)
		return;
	to = u->note[u->n_notes];
	va_start(ap, fmt);
	vsnprintf(to, sizeof u->note[0], fmt, ap);
	va_end(ap);
	for (i = 0; i < u->n_notes && strcmp(u->note[i], to) != 0; i++)
		;
	u->n_notes += i == u->n_notes;
}

void
qwen_unknown_list(const struct qwen_unknown *u, struct qwen_text *t)
{
	size_t i;

	for (i = 0; i < u->n; i++) {
		qwen_text_fmt(t, "%s%s", i > 0 ? ", " : "", u->field[i].name);
		if (u->field[i].nearest != NULL)
			qwen_text_fmt(t, " (did you mean %s?)",
			    u->field[i].nearest);
	}
	if (u->more)
		qwen_text_str(t, " and others");
}

const char *
qwen_note_arguments(void)
{
	return "arguments of an earlier call were no JSON object: of those "
	    "that were cut, the readable part counts";
}

const char *
qwen_note_surrogates(void)
{
	return "half of a surrogate pair in a request was replaced by U+FFFD";
}
