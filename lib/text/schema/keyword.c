/* SPDX-License-Identifier: ISC */
/* keyword.c - the known keywords, their values in schemas, and references. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/schema/schema.h"

/* ----------------------------------------------------------------- keywords */

/*
 * All known keywords, sorted by name, with the types of values that they
 * constrain; 0: any type.  DONE: supported; NOTE: an annotation, which
 * constrains nothing; NOT_DONE: not supported.
 */
static const struct keyword {
	const char	*name;
	enum { DONE, NOTE, NOT_DONE } how;
	int		 types;
} keywords[] = {
	{ "$anchor", NOTE, 0 }, { "$comment", NOTE, 0 }, { "$defs", NOTE, 0 },
	{ "$dynamicAnchor", NOTE, 0 }, { "$dynamicRef", NOT_DONE, TYPE_ANY },
	{ "$id", NOTE, 0 }, { "$recursiveRef", NOT_DONE, TYPE_ANY },
	{ "$ref", DONE, 0 }, { "$schema", NOTE, 0 }, { "$vocabulary", NOTE, 0 },
	{ "additionalItems", DONE, TYPE_ARRAY },
	{ "additionalProperties", DONE, TYPE_OBJECT }, { "allOf", DONE, 0 },
	{ "anyOf", DONE, 0 }, { "components", NOTE, 0 }, { "const", DONE, 0 },
	{ "contains", NOT_DONE, TYPE_ARRAY }, { "contentEncoding", NOTE, 0 },
	{ "contentMediaType", NOTE, 0 }, { "contentSchema", NOTE, 0 },
	{ "default", NOTE, 0 }, { "definitions", NOTE, 0 },
	{ "dependencies", DONE, 0 }, { "dependentRequired", DONE, 0 },
	{ "dependentSchemas", DONE, 0 },
	{ "deprecated", NOTE, 0 }, { "description", NOTE, 0 },
	{ "discriminator", NOTE, 0 }, { "else", NOTE, 0 }, { "enum", DONE, 0 },
	{ "enumDescriptions", NOTE, 0 }, { "enumNames", NOTE, 0 },
	{ "errorMessage", NOTE, 0 },
	{ "example", NOTE, 0 }, { "examples", NOTE, 0 },
	{ "exclusiveMaximum", DONE, TYPE_NUMBER },
	{ "exclusiveMinimum", DONE, TYPE_NUMBER }, { "externalDocs", NOTE, 0 },
	{ "format", DONE, 0 }, { "id", NOTE, 0 }, { "if", DONE, 0 },
	{ "items", DONE, TYPE_ARRAY }, { "markdownDescription", NOTE, 0 },
	{ "maxContains", NOTE, 0 },
	{ "maxItems", DONE, TYPE_ARRAY }, { "maxLength", DONE, TYPE_STRING },
	{ "maxProperties", DONE, TYPE_OBJECT },
	{ "maximum", DONE, TYPE_NUMBER }, { "minContains", NOTE, 0 },
	{ "minItems", DONE, TYPE_ARRAY }, { "minLength", DONE, TYPE_STRING },
	{ "minProperties", DONE, TYPE_OBJECT },
	{ "minimum", DONE, TYPE_NUMBER }, { "multipleOf", DONE, TYPE_NUMBER },
	{ "not", DONE, 0 }, { "nullable", DONE, 0 }, { "oneOf", DONE, 0 },
	{ "pattern", DONE, TYPE_STRING },
	{ "patternProperties", DONE, TYPE_OBJECT },
	{ "prefixItems", DONE, TYPE_ARRAY },
	{ "properties", DONE, TYPE_OBJECT },
	{ "propertyNames", DONE, TYPE_OBJECT },
	{ "propertyOrdering", NOTE, 0 }, { "readOnly", NOTE, 0 },
	{ "required", DONE, TYPE_OBJECT }, { "then", NOTE, 0 },
	{ "title", NOTE, 0 }, { "type", DONE, 0 },
	{ "unevaluatedItems", NOT_DONE, TYPE_ARRAY },
	{ "unevaluatedProperties", DONE, TYPE_OBJECT },
	{ "uniqueItems", DONE, TYPE_ARRAY }, { "writeOnly", NOTE, 0 },
	{ "xml", NOTE, 0 },
};

#define N_KEYWORDS (sizeof keywords / sizeof keywords[0])

static int
compare(const void *name, const void *keyword)
{
	return strcmp(name, ((const struct keyword *)keyword)->name);
}

static const struct keyword *
find_keyword(const char *name)
{
	return bsearch(name, keywords, N_KEYWORDS, sizeof *keywords, compare);
}

int
qwen_schema_speaks_of(const char *name)
{
	const struct keyword *k = find_keyword(name);

	return k != NULL && k->how != NOTE ? k->types : 0;
}

int
qwen_schema_cannot(const char *name)
{
	const struct keyword *k = find_keyword(name);

	return k != NULL && k->how == NOT_DONE;
}

int
qwen_schema_is_note(const char *name)
{
	const struct keyword *k = find_keyword(name);

	return k != NULL && k->how == NOTE && strcmp(name, "then") != 0 &&
	    strcmp(name, "else") != 0;
}

/* Checks that all keywords are known. */
void
qwen_schema_check(struct schema *s, yyjson_val *v)
{
	yyjson_val *key, *part;
	size_t i, max;

	yyjson_obj_foreach(v, i, max, key, part) {
		const char *name = yyjson_get_str(key);
		const struct keyword *k = strlen(name) == yyjson_get_len(key) ?
		    find_keyword(name) : NULL;

		if (k == NULL && strncmp(name, "x-", 2) != 0)
			qwen_schema_fail(s, v, "unknown keyword \"%.40s\"",
			    name);
		if (!qwen_schema_step(s))
			return;
	}
}

/* --------------------------------------------------------------- references */

/* Decodes %41 and similar escapes of a URI fragment in place; 0 if invalid. */
static int
unescape(char *to)
{
	const char *from = to;
	uint32_t c;

	for (; *from != '\0'; from++) {
		c = (unsigned char)*from;
		if (c == '%') {
			if (strlen(from) < 3 ||
			    qwen_hex_read(from + 1, 2, &c) < 0 || c == 0)
				return 0;
			from += 2;
		}
		*to++ = (char)c;
	}
	*to = '\0';
	return 1;
}

/*
 * Returns the schema with this anchor, or with the id #NAME of old drafts; or
 * NULL.
 */
static yyjson_val *
anchored(struct schema *s, yyjson_val *in, const char *name)
{
	yyjson_val *key, *v, *found = NULL;
	const char *id = yyjson_get_str(yyjson_obj_get(in, "$id"));
	size_t i, max;

	if (!qwen_schema_step(s))
		return NULL;
	if (yyjson_equals_str(yyjson_obj_get(in, "$anchor"), name) ||
	    yyjson_equals_str(yyjson_obj_get(in, "$dynamicAnchor"), name) ||
	    (id != NULL && id[0] == '#' && strcmp(id + 1, name) == 0))
		return in;
	yyjson_arr_foreach(in, i, max, v) {
		if (found == NULL)
			found = anchored(s, v, name);
	}
	yyjson_obj_foreach(in, i, max, key, v) {
		if (found == NULL && !yyjson_equals_str(key, "enum") &&
		    !yyjson_equals_str(key, "const"))
			found = anchored(s, v, name);
	}
	return found;
}

/* Returns the value at a JSON Pointer, or NULL. */
static yyjson_val *
pointed(struct schema *s, const char *path)
{
	yyjson_val *v = s->root;
	size_t n;

	for (; *path == '/' && v != NULL; path += n) {
		n = 1 + strcspn(path + 1, "/");
		/* the search visits each key of an object */
		s->work += yyjson_get_len(v) / 16;
		v = qwen_schema_step(s) ? yyjson_ptr_getn(v, path, n) : NULL;
	}
	return v;
}

yyjson_val *
qwen_schema_refer(struct schema *s, yyjson_val *ref)
{
	const char *name = yyjson_get_str(ref);
	yyjson_val *v = NULL;
	char path[1024];

	if (name == NULL || name[0] != '#' || yyjson_get_len(ref) !=
	    strlen(name) || strlen(name) > sizeof path - 1) {
		qwen_schema_fail(s, ref, "only references within the schema, "
		    "beginning with #, are supported");
		return NULL;
	}
	memcpy(path, name + 1, strlen(name));
	if (unescape(path))
		v = path[0] == '\0' ? s->root : path[0] == '/' ? pointed(s,
		    path) : anchored(s, s->root, path);
	if (v == NULL)
		qwen_schema_fail(s, ref, "%.60s does not exist", name);
	return v;
}

/* ------------------------------------------------------------------- access */

yyjson_val *
qwen_schema_get(const struct schema_all *all, int part, const char *keyword)
{
	yyjson_val *v = yyjson_obj_get(all->part[part].v, keyword);

	/* programs write null for an absent list */
	return yyjson_is_null(v) && strcmp(keyword, "const") != 0 ? NULL : v;
}

int
qwen_schema_has(const struct schema_all *all, const char *keyword)
{
	int i;

	for (i = 0; i < all->n; i++) {
		if (qwen_schema_get(all, i, keyword) != NULL)
			return 1;
	}
	return 0;
}

int64_t
qwen_schema_bound(struct schema *s, const struct schema_all *all,
    const char *keyword, int64_t none)
{
	int64_t n, out = none;
	int i, have = 0, most = strncmp(keyword, "min", 3) == 0;

	for (i = 0; i < all->n; i++) {
		yyjson_val *v = qwen_schema_get(all, i, keyword);

		if (v == NULL)
			continue;
		n = qwen_schema_count(s, v, v);
		if (!have++ || (most ? n > out : n < out))
			out = n;
	}
	return out;
}
