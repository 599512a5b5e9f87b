/* SPDX-License-Identifier: ISC */
/* array.c - the items of an array. */
#include "text/schema/schema.h"

/* Items by place: of prefixItems, or of items where that is a list. */
static yyjson_val *
places(const struct schema_all *all, int i)
{
	yyjson_val *v = qwen_schema_get(all, i, "prefixItems");

	if (v == NULL && yyjson_is_arr(qwen_schema_get(all, i, "items")))
		v = qwen_schema_get(all, i, "items");
	return v;
}

/* What the others are by a part; NULL: anything. */
static yyjson_val *
others(const struct schema_all *all, int i)
{
	yyjson_val *v = qwen_schema_get(all, i, "items");

	return yyjson_is_arr(v) ? qwen_schema_get(all, i, "additionalItems") :
	    v;
}

static uint32_t
item(struct schema *s, const struct schema_all *all, size_t at)
{
	struct schema_all here = { .n = 0 };
	int i;

	for (i = 0; i < all->n; i++) {
		yyjson_val *list = places(all, i), *v;

		v = at < yyjson_arr_size(list) ? yyjson_arr_get(list, at) :
		    others(all, i);
		if (v != NULL)
			qwen_schema_gather(s, &here, v, -1);
	}
	return qwen_schema_child(s, &here);
}

/* How many have a schema by their place; whether others are spoken of. */
static size_t
count_places(struct schema *s, const struct schema_all *all, int *more)
{
	size_t n = 0;
	int i;

	*more = 0;
	for (i = 0; i < all->n; i++) {
		yyjson_val *list = places(all, i);
		yyjson_val *unique = qwen_schema_get(all, i, "uniqueItems");

		if (unique != NULL && !yyjson_is_false(unique))
			qwen_schema_fail(s, all->part[i].v, "uniqueItems is "
			    "not supported");
		if (list != NULL && !yyjson_is_arr(list))
			qwen_schema_fail(s, list, "not a list of schemas");
		if (yyjson_arr_size(list) > n)
			n = yyjson_arr_size(list);
		*more |= others(all, i) != NULL;
	}
	if (n > SCHEMA_PREFIX) {
		qwen_schema_fail(s, all->part[0].v, "more than %d items by "
		    "place", SCHEMA_PREFIX);
		n = 0;
	}
	*more |= n == 0;
	return n;
}

/* Of these, from min to max, each after a comma but for the first of all. */
static uint32_t
some(struct schema *s, const struct schema_all *all, size_t n, uint32_t min,
    uint32_t max)
{
	uint32_t out, rest;

	if (max == 0)
		return SNODE_EMPTY;
	if (n > 0)
		return qwen_snode_repeat(s, qwen_snode_pair(s, SNODE_SEQ,
		    qwen_snode_text(s, "\",\""), item(s, all, n)), min, max);
	rest = qwen_snode_repeat(s, qwen_snode_pair(s, SNODE_SEQ,
	    qwen_snode_text(s, "\",\""), item(s, all, 0)),
	    min > 0 ? min - 1 : 0, max == UINT32_MAX ? max : max - 1);
	out = qwen_snode_pair(s, SNODE_SEQ, item(s, all, 0), rest);
	return min > 0 ? out : qwen_snode_pair(s, SNODE_ALT, SNODE_EMPTY, out);
}

/* Both bounds, of what a grammar can have. */
static int
bounds(struct schema *s, const struct schema_all *all, int64_t *min,
    int64_t *max)
{
	const int64_t limit = 100000;

	*min = qwen_schema_bound(s, all, "minItems", 0);
	*max = qwen_schema_bound(s, all, "maxItems", INT64_MAX);
	if (*min > limit || (*max > limit && *max != INT64_MAX))
		qwen_schema_fail(s, all->part[0].v, "minItems or maxItems of "
		    "more than %lld", (long long)limit);
	return !s->failed && *min <= *max;
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
	/* none but those with a schema, unless there must be more */
	if (!more && min <= n)
		max = n;
	body = some(s, all, (size_t)n, (uint32_t)(min > n ? min - n : 0),
	    max == INT64_MAX ? UINT32_MAX : (uint32_t)(max - n));
	for (i = (size_t)n; i-- > 0; ) {
		uint32_t one = qwen_snode(s, SNODE_SEQ);

		if (i > 0)
			qwen_snode_add(s, one, qwen_snode_text(s, "\",\""));
		qwen_snode_add(s, one, item(s, all, i));
		qwen_snode_add(s, one, body);
		body = (int64_t)i >= min ? qwen_snode_pair(s, SNODE_ALT,
		    SNODE_EMPTY, one) : one;
	}
	return qwen_snode_around(s, "\"[\"", body, "\"]\"");
}
