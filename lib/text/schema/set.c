/* SPDX-License-Identifier: ISC */
/* set.c - sets of characters. */
#include <string.h>

#include "text/schema/schema.h"

enum { LAST = 0x10ffff };

/* Adds a range, keeps the ranges sorted, and joins those that touch. */
void
qwen_set_add(struct schema *s, struct schema_set *set, uint32_t lo, uint32_t hi)
{
	size_t i = 0, k, end;

	while (i < set->n && set->r[i].hi + 1 < lo)
		i++;
	for (end = i; end < set->n && set->r[end].lo <= hi + 1; end++) {
		lo = set->r[end].lo < lo ? set->r[end].lo : lo;
		hi = set->r[end].hi > hi ? set->r[end].hi : hi;
	}
	if (end == i) {
		if (set->n == SCHEMA_RANGES) {
			qwen_schema_fail(s, NULL, "a character class of more "
			    "than %d ranges", SCHEMA_RANGES);
			return;
		}
		for (k = set->n++; k > i; k--)
			set->r[k] = set->r[k - 1];
	} else {
		for (k = i + 1; end < set->n; k++, end++)
			set->r[k] = set->r[end];
		set->n = k;
	}
	set->r[i].lo = lo;
	set->r[i].hi = hi;
}

void
qwen_set_unite(struct schema *s, struct schema_set *set,
    const struct schema_set *other)
{
	size_t i;

	for (i = 0; i < other->n; i++)
		qwen_set_add(s, set, other->r[i].lo, other->r[i].hi);
}

/* Replaces the set by its complement. */
void
qwen_set_turn(struct schema *s, struct schema_set *set)
{
	struct schema_set out;
	uint32_t from = 0;
	size_t i;

	out.n = 0;
	for (i = 0; i < set->n; i++) {
		if (set->r[i].lo > from)
			qwen_set_add(s, &out, from, set->r[i].lo - 1);
		from = set->r[i].hi + 1;
	}
	if (from <= LAST)
		qwen_set_add(s, &out, from, LAST);
	*set = out;
}

static int
has(const struct schema_set *set, uint32_t c)
{
	size_t i;

	for (i = 0; i < set->n; i++) {
		if (c >= set->r[i].lo && c <= set->r[i].hi)
			return 1;
	}
	return 0;
}

static void
take_out(struct schema *s, struct schema_set *set, uint32_t lo, uint32_t hi)
{
	qwen_set_turn(s, set);
	qwen_set_add(s, set, lo, hi);
	qwen_set_turn(s, set);
}

/* Characters with an escape of one letter in JSON. */
static const struct { unsigned char c; const char *as; } escapes[] = {
	{ '"', "\\x22" }, { '\\', "\\x5c" }, { '\b', "b" }, { '\f', "f" },
	{ '\n', "n" }, { '\r', "r" }, { '\t', "t" },
};

void
qwen_snode_keep(struct schema *s, uint32_t at, const struct schema_set *set)
{
	if (s->n_range + set->n > SCHEMA_POOL)
		qwen_schema_fail(s, NULL, "the character classes of all "
		    "patterns exceed %d ranges", SCHEMA_POOL);
	if (!qwen_schema_grow(s, &s->range, &s->cap_range, s->n_range + set->n,
	    sizeof *s->range))
		return;
	memcpy(s->range + s->n_range, set->r, set->n * sizeof *set->r);
	s->node[at].chars = 1;
	s->node[at].set = (uint32_t)s->n_range;
	s->node[at].n_set = (uint32_t)set->n;
	s->n_range += set->n;
}

static void
put_ranges(struct schema *s, const struct schema_set *set)
{
	size_t i;

	qwen_text_str(&s->text, "[");
	for (i = 0; i < set->n; i++)
		qwen_text_fmt(&s->text, "\\U%08lx-\\U%08lx",
		    (unsigned long)set->r[i].lo, (unsigned long)set->r[i].hi);
	qwen_text_str(&s->text, "]");
}

/* A node for one of the characters in a raw text. */
static uint32_t
raw_set(struct schema *s, const struct schema_set *set)
{
	struct schema_set plain = *set;

	take_out(s, &plain, 0, '\t' - 1);
	take_out(s, &plain, '\n' + 1, 0x1f);
	take_out(s, &plain, 0xd800, 0xdfff);
	if (plain.n == 0)
		return SNODE_NEVER;
	put_ranges(s, &plain);
	return qwen_snode_made(s);
}

/*
 * A node for one of the characters in a JSON string.  Leaves out control
 * characters without a one-letter escape: fewer texts than the schema allows
 * are no error.
 */
uint32_t
qwen_snode_set(struct schema *s, const struct schema_set *set)
{
	struct schema_set plain = *set;
	size_t i, some = 0;

	if (s->raw)
		return raw_set(s, set);
	qwen_text_str(&s->text, "(");
	take_out(s, &plain, 0, 0x1f);
	take_out(s, &plain, '"', '"');
	take_out(s, &plain, '\\', '\\');
	take_out(s, &plain, 0xd800, 0xdfff);
	if (plain.n > 0)
		put_ranges(s, &plain);
	for (i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
		if (!has(set, escapes[i].c))
			continue;
		if (some++ == 0)
			qwen_text_fmt(&s->text, "%s\"\\\\\" [",
			    plain.n > 0 ? " | " : "");
		qwen_text_str(&s->text, escapes[i].as);
	}
	qwen_text_str(&s->text, some > 0 ? "])" : ")");
	i = qwen_snode_made(s);
	return plain.n == 0 && some == 0 ? SNODE_NEVER : (uint32_t)i;
}
