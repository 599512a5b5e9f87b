/* SPDX-License-Identifier: ISC */
/* seen.c - a table of what was seen, for ids and lines that come twice. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "qbatch.h"

static struct qbatch_entry *
place(const struct qbatch_seen *s, uint64_t key)
{
	/* keys are numbers in order, too: spread them */
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15 >> 20) & (s->cap - 1);

	while (s->e[i].key != 0 && s->e[i].key != key)
		i = (i + 1) & (s->cap - 1);
	return &s->e[i];
}

static void
grow(struct qbatch_seen *s)
{
	struct qbatch_seen old = *s;
	size_t i;

	s->cap = old.cap == 0 ? 256 : old.cap * 2;
	if ((s->e = calloc(s->cap, sizeof *s->e)) == NULL)
		die("out of memory");
	for (i = 0; i < old.cap; i++) {
		if (old.e[i].key != 0)
			*place(s, old.e[i].key) = old.e[i];
	}
	free(old.e);
}

struct qbatch_entry *
qbatch_seen_put(struct qbatch_seen *s, uint64_t key, uint64_t value, int *made)
{
	struct qbatch_entry *e;

	if (s->n >= s->cap / 2)
		grow(s);
	e = place(s, key);
	if ((*made = e->key == 0)) {
		e->key = key;
		e->value = value;
		s->n++;
	}
	return e;
}

struct qbatch_entry *
qbatch_seen_find(const struct qbatch_seen *s, uint64_t key)
{
	struct qbatch_entry *e;

	if (s->cap == 0)
		return NULL;
	e = place(s, key);
	return e->key == key ? e : NULL;
}

void
qbatch_seen_fini(struct qbatch_seen *s)
{
	free(s->e);
	memset(s, 0, sizeof *s);
}

uint64_t
qbatch_id_hash(const char *id)
{
	uint64_t h = id == NULL ? 1 : XXH3_64bits(id, strlen(id));

	return h != 0 ? h : 2;
}
