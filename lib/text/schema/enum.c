/* SPDX-License-Identifier: ISC */
/* enum.c - the values that a schema lists with const and enum. */
#include <stdlib.h>
#include <string.h>

#include "text/json/json.h"
#include "text/schema/rules.h"
#include "text/schema/schema.h"

static int
is_listed(struct schema *s, yyjson_val *v, yyjson_val *list)
{
	yyjson_val *one;
	size_t i, max;

	yyjson_arr_foreach(list, i, max, one) {
		if (!qwen_schema_step(s))
			return 0;
		if (qwen_schema_same(s, v, one))
			return 1;
	}
	return 0;
}

static int
fits_length(struct schema *s, yyjson_val *part, yyjson_val *v)
{
	yyjson_val *min = yyjson_obj_get(part, "minLength");
	yyjson_val *max = yyjson_obj_get(part, "maxLength");
	const char *t = yyjson_get_str(v);
	int64_t n = 0;
	size_t i;

	for (i = 0; i < yyjson_get_len(v); i++)
		n += (t[i] & 0xc0) != 0x80;
	return (min == NULL || n >= qwen_schema_count(s, min, min)) &&
	    (max == NULL || n <= qwen_schema_count(s, max, max));
}

static int
fits_bounds(struct schema *s, yyjson_val *part, yyjson_val *v)
{
	static const struct { const char *name; int least, most; } bound[] = {
		{ "minimum", 0, 1 }, { "maximum", -1, 0 },
		{ "exclusiveMinimum", 1, 1 }, { "exclusiveMaximum", -1, -1 },
	};
	struct decimal x, y;
	size_t i;
	int c;

	for (i = 0; i < 4; i++) {
		yyjson_val *b = yyjson_obj_get(part, bound[i].name);

		if (b == NULL)
			continue;
		if (qwen_decimal_read(&x, v) < 0 ||
		    qwen_decimal_read(&y, b) < 0)
			return qwen_schema_fail(s, b, "not a number, or one "
			    "with too many digits");
		c = qwen_decimal_compare(&x, &y);
		if (c < bound[i].least || c > bound[i].most)
			return 0;
	}
	return 1;
}

/* Does a string match pattern and format? */
static int
fits_texts(struct schema *s, yyjson_val *part, yyjson_val *v)
{
	yyjson_val *re = yyjson_obj_get(part, "pattern");
	yyjson_val *kind = yyjson_obj_get(part, "format");
	const char *t = yyjson_get_str(v);
	size_t n = yyjson_get_len(v);

	if (re != NULL && !yyjson_is_str(re))
		return qwen_schema_fail(s, re, "not a string");
	return (re == NULL || qwen_schema_matches(s, re, t, n)) &&
	    (kind == NULL || qwen_schema_has_format(s, kind, t, n));
}

/* Does not, in a form that sugar.c leaves, exclude the value? */
static int
is_excluded(struct schema *s, yyjson_val *not, yyjson_val *v)
{
	yyjson_val *re = yyjson_obj_get(not, "pattern"), *one;
	size_t n;

	SCHEMA_EACH_VALUE(not, n, one) {
		if (qwen_schema_step(s) && qwen_schema_same(s, v, one))
			return 1;
	}
	return re != NULL && yyjson_is_str(v) && qwen_schema_matches(s, re,
	    yyjson_get_str(v), yyjson_get_len(v));
}

/* Does a part allow a value that is listed? own: this part lists it. */
static int
fits(struct schema *s, yyjson_val *part, yyjson_val *v, int own)
{
	int type = qwen_schema_type_of(v);
	yyjson_val *key, *w;
	size_t i, max;

	yyjson_obj_foreach(part, i, max, key, w) {
		const char *name = yyjson_get_str(key);

		if ((qwen_schema_speaks_of(name) & type) && strstr(name,
		    "Length") == NULL && strstr(name, "imum") == NULL &&
		    strcmp(name, "pattern") != 0)
			return qwen_schema_fail(s, part, "%s next to const or "
			    "enum is not supported", name);
	}
	if (type == TYPE_STRING && !fits_texts(s, part, v))
		return 0;
	if ((w = yyjson_obj_get(part, "not")) != NULL && is_excluded(s, w, v))
		return 0;
	w = yyjson_obj_get(part, "const");
	if (w != NULL && !qwen_schema_same(s, v, w))
		return 0;
	/* no need to search the list that the value comes from */
	w = own && yyjson_obj_get(part, "const") == NULL ? NULL :
	    yyjson_obj_get(part, "enum");
	if (w != NULL && !is_listed(s, v, w))
		return 0;
	if (type == TYPE_STRING)
		return fits_length(s, part, v);
	return !(type & TYPE_NUMBER) || fits_bounds(s, part, v);
}

/* A raw string, unless it contains the tag that ends it. */
static uint32_t
raw_literal(struct schema *s, yyjson_val *v)
{
	const char *t = yyjson_get_str(v);
	size_t n = yyjson_get_len(v);

	return strlen(t) != n || strstr(t, "</parameter>") != NULL ?
	    SNODE_NEVER : qwen_snode_literal(s, t, n);
}

static void
add_value(struct schema *s, uint32_t out, yyjson_val *v)
{
	struct qwen_text t = { 0 };
	size_t n;
	char *text;

	if (s->raw && yyjson_is_str(v)) {
		qwen_snode_add(s, out, raw_literal(s, v));
		return;
	}
	if ((text = yyjson_val_write(v, 0, &n)) == NULL)
		t.failed = 1;
	else if (s->how.spaced)
		qwen_json_spaced(&t, (struct qwen_str){ text, n });
	else
		qwen_text_add(&t, text, n);
	if (t.failed)
		qwen_schema_oom(s);
	else
		qwen_snode_add(s, out, qwen_snode_literal(s, t.s, t.n));
	free(text);
	qwen_text_fini(&t);
}

/* Returns the first list of values; *at is the part that has it. */
static yyjson_val *
find_list(struct schema *s, const struct schema_all *all, size_t *n, int *at)
{
	yyjson_val *v, *list;
	int i;

	for (i = 0; i < all->n; i++) {
		list = qwen_schema_get(all, i, "enum");
		if (list != NULL && (!yyjson_is_arr(list) ||
		    yyjson_arr_size(list) == 0)) {
			qwen_schema_fail(s, list, "not a list of values");
			return NULL;
		}
		*at = i;
		if ((*n = qwen_schema_values(all->part[i].v, &v)) > 0)
			return v;
	}
	return NULL;
}

int
qwen_schema_listed(struct schema *s, const struct schema_all *all,
    uint32_t *out)
{
	size_t n;
	int at, i, types = qwen_schema_types(s, all, 0);
	yyjson_val *v = find_list(s, all, &n, &at);

	*out = SNODE_NEVER;
	if (v == NULL)
		return s->failed;
	if (n > SCHEMA_NODES)
		return qwen_schema_fail(s, v, "a list of %zu values; at most "
		    "%d are supported", n, SCHEMA_NODES);
	*out = qwen_snode(s, SNODE_ALT);
	for (; n > 0 && qwen_schema_step(s); n--,
	    v = unsafe_yyjson_get_next(v)) {
		int ok = (qwen_schema_type_of(v) & types) != 0;

		for (i = 0; i < all->n && ok; i++)
			ok = fits(s, all->part[i].v, v, i == at);
		if (ok)
			add_value(s, *out, v);
	}
	return 1;
}
