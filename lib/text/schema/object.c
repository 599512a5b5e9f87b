/* SPDX-License-Identifier: ISC */
/*
 * object.c - the fields of an object: those that the schema names, in its
 * order, then others, if it describes any.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/schema/schema.h"

#define QUOTE "\"\\\"\""

enum { PATTERNS = 8 };

struct member {
	const char	*name;
	size_t		 n;
	int		 required;
	struct schema_all all;
};

struct object {
	struct schema_all others;	/* schemas of fields not named */
	int		 open;		/* there may be others */
	struct member	*m;
	size_t		 n, cap;
	size_t		 n_names;	/* including fields that leave_out()
					   removed */
	uint32_t	 least, most;	/* number of others */
	int		 never;		/* nothing is valid */
	struct {
		yyjson_val	 *key;
		struct schema_all all;
	}		*pattern;	/* of patternProperties */
	size_t		 n_patterns;
	int		 has_others;	/* additionalProperties, or
					   unevaluatedProperties, is given */
	struct schema_all keys;		/* schemas of the others' names */
	int		 has_keys;
};

/* ------------------------------------------------------------------- fields */

/* Returns the member of a field, and creates it if it is new; or NULL. */
static struct member *
member(struct schema *s, struct object *o, yyjson_val *key)
{
	const char *name = yyjson_get_str(key);
	size_t n = yyjson_get_len(key), i;

	if (name == NULL)
		qwen_schema_fail(s, key, "a field name is not a string");
	for (i = 0; i < o->n && !s->failed; i++) {
		if (o->m[i].n == n && memcmp(o->m[i].name, name, n) == 0)
			return &o->m[i];
	}
	if (o->n == o->cap)
		qwen_schema_fail(s, NULL, "an object with more than %d fields",
		    SCHEMA_KEYS);
	if (s->failed)
		return NULL;
	o->m[o->n] = (struct member){ .name = name, .n = n };
	return &o->m[o->n++];
}

static void
find_members(struct schema *s, const struct schema_all *all, struct object *o)
{
	yyjson_val *list, *key, *v;
	struct member *m;
	size_t k, max;
	int i;

	for (i = 0; i < all->n; i++) {
		list = qwen_schema_get(all, i, "properties");
		if (list != NULL && !yyjson_is_obj(list))
			qwen_schema_fail(s, list, "not an object of schemas");
		if (yyjson_obj_size(list) > SCHEMA_KEYS)
			qwen_schema_fail(s, list, "more than %d fields",
			    SCHEMA_KEYS);
		if (s->failed)
			return;
		yyjson_obj_foreach(list, k, max, key, v)
			member(s, o, key);
	}
	for (i = 0; i < all->n; i++) {
		list = qwen_schema_get(all, i, "required");
		/* booleans are of an old draft, or belong to another keyword */
		if (list != NULL && !yyjson_is_arr(list))
			qwen_schema_fail(s, all->part[i].v, "required is not "
			    "a list of names");
		yyjson_arr_foreach(list, k, max, key) {
			if ((m = member(s, o, key)) != NULL)
				m->required = 1;
		}
	}
	for (k = 0; k < o->n && !s->failed; k++)
		qwen_schema_member(s, all, o->m[k].name, o->m[k].n,
		    &o->m[k].all);
}

/* ---------------------------------------------------------------- others */

/* Finds the patterns of one part, and their schemas. */
static void
find_patterns(struct schema *s, struct object *o, yyjson_val *part,
    yyjson_val *list)
{
	yyjson_val *key, *v;
	size_t i, n = yyjson_obj_size(list);

	if (!yyjson_is_obj(list) || o->pattern != NULL || n > PATTERNS) {
		qwen_schema_fail(s, part, "patternProperties in several "
		    "schemas of one object, or more than %d of them, is not "
		    "supported", PATTERNS);
		return;
	}
	if ((o->pattern = qwen_alloc(n, sizeof *o->pattern)) == NULL) {
		qwen_schema_oom(s);
		return;
	}
	yyjson_obj_foreach(list, i, n, key, v) {
		o->pattern[i].key = key;
		qwen_schema_gather(s, &o->pattern[i].all, v, -1);
		o->open |= !o->pattern[i].all.never;
		o->n_patterns++;
	}
}

/* Finds the schemas of the fields that are not named, and of their names. */
static void
find_others(struct schema *s, const struct schema_all *all, struct object *o)
{
	yyjson_val *v;
	int i, named = 0;

	for (i = 0; i < all->n; i++) {
		named |= qwen_schema_get(all, i, "properties") != NULL;
		if ((v = qwen_schema_get(all, i, "patternProperties")) != NULL)
			find_patterns(s, o, all->part[i].v, v);
		if ((v = qwen_schema_get(all, i, "additionalProperties")) !=
		    NULL || (v = qwen_schema_get(all, i,
		    "unevaluatedProperties")) != NULL) {
			qwen_schema_gather(s, &o->others, v, -1);
			o->has_others = 1;
		}
		if ((v = qwen_schema_get(all, i, "propertyNames")) != NULL) {
			qwen_schema_gather(s, &o->keys, v, -1);
			o->has_keys = 1;
		}
	}
	if (o->n_patterns > 0 && all->n > 1 && o->has_others)
		qwen_schema_fail(s, all->part[0].v, "patternProperties with "
		    "additionalProperties in other schemas of the object is "
		    "not supported");
	if (o->has_keys && (o->n > 0 || o->n_patterns > 0))
		qwen_schema_fail(s, all->part[0].v, "propertyNames together "
		    "with other field names is not supported");
	/* without properties, any fields are allowed */
	o->open |= o->n_patterns == 0 && (o->has_others || !named);
	if (o->others.never && o->n_patterns == 0)
		o->open = 0;
}

/* Finds how many others there may be. */
static void
count_others(struct schema *s, const struct schema_all *all, struct object *o)
{
	int64_t min = qwen_schema_bound(s, all, "minProperties", 0), must = 0;
	int64_t max = qwen_schema_bound(s, all, "maxProperties", INT64_MAX);
	int64_t may = 0;
	size_t i;

	for (i = 0; i < o->n; i++) {
		must += o->m[i].required;
		may += !o->m[i].all.never;
	}
	o->most = UINT32_MAX;
	if (min > must) {
		if (min == 1)
			o->least = 1;
		else if (o->n == 0 && !o->open)
			o->never = 1;
		else
			/* others may repeat a name, which counts once */
			qwen_schema_fail(s, all->part[0].v, "minProperties "
			    "above the number of required fields is not "
			    "supported");
	}
	if (max >= may && !o->open)
		return;
	if (max != INT64_MAX && (may > must || max > 100000))
		qwen_schema_fail(s, all->part[0].v, "maxProperties with "
		    "optional fields, or a large one, is not supported");
	if (max < must || max < min)
		o->never = 1;
	else if (max != INT64_MAX)
		o->most = (uint32_t)(max - must);
}

/* ---------------------------------------------------------- names of others */

/* Returns the character at i; *len is its length. */
static uint32_t
character(const struct member *m, size_t i, size_t *len)
{
	uint32_t c = 0;

	/* names come from JSON, so they are UTF-8 */
	*len = (size_t)qwen_utf8_read((const unsigned char *)m->name + i,
	    m->n - i, &c);
	return c;
}

static int
compare_name(const void *a, const void *b)
{
	const struct member *x = *(const struct member *const *)a;
	const struct member *y = *(const struct member *const *)b;
	int c = memcmp(x->name, y->name, x->n < y->n ? x->n : y->n);

	return c != 0 ? c : (x->n > y->n) - (x->n < y->n);
}

/* A character that continues none of n names, then any characters. */
static uint32_t
astray(struct schema *s, struct member **m, size_t n, size_t at)
{
	struct schema_set set;
	size_t i, len;

	set.n = 0;
	qwen_set_add(s, &set, 0, 0x1f);
	qwen_set_add(s, &set, '"', '"');
	qwen_set_add(s, &set, '\\', '\\');
	for (i = 0; i < n; i++) {
		uint32_t c = character(m[i], at, &len);

		qwen_set_add(s, &set, c, c);
	}
	qwen_set_turn(s, &set);
	return qwen_snode_then(s, qwen_snode_set(s, &set),
	    qwen_snode_text(s, "plain*"));
}

/*
 * The rest of a name that has the first `at' bytes of n sorted names, but
 * differs from all of them.
 */
static uint32_t
unlike(struct schema *s, struct member **m, size_t n, size_t at)
{
	uint32_t out = qwen_snode(s, SNODE_ALT);
	size_t i, k, len;

	if (at > 96)
		qwen_schema_fail(s, NULL, "the name %.20s... is too long with "
		    "additionalProperties", m[0]->name);
	if (n > 0 && m[0]->n == at) {
		m++;
		n--;
	} else
		qwen_snode_add(s, out, SNODE_EMPTY);
	for (i = 0; i < n && !s->failed; i = k) {
		uint32_t first;

		character(m[i], at, &len);
		for (k = i + 1; k < n && memcmp(m[k]->name + at,
		    m[i]->name + at, len) == 0; k++)
			;
		first = qwen_snode_literal(s, m[i]->name + at, len);
		qwen_snode_add(s, out, qwen_snode_then(s, first,
		    unlike(s, m + i, k - i, at + len)));
	}
	qwen_snode_add(s, out, astray(s, m, n, at));
	return out;
}

/*
 * A name of another field.  It has no escapes, so that it cannot equal a named
 * field that needs escapes.
 */
static uint32_t
other_name(struct schema *s, struct object *o)
{
	struct member **m = qwen_alloc(o->n_names, sizeof *m);
	uint32_t out = SNODE_NEVER;
	size_t i, k, n = 0;

	for (i = 0; m != NULL && i < o->n_names; i++) {
		for (k = 0; k < o->m[i].n; k++) {
			unsigned char c = (unsigned char)o->m[i].name[k];

			if (c < 0x20 || c == '"' || c == '\\')
				break;
		}
		if (k == o->m[i].n)
			m[n++] = &o->m[i];
	}
	if (m == NULL)
		qwen_schema_oom(s);
	else {
		qsort(m, n, sizeof *m, compare_name);
		out = unlike(s, m, n, 0);
	}
	free(m);
	return out;
}

/* ----------------------------------------------------------------- objects */

/* A field: "name":value. */
static uint32_t
pair(struct schema *s, const struct member *m)
{
	return qwen_snode_then(s, qwen_schema_quoted(s, m->name, m->n,
	    s->how.spaced ? ": " : ":"), qwen_schema_child(s, &m->all));
}

/* Adds the condition that a name differs from all named fields. */
static void
exclude_names(struct schema *s, struct object *o, struct schema_together *t)
{
	uint32_t out = qwen_snode(s, SNODE_ALT);
	size_t i;

	for (i = 0; i < o->n_names; i++)
		qwen_snode_add(s, out, qwen_schema_letters(s, o->m[i].name,
		    o->m[i].n));
	qwen_schema_hold(t, -1, out);
}

/* Names that match only the pattern `at' (NULL: no pattern). */
static uint32_t
name_of_pattern(struct schema *s, struct object *o, yyjson_val *at)
{
	struct schema_together t = { .n = 0 };
	uint32_t out;
	size_t i;

	for (i = 0; i < o->n_patterns && !s->failed; i++)
		qwen_schema_pattern(s, o->pattern[i].key,
		    o->pattern[i].key == at ? 0 : -1, &t);
	if (o->n_names > 0)
		exclude_names(s, o, &t);
	out = t.n == 1 && !t.hard && at != NULL ? t.c[0].tree :
	    qwen_schema_together(s, &t);
	if (t.full && !s->failed)
		return (uint32_t)qwen_schema_fail(s, at, "patternProperties: "
		    "the names are too complex");
	return out;
}

static void
add_by_pattern(struct schema *s, struct object *o, yyjson_val *at,
    const struct schema_all *all, uint32_t out)
{
	uint32_t name = qwen_snode_around(s, QUOTE, name_of_pattern(s, o, at),
	    QUOTE);

	qwen_snode_add(s, out, qwen_snode_field(s, name,
	    qwen_schema_child(s, all)));
}

static uint32_t
by_patterns(struct schema *s, struct object *o)
{
	uint32_t out = qwen_snode(s, SNODE_ALT);
	size_t i;

	for (i = 0; i < o->n_patterns && !s->failed; i++) {
		if (!o->pattern[i].all.never)
			add_by_pattern(s, o, o->pattern[i].key,
			    &o->pattern[i].all, out);
	}
	if (o->has_others && !o->others.never)
		add_by_pattern(s, o, NULL, &o->others, out);
	return out;
}

/* The name of a field, by the schemas that hold for it. */
static uint32_t
name(struct schema *s, const struct schema_all *all)
{
	uint32_t out;

	if (all->never)
		return SNODE_NEVER;
	if (qwen_schema_types(s, all, 1) & ~TYPE_STRING &&
	    all->n > 0 && qwen_schema_types(s, all, 1) != TYPE_ANY)
		qwen_schema_fail(s, all->part[0].v, "propertyNames must "
		    "describe strings");
	if (qwen_schema_has(all, "anyOf") || qwen_schema_has(all, "oneOf"))
		qwen_schema_fail(s, all->part[0].v, "alternatives in "
		    "propertyNames are not supported");
	if (!qwen_schema_listed(s, all, &out))
		out = qwen_schema_string(s, all);
	return out;
}

static uint32_t
other_pair(struct schema *s, struct object *o)
{
	uint32_t key;

	if (o->n_patterns > 0)
		return by_patterns(s, o);
	if (o->has_keys)
		key = name(s, &o->keys);
	else if (o->n_names == 0)
		key = qwen_snode_text(s, "string");
	else
		key = qwen_snode_around(s, QUOTE, other_name(s, o), QUOTE);
	return qwen_snode_field(s, key, qwen_schema_child(s, &o->others));
}

/* Others, each after a comma, at most `most'. */
static uint32_t
more_others(struct schema *s, struct object *o, uint32_t gone)
{
	if (!o->open || o->most <= gone)
		return SNODE_EMPTY;
	return qwen_snode_repeat(s, qwen_snode_after_comma(s, other_pair(s, o)),
	    0, o->most == UINT32_MAX ? o->most : o->most - gone);
}

/* Fields from i on, each after a comma, then others. */
static uint32_t
tail(struct schema *s, struct object *o, size_t i)
{
	uint32_t out = qwen_snode(s, SNODE_SEQ);

	for (; i < o->n && !s->failed; i++) {
		uint32_t one = qwen_snode_after_comma(s, pair(s, &o->m[i]));

		qwen_snode_add(s, out, o->m[i].required ? one :
		    qwen_snode_repeat(s, one, 0, 1));
	}
	qwen_snode_add(s, out, more_others(s, o, 0));
	return out;
}

/*
 * The first field present is one of those up to the first required field; all
 * later fields may follow.  To write these for each first field would take
 * quadratic size: so the fields after each are a rule that refers to the next
 * rule.
 */
static uint32_t
members(struct schema *s, struct object *o)
{
	uint32_t out = qwen_snode(s, SNODE_ALT), after, rule;
	size_t first = 0, i;

	while (first < o->n && !o->m[first].required)
		first++;
	if (first == o->n) {
		if (o->least == 0)
			qwen_snode_add(s, out, SNODE_EMPTY);
		if (o->open && o->most > 0)
			qwen_snode_add(s, out, qwen_snode_then(s,
			    other_pair(s, o), more_others(s, o, 1)));
		if (o->n == 0 || s->failed)
			return out;
		first--;
	}
	after = tail(s, o, first + 1);
	for (i = first; !s->failed; i--) {
		rule = qwen_schema_add_rule(s, after);
		qwen_snode_add(s, out, qwen_snode_then(s,
		    pair(s, &o->m[i]), qwen_snode_rule(s, rule)));
		if (i == 0)
			break;
		/* after i - 1: field i, if present, and the fields after it */
		after = qwen_snode_after_comma(s, pair(s, &o->m[i]));
		if (!o->m[i].required)
			after = qwen_snode_repeat(s, after, 0, 1);
		after = qwen_snode_then(s, after, qwen_snode_rule(s, rule));
	}
	return out;
}

/*
 * Moves fields that are never valid behind n; their names stay reserved.
 * Returns 0 if one of these is required.
 */
static int
leave_out(struct object *o)
{
	struct member m;
	size_t i, k, n = 0;

	for (i = 0; i < o->n; i++) {
		if (o->m[i].all.never && o->m[i].required)
			return 0;
		if (o->m[i].all.never)
			continue;
		m = o->m[i];
		for (k = i; k > n; k--)
			o->m[k] = o->m[k - 1];
		o->m[n++] = m;
	}
	o->n = n;
	return 1;
}

/* Makes room for all fields that can be named. */
static int
make_room(struct schema *s, const struct schema_all *all, struct object *o)
{
	size_t n = 0;
	int i;

	for (i = 0; i < all->n; i++)
		n += yyjson_obj_size(qwen_schema_get(all, i, "properties")) +
		    yyjson_arr_size(qwen_schema_get(all, i, "required"));
	o->cap = n < SCHEMA_KEYS ? n : SCHEMA_KEYS;
	if ((o->m = qwen_alloc(o->cap, sizeof *o->m)) == NULL)
		qwen_schema_oom(s);
	return o->m != NULL;
}

uint32_t
qwen_schema_object(struct schema *s, const struct schema_all *all)
{
	struct object *o = qwen_alloc(1, sizeof *o);
	uint32_t out = SNODE_NEVER;

	if (o == NULL)
		return qwen_schema_oom(s);
	if (make_room(s, all, o)) {
		find_members(s, all, o);
		find_others(s, all, o);
		count_others(s, all, o);
		o->n_names = o->n;
	}
	if (!s->failed && !o->never && leave_out(o))
		out = qwen_snode_around(s, "\"{\"", members(s, o), "\"}\"");
	free(o->m);
	free(o->pattern);
	free(o);
	return s->failed ? SNODE_NEVER : out;
}
