/* SPDX-License-Identifier: ISC */
/* string.c - strings: how long, by which pattern, in which format. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/schema/schema.h"

#define YEAR "(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])"
/* those with a 29th of February */
#define LEAP "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|" \
    "(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|" \
    "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|" \
    LEAP "-02-29)"
#define TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?" \
    "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
#define HOST LABEL "(?:\\." LABEL "){1,4}"
#define BYTE "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"

/* Some of what has the format, in each more than anybody will need. */
static const struct {
	const char *name, *pattern;
} format[] = {
	{ "date", "^" DATE "$" },
	{ "time", "^" TIME "$" },
	{ "date-time", "^" DATE "T" TIME "$" },
	{ "uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-"
	    "[0-9a-f]{12}$" },
	{ "email", "^[A-Za-z0-9_+-]{1,24}(?:\\.[A-Za-z0-9_+-]{1,12}){0,3}@"
	    HOST "$" },
	{ "hostname", "^" HOST "$" },
	{ "ipv4", "^" BYTE "(?:\\." BYTE "){3}$" },
	{ "uri", "^https?://" HOST "(?::[1-9]\\d{0,3})?"
	    "(?:/[A-Za-z0-9._~-]{0,64}){0,8}(?:\\?[A-Za-z0-9._~=&-]{1,256})?"
	    "(?:#[A-Za-z0-9._~-]{1,64})?$" },
};

#define N_FORMATS (sizeof format / sizeof format[0])

uint32_t
qwen_schema_quoted(struct schema *s, const char *text, size_t n,
    const char *after)
{
	uint32_t at = qwen_snode_text(s, "\"\\\"");
	char as[QWEN_JSON_CHAR];
	size_t i, used, len;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		/* only what JSON asks for: so do models write it */
		if (c >= 0x20 && c != '"' && c != '\\') {
			qwen_snode_more(s, at, "%c", c);
			continue;
		}
		len = qwen_json_char(text + i, 1, &used, as);
		qwen_snode_more(s, at, "\\\\%s%.*s", c < 0x20 ? "" : "\\",
		    (int)len - 1, as + 1);
	}
	qwen_snode_more(s, at, "\\\"%s\"", after);
	return at;
}

/* The one text that all parts have for a keyword; NULL: none has any. */
static yyjson_val *
only(struct schema *s, const struct schema_all *all, const char *keyword)
{
	yyjson_val *found = NULL, *v;
	int i;

	for (i = 0; i < all->n; i++) {
		if ((v = qwen_schema_get(all, i, keyword)) == NULL)
			continue;
		if (!yyjson_is_str(v))
			qwen_schema_fail(s, v, "not a string");
		else if (found != NULL && !yyjson_equals(v, found))
			qwen_schema_fail(s, v, "%s beside another one is not "
			    "supported", keyword);
		found = v;
	}
	return s->failed ? NULL : found;
}

#define QUOTE "\"\\\"\""

/* A format without further bounds is a rule that is made once. */
static uint32_t
by_format(struct schema *s, yyjson_val *v, uint32_t min, uint32_t max)
{
	uint32_t out;
	size_t i;

	for (i = 0; i < N_FORMATS; i++) {
		if (yyjson_equals_str(v, format[i].name))
			break;
	}
	if (i == N_FORMATS)
		return qwen_schema_fail(s, v, "the format %.40s is not "
		    "supported", yyjson_get_str(v));
	if (s->format[i] != 0 && min == 0 && max == UINT32_MAX)
		return qwen_snode_rule(s, s->format[i]);
	out = qwen_snode_around(s, QUOTE, qwen_schema_pattern(s, v,
	    format[i].pattern, strlen(format[i].pattern), min, max), QUOTE);
	if (min > 0 || max < UINT32_MAX || s->failed)
		return out;
	s->format[i] = qwen_schema_add_rule(s, out);
	return qwen_snode_rule(s, s->format[i]);
}

int
qwen_schema_vague(yyjson_val *v)
{
	return v == NULL || yyjson_equals_str(v, "password") ||
	    yyjson_equals_str(v, "int32") || yyjson_equals_str(v, "int64") ||
	    yyjson_equals_str(v, "float") || yyjson_equals_str(v, "double");
}

uint32_t
qwen_schema_string(struct schema *s, const struct schema_all *all)
{
	const int64_t limit = 100000;
	int64_t min = qwen_schema_bound(s, all, "minLength", 0);
	int64_t max = qwen_schema_bound(s, all, "maxLength", INT64_MAX);
	yyjson_val *re = only(s, all, "pattern");
	yyjson_val *kind = only(s, all, "format");
	uint32_t most = max > limit ? UINT32_MAX : (uint32_t)max;

	if (min > limit || (max > limit && max != INT64_MAX))
		qwen_schema_fail(s, all->part[0].v, "minLength or maxLength of "
		    "more than %lld", (long long)limit);
	if (s->failed || min > max)
		return SNODE_NEVER;
	if (!qwen_schema_vague(kind) && re != NULL)
		qwen_schema_fail(s, re, "pattern beside format is not "
		    "supported");
	if (!qwen_schema_vague(kind))
		return by_format(s, kind, (uint32_t)min, most);
	if (re != NULL)
		return qwen_snode_around(s, QUOTE, qwen_schema_pattern(s, re,
		    yyjson_get_str(re), yyjson_get_len(re), (uint32_t)min,
		    most), QUOTE);
	if (min == 0 && most == UINT32_MAX)
		return qwen_snode_text(s, "string");
	return qwen_snode_around(s, QUOTE, qwen_snode_repeat(s,
	    qwen_snode_text(s, "char"), (uint32_t)min, most), QUOTE);
}

/* The name of a member, of which we know what holds for it. */
uint32_t
qwen_schema_name(struct schema *s, const struct schema_all *all)
{
	struct schema_all only_text = *all;
	uint32_t out;

	if (all->never)
		return SNODE_NEVER;
	if (qwen_schema_types(s, all, 1) & ~TYPE_STRING &&
	    all->n > 0 && qwen_schema_types(s, all, 1) != TYPE_ANY)
		qwen_schema_fail(s, all->part[0].v, "names of members are "
		    "strings");
	if (qwen_schema_has(all, "anyOf") || qwen_schema_has(all, "oneOf"))
		qwen_schema_fail(s, all->part[0].v, "alternatives of names are "
		    "not supported");
	if (!qwen_schema_listed(s, &only_text, &out))
		out = qwen_schema_string(s, &only_text);
	return out;
}
