/* SPDX-License-Identifier: ISC */
/*
 * infill.c - fill in the middle: the field "suffix" of completions; requests to
 * llama.cpp's /infill, and their answers.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

enum {
	FILES_MAX = 1024,	/* of input_extra */
	FIELDS_MAX = 64,	/* of response_fields */
	INDENT_MAX = 1 << 20,
	BYTES_MAX = 16,		/* average bytes per token, upper bound */
};

static const struct qwen_fields known_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("input_extra", "input_prefix",
	    "input_suffix", "max_tokens", "n", "n_cmpl", "n_indent",
	    "n_predict", "prompt", "response_fields", "stop",
	    "t_max_predict_ms"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("cache_prompt", "id_slot",
	    "n_cache_reuse", "n_discard", "n_keep", "t_max_prompt_ms",
	    "timings_per_token"),
	[QWEN_FIELD_REFUSED] = QWEN_WORDS("lora", "post_sampling_probs",
	    "return_tokens"),
	[QWEN_FIELD_ABOVE] = QWEN_WORDS("n_probs", "0"),
} };

/* ----------------------------------------------------------------- requests */

/* FIM tokens end the answer, in addition to the request's own tokens. */
int
qwen_parse_infill_ends(struct qwen_parser *r)
{
	struct qwen_request *q = r->q;
	int32_t *more = realloc(q->stop_id, (q->n_stop_ids + QWEN_FIM_N) *
	    sizeof *more), id;
	int i;

	if (more == NULL)
		return qwen_oom(&r->refusal->err);
	q->stop_id = more;
	for (i = 0; i < QWEN_FIM_N; i++) {
		if ((id = qwen_tok_fim(r->s->tok, i)) >= 0)
			q->stop_id[q->n_stop_ids++] = id;
	}
	return 0;
}

int
qwen_parse_suffix(struct qwen_parser *r)
{
	struct qwen_str s = { "", 0 };

	/* clients that fill no gap send an empty suffix */
	if (qwen_read_string(r, "suffix", &s) < 0)
		return -1;
	if (s.len == 0)
		return 0;
	if (r->q->echo)
		return qwen_invalid(r, "suffix", "suffix and echo cannot be "
		    "combined");
	r->suffix = s;
	return qwen_parse_check_length(r, "suffix", s) < 0 ? -1 :
	    qwen_parse_infill_ends(r);
}

int
qwen_parse_encode_fim(struct qwen_parser *r, struct qwen_str prefix,
    const struct qwen_ids *ids, struct qwen_ids *out)
{
	struct qwen_fim_text x = {
		.prefix = prefix,
		.ids = ids != NULL ? ids->id : NULL,
		.n_ids = ids != NULL ? ids->n : 0,
		.suffix = r->suffix,
	};
	struct qwen_err err;

	return qwen_tok_encode_fim(r->s->tok, &x, &out->id, &out->n,
	    &err) == 0 ? 0 : qwen_refuse_error(r->refusal, "suffix", &err);
}

/* Reads a string that must be there; refuses one that is certainly too long. */
static int
read_text(struct qwen_parser *r, const char *key, struct qwen_str *out)
{
	int got = qwen_read_string(r, key, out);

	return got == 0 ? qwen_invalid(r, key, "%s is missing", key) : got < 0 ?
	    -1 : qwen_parse_check_length(r, key, *out);
}

/* Reads one of [{"filename": ..., "text": ...}]; the name is optional. */
static int
read_file(struct qwen_parser *r, size_t i, yyjson_val *v,
    struct qwen_fim_file *f)
{
	yyjson_val *text = qwen_parse_get_text(v, "text"), *name =
	    qwen_parse_get_text(v, "filename");

	if (text == NULL || (name == NULL &&
	    qwen_parse_get(v, "filename") != NULL))
		return qwen_wrong(r, "input_extra", "entry %zu is not an "
		    "object with a string \"text\" and optionally a string "
		    "\"filename\"", i);
	f->text = (struct qwen_str){ yyjson_get_str(text),
	    yyjson_get_len(text) };
	f->name = name == NULL ? (struct qwen_str){ "tmp", 3 } :
	    (struct qwen_str){ yyjson_get_str(name), yyjson_get_len(name) };
	return 0;
}

static int
read_files(struct qwen_parser *r, struct qwen_fim_file **out, size_t *n_out)
{
	yyjson_val *list = qwen_parse_get(r->body, "input_extra"), *v;
	size_t i, n = yyjson_arr_size(list);

	if (list != NULL && !yyjson_is_arr(list))
		return qwen_wrong(r, "input_extra", "is not a list of objects");
	if (n > FILES_MAX)
		return qwen_wrong(r, "input_extra", "more than %d files",
		    FILES_MAX);
	if ((*out = calloc(n + 1, sizeof **out)) == NULL)
		return qwen_oom(&r->refusal->err);
	yyjson_arr_foreach(list, i, n, v) {
		if (read_file(r, i, v, &(*out)[i]) < 0)
			return -1;
	}
	*n_out = n;
	return 0;
}

/* Leaves out the first files while all of them certainly do not fit. */
static void
drop_far(const struct qwen_parser *r, struct qwen_fim_text *x)
{
	size_t i, n = 0;

	for (i = x->n_files; i > 0 && r->s->n_ctx > 0; i--) {
		n += x->file[i - 1].text.len + x->file[i - 1].name.len;
		if (n / BYTES_MAX > r->s->n_ctx)
			break;
	}
	if (r->s->n_ctx > 0) {
		x->file += i;
		x->n_files -= i;
	}
}

/*
 * Encodes the prompt.  If the files do not fit into the context, leaves out
 * files from the front of the list, as llama.cpp does.
 */
static int
encode(struct qwen_parser *r, struct qwen_fim_text *x, struct qwen_ids *out)
{
	size_t room = r->s->n_ctx > r->q->max ? r->s->n_ctx - r->q->max :
	    r->s->n_ctx;
	struct qwen_err err;

	drop_far(r, x);
	for (;; x->file++, x->n_files--) {
		if (qwen_tok_encode_fim(r->s->tok, x, &out->id, &out->n,
		    &err) < 0)
			return qwen_refuse_error(r->refusal,
			    "input_prefix", &err);
		if (room == 0 || out->n <= room || x->n_files == 0)
			return 0;
		free(out->id);
		*out = (struct qwen_ids){ 0 };
		/* drop a quarter of the files at a time */
		x->file += x->n_files / 4;
		x->n_files -= x->n_files / 4;
	}
}

int
qwen_parse_infill_prompt(struct qwen_parser *r)
{
	struct qwen_request *q = r->q;
	struct qwen_fim_text x = { .line = { "", 0 } };
	struct qwen_fim_file *file = NULL;
	int rc = -1;

	if (read_text(r, "input_prefix", &x.prefix) == 0 &&
	    read_text(r, "input_suffix", &x.suffix) == 0 &&
	    qwen_read_string(r, "prompt", &x.line) >= 0 &&
	    qwen_parse_check_length(r, "prompt", x.line) == 0 &&
	    read_files(r, &file, &x.n_files) == 0) {
		x.file = file;
		rc = encode(r, &x, &q->prompt[q->n_prompts++]);
		q->n_prompt_tokens = q->prompt[0].n;
	}
	free(file);
	return rc;
}

/* Reads a whole number; 0, which is no limit, if it is absent or negative. */
static int
read_count(struct qwen_parser *r, const char *key, int64_t max, int64_t *out)
{
	char buf[QWEN_NUMBER_SIZE];

	*out = 0;
	return qwen_read_number_of(r, key, buf) > 0 && buf[0] == '-' ? 0 :
	    qwen_read_whole(r, key, 0, max, out);
}

static int
read_response_fields(struct qwen_parser *r)
{
	static const char key[] = "response_fields";
	yyjson_val *list = qwen_parse_get(r->body, key), *v;
	size_t i, n = yyjson_arr_size(list);

	if (n > FIELDS_MAX)
		return qwen_wrong(r, key, "more than %d fields", FIELDS_MAX);
	if (list != NULL && !yyjson_is_arr(list))
		return qwen_wrong(r, key, "is not a list of strings");
	yyjson_arr_foreach(list, i, n, v) {
		if (!yyjson_is_str(v))
			return qwen_wrong(r, key, "is not a list of strings");
	}
	return n == 0 ? 0 : qwen_parse_to_json(r->refusal, list, &r->q->fields);
}

int
qwen_parse_infill(struct qwen_parser *r)
{
	int64_t indent, ms;

	if (qwen_parse_check_fields(r, &known_fields) < 0 ||
	    read_count(r, "n_indent", INDENT_MAX, &indent) < 0 ||
	    read_count(r, "t_max_predict_ms", UINT32_MAX, &ms) < 0 ||
	    read_response_fields(r) < 0)
		return -1;
	r->q->n_indent = (size_t)indent;
	r->q->line_ms = (uint64_t)ms;
	return 0;
}

/* ------------------------------------------------------------------ answers */

/*
 * Ends the answer where a line after the first has less than n_indent columns
 * of indentation: truncates the text after that indentation. a->line is the
 * offset of the last line.
 */
int
qwen_infill_outdents(struct qwen_answer *a)
{
	const struct qwen_text *t = &a->text;
	size_t at, width;
	const char *nl;

	for (;;) {
		if (a->line > 0) {
			for (at = a->line; at < t->n && (t->s[at] == ' ' ||
			    t->s[at] == '\t'); at++)
				;
			width = at - a->line;
			if (at < t->n && t->s[at] != '\n' && t->s[at] != '\r' &&
			    width < a->request->n_indent) {
				a->block[a->n_blocks - 1].n -= t->n - at;
				a->text.n = at;
				return 1;
			}
		}
		nl = a->line < t->n ? memchr(t->s + a->line, '\n',
		    t->n - a->line) : NULL;
		if (nl == NULL)
			return 0;
		a->line = (size_t)(nl - t->s) + 1;
	}
}

/* Returns the value at a path such as "timings/prompt_n", or NULL. */
static yyjson_val *
find_path(yyjson_val *v, const char *path)
{
	size_t n;

	for (;; path += n + 1) {
		n = strcspn(path, "/");
		v = yyjson_obj_getn(v, path, n);
		if (v == NULL || path[n] == '\0')
			return v;
	}
}

void
qwen_infill_pick(struct qwen_text *t, const char *fields, const struct qwen_text *body)
{
	yyjson_doc *list = yyjson_read(fields, strlen(fields), 0);
	yyjson_doc *doc = yyjson_read(body->s, body->n,
	    YYJSON_READ_NUMBER_AS_RAW);
	yyjson_val *v, *found;
	size_t i, n;

	t->failed |= list == NULL || doc == NULL;
	qwen_text_str(t, "{");
	yyjson_arr_foreach(yyjson_doc_get_root(list), i, n, v) {
		found = find_path(yyjson_doc_get_root(doc), yyjson_get_str(v));
		if (found != NULL)
			qwen_json_put(t, ",%p:%p", v, found);
	}
	qwen_text_str(t, "}");
	yyjson_doc_free(doc);
	yyjson_doc_free(list);
}
