/* SPDX-License-Identifier: ISC */
/*
 * system.c - messages for the template: system messages without the lines that
 * the service leaves out.
 */
#include <string.h>

#include "text/request/parser.h"

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

/* Writes the content, a string or parts; leaves out parts with no line left. */
static void
write_content(const struct qwen_service *s, struct qwen_text *t,
    yyjson_val *content)
{
	yyjson_val *part;
	size_t i, n;

	if (yyjson_is_str(content)) {
		if (!write_lines(s, t, content, 0))
			qwen_json_put(t, "''");
		return;
	}
	qwen_text_str(t, "[");
	yyjson_arr_foreach(content, i, n, part)
		write_lines(s, t, yyjson_obj_get(part, "text"), 1);
	qwen_text_str(t, "]");
}

void
qwen_parse_write_message(const struct qwen_service *s, struct qwen_text *t,
    yyjson_val *m)
{
	yyjson_val *role = yyjson_obj_get(m, "role"), *key, *v;
	size_t i, n;

	if (s->pass_over == NULL || (!yyjson_equals_str(role, "developer") &&
	    !yyjson_equals_str(role, "system"))) {
		qwen_json_put(t, ",%p", m);
		return;
	}
	qwen_json_put(t, ",{");
	yyjson_obj_foreach(m, i, n, key, v) {
		qwen_json_put(t, ",%p:", key);
		if (yyjson_equals_str(key, "content") && !yyjson_is_null(v))
			write_content(s, t, v);
		else
			qwen_json_value(t, v);
	}
	qwen_text_str(t, "}");
}
