/* SPDX-License-Identifier: ISC */
/* fail.c - errors in a schema, notes, and the limit of steps. */
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"
#include "text/schema/schema.h"

/* Writes the JSON Pointer from v to want to buf; returns 1 if want is in v. */
static int
find_path(yyjson_val *v, yyjson_val *want, char *buf, size_t size)
{
	yyjson_val *key, *part;
	size_t i, max, n;

	if (v == want) {
		buf[0] = '\0';
		return 1;
	}
	if (yyjson_is_arr(v)) {
		yyjson_arr_foreach(v, i, max, part) {
			n = (size_t)snprintf(buf, size, "/%zu", i);
			if (n < size && find_path(part, want, buf + n,
			    size - n))
				return 1;
		}
	}
	if (yyjson_is_obj(v)) {
		yyjson_obj_foreach(v, i, max, key, part) {
			n = (size_t)snprintf(buf, size, "/%.30s",
			    yyjson_get_str(key));
			if (n < size && find_path(part, want, buf + n,
			    size - n))
				return 1;
		}
	}
	return 0;
}

int
qwen_schema_fail(struct schema *s, yyjson_val *where, const char *fmt, ...)
{
	char path[120], what[160];
	va_list ap;

	if (s->failed)
		return 0;
	s->failed = 1;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (where == NULL || !find_path(s->root, where, path, sizeof path))
		qwen_fail(s->err, QWEN_EUNSUP, "%s", what);
	else
		qwen_fail(s->err, QWEN_EUNSUP, "#%s: %s", path, what);
	return 0;
}

int
qwen_schema_note(struct schema *s, yyjson_val *where, const char *fmt, ...)
{
	char path[120] = "", what[100];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (s->how.strict)
		return qwen_schema_fail(s, where, "%s", what);
	if (s->failed || s->how.note[0] != '\0')
		return !s->failed;
	if (where != NULL && find_path(s->root, where, path, sizeof path))
		snprintf(s->how.note, sizeof s->how.note, "#%s: %s", path,
		    what);
	else
		snprintf(s->how.note, sizeof s->how.note, "%s", what);
	return 1;
}

int
qwen_schema_oom(struct schema *s)
{
	if (!s->failed)
		qwen_oom(s->err);
	s->failed = 1;
	return 0;
}

int
qwen_schema_step(struct schema *s)
{
	if (++s->work > SCHEMA_WORK)
		qwen_schema_fail(s, NULL, "the schema has too many "
		    "combinations of alternatives");
	return !s->failed;
}

yyjson_val *
qwen_schema_find(struct schema *s, yyjson_val *object, const char *key,
    size_t n)
{
	s->work += yyjson_obj_size(object) / 16;
	return qwen_schema_step(s) ? yyjson_obj_getn(object, key, n) : NULL;
}
