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

#include "base/near.h"
#include "qwen/sample.h"
#include "text/request/parser.h"

enum { FIELDS_MAX = 1000 };

/*
 * Fields of requests.  COPIED fields have the same name and meaning in all
 * chats.  So have the fields of sampling options (struct qwen_sample_opt),
 * which are not listed here.
 */
static const struct qwen_fields openai_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("add_generation_prompt", "best_of",
	    "continue_final_message", "documents", "echo", "id", "logprobs",
	    "max_completion_tokens", "max_new_tokens", "max_tokens", "messages",
	    "modalities", "n", "n_predict", "num_predict",
	    "parallel_tool_calls", "prompt", "reasoning_effort",
	    "response_format", "return_progress", "stop", "stream_options",
	    "suffix", "tool_choice", "tools", "top_logprobs"),
	[QWEN_FIELD_COPIED] = QWEN_WORDS("chat_template_kwargs",
	    "dynatemp_range", "ebnf", "enable_thinking", "grammar",
	    "guided_choice", "guided_grammar", "guided_json", "guided_regex",
	    "ignore_eos", "include_stop_str_in_output", "json_schema",
	    "logit_bias", "mirostat", "mirostat_tau", "model", "regex",
	    "samplers", "stop_token_ids", "stream", "structured_outputs"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("cache_prompt", "id_slot", "metadata",
	    "prediction", "prompt_cache_key", "prompt_cache_retention",
	    "safety_identifier", "service_tier", "store", "timings_per_token",
	    "user", "verbosity"),
	[QWEN_FIELD_REFUSED] = QWEN_WORDS("allowed_token_ids", "audio",
	    "bad_words", "chat_template", "function_call", "functions",
	    "logits_processors", "prompt_logprobs", "structural_tag",
	    "truncate_prompt_tokens", "use_beam_search", "web_search_options"),
	[QWEN_FIELD_ABOVE] = QWEN_WORDS("min_keep", "1"),
	[QWEN_FIELD_ALIAS] = QWEN_WORDS("input", "messages", "max_length",
	    "max_tokens", "max_output_tokens", "max_tokens", "stop_sequences",
	    "stop"),
} };

static const struct qwen_fields envelope_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("body", "custom_id", "method", "url"),
} };

/* Fields of lines and bodies that are no chats or completions. */
static const struct qwen_fields body_fields[] = {
	[QWEN_BODY_SCORE] = { {
		[QWEN_FIELD_USED] = QWEN_WORDS("context", "continuation", "id",
		    "text", "tokens"),
	} },
	[QWEN_BODY_VECTOR] = { {
		[QWEN_FIELD_USED] = QWEN_WORDS("id", "instruct", "text",
		    "tokens"),
		[QWEN_FIELD_ALIAS] = QWEN_WORDS("input", "text"),
	} },
	[QWEN_BODY_RANK] = { {
		[QWEN_FIELD_USED] = QWEN_WORDS("document", "documents", "id",
		    "query"),
	} },
	[QWEN_BODY_EMBEDDINGS] = { {
		[QWEN_FIELD_USED] = QWEN_WORDS("dimensions", "encoding_format",
		    "input", "instruct", "model", "truncate",
		    "truncate_prompt_tokens"),
		[QWEN_FIELD_IGNORED] = QWEN_WORDS("user"),
		[QWEN_FIELD_ALIAS] = QWEN_WORDS("text", "input"),
	} },
	[QWEN_BODY_RERANK] = { {
		[QWEN_FIELD_USED] = QWEN_WORDS("documents", "model", "query",
		    "return_documents", "top_n", "truncate",
		    "truncate_prompt_tokens"),
		[QWEN_FIELD_IGNORED] = QWEN_WORDS("user"),
		[QWEN_FIELD_REFUSED] = QWEN_WORDS("max_chunks_per_doc",
		    "max_tokens_per_doc"),
		[QWEN_FIELD_ALIAS] = QWEN_WORDS("texts", "documents"),
	} },
	[QWEN_BODY_OLLAMA_EMBED] = { {
		[QWEN_FIELD_USED] = QWEN_WORDS("dimensions", "input", "model",
		    "prompt", "truncate"),
		[QWEN_FIELD_IGNORED] = QWEN_WORDS("keep_alive", "options"),
	} },
};

/* A check of the fields of an object. */
struct field_check {
	const struct qwen_fields *table;
	const struct qwen_fields *chats;	/* fields of all chats, or
						   NULL */
	const struct qwen_service *s;	/* gives more known fields, of sampling
					   options and the template; or NULL */
	struct qwen_unknown	*unknown;	/* where to note unknown fields,
						   or NULL */
	struct qwen_refusal	*refusal;
};

/*
 * Returns the use of a field; *row is its name in the table, followed by the
 * second word of the row.
 */
static enum qwen_field_use
find_field(const struct qwen_fields *t, yyjson_val *key,
    const char *const **row)
{
	enum qwen_field_use use;

	for (use = 0; use < QWEN_FIELD_USES; use++) {
		*row = t->words[use];
		while (*row != NULL && **row != NULL) {
			if (yyjson_equals_str(key, **row))
				return use;
			*row += use == QWEN_FIELD_ABOVE ||
			    use == QWEN_FIELD_ALIAS ? 2 : 1;
		}
	}
	return QWEN_FIELD_UNKNOWN;
}

/* The same; unless the table has it, among the fields of all chats. */
static enum qwen_field_use
find_anywhere(const struct field_check *l, yyjson_val *key,
    const char *const **row)
{
	enum qwen_field_use use = find_field(l->table, key, row);

	if (use != QWEN_FIELD_UNKNOWN || l->chats == NULL)
		return use;
	use = find_field(l->chats, key, row);
	return use == QWEN_FIELD_COPIED || use == QWEN_FIELD_REFUSED ||
	    use == QWEN_FIELD_ABOVE ? use : QWEN_FIELD_UNKNOWN;
}

/* Returns the names of the fields of sampling option i, up to NULL, or NULL. */
static const char *const *
sampling_fields(const struct qwen_service *s, size_t i)
{
	const struct qwen_sample_opt *o = s != NULL && s->sample_opt != NULL ?
	    s->sample_opt(i) : NULL;

	return o != NULL ? o->fields : NULL;
}

/* Returns 1 for a field of a sampling option. */
static int
is_sampling(const struct qwen_service *s, yyjson_val *key)
{
	const char *const *field;
	size_t i;

	for (i = 0; (field = sampling_fields(s, i)) != NULL; i++) {
		for (; *field != NULL; field++) {
			if (yyjson_equals_str(key, *field))
				return 1;
		}
	}
	return 0;
}

/*
 * Returns the name that is more similar to name, of two such ones the first by
 * strcmp(); *least is its distance.
 */
static const char *
nearer(const char *best, const char *other, const char *name, int *least)
{
	int d = qwen_near(name, strlen(name), other);

	/* a short name is near to every other name */
	if (d > *least || d >= (int)strlen(other) || (d == *least &&
	    (best == NULL || strcmp(best, other) < 0)))
		return best;
	*least = d;
	return other;
}

/* Returns the most similar name of a use, or best. */
static const char *
nearest_in(const struct qwen_fields *t, enum qwen_field_use use,
    const char *best, const char *name, int *least)
{
	const char *const *w;

	for (w = t->words[use]; w != NULL && *w != NULL; w++)
		best = nearer(best, *w, name, least);
	return best;
}

/* Returns the most similar name of a field that requests may have, or NULL. */
static const char *
nearest(const struct field_check *l, const char *name)
{
	int least = qwen_near_enough(strlen(name));
	enum qwen_field_use use;
	const char *best = NULL, *const *field;
	size_t i;

	for (use = QWEN_FIELD_USED; use <= QWEN_FIELD_IGNORED; use++)
		best = nearest_in(l->table, use, best, name, &least);
	if (l->chats != NULL)
		best = nearest_in(l->chats, QWEN_FIELD_COPIED, best, name,
		    &least);
	for (i = 0; (field = sampling_fields(l->s, i)) != NULL; i++) {
		for (; *field != NULL; field++)
			best = nearer(best, *field, name, &least);
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
		return qwen_invalid(l, NULL, "unknown field %.40s%s%s%s", name,
		    near != NULL ? " (did you mean " : "", near != NULL ? near :
		    "", near != NULL ? "?)" : "");
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

/* Returns 1 if a value of a field that is not supported asks for nothing. */
static int
is_nothing(enum qwen_field_use use, const char *const *row, yyjson_val *v)
{
	return (use == QWEN_FIELD_ABOVE && yyjson_is_raw(v) &&
	    strtod(yyjson_get_raw(v), NULL) <= strtod(row[1], NULL)) ||
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
check_field(const struct field_check *l, yyjson_val *key, yyjson_val *v)
{
	const char *name = yyjson_get_str(key);
	const char *const *row;
	enum qwen_field_use use = find_anywhere(l, key, &row);

	if (use == QWEN_FIELD_ALIAS || (use == QWEN_FIELD_UNKNOWN &&
	    !is_sampling(l->s, key)))
		return template_has(l->s, name) ? 0 : is_unknown(l, name, use ==
		    QWEN_FIELD_ALIAS ? row[1] : nearest(l, name));
	return (use == QWEN_FIELD_REFUSED || use == QWEN_FIELD_ABOVE) &&
	    !is_nothing(use, row, v) ? qwen_invalid(l, *row, "%s is not "
	    "supported", name) : 0;
}

static int
check(const struct field_check *l, yyjson_val *object)
{
	yyjson_val *key, *v;
	size_t i, n;

	if (yyjson_obj_size(object) > FIELDS_MAX)
		return qwen_invalid(l, NULL, "more than %d fields", FIELDS_MAX);
	yyjson_obj_foreach(object, i, n, key, v) {
		if (check_field(l, key, v) < 0)
			return -1;
	}
	return 0;
}

int
qwen_parse_check_object(struct qwen_parser *r, const struct qwen_fields *table,
    yyjson_val *object)
{
	const struct field_check l = { table != NULL ? table : &openai_fields,
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
	const char *const *row;
	enum qwen_field_use use = find_field(table, key, &row);

	if (use == QWEN_FIELD_UNKNOWN)
		use = find_field(&openai_fields, key, &row);
	return use == QWEN_FIELD_UNKNOWN ? is_sampling(r->s, key) ||
	    template_has(r->s, yyjson_get_str(key)) : use == QWEN_FIELD_COPIED;
}

void
qwen_parse_copy_known(struct qwen_parser *r, const struct qwen_fields *table)
{
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(r->body, i, n, key, v) {
		if (qwen_parse_is_copied(r, table, key))
			qwen_json_put(&r->out, ",%p:%p", key, v);
	}
}

int
qwen_parse_check_envelope(struct qwen_parser *r, yyjson_val *root)
{
	const struct field_check l = { &envelope_fields, NULL, NULL,
	    r->s->unknown, r->refusal };

	return check(&l, root);
}

int
qwen_parse_skip(struct qwen_parser *r, const char *key, const char *what)
{
	struct qwen_unknown *u = r->s->unknown;

	if (u != NULL && u->strict)
		return qwen_invalid(r, key, "%s: not supported", what);
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
	const struct field_check l = { &body_fields[kind], NULL, NULL, u,
	    refusal };

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
