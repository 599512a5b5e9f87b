/* SPDX-License-Identifier: ISC */
/*
 * members.c - the fields that requests may have: used, ignored because they
 * change nothing here, or refused because they would.  Unknown fields are
 * noted, since they may be misspelt.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/near.h"
#include "qwen/sample.h"
#include "text/request/ask.h"

enum { MEMBERS_MAX = 1000 };

#define HEEDED QWEN_MEMBER_HEEDED
#define IDLE QWEN_MEMBER_IDLE
#define REFUSED QWEN_MEMBER_REFUSED
#define FOREIGN QWEN_MEMBER_FOREIGN
#define PASSED QWEN_MEMBER_PASSED

/*
 * Fields of requests.  PASSED fields have the same name and meaning in all
 * chats.  So have the fields of sampling options (struct qwen_sample_opt),
 * which are not listed here.
 */

static const struct qwen_member members[] = {
	{ "add_generation_prompt", HEEDED, NULL },
	{ "allowed_token_ids", REFUSED, NULL },
	{ "audio", REFUSED, NULL },
	{ "bad_words", REFUSED, NULL },
	{ "best_of", HEEDED, NULL },
	{ "cache_prompt", IDLE, NULL },
	{ "chat_template", REFUSED, NULL },
	{ "chat_template_kwargs", PASSED, NULL },
	{ "continue_final_message", HEEDED, NULL },
	{ "documents", HEEDED, NULL },
	{ "dry_sequence_breakers", PASSED, NULL },
	{ "dynatemp_range", PASSED, NULL },
	{ "ebnf", PASSED, NULL },
	{ "echo", HEEDED, NULL },
	{ "enable_thinking", PASSED, NULL },
	{ "function_call", REFUSED, NULL },
	{ "functions", REFUSED, NULL },
	{ "grammar", PASSED, NULL },
	{ "guided_choice", PASSED, NULL },
	{ "guided_grammar", PASSED, NULL },
	{ "guided_json", PASSED, NULL },
	{ "guided_regex", PASSED, NULL },
	{ "id", HEEDED, NULL },
	{ "id_slot", IDLE, NULL },
	{ "ignore_eos", PASSED, NULL },
	{ "include_stop_str_in_output", PASSED, NULL },
	{ "input", FOREIGN, "messages" },
	{ "json_schema", PASSED, NULL },
	{ "logit_bias", PASSED, NULL },
	{ "logits_processors", REFUSED, NULL },
	{ "logprobs", HEEDED, NULL },
	{ "max_completion_tokens", HEEDED, NULL },
	{ "max_length", FOREIGN, "max_tokens" },
	{ "max_new_tokens", HEEDED, NULL },
	{ "max_output_tokens", FOREIGN, "max_tokens" },
	{ "max_tokens", HEEDED, NULL },
	{ "messages", HEEDED, NULL },
	{ "metadata", IDLE, NULL },
	{ "min_keep", REFUSED, "1" },
	{ "mirostat", PASSED, NULL },
	{ "mirostat_eta", PASSED, NULL },
	{ "mirostat_tau", PASSED, NULL },
	{ "modalities", HEEDED, NULL },
	{ "model", PASSED, NULL },
	{ "n", HEEDED, NULL },
	{ "n_predict", HEEDED, NULL },
	{ "num_predict", HEEDED, NULL },
	{ "parallel_tool_calls", HEEDED, NULL },
	{ "prediction", IDLE, NULL },
	{ "prompt", HEEDED, NULL },
	{ "prompt_cache_key", IDLE, NULL },
	{ "prompt_cache_retention", IDLE, NULL },
	{ "prompt_logprobs", REFUSED, NULL },
	{ "reasoning_effort", HEEDED, NULL },
	{ "regex", PASSED, NULL },
	{ "response_format", HEEDED, NULL },
	{ "return_progress", HEEDED, NULL },
	{ "safety_identifier", IDLE, NULL },
	{ "samplers", PASSED, NULL },
	{ "service_tier", IDLE, NULL },
	{ "stop", HEEDED, NULL },
	{ "stop_sequences", FOREIGN, "stop" },
	{ "stop_token_ids", PASSED, NULL },
	{ "store", IDLE, NULL },
	{ "stream", PASSED, NULL },
	{ "stream_options", HEEDED, NULL },
	{ "structural_tag", REFUSED, NULL },
	{ "structured_outputs", PASSED, NULL },
	{ "suffix", HEEDED, NULL },
	{ "timings_per_token", IDLE, NULL },
	{ "tool_choice", HEEDED, NULL },
	{ "tools", HEEDED, NULL },
	{ "top_logprobs", HEEDED, NULL },
	{ "truncate_prompt_tokens", REFUSED, NULL },
	{ "use_beam_search", REFUSED, NULL },
	{ "user", IDLE, NULL },
	{ "verbosity", IDLE, NULL },
	{ "web_search_options", REFUSED, NULL },
}, envelope[] = {
	{ "body", HEEDED, NULL },
	{ "custom_id", HEEDED, NULL },
	{ "method", HEEDED, NULL },
	{ "url", HEEDED, NULL },
}, score[] = {
	{ "context", HEEDED, NULL },
	{ "continuation", HEEDED, NULL },
	{ "id", HEEDED, NULL },
	{ "text", HEEDED, NULL },
	{ "tokens", HEEDED, NULL },
}, vector[] = {
	{ "id", HEEDED, NULL },
	{ "input", FOREIGN, "text" },
	{ "instruct", HEEDED, NULL },
	{ "text", HEEDED, NULL },
	{ "tokens", HEEDED, NULL },
}, ranking[] = {
	{ "document", HEEDED, NULL },
	{ "documents", HEEDED, NULL },
	{ "id", HEEDED, NULL },
	{ "query", HEEDED, NULL },
}, embeddings[] = {
	{ "dimensions", HEEDED, NULL },
	{ "encoding_format", HEEDED, NULL },
	{ "input", HEEDED, NULL },
	{ "instruct", HEEDED, NULL },
	{ "model", HEEDED, NULL },
	{ "text", FOREIGN, "input" },
	{ "truncate", HEEDED, NULL },
	{ "truncate_prompt_tokens", HEEDED, NULL },
	{ "user", IDLE, NULL },
}, ollama_embed[] = {
	{ "dimensions", HEEDED, NULL },
	{ "input", HEEDED, NULL },
	{ "keep_alive", IDLE, NULL },
	{ "model", HEEDED, NULL },
	{ "options", IDLE, NULL },
	{ "prompt", HEEDED, NULL },
	{ "truncate", HEEDED, NULL },
}, rerank[] = {
	{ "documents", HEEDED, NULL },
	{ "max_chunks_per_doc", REFUSED, NULL },
	{ "max_tokens_per_doc", REFUSED, NULL },
	{ "model", HEEDED, NULL },
	{ "query", HEEDED, NULL },
	{ "return_documents", HEEDED, NULL },
	{ "texts", FOREIGN, "documents" },
	{ "top_n", HEEDED, NULL },
	{ "truncate", HEEDED, NULL },
	{ "truncate_prompt_tokens", HEEDED, NULL },
	{ "user", IDLE, NULL },
};

#define TABLE(rows) { rows, sizeof rows / sizeof rows[0] }

/* A check of the fields of an object. */
struct look {
	struct qwen_members	 table;
	const struct qwen_members *chats;	/* fields of all chats, or
						   NULL */
	const struct qwen_service *s;	/* gives more known fields, of sampling
					   options and the template; or NULL */
	struct qwen_unknown	*unknown;	/* where to note unknown fields,
						   or NULL */
	struct qwen_refusal	*no;
};

static int
by_name(const void *key, const void *row)
{
	return strcmp(key, ((const struct qwen_member *)row)->name);
}

/* Returns the row of a name, or NULL. */
static const struct qwen_member *
find_member(const struct qwen_members *t, yyjson_val *key)
{
	const char *name = yyjson_get_str(key);

	return strlen(name) != yyjson_get_len(key) ? NULL :
	    bsearch(name, t->row, t->n, sizeof *t->row, by_name);
}

/* The same among the fields that chats of every form have. */
static const struct qwen_member *
find_common(const struct qwen_members *t, yyjson_val *key)
{
	const struct qwen_member *m = find_member(t, key);

	return m != NULL && (m->kind == PASSED || m->kind == REFUSED) ? m :
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

/* Returns the most similar known name, or NULL; passed: only PASSED fields. */
static const char *
nearest_in(const struct qwen_members *t, const char *name, int passed,
    int *least)
{
	const char *best = NULL;
	size_t i;

	for (i = 0; t != NULL && i < t->n; i++) {
		if (t->row[i].kind == REFUSED || t->row[i].kind == FOREIGN ||
		    (passed && t->row[i].kind != PASSED))
			continue;
		best = nearer(best, t->row[i].name, name, least);
	}
	return best;
}

static const char *
nearest(const struct look *l, const char *name)
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
is_unknown(const struct look *l, const char *name, const char *near)
{
	struct qwen_unknown *u = l->unknown;
	size_t i;

	if (u == NULL)
		return 0;
	if (u->strict)
		return bad(l->no, NULL, "unknown field %.40s%s%s%s",
		    name, near != NULL ? " (did you mean " : "",
		    near != NULL ? near : "", near != NULL ? "?)" : "");
	for (i = 0; i < u->n; i++) {
		if (strncmp(u->member[i].name, name,
		    sizeof u->member[i].name - 1) == 0)
			return 0;
	}
	if (u->n == QWEN_UNKNOWN_MAX) {
		u->more = 1;
		return 0;
	}
	snprintf(u->member[u->n].name, sizeof u->member[0].name, "%s", name);
	u->member[u->n++].nearest = near;
	return 0;
}

/* Returns 1 if a value of an unsupported field asks for nothing. */
static int
is_nothing(const struct qwen_member *m, yyjson_val *v)
{
	return (m->ours != NULL && yyjson_is_raw(v) &&
	    strtod(yyjson_get_raw(v), NULL) <= strtod(m->ours, NULL)) ||
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
check(const struct look *l, yyjson_val *object)
{
	const struct qwen_member *m;
	yyjson_val *key, *v;
	const char *name;
	size_t i, n;

	if (yyjson_obj_size(object) > MEMBERS_MAX)
		return bad(l->no, NULL, "more than %d fields", MEMBERS_MAX);
	yyjson_obj_foreach(object, i, n, key, v) {
		name = yyjson_get_str(key);
		if ((m = find_member(&l->table, key)) == NULL &&
		    l->chats != NULL)
			m = find_common(l->chats, key);
		if (m == NULL && is_sampling(l->s, key))
			continue;
		if (m == NULL || m->kind == FOREIGN) {
			if (!template_has(l->s, name) && is_unknown(l, name,
			    m != NULL ? m->ours : nearest(l, name)) < 0)
				return -1;
			continue;
		}
		if (m->kind == REFUSED && !is_nothing(m, v))
			return bad(l->no, m->name, "%s is not supported",
			    name);
	}
	return 0;
}

static const struct qwen_members ours = TABLE(members);

int
qwen_ask_members_of(struct qwen_ask *r, const struct qwen_members *table,
    yyjson_val *object)
{
	const struct look l = { table != NULL ? *table : ours, table != NULL ?
	    &ours : NULL, r->s, r->s->unknown, r->no };

	return check(&l, object);
}

int
qwen_ask_members(struct qwen_ask *r, const struct qwen_members *table)
{
	return qwen_ask_members_of(r, table, r->body);
}

int
qwen_ask_passes(const struct qwen_ask *r, const struct qwen_members *table,
    yyjson_val *key)
{
	const struct qwen_member *m = find_member(table, key);

	if (m == NULL)
		m = find_member(&ours, key);
	return m != NULL ? m->kind == PASSED : is_sampling(r->s, key) ||
	    template_has(r->s, yyjson_get_str(key));
}

int
qwen_ask_envelope(struct qwen_ask *r, yyjson_val *root)
{
	const struct look l = { TABLE(envelope), NULL, NULL,
	    r->s->unknown, r->no };

	return check(&l, root);
}

int
qwen_ask_leave_out(struct qwen_ask *r, const char *key, const char *what)
{
	struct qwen_unknown *u = r->s->unknown;

	if (u != NULL && u->strict)
		return bad(r->no, key, "%s: not supported", what);
	qwen_unknown_note(u, "left out of requests: %s", what);
	return 0;
}

int
qwen_ask_left_out(struct qwen_ask *r, const char *key, const char *what,
    yyjson_val *type)
{
	char text[80];

	snprintf(text, sizeof text, "%s of type %.40s", what,
	    yyjson_is_str(type) ? yyjson_get_str(type) : "?");
	return qwen_ask_leave_out(r, key, text);
}

int
qwen_ask_line(struct qwen_refusal *no, enum qwen_line kind,
    struct qwen_unknown *u, yyjson_val *root)
{
	static const struct qwen_members tables[] = {
		[QWEN_LINE_SCORE] = TABLE(score),
		[QWEN_LINE_VECTOR] = TABLE(vector),
		[QWEN_LINE_RANK] = TABLE(ranking),
		[QWEN_LINE_EMBEDDINGS] = TABLE(embeddings),
		[QWEN_LINE_RERANK] = TABLE(rerank),
		[QWEN_LINE_OLLAMA_EMBED] = TABLE(ollama_embed),
	};
	const struct look l = { tables[kind], NULL, NULL, u, no };

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
		qwen_text_fmt(t, "%s%s", i > 0 ? ", " : "", u->member[i].name);
		if (u->member[i].nearest != NULL)
			qwen_text_fmt(t, " (did you mean %s?)",
			    u->member[i].nearest);
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
qwen_note_halves(void)
{
	return "half of a surrogate pair in a request was replaced by U+FFFD";
}
