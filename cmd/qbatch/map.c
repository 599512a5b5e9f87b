/* SPDX-License-Identifier: ISC */
/* map.c - a map from hashes to numbers, to find duplicate ids and lines. */
#include <search.h>
#include <stdlib.h>

#include "qbatch.h"

struct numbered {
	uint64_t	key, number;
};

static int
by_key(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;

	return (x->key > y->key) - (x->key < y->key);
}

uint64_t
qbatch_map_put(void **map, uint64_t key, uint64_t number)
{
	struct numbered *e = cli_check_alloc(malloc(sizeof *e)), **at;

	*e = (struct numbered){ key, number };
	at = cli_check_alloc(tsearch(e, map, by_key));
	if (*at == e)
		return 0;
	free(e);
	return (*at)->number;
}
