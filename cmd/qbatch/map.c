/* SPDX-License-Identifier: ISC */
/* map.c - a map from hashes to numbers, to find duplicate ids and lines. */
#include <search.h>
#include <stdlib.h>

#include "qbatch.h"

static int
by_key(const void *a, const void *b)
{
	const struct qbatch_map_entry *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

struct qbatch_map_entry *
qbatch_map_put(struct qbatch_map *s, uint64_t key, uint64_t value, int *made)
{
	struct qbatch_map_entry *e = cli_check_alloc(malloc(sizeof *e)), **at;

	*e = (struct qbatch_map_entry){ key, value };
	at = cli_check_alloc(tsearch(e, &s->root, by_key));
	*made = *at == e;
	s->n += (size_t)*made;
	if (!*made)
		free(e);
	return *at;
}

struct qbatch_map_entry *
qbatch_map_find(const struct qbatch_map *s, uint64_t key)
{
	struct qbatch_map_entry like = { .key = key };
	struct qbatch_map_entry **at = tfind(&like, &s->root, by_key);

	return at != NULL ? *at : NULL;
}

void
qbatch_map_fini(struct qbatch_map *s)
{
	struct qbatch_map_entry *e;

	while (s->root != NULL) {
		e = *(struct qbatch_map_entry **)s->root;
		tdelete(e, &s->root, by_key);
		free(e);
	}
	s->n = 0;
}
