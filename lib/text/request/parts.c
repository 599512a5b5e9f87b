/* SPDX-License-Identifier: ISC */
/*
 * parts.c - parts of messages that are not text: images, documents and others.
 * With --image-placeholder a line replaces each, so that a conversation with
 * such parts can continue.
 */
#include <string.h>

#include "text/request/parser.h"

/* The types that a placeholder replaces, in all APIs, and a word for each. */
static const struct { const char *type, *what; } kinds[] = {
	{ "audio", "audio" }, { "audio_url", "audio" },
	{ "computer_screenshot", "image" }, { "container_upload", "file" },
	{ "document", "document" }, { "file", "file" }, { "image", "image" },
	{ "image_url", "image" }, { "input_audio", "audio" },
	{ "input_file", "file" }, { "input_image", "image" },
	{ "search_result", "search result" },
	{ "tool_reference", "tool reference" }, { "video", "video" },
	{ "video_url", "video" },
};

/* Returns the word for a part of one of these types, or NULL. */
static const char *
kind_of(yyjson_val *part)
{
	yyjson_val *type = yyjson_obj_get(part, "type");
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (yyjson_equals_str(type, kinds[i].type))
			return kinds[i].what;
	}
	return NULL;
}

const char *
qwen_parse_part_hint(yyjson_val *part)
{
	return kind_of(part) != NULL ? "; --image-placeholder puts a line in "
	    "their place" : "";
}

/* ----------------------------------------------------------- text in a part */

/* Appends a text, after an empty line if it is not the first. */
static void
add_text(struct qwen_text *t, yyjson_val *v)
{
	if (!yyjson_is_str(v) || yyjson_get_len(v) == 0)
		return;
	qwen_text_str(t, t->n > 0 ? "\n\n" : "");
	qwen_text_add(t, yyjson_get_str(v), yyjson_get_len(v));
}

/* Appends a string, or the texts of a list of parts. */
static void
add_texts(struct qwen_text *t, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n;

	add_text(t, content);
	yyjson_arr_foreach(content, i, n, v)
		add_text(t, yyjson_obj_get(v, "text"));
}

/* Appends the text that a search result or a document contains. */
static void
own_text(struct qwen_text *t, yyjson_val *part)
{
	yyjson_val *source = yyjson_obj_get(part, "source");
	struct qwen_text body = { 0 };

	if (qwen_parse_has_type(part, "search_result"))
		add_texts(&body, yyjson_obj_get(part, "content"));
	else if (qwen_parse_has_type(part, "document") &&
	    qwen_parse_has_type(source, "text"))
		add_text(&body, yyjson_obj_get(source, "data"));
	else if (qwen_parse_has_type(part, "document") &&
	    qwen_parse_has_type(source, "content"))
		add_texts(&body, yyjson_obj_get(source, "content"));
	if (body.n > 0) {
		add_text(t, yyjson_obj_get(part, "title"));
		if (qwen_parse_has_type(part, "search_result"))
			add_text(t, source);
		qwen_text_str(t, t->n > 0 ? "\n\n" : "");
		qwen_text_add(t, body.s, body.n);
	}
	t->failed |= body.failed;
	qwen_text_fini(&body);
}

/* -------------------------------------------------------------- replacement */

/* The output, and the number of replaced parts. */
struct walk {
	struct qwen_text *t;
	const char	*placeholder;
	int		 images;	/* images are not replaced */
	size_t		 n;
};

static void
write_placeholder(struct walk *w, yyjson_val *part, const char *what)
{
	yyjson_val *name = qwen_parse_get_text(part, "tool_name");
	struct qwen_text text = { 0 };

	own_text(&text, part);
	if (text.n == 0 && w->placeholder[0] != '\0')
		qwen_text_str(&text, w->placeholder);
	else if (text.n == 0 && name != NULL)
		qwen_text_fmt(&text, "[%s: %s]", what, yyjson_get_str(name));
	else if (text.n == 0)
		qwen_text_fmt(&text, "[%s: not shown to the model]", what);
	qwen_json_put(w->t, ",{'type':'text','text':%pT}", &text);
	qwen_text_fini(&text);
	w->n++;
}

static void write_message(struct walk *w, yyjson_val *message, int is_part);

/* in_result: the parts of a tool result, which contains no tool results. */
static void
write_parts(struct walk *w, yyjson_val *list, int in_result)
{
	const char *what;
	yyjson_val *v;
	size_t i, n;

	qwen_text_str(w->t, "[");
	yyjson_arr_foreach(list, i, n, v) {
		what = w->images && qwen_parse_is_image(v) ? NULL : kind_of(v);
		if (what != NULL)
			write_placeholder(w, v, what);
		else if (!in_result && qwen_parse_has_type(v, "tool_result"))
			write_message(w, v, 1);
		else
			qwen_json_put(w->t, ",%p", v);
	}
	qwen_text_str(w->t, "]");
}

/*
 * Writes a message, an item, or (is_part) a tool result inside a message, with
 * its parts replaced.
 */
static void
write_message(struct walk *w, yyjson_val *message, int is_part)
{
	yyjson_val *key, *v;
	size_t i, n;

	if (!yyjson_is_obj(message)) {
		qwen_json_put(w->t, ",%p", message);
		return;
	}
	qwen_json_put(w->t, ",{");
	yyjson_obj_foreach(message, i, n, key, v) {
		qwen_json_put(w->t, ",%p:", key);
		if (yyjson_is_arr(v) && (yyjson_equals_str(key, "content") ||
		    yyjson_equals_str(key, "output")))
			write_parts(w, v, is_part);
		else
			qwen_json_value(w->t, v);
	}
	qwen_text_str(w->t, "}");
}

size_t
qwen_parse_replace_parts(struct qwen_text *t, yyjson_val *body,
    const char *placeholder, int images)
{
	struct walk w = { .t = t, .placeholder = placeholder,
	    .images = images };
	yyjson_val *key, *v, *m;
	size_t i, n, k, max;

	qwen_text_str(t, "{");
	yyjson_obj_foreach(body, i, n, key, v) {
		qwen_json_put(t, ",%p:", key);
		if (yyjson_is_arr(v) && yyjson_equals_str(key, "system"))
			write_parts(&w, v, 0);
		else if (yyjson_is_arr(v) && (yyjson_equals_str(key,
		    "messages") || yyjson_equals_str(key, "input"))) {
			qwen_text_str(t, "[");
			yyjson_arr_foreach(v, k, max, m)
				write_message(&w, m, 0);
			qwen_text_str(t, "]");
		} else
			qwen_json_value(t, v);
	}
	qwen_text_str(t, "}");
	return w.n;
}
