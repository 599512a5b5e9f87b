/* SPDX-License-Identifier: ISC */
/* value.c - the grammar of a value, by the schemas that hold for it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/schema/schema.h"

/* ---------------------------------------------------------- alternatives */

/* Are all values of these types valid? */
static int
covers(struct schema *s, const struct schema_all *all, int types)
{
	yyjson_val *key, *v;
	int i, of = qwen_schema_types(s, all, 0);
	size_t k, max;

	for (i = 0; i < all->n; i++) {
		if (qwen_schema_values(all->part[i].v, &v) > 0 ||
		    qwen_schema_has(all, "anyOf") ||
		    qwen_schema_has(all, "not"))
			return 0;
		yyjson_obj_foreach(all->part[i].v, k, max, key, v) {
			if (qwen_schema_speaks_of(yyjson_get_str(key)) & types)
				return 0;
		}
	}
	return (types & ~of) == 0;
}

/*
 * oneOf: makes the alternatives exclude each other.  If values of one may be
 * valid by another, removes their common types from the first, if it has other
 * types and the common ones are neither array nor object.  Otherwise drops the
 * first if the other allows all values of the common types, but not the other
 * way round.  Otherwise notes that both may match.
 */
static int
keep_apart(struct schema *s, yyjson_val *list, struct schema_all *all,
    size_t n)
{
	char *drop = qwen_alloc(n, 1);
	size_t i, k;
	int both, own;

	if (drop == NULL)
		return qwen_schema_oom(s);
	for (i = 0; i < n; i++) {
		for (k = 0; k < n && !s->failed; k++) {
			if (i == k || qwen_schema_disjoint(s, &all[i], &all[k],
			    0))
				continue;
			own = qwen_schema_types(s, &all[i], 1);
			both = own & qwen_schema_types(s, &all[k], 0);
			if ((own & ~both) != 0 && (both & (TYPE_ARRAY |
			    TYPE_OBJECT)) == 0)
				all[i].out |= (unsigned)both;
			else if (covers(s, &all[k], both) && !covers(s, &all[i],
			    qwen_schema_types(s, &all[k], 0)))
				drop[i] = 1;
			else
				qwen_schema_note(s, list, "a value may fit "
				    "both %zu and %zu of oneOf: it is taken as "
				    "anyOf", i, k);
		}
	}
	for (i = 0; i < n; i++)
		all[i].never |= drop[i];
	free(drop);
	return !s->failed;
}

/* Sets out to all parts together with v, an alternative of part i. */
static void
take(struct schema *s, const struct schema_all *all, int i, const char *which,
    yyjson_val *v, struct schema_all *out)
{
	*out = *all;
	out->part[i].chosen[which[0] == 'o'] = 1;
	qwen_schema_gather(s, out, v, i);
}

/* One of the alternatives of part i, together with all other parts. */
static uint32_t
choose(struct schema *s, const struct schema_all *all, int i,
    const char *which)
{
	yyjson_val *list = qwen_schema_get(all, i, which), *v;
	struct schema_all *each;
	uint32_t out = qwen_snode(s, SNODE_ALT);
	size_t k, max, n = yyjson_arr_size(list);

	if (!yyjson_is_arr(list) || n == 0)
		return qwen_schema_fail(s, list, "not a list of schemas");
	if ((each = qwen_alloc(n, sizeof *each)) == NULL)
		return qwen_schema_oom(s);
	yyjson_arr_foreach(list, k, max, v)
		take(s, all, i, which, v, &each[k]);
	if (which[0] == 'a' || keep_apart(s, list, each, n)) {
		for (k = 0; k < n && !s->failed; k++)
			qwen_snode_add(s, out, qwen_schema_value(s, &each[k]));
	}
	free(each);
	return out;
}

/* ------------------------------------------------------------------ values */

/* Fails for unsupported keywords that matter for these types. */
static void
refuse(struct schema *s, const struct schema_all *all, int types)
{
	yyjson_val *key, *v;
	size_t k, max;
	int i;

	for (i = 0; i < all->n; i++) {
		yyjson_obj_foreach(all->part[i].v, k, max, key, v) {
			const char *name = yyjson_get_str(key);

			if (qwen_schema_cannot(name) &&
			    (qwen_schema_speaks_of(name) & types))
				qwen_schema_fail(s, all->part[i].v,
				    "keyword \"%s\" is not supported", name);
		}
	}
}

/* Does not list this value (null, true or false)? */
static int
is_out(const struct schema_all *all, const char *text)
{
	yyjson_val *v;
	size_t n;
	int i;

	for (i = 0; i < all->n; i++) {
		SCHEMA_EACH_VALUE(qwen_schema_get(all, i, "not"), n, v) {
			if (text[0] == 'n' ? yyjson_is_null(v) :
			    yyjson_is_bool(v) && yyjson_get_bool(v) ==
			    (text[0] == 't'))
				return 1;
		}
	}
	return 0;
}

static void
add_plain(struct schema *s, const struct schema_all *all, uint32_t out,
    const char *text)
{
	if (!is_out(all, text))
		qwen_snode_add(s, out, qwen_snode_text(s, "\"%s\"", text));
}

/* Adds values of all types except string; the strings in them are never raw. */
static void
add_others(struct schema *s, const struct schema_all *all, uint32_t out,
    int types)
{
	if (types & TYPE_OBJECT)
		qwen_snode_add(s, out, qwen_schema_object(s, all));
	if (types & TYPE_ARRAY)
		qwen_snode_add(s, out, qwen_schema_array(s, all));
	if (types & TYPE_NUMBER)
		qwen_snode_add(s, out, qwen_schema_number(s, all,
		    types & TYPE_NUMBER));
	if (types & TYPE_BOOLEAN) {
		add_plain(s, all, out, "true");
		add_plain(s, all, out, "false");
	}
	if (types & TYPE_NULL)
		add_plain(s, all, out, "null");
}

uint32_t
qwen_schema_value(struct schema *s, const struct schema_all *all)
{
	const char *which;
	uint32_t out;
	int i, types, raw = s->raw;

	if (!qwen_schema_step(s) || all->never)
		return SNODE_NEVER;
	if ((i = qwen_schema_find_open(all, &which)) >= 0)
		return choose(s, all, i, which);
	types = qwen_schema_types(s, all, 1);
	refuse(s, all, types);
	if (qwen_schema_listed(s, all, &out))
		return out;
	if (qwen_schema_is_any(s, all))
		return qwen_snode_text(s, raw ? "text" : "value");
	out = qwen_snode(s, SNODE_ALT);
	s->raw = 0;
	add_others(s, all, out, types);
	s->raw = raw;
	if (types & TYPE_STRING)
		qwen_snode_add(s, out, qwen_schema_string(s, all));
	return s->failed ? SNODE_NEVER : out;
}

unsigned
qwen_schema_raw_types(struct schema *s, const struct schema_all *all)
{
	struct schema_all one;
	yyjson_val *v;
	const char *which;
	unsigned types = 0;
	size_t k, max;
	int i = qwen_schema_find_open(all, &which);

	if (!qwen_schema_step(s) || all->never)
		return 0;
	if (i < 0)
		return qwen_schema_is_any(s, all) ? 0 :
		    (unsigned)qwen_schema_types(s, all, 1) &
		    ~(unsigned)TYPE_STRING;
	yyjson_arr_foreach(qwen_schema_get(all, i, which), k, max, v) {
		take(s, all, i, which, v, &one);
		types |= qwen_schema_raw_types(s, &one);
	}
	return types;
}

static int
is_same(const struct schema_all *a, const struct schema_all *b)
{
	int i;

	if (a->n != b->n || a->out != b->out)
		return 0;
	for (i = 0; i < a->n; i++) {
		if (a->part[i].v != b->part[i].v)
			return 0;
	}
	return 1;
}

/* A reference to the rule of these schemas; adds the rule if it is new. */
static uint32_t
rule_of(struct schema *s, const struct schema_all *all)
{
	struct schema_all *copy;
	uint32_t at;
	size_t i;

	for (i = 0; i < s->n_rules && qwen_schema_step(s); i++) {
		if (s->rule[i].all != NULL && is_same(s->rule[i].all, all))
			return qwen_snode_rule(s, (uint32_t)i);
	}
	at = qwen_schema_add_rule(s, SNODE_NEVER);
	if (s->failed)
		return SNODE_NEVER;
	if ((copy = malloc(sizeof *copy)) == NULL)
		return qwen_schema_oom(s);
	*copy = *all;
	s->rule[at].all = copy;
	s->rule[at].made = 0;
	return qwen_snode_rule(s, at);
}

uint32_t
qwen_schema_child(struct schema *s, const struct schema_all *all)
{
	const char *which;
	yyjson_val *v;
	int i, types, many = 0;

	if (s->failed || all->never)
		return SNODE_NEVER;
	if (qwen_schema_find_open(all, &which) >= 0)
		return rule_of(s, all);
	for (i = 0; i < all->n; i++)
		many |= qwen_schema_values(all->part[i].v, &v) > 4;
	types = qwen_schema_types(s, all, 1);
	if (qwen_schema_is_any(s, all))
		return qwen_schema_value(s, all);
	return many || (types & (TYPE_ARRAY | TYPE_OBJECT)) ?
	    rule_of(s, all) : qwen_schema_value(s, all);
}
