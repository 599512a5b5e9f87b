/* SPDX-License-Identifier: ISC */
/* arena.c - memory that is freed all at once, with a limit. */
#include <stdlib.h>

#include "base/mem.h"
#include "text/chat/chat.h"

enum { CHUNK = 1 << 15, ALIGN = 16 };

struct chat_chunk {
	struct chat_chunk	*next;
	size_t			 bytes;
};

/* Size of the chunk header, aligned; memory follows it. */
#define HEAD ((sizeof(struct chat_chunk) + ALIGN - 1) / ALIGN * ALIGN)

static int
grow(struct chat_arena *a, size_t n)
{
	struct chat_chunk *c;
	size_t bytes;

	if (n > a->max || qwen_add(n, HEAD, &bytes) < 0)
		return -1;
	if (bytes < CHUNK)
		bytes = CHUNK;
	if (bytes > a->max - a->total)
		return -1;
	c = malloc(bytes);
	if (c == NULL) {
		a->no_memory = 1;
		return -1;
	}
	c->next = a->chunk;
	c->bytes = bytes;
	a->chunk = c;
	a->left = bytes - HEAD;
	a->total += bytes;
	return 0;
}

void *
qwen_chat_alloc(struct chat_arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (qwen_mul(n, size, &bytes) < 0 || bytes > SIZE_MAX - ALIGN)
		return NULL;
	bytes = bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
	if (bytes > a->left && grow(a, bytes) < 0)
		return NULL;
	a->left -= bytes;
	return (char *)a->chunk + (a->chunk->bytes - a->left - bytes);
}

void
qwen_chat_arena_fini(struct chat_arena *a)
{
	struct chat_chunk *c;

	while ((c = a->chunk) != NULL) {
		a->chunk = c->next;
		free(c);
	}
	a->left = a->total = 0;
}
