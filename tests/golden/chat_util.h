/* SPDX-License-Identifier: ISC */
/* chat_util.h - the cases of tests/golden/chat, one JSON object per line. */
#ifndef CHAT_UTIL_H
#define CHAT_UTIL_H

#include <zstd.h>

#include "../unit/tok_util.h"
#include <yyjson.h>

/* Return the contents of tests/golden/chat/NAME.jsonl.zst, with a NUL. */
static inline struct bytes
chat_load(const char *name)
{
	const char *top = getenv("TOP");
	struct bytes raw = { NULL, 0, 0 }, b = { NULL, 0, 0 };
	char path[1024], buf[4096];
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "%s/tests/golden/chat/%s.jsonl.zst",
	    top != NULL ? top : ".", name);
	f = fopen(path, "rb");
	while (f != NULL && (n = fread(buf, 1, sizeof buf, f)) > 0)
		add_bytes(&raw, buf, n);
	if (f == NULL || fclose(f) == EOF)
		exit(1);
	b.cap = (size_t)ZSTD_getFrameContentSize(raw.p, raw.n) + 1;
	b.p = malloc(b.cap);
	b.n = b.p == NULL ? 0 : ZSTD_decompress(b.p, b.cap, raw.p, raw.n);
	if (b.p == NULL || ZSTD_isError(b.n))
		exit(1);
	b.p[b.n] = '\0';
	free(raw.p);
	return b;
}

/* Parse the case at *line, and move *line to the next; NULL after the last. */
static inline yyjson_doc *
chat_case(char **line)
{
	char *end = strchr(*line, '\n');
	yyjson_doc *doc;

	if (end == NULL)
		return NULL;
	doc = yyjson_read(*line, (size_t)(end - *line),
	    YYJSON_READ_NUMBER_AS_RAW);
	if (doc == NULL)
		exit(1);
	*line = end + 1;
	return doc;
}

static inline const char *
chat_str(yyjson_val *c, const char *key)
{
	const char *s = yyjson_get_str(yyjson_obj_get(c, key));

	return s != NULL ? s : "";
}

/* Return the request of a rendering case as JSON, for free(). */
static inline char *
chat_request(yyjson_val *c, size_t *n)
{
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc);
	yyjson_val *key, *v;
	size_t i, max;
	char *s;

	yyjson_mut_doc_set_root(doc, root);
	yyjson_mut_obj_add_val(doc, root, "messages",
	    yyjson_val_mut_copy(doc, yyjson_obj_get(c, "messages")));
	yyjson_mut_obj_add_val(doc, root, "tools",
	    yyjson_val_mut_copy(doc, yyjson_obj_get(c, "tools")));
	yyjson_obj_foreach(yyjson_obj_get(c, "options"), i, max, key, v) {
		yyjson_mut_obj_add(root, yyjson_val_mut_copy(doc, key),
		    yyjson_val_mut_copy(doc, v));
	}
	s = yyjson_mut_write(doc, 0, n);
	yyjson_mut_doc_free(doc);
	if (s == NULL)
		exit(1);
	return s;
}

#endif
