/* SPDX-License-Identifier: ISC */
/* array.c - the items of an array. */
#include <stdlib.h>

#include "base/mem.h"
#include "text/schema/schema.h"

/* Returns the schemas by position: prefixItems, or items if it is a list. */
static yyjson_val *
places(const struct schema_all *all, int i)
{
	yyjson_val *v = qwen_schema_get(all, i, "prefixItems");

	if (v == NULL && yyjson_is_arr(qwen_schema_get(all, i, "items")))
		v = qwen_schema_get(all, i, "items");
	return v;
}

/* Returns the schema of the items after these; NULL: any. */
static yyjson_val *
others(const struct schema_all *all, int i)
{
	yyjson_val *v = qwen_schema_get(all, i, "items");

	return yyjson_is_arr(v) ? qwen_schema_get(all, i, "additionalItems") :
	    v;
}

static void
gather_item(struct schema *s, const struct schema_all *all, size_t at,
    struct schema_all *here)
{
	int i;

	for (i = 0; i < all->n; i++) {
		yyjson_val *list = places(all, i), *v;

		v = at < yyjson_arr_size(list) ? yyjson_arr_get(list, at) :
		    others(all, i);
		if (v != NULL)
			qwen_schema_gather(s, here, v, -1);
	}
}

static uint32_t
item(struct schema *s, const struct schema_all *all, size_t at)
{
	struct schema_all here = { .n = 0 };

	gather_item(s, all, at, &here);
	return qwen_schema_child(s, &here);
}

/*
 * Returns the number of items with a schema by position; *more: others may
 * follow.
 */
static size_t
count_places(struct schema *s, const struct schema_all *all, int *more)
{
	size_t n = 0;
	int i;

	*more = 0;
	for (i = 0; i < all->n; i++) {
		yyjson_val *list = places(all, i);
		if (list != NULL && !yyjson_is_arr(list))
			qwen_schema_fail(s, list, "not a list of schemas");
		if (yyjson_arr_size(list) > n)
			n = yyjson_arr_size(list);
		*more |= others(all, i) != NULL;
	}
	if (n > SCHEMA_PREFIX) {
		qwen_schema_fail(s, all->part[0].v, "more than %d items in "
		    "prefixItems", SCHEMA_PREFIX);
		n = 0;
	}
	*more |= n == 0;
	return n;
}

/*
 * min to max items after the first n; each after a comma, except the first of
 * all.
 */
static uint32_t
some(struct schema *s, const struct schema_all *all, size_t n, uint32_t min,
    uint32_t max)
{
	uint32_t out, rest;

	if (max == 0)
		return SNODE_EMPTY;
	if (n > 0)
		return qwen_snode_repeat(s,
		    qwen_snode_after_comma(s, item(s, all, n)), min, max);
	rest = qwen_snode_repeat(s, qwen_snode_after_comma(s, item(s, all, 0)),
	    min > 0 ? min - 1 : 0, max == UINT32_MAX ? max : max - 1);
	out = qwen_snode_then(s, item(s, all, 0), rest);
	return min > 0 ? out : qwen_snode_or(s, SNODE_EMPTY, out);
}

/* Finds the bounds of the number of items, which a grammar limits. */
static int
bounds(struct schema *s, const struct schema_all *all, int64_t *min,
    int64_t *max)
{
	const int64_t limit = 100000;

	*min = qwen_schema_bound(s, all, "minItems", 0);
	*max = qwen_schema_bound(s, all, "maxItems", INT64_MAX);
	if (*min > limit || (*max > limit && *max != INT64_MAX))
		qwen_schema_fail(s, all->part[0].v, "minItems or maxItems "
		    "exceeds %lld", (long long)limit);
	return !s->failed && *min <= *max;
}

/* -------------------------------------------------------------- uniqueItems */

enum { ANY_ORDER = 6, LISTED = 64 };

/* Unique items that are values of a short list. */
struct unique {
	struct schema	*s;
	uint32_t	 value[LISTED];		/* texts of the values */
	int		 n;
	int64_t		 min, max;
	uint32_t	 rule[1 << ANY_ORDER];	/* by set of the values used */
};

static uint32_t
copy(struct schema *s, uint32_t text)
{
	uint32_t at = qwen_snode(s, SNODE_SEQ);
	struct snode d;

	if (s->failed)
		return SNODE_NEVER;
	d = s->node[text];
	d.next = 0;
	s->node[at] = d;
	return at;
}

/* Value i, after a comma unless it is the first, and the rest. */
static uint32_t
one_more(struct unique *u, int i, int is_first, uint32_t after)
{
	uint32_t one = copy(u->s, u->value[i]);

	return qwen_snode_then(u->s, is_first ? one :
	    qwen_snode_after_comma(u->s, one), after);
}

/* Values in any order: one rule per set of values already used. */
static uint32_t
in_any_order(struct unique *u)
{
	struct schema *s = u->s;
	uint32_t out;
	int set, i, n;

	for (set = 0; set < 1 << u->n; set++)
		u->rule[set] = qwen_schema_add_rule(s, SNODE_NEVER);
	for (set = 0; set < 1 << u->n && !s->failed; set++) {
		n = __builtin_popcount((unsigned)set);
		out = qwen_snode(s, SNODE_ALT);
		if (n >= u->min)
			qwen_snode_add(s, out, SNODE_EMPTY);
		for (i = 0; i < u->n && n < u->max; i++) {
			if (!(set >> i & 1))
				qwen_snode_add(s, out, one_more(u, i, set == 0,
				    qwen_snode_rule(s, u->rule[set | 1 << i])));
		}
		if (!s->failed)
			s->rule[u->rule[set]].node = out;
	}
	return qwen_snode_rule(s, u->rule[0]);
}

/* Values in list order: one rule per position and number of items. */
static uint32_t
in_order(struct unique *u)
{
	struct schema *s = u->s;
	int most = (int)(u->max < u->n ? u->max : u->n), i, n, k;
	uint32_t *rule = qwen_alloc((size_t)(u->n + 1) * (size_t)(most + 1),
	    sizeof *rule), out;

	if (rule == NULL)
		return qwen_schema_oom(s);
	for (i = u->n; i >= 0 && !s->failed; i--) {
		for (n = most; n >= 0; n--) {
			k = i * (most + 1) + n;
			out = qwen_snode(s, SNODE_ALT);
			if (n >= u->min)
				qwen_snode_add(s, out, SNODE_EMPTY);
			if (i < u->n && n < most) {
				qwen_snode_add(s, out, one_more(u, i, n == 0,
				    qwen_snode_rule(s, rule[k + most + 2])));
			}
			if (i < u->n)
				qwen_snode_add(s, out, qwen_snode_rule(s,
				    rule[k + most + 1]));
			rule[k] = qwen_schema_add_rule(s, out);
		}
	}
	out = qwen_snode_rule(s, rule[0]);
	free(rule);
	return out;
}

/* Finds the texts if items are values of a list; else returns 0. */
static int
find_values(struct unique *u, const struct schema_all *here)
{
	struct schema *s = u->s;
	uint32_t list = SNODE_NEVER, i;
	int types = qwen_schema_types(s, here, 1);

	if (s->failed || qwen_schema_has(here, "anyOf") ||
	    qwen_schema_has(here, "oneOf"))
		return 0;
	if (!qwen_schema_listed(s, here, &list)) {
		if ((types & ~(TYPE_BOOLEAN | TYPE_NULL)) != 0)
			return 0;
		list = qwen_schema_value(s, here);
	}
	for (i = s->failed ? 0 : s->node[list].first; i != 0;
	    i = s->node[i].next) {
		if (u->n == LISTED || s->node[i].kind != SNODE_TEXT)
			return 0;
		u->value[u->n++] = i;
	}
	return !s->failed;
}

/*
 * Arrays of unique items; NEVER if items may be other values than those of a
 * list.
 */
static uint32_t
unique(struct schema *s, const struct schema_all *all, int64_t n, int64_t min,
    int64_t max)
{
	struct unique u = { .s = s, .min = min, .max = max };
	struct schema_all here = { .n = 0 };
	int i = 0;

	while (i < all->n &&
	    !yyjson_is_true(qwen_schema_get(all, i, "uniqueItems")))
		i++;
	if (i == all->n || max <= 1)
		return SNODE_NEVER;
	gather_item(s, all, 0, &here);
	if (n == 0 && find_values(&u, &here) && (u.n <= ANY_ORDER ||
	    u.n * (max < u.n ? max : u.n) <= 1024))
		return u.n <= ANY_ORDER ? in_any_order(&u) : in_order(&u);
	qwen_schema_note(s, all->part[0].v, "uniqueItems is not kept");
	return SNODE_NEVER;
}

uint32_t
qwen_schema_array(struct schema *s, const struct schema_all *all)
{
	uint32_t body;
	int64_t min, max, n;
	size_t i;
	int more;

	n = (int64_t)count_places(s, all, &more);
	if (!bounds(s, all, &min, &max))
		return SNODE_NEVER;
	if (max < n) {
		n = max;
		more = 0;
	}
	if ((body = unique(s, all, n, min, max)) != SNODE_NEVER)
		return qwen_snode_around(s, "\"[\"", body, "\"]\"");
	/* only items with a schema, unless minItems requires more */
	if (!more && min <= n)
		max = n;
	body = some(s, all, (size_t)n, (uint32_t)(min > n ? min - n : 0),
	    max == INT64_MAX ? UINT32_MAX : (uint32_t)(max - n));
	for (i = (size_t)n; i-- > 0; ) {
		uint32_t one = item(s, all, i);

		one = qwen_snode_then(s, i == 0 ? one :
		    qwen_snode_after_comma(s, one), body);
		body = (int64_t)i >= min ? qwen_snode_or(s,
		    SNODE_EMPTY, one) : one;
	}
	return qwen_snode_around(s, "\"[\"", body, "\"]\"");
}
