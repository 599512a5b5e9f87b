/* SPDX-License-Identifier: ISC */
/* messages.c - a chat request that is built, or parsed and edited. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

struct qwen_messages {
	yyjson_mut_doc	*doc;
	yyjson_mut_val	*root;
	yyjson_mut_val	*list;	/* or NULL */
	int		 surrogates;	/* the JSON had halves of surrogate
					   pairs */
};

/* Takes over the document. */
static int
wrap(struct qwen_messages **out, yyjson_mut_doc *doc, struct qwen_err *err)
{
	struct qwen_messages *m = calloc(1, sizeof *m);

	*out = m;
	if (m == NULL || doc == NULL) {
		yyjson_mut_doc_free(doc);
		free(m);
		*out = NULL;
		return qwen_oom(err);
	}
	m->doc = doc;
	m->root = yyjson_mut_doc_get_root(doc);
	m->list = yyjson_mut_obj_get(m->root, "messages");
	if (!yyjson_mut_is_arr(m->list))
		m->list = NULL;
	return 0;
}

int
qwen_messages_new(struct qwen_messages **out, struct qwen_err *err)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);

	yyjson_mut_doc_set_root(doc, root);
	if (yyjson_mut_obj_add_arr(doc, root, "messages") == NULL) {
		yyjson_mut_doc_free(doc);
		doc = NULL;
	}
	return wrap(out, doc, err);
}

/*
 * Returns the document with lines in place of parts that are not text; frees it
 * if it changed.
 */
static yyjson_doc *
replace_parts(yyjson_doc *doc, const char *placeholder, int images,
    struct qwen_err *err)
{
	struct qwen_text t = { 0 };
	size_t n = qwen_parse_replace_parts(&t, yyjson_doc_get_root(doc),
	    placeholder, images);

	if (n > 0 || t.failed) {
		yyjson_doc_free(doc);
		doc = t.failed ? NULL : qwen_json_open(t.s, t.n, err);
	}
	if (t.failed)
		qwen_oom(err);
	qwen_text_fini(&t);
	return doc;
}

int
qwen_messages_read_with(struct qwen_messages **out, const char *placeholder,
    int images, const char *json, size_t n, struct qwen_err *err)
{
	int surrogates, rc;
	yyjson_doc *doc = qwen_json_open_mended(json, n, &surrogates, err);
	yyjson_val *root;
	const char *member;

	*out = NULL;
	if (doc != NULL && placeholder != NULL)
		doc = replace_parts(doc, placeholder, images, err);
	if (doc == NULL)
		return -1;
	root = yyjson_doc_get_root(doc);
	if (!yyjson_is_obj(root))
		rc = qwen_fail(err, QWEN_EFORMAT, "the request is not a JSON "
		    "object");
	else if ((rc = qwen_parse_check_shape(root, images, &member,
	    err)) == 0)
		rc = wrap(out, yyjson_doc_mut_copy(doc, NULL), err);
	if (rc == 0)
		(*out)->surrogates = surrogates;
	yyjson_doc_free(doc);
	return rc;
}

const char *
qwen_messages_note(const struct qwen_messages *m)
{
	return m->surrogates ? qwen_note_surrogates() : NULL;
}

void
qwen_messages_free(struct qwen_messages *m)
{
	if (m == NULL)
		return;
	yyjson_mut_doc_free(m->doc);
	free(m);
}

/* Returns the text of v, an empty line, and this text; NULL without memory. */
static yyjson_mut_val *
joined(struct qwen_messages *m, yyjson_mut_val *v, const char *text, size_t n)
{
	struct qwen_text t = { 0 };
	yyjson_mut_val *s;

	qwen_text_add(&t, yyjson_mut_get_str(v), yyjson_mut_get_len(v));
	qwen_text_str(&t, "\n\n");
	qwen_text_add(&t, text, n);
	s = t.failed ? NULL : yyjson_mut_strncpy(m->doc, t.s, t.n);
	qwen_text_fini(&t);
	return s;
}

/* Adds a part with this text to a list. */
static int
add_part(struct qwen_messages *m, yyjson_mut_val *list, const char *text,
    size_t n)
{
	yyjson_mut_val *part = yyjson_mut_arr_add_obj(m->doc, list);

	return yyjson_mut_obj_add_str(m->doc, part, "type", "text") &&
	    yyjson_mut_obj_add_strncpy(m->doc, part, "text", text, n);
}

/* Appends text to the message's content. */
static int
extend(struct qwen_messages *m, yyjson_mut_val *message, const char *text,
    size_t n)
{
	yyjson_mut_val *old = yyjson_mut_obj_get(message, "content"), *s;
	const char *key = "content";

	if (yyjson_mut_is_arr(old)) {
		message = yyjson_mut_arr_get_last(old);
		key = "text";
		if (yyjson_mut_obj_get(message, key) == NULL)
			return add_part(m, old, text, n);
		old = yyjson_mut_obj_get(message, key);
	}
	s = joined(m, old, text, n);
	return s != NULL && yyjson_mut_obj_put(message, yyjson_mut_str(m->doc,
	    key), s);
}

int
qwen_messages_add_text(struct qwen_messages *m, const char *role,
    const char *text, size_t n, int join, struct qwen_err *err)
{
	yyjson_mut_val *last = yyjson_mut_arr_get_last(m->list);
	size_t bad_at = qwen_utf8_check(text, n);
	int done;

	if (bad_at < n)
		return qwen_fail(err, QWEN_EFORMAT, "not UTF-8 at byte %zu",
		    bad_at);
	if (join && yyjson_mut_equals_str(yyjson_mut_obj_get(last, "role"),
	    role))
		done = extend(m, last, text, n);
	else {
		last = yyjson_mut_arr_add_obj(m->doc, m->list);
		done = yyjson_mut_obj_add_strcpy(m->doc, last, "role", role) &&
		    yyjson_mut_obj_add_strncpy(m->doc, last, "content", text,
		    n);
	}
	return done ? 0 : qwen_oom(err);
}

/* Returns a message's content, as a list; NULL without memory. */
static yyjson_mut_val *
content_list(struct qwen_messages *m, yyjson_mut_val *message)
{
	yyjson_mut_val *old = yyjson_mut_obj_get(message, "content"), *list;

	if (yyjson_mut_is_arr(old))
		return old;
	list = yyjson_mut_arr(m->doc);
	if (list == NULL || (yyjson_mut_get_len(old) > 0 && !add_part(m, list,
	    yyjson_mut_get_str(old), yyjson_mut_get_len(old))) ||
	    !yyjson_mut_obj_put(message, yyjson_mut_str(m->doc, "content"),
	    list))
		return NULL;
	return list;
}

int
qwen_messages_add_image(struct qwen_messages *m, struct qwen_err *err)
{
	yyjson_mut_val *last = yyjson_mut_arr_get_last(m->list), *part;

	if (!yyjson_mut_equals_str(yyjson_mut_obj_get(last, "role"), "user")) {
		last = yyjson_mut_arr_add_obj(m->doc, m->list);
		if (!yyjson_mut_obj_add_str(m->doc, last, "role", "user"))
			return qwen_oom(err);
	}
	part = yyjson_mut_arr_add_obj(m->doc, content_list(m, last));
	return yyjson_mut_obj_add_str(m->doc, part, "type", "image") ? 0 :
	    qwen_oom(err);
}

int
qwen_messages_images(const struct qwen_messages *m,
    struct qwen_image_sources *out, struct qwen_err *err)
{
	yyjson_doc *doc = yyjson_mut_doc_imut_copy(m->doc, NULL);
	int rc = doc == NULL ? qwen_oom(err) : qwen_parse_images(out,
	    yyjson_obj_get(yyjson_doc_get_root(doc), "messages"), err);

	yyjson_doc_free(doc);
	return rc;
}

/* Returns the bytes of an image as a data: URL; NULL without memory. */
static yyjson_mut_val *
data_url(struct qwen_messages *m, const struct qwen_image_source *src)
{
	struct qwen_text t = { 0 };
	yyjson_mut_val *v;

	qwen_text_fmt(&t, "data:image/%s;base64,", src->s[0] == 'G' ? "gif" :
	    src->s[0] == 'R' ? "webp" : src->s[0] == (char)0x89 ? "png" :
	    "jpeg");
	qwen_json_base64(&t, src->s, src->n);
	v = t.failed ? NULL : yyjson_mut_strncpy(m->doc, t.s, t.n);
	qwen_text_fini(&t);
	return v;
}

/* Gives an image this source, or none. */
static int
set_image(struct qwen_messages *m, yyjson_mut_val *part,
    const struct qwen_image_source *src)
{
	yyjson_mut_val *url;

	yyjson_mut_obj_clear(part);
	if (src == NULL)
		return yyjson_mut_obj_add_str(m->doc, part, "type", "image");
	return yyjson_mut_obj_add_str(m->doc, part, "type", "image_url") &&
	    (url = yyjson_mut_obj_add_obj(m->doc, part, "image_url")) != NULL &&
	    yyjson_mut_obj_add_val(m->doc, url, "url", data_url(m, src));
}

int
qwen_messages_set_images(struct qwen_messages *m,
    const struct qwen_image_source *all, struct qwen_err *err)
{
	yyjson_mut_val *message, *part;
	size_t i, n, k, max, next = 0;

	yyjson_mut_arr_foreach(m->list, i, n, message)
	yyjson_mut_arr_foreach(yyjson_mut_obj_get(message, "content"), k, max,
	    part) {
		if (!qwen_parse_names_image(yyjson_mut_get_str(
		    yyjson_mut_obj_get(part, "type"))))
			continue;
		if (!set_image(m, part, all != NULL ? &all[next++] : NULL))
			return qwen_oom(err);
	}
	return 0;
}

/* Copies JSON into the request's document. */
static yyjson_mut_val *
value(struct qwen_messages *m, yyjson_doc *doc, struct qwen_err *err)
{
	yyjson_mut_val *v = yyjson_val_mut_copy(m->doc,
	    yyjson_doc_get_root(doc));

	if (v == NULL)
		qwen_oom(err);
	return v;
}

int
qwen_messages_add(struct qwen_messages *m, const char *json, size_t n,
    struct qwen_err *err)
{
	yyjson_doc *doc = qwen_json_open(json, n, err);
	yyjson_mut_val *v = doc != NULL ? value(m, doc, err) : NULL;

	yyjson_doc_free(doc);
	if (v != NULL)
		yyjson_mut_arr_append(m->list, v);
	return v != NULL ? 0 : -1;
}

int
qwen_messages_set(struct qwen_messages *m, const char *key, const char *json,
    size_t n, struct qwen_err *err)
{
	yyjson_doc *doc = qwen_json_open(json, n, err);
	yyjson_mut_val *v = NULL, *k;

	if (doc != NULL && (strcmp(key, "tools") != 0 ||
	    qwen_parse_check_tools(yyjson_doc_get_root(doc), err) == 0))
		v = value(m, doc, err);
	yyjson_doc_free(doc);
	if (v == NULL)
		return -1;
	if ((k = yyjson_mut_strcpy(m->doc, key)) == NULL)
		return qwen_oom(err);
	yyjson_mut_obj_remove_key(m->root, key);
	yyjson_mut_obj_add(m->root, k, v);
	return 0;
}

int
qwen_messages_has_list(const struct qwen_messages *m)
{
	return m->list != NULL;
}

void
qwen_messages_drop_last(struct qwen_messages *m)
{
	yyjson_mut_arr_remove_last(m->list);
}

static int
is_of(const struct qwen_messages *m, size_t i, const char *role)
{
	return yyjson_mut_equals_str(yyjson_mut_obj_get(yyjson_mut_arr_get(
	    m->list, i), "role"), role);
}

size_t
qwen_messages_drop_turn(struct qwen_messages *m)
{
	size_t n = yyjson_mut_arr_size(m->list), first = 0, i;

	while (first < n && (is_of(m, first, "system") ||
	    is_of(m, first, "developer")))
		first++;
	for (i = first + 1; i < n && !is_of(m, i, "user"); i++)
		;
	if (i >= n)
		return 0;
	yyjson_mut_arr_remove_range(m->list, first, i - first);
	return i - first;
}

size_t
qwen_messages_n(const struct qwen_messages *m)
{
	return yyjson_mut_arr_size(m->list);
}

int
qwen_messages_last_part(const struct qwen_messages *m, size_t i,
    struct qwen_str *text)
{
	yyjson_mut_val *v = yyjson_mut_obj_get(yyjson_mut_arr_get_last(m->list),
	    "content");

	if (yyjson_mut_is_arr(v)) {
		if ((v = yyjson_mut_arr_get(v, i)) == NULL)
			return 0;
		v = yyjson_mut_obj_get(v, "text");
	} else if (i > 0 || !yyjson_mut_is_str(v))
		return 0;
	*text = (struct qwen_str){ yyjson_mut_get_str(v),
	    yyjson_mut_get_len(v) };
	return 1;
}

const char *
qwen_messages_last_role(const struct qwen_messages *m)
{
	yyjson_mut_val *last = yyjson_mut_arr_get_last(m->list);

	return yyjson_mut_get_str(yyjson_mut_obj_get(last, "role"));
}

const char *
qwen_messages_system(const struct qwen_messages *m)
{
	yyjson_mut_val *first = yyjson_mut_arr_get_first(m->list);

	return yyjson_mut_equals_str(yyjson_mut_obj_get(first, "role"),
	    "system") ? yyjson_mut_get_str(yyjson_mut_obj_get(first,
	    "content")) : NULL;
}

int
qwen_messages_json(const struct qwen_messages *m, int pretty, char **json,
    size_t *n, struct qwen_err *err)
{
	*json = yyjson_mut_write(m->doc, pretty ? YYJSON_WRITE_PRETTY : 0, n);
	return *json != NULL ? 0 : qwen_oom(err);
}
