/* SPDX-License-Identifier: ISC */
/* string.c - strings by length, pattern and format. */
#include <string.h>

#include "base/utf8.h"
#include "text/schema/schema.h"

#define YEAR "(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])"
/* years with a 29th of February */
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
#define HEX "[0-9a-f]{1,4}"
#define N "\\d{1,6}"
#define CLOCK "(?:" N "H(?:" N "M(?:" N "S)?)?|" N "M(?:" N "S)?|" N "S)"
#define DAYS "(?:" N "D|" N "M(?:" N "D)?|" N "Y(?:" N "M(?:" N "D)?)?)"
#define BASE64 "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|" \
    "[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"

/* Patterns of formats; each matches a subset of the valid texts. */
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
	{ "ipv6", "^(?:(?:" HEX ":){7}" HEX "|(?:" HEX ":){1,7}:|"
	    "(?:" HEX ":){1,6}:" HEX "|(?:" HEX ":){1,5}(?::" HEX "){1,2}|"
	    "(?:" HEX ":){1,4}(?::" HEX "){1,3}|"
	    "(?:" HEX ":){1,3}(?::" HEX "){1,4}|"
	    "(?:" HEX ":){1,2}(?::" HEX "){1,5}|" HEX ":(?::" HEX "){1,6}|"
	    ":(?::" HEX "){1,7}|::)$" },
	{ "duration", "^P(?:" N "W|" DAYS "(?:T" CLOCK ")?|T" CLOCK ")$" },
	{ "base64", "^" BASE64 "$" },
	{ "byte", "^" BASE64 "$" },
	{ "json-pointer", "^(?:/(?:[^~/]|~[01])*)*$" },
	{ "uri", "^https?://" HOST "(?::[1-9]\\d{0,3})?"
	    "(?:/[A-Za-z0-9._~-]{0,64}){0,8}(?:\\?[A-Za-z0-9._~=&-]{1,256})?"
	    "(?:#[A-Za-z0-9._~-]{1,64})?$" },
};

#define N_FORMATS (sizeof format / sizeof format[0])

/* Returns the index of a format; N_FORMATS if it is missing or unknown. */
static size_t
format_of(yyjson_val *v)
{
	size_t i = 0;

	while (i < N_FORMATS && !yyjson_equals_str(v, format[i].name))
		i++;
	return i;
}

uint32_t
qwen_schema_quoted(struct schema *s, const char *text, size_t n,
    const char *after)
{
	char as[QWEN_JSON_CHAR];
	size_t i, used, len;

	qwen_text_str(&s->text, "\"\\\"");
	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		/* escape only what JSON requires, as models do */
		if (c >= 0x20 && c != '"' && c != '\\') {
			qwen_text_fmt(&s->text, "%c", c);
			continue;
		}
		len = qwen_json_char(text + i, 1, &used, as);
		qwen_text_fmt(&s->text, "\\\\%s%.*s", c < 0x20 ? "" : "\\",
		    (int)len - 1, as + 1);
	}
	return qwen_snode_text(s, "\\\"%s\"", after);
}

#define QUOTE "\"\\\"\""

/* ---------------------------------------------------------------- raw texts */

/*
 * A raw text ends before the next tag.  Long raw texts with a length limit are
 * made of chunks.  A chunk has CHUNK characters, and as many more, up to
 * CHUNK_MOST, as it takes not to end within a possible tag.  This excludes
 * texts with more than four < in a row at the end of a chunk.
 */
enum { CHUNK = 32, CHUNK_MOST = 36, EXACT = 64, EXACT_MOST = 250 };

#define TAG "</parameter>"
#define TAG_PART "</par"	/* with a limit: fewer states */

static void
bounds(struct schema_together *t, uint32_t min, uint32_t max)
{
	if (min > 0 || max < UINT32_MAX)
		qwen_schema_condition(t, (struct schema_condition){
		    .min = min, .max = max });
}

static uint32_t
short_raw(struct schema *s, uint32_t min, uint32_t max)
{
	struct schema_together t = { .n = 0 };

	qwen_schema_own_pattern(s, TAG_PART, -1, &t);
	bounds(&t, min, max);
	return qwen_schema_together(s, &t);
}

static uint32_t
chunk(struct schema *s)
{
	struct schema_together t = { .ends_first = 1 };

	qwen_schema_own_pattern(s, TAG_PART, -1, &t);
	qwen_schema_own_pattern(s, "<(?:/(?:p(?:a)?)?)?$", -1, &t);
	bounds(&t, CHUNK, CHUNK_MOST);
	return qwen_schema_together(s, &t);
}

static uint32_t
long_raw(struct schema *s, uint32_t min, uint32_t max)
{
	uint32_t least = (min + CHUNK - 1) / CHUNK, most = UINT32_MAX, out;
	const char *rest = "text";

	if (max != UINT32_MAX) {
		most = (max - (CHUNK - 1)) / CHUNK_MOST;
		rest = "rawtail";
	}
	if (most < least)
		return SNODE_NEVER;
	out = qwen_snode_then(s, qwen_snode_repeat(s,
	    qwen_snode_text(s, "rawchunk"), least, max == UINT32_MAX ? least :
	    most), qwen_snode_text(s, "%s", rest));
	/* texts shorter than a chunk */
	return least != 1 ? out : qwen_snode_or(s, out,
	    short_raw(s, min, CHUNK - 1));
}

static uint32_t
raw_length(struct schema *s, uint32_t min, uint32_t max)
{
	if (min == 0 && max == UINT32_MAX)
		return qwen_snode_text(s, "text");
	/* too narrow for chunks, or short */
	if (max <= EXACT || (max <= EXACT_MOST && max / CHUNK_MOST <=
	    min / CHUNK + 1))
		return short_raw(s, min, max);
	return long_raw(s, min, max);
}

void
qwen_schema_raw_rules(struct schema *s, uint32_t *chunks, uint32_t *tail)
{
	*chunks = chunk(s);
	*tail = short_raw(s, 0, CHUNK - 1);
}

/*
 * Excludes texts that look like a value of another type, if the value may have
 * that type: a reader would take them for such a value.
 */
static void
exclude_others(struct schema *s, struct schema_together *t)
{
	unsigned types = s->raw_types;

	if (types & TYPE_NUMBER)
		qwen_schema_own_pattern(s, "^\\s*-?(?:0|[1-9]\\d*)(?:\\.\\d+)?"
		    "(?:[eE][-+]?\\d+)?\\s*$", -1, t);
	if (types & TYPE_BOOLEAN)
		qwen_schema_own_pattern(s, "^\\s*(?:[Tt]rue|[Ff]alse)\\s*$",
		    -1, t);
	if (types & (TYPE_ARRAY | TYPE_OBJECT))
		qwen_schema_own_pattern(s, "^\\s*[\\[{]", -1, t);
}

/* --------------------------------------------------------------- conditions */

/* A text as a tree for an automaton; it cannot be printed. */
uint32_t
qwen_schema_letters(struct schema *s, const char *t, size_t len)
{
	uint32_t out = qwen_snode(s, SNODE_SEQ), c, at;
	struct schema_set set;
	size_t i;

	for (i = 0; i < len && !s->failed; ) {
		i += (size_t)qwen_utf8_read((const unsigned char *)t + i,
		    len - i, &c);
		set.n = 0;
		qwen_set_add(s, &set, c, c);
		at = qwen_snode_text(s, "\"\"");
		qwen_snode_keep(s, at, &set);
		qwen_snode_add(s, out, at);
	}
	return out;
}

/* Does a text meet the conditions? */
static int
meets(struct schema *s, struct schema_together *t, const char *text, size_t n)
{
	t->only_asked = 1;
	qwen_schema_hold(t, 0, qwen_schema_letters(s, text, n));
	return qwen_schema_together(s, t) != SNODE_NEVER;
}

/* Does a pattern (ECMAScript) match a text? */
int
qwen_schema_matches(struct schema *s, yyjson_val *re, const char *text,
    size_t n)
{
	struct schema_together t = { .n = 0 };
	int yes;

	qwen_schema_pattern(s, re, 0, &t);
	yes = meets(s, &t, text, n);
	if (t.full)
		qwen_schema_fail(s, re, "the pattern is too large");
	return yes;
}

/* Does a string have the format? 1 if the format is unknown. */
int
qwen_schema_has_format(struct schema *s, yyjson_val *kind, const char *text,
    size_t n)
{
	struct schema_together t = { .n = 0 };
	size_t i = format_of(kind);

	if (i == N_FORMATS)
		return 1;
	qwen_schema_own_pattern(s, format[i].pattern, 0, &t);
	return meets(s, &t, text, n);
}

/* One of the strings of a list. */
static uint32_t
any_of(struct schema *s, yyjson_val *part)
{
	uint32_t out = qwen_snode(s, SNODE_ALT);
	yyjson_val *v;
	size_t n;

	SCHEMA_EACH_VALUE(part, n, v) {
		if (qwen_schema_step(s) && yyjson_is_str(v))
			qwen_snode_add(s, out, qwen_schema_letters(s,
			    yyjson_get_str(v), yyjson_get_len(v)));
	}
	return out;
}

/* Adds the conditions of not: a pattern or a list; sugar.c leaves no other. */
static void
exclude(struct schema *s, const struct schema_all *all,
    struct schema_together *t)
{
	yyjson_val *not, *re, *v;
	int i;

	for (i = 0; i < all->n; i++) {
		if ((not = qwen_schema_get(all, i, "not")) == NULL)
			continue;
		if ((re = yyjson_obj_get(not, "pattern")) != NULL)
			qwen_schema_pattern(s, re, -1, t);
		else if (qwen_schema_values(not, &v) > 0)
			qwen_schema_hold(t, -1, any_of(s, not));
	}
}

static int
is_before(const struct schema_all *all, int i, const char *keyword,
    yyjson_val *v)
{
	for (; i > 0; i--) {
		if (yyjson_equals(qwen_schema_get(all, i - 1, keyword), v))
			return 1;
	}
	return 0;
}

/* Adds all patterns; formats: and the known formats. */
static void
patterns(struct schema *s, const struct schema_all *all, int formats,
    struct schema_together *t)
{
	yyjson_val *v;
	size_t k;
	int i;

	for (i = 0; i < all->n; i++) {
		if ((v = qwen_schema_get(all, i, "pattern")) != NULL &&
		    !yyjson_is_str(v))
			qwen_schema_fail(s, v, "not a string");
		else if (v != NULL && !is_before(all, i, "pattern", v))
			qwen_schema_pattern(s, v, 0, t);
		v = qwen_schema_get(all, i, "format");
		if (v != NULL && !yyjson_is_str(v))
			qwen_schema_fail(s, v, "not a string");
		k = format_of(v);
		if (k < N_FORMATS && formats && !is_before(all, i, "format", v))
			qwen_schema_own_pattern(s, format[k].pattern, 0, t);
	}
}

int
qwen_schema_takes(struct schema *s, const struct schema_all *all,
    yyjson_val *v, int formats)
{
	struct schema_together t = { .n = 0 };
	int64_t min = qwen_schema_bound(s, all, "minLength", 0);
	int64_t max = qwen_schema_bound(s, all, "maxLength", UINT32_MAX);

	patterns(s, all, formats, &t);
	exclude(s, all, &t);
	bounds(&t, (uint32_t)(min < UINT32_MAX ? min : UINT32_MAX - 1),
	    (uint32_t)(max < UINT32_MAX ? max : UINT32_MAX));
	return meets(s, &t, yyjson_get_str(v), yyjson_get_len(v)) || t.full;
}

/* Is anything required of the string except its type? */
static int
is_bounded(const struct schema_all *all, uint32_t min, uint32_t max)
{
	int i, is = min > 0 || max < UINT32_MAX ||
	    qwen_schema_has(all, "pattern") || qwen_schema_has(all, "not");

	for (i = 0; i < all->n; i++)
		is |= format_of(qwen_schema_get(all, i, "format")) < N_FORMATS;
	return is;
}

/*
 * Is the string only limited by known formats that have no '<', with which a
 * tag begins?
 */
static int
has_no_tag(const struct schema_all *all)
{
	int i;

	if (qwen_schema_has(all, "pattern") || qwen_schema_has(all, "not"))
		return 0;
	for (i = 0; i < all->n; i++) {
		if (yyjson_equals_str(qwen_schema_get(all, i, "format"),
		    "json-pointer"))
			return 0;
	}
	return 1;
}

/*
 * Returns the tree, limited to the length, if it is the only condition and can
 * be printed; else NEVER.
 */
static uint32_t
as_tree(struct schema *s, const struct schema_all *all,
    const struct schema_together *t, uint32_t min, uint32_t max)
{
	if ((s->raw && !has_no_tag(all)) || t->n != 1 || t->hard || t->c[0].group != 0 ||
	    t->c[0].tree == 0)
		return SNODE_NEVER;
	return qwen_schema_limit(s, t->c[0].tree, min, max) ? t->c[0].tree :
	    SNODE_NEVER;
}

/* Adds all conditions, except those on the length. */
static void
conditions(struct schema *s, const struct schema_all *all, int formats,
    struct schema_together *t)
{
	patterns(s, all, formats, t);
	exclude(s, all, t);
	if (s->raw)
		exclude_others(s, t);
}

/* The text between the quotes, by all conditions. */
static uint32_t
inside(struct schema *s, const struct schema_all *all, int formats,
    uint32_t min, uint32_t max, int *full)
{
	struct schema_together t = { .n = 0 };
	uint32_t out;

	conditions(s, all, formats, &t);
	*full = 0;
	if (t.n == 0)
		return s->raw ? raw_length(s, min, max) : qwen_snode_repeat(s,
		    qwen_snode_text(s, "char"), min, max);
	if ((out = as_tree(s, all, &t, min, max)) != SNODE_NEVER)
		return out;
	/* make the trees again, since as_tree() may have changed them */
	memset(&t, 0, sizeof t);
	conditions(s, all, formats, &t);
	if (s->raw)
		qwen_schema_own_pattern(s, TAG, -1, &t);
	bounds(&t, min, max);
	out = qwen_schema_together(s, &t);
	*full = t.full && !s->failed;
	return out;
}

/* A rule that is made once per format; NEVER if there are other bounds. */
static uint32_t
by_format(struct schema *s, const struct schema_all *all)
{
	yyjson_val *found = NULL, *v;
	uint32_t out;
	size_t k;
	int i, full;

	for (i = 0; i < all->n; i++) {
		v = qwen_schema_get(all, i, "format");
		if (found != NULL && v != NULL && !yyjson_equals(v, found))
			return SNODE_NEVER;
		found = v != NULL ? v : found;
	}
	k = format_of(found);
	if (s->raw || k == N_FORMATS || qwen_schema_has(all, "pattern") ||
	    qwen_schema_has(all, "not") || qwen_schema_has(all, "minLength") ||
	    qwen_schema_has(all, "maxLength"))
		return SNODE_NEVER;
	if (s->format[k] == 0) {
		out = qwen_snode_around(s, QUOTE, inside(s, all, 1, 0,
		    UINT32_MAX, &full), QUOTE);
		s->format[k] = qwen_schema_add_rule(s, out);
	}
	return qwen_snode_rule(s, s->format[k]);
}

/* If all conditions are too many, leaves out the format, with a note. */
static uint32_t
by_all(struct schema *s, const struct schema_all *all, uint32_t min,
    uint32_t max)
{
	uint32_t out;
	int full;

	out = inside(s, all, 1, min, max, &full);
	if (full && qwen_schema_has(all, "pattern") &&
	    qwen_schema_has(all, "format") && qwen_schema_note(s,
	    all->part[0].v, "format is not kept beside pattern"))
		out = inside(s, all, 0, min, max, &full);
	if (full)
		qwen_schema_fail(s, all->part[0].v, "too many constraints on "
		    "one string: put the length into the pattern, or drop one");
	return out;
}

uint32_t
qwen_schema_string(struct schema *s, const struct schema_all *all)
{
	const int64_t limit = 100000;
	int64_t min = qwen_schema_bound(s, all, "minLength", 0);
	int64_t max = qwen_schema_bound(s, all, "maxLength", INT64_MAX);
	uint32_t most = max > limit ? UINT32_MAX : (uint32_t)max, out;

	if (min > limit || (max > limit && max != INT64_MAX))
		qwen_schema_fail(s, all->part[0].v, "minLength or maxLength "
		    "exceeds %lld", (long long)limit);
	if (s->failed || min > max)
		return SNODE_NEVER;
	if ((out = by_format(s, all)) != SNODE_NEVER || s->failed)
		return out;
	if (!s->raw && !is_bounded(all, (uint32_t)min, most))
		return qwen_snode_text(s, "string");
	out = by_all(s, all, (uint32_t)min, most);
	return s->raw ? out : qwen_snode_around(s, QUOTE, out, QUOTE);
}

