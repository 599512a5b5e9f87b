/* SPDX-License-Identifier: ISC */
/* compare.c - where the numbers of two states part. */
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

struct cursor {
	struct state		*s;
	const struct object	*o;
	size_t			 next;		/* block to look at */
	const unsigned char	*p;
	size_t			 left;
};

static const unsigned char *
read_block(struct state *s, size_t i, size_t *n)
{
	const unsigned char *raw;
	struct qwen_err err;

	if (qwen_state_block_read(s->f, i, &raw, n, &err) < 0)
		cli_die_err(s->name, &err);
	return raw;
}

static int
belongs(const struct object *o, const struct qwen_state_block *b)
{
	return strcmp(o->kind, b->kind) == 0 && o->layer == b->layer &&
	    o->at == b->at;
}

/* The next n bytes of the object, or what is left of it. */
static size_t
take(struct cursor *c, unsigned char *buf, size_t n)
{
	struct qwen_state_block b;
	size_t done, part;

	for (done = 0; done < n; done += part) {
		while (c->left == 0 && c->next < c->s->info->n_blocks) {
			qwen_state_block(c->s->f, c->next++, &b);
			if (belongs(c->o, &b))
				c->p = read_block(c->s, c->next - 1, &c->left);
		}
		part = c->left < n - done ? c->left : n - done;
		if (part == 0)
			break;
		memcpy(buf + done, c->p, part);
		c->p += part;
		c->left -= part;
	}
	return done;
}

/* The state's numbers; those of other kinds are not compared this way. */
struct object *
qstate_objects(const struct state *s, size_t *n)
{
	struct object *o = cli_got(calloc(s->info->n_blocks + 1, sizeof *o));
	struct qwen_state_block b;
	size_t i, k;

	for (*n = i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		if (strcmp(b.kind, "kv") != 0 && strcmp(b.kind, "delta") != 0 &&
		    strcmp(b.kind, "conv") != 0 && strcmp(b.kind, "logits") != 0)
			continue;
		for (k = *n; k > 0 && !belongs(&o[k - 1], &b); k--)
			;
		if (k == 0) {
			k = ++*n;
			o[k - 1].kind = b.kind;
			o[k - 1].layer = b.layer;
			o[k - 1].at = b.at;
		}
		o[k - 1].bytes += b.len;
	}
	return o;
}

/* Which position a number of a block of the KV cache belongs to. */
static uint64_t
kv_position(const struct qwen_state_layer *l, uint64_t i, int *v)
{
	uint64_t half = 16 * l->n[0] * l->n[1];

	*v = i >= half;
	return *v ? (i - half) / l->n[1] % 16 : i % 16;
}

static uint32_t
number(const unsigned char *p, size_t width)
{
	uint32_t v = (uint32_t)p[0] | (uint32_t)p[1] << 8;

	return width == 2 ? v : v | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
note_number(struct part *d, uint64_t index, uint64_t position, int v,
    uint32_t a, uint32_t b)
{
	/* of the KV cache, the earliest position comes first */
	if (d->count++ > 0 && position >= d->position)
		return;
	d->index = index;
	d->position = position;
	d->v = v;
	d->a = a;
	d->b = b;
}

/* Compare n bytes of the objects, which begin with number first. */
static void
compare_bytes(struct part *d, const struct qwen_state_layer *kv,
    uint64_t limit, uint64_t first, const unsigned char *a,
    const unsigned char *b, size_t n)
{
	size_t i, width = kv != NULL ? 2 : 4;
	uint64_t block = kv != NULL ? 32 * kv->n[0] * kv->n[1] : 1, at, pos;
	uint32_t x, y;
	int v = 0;

	if (memcmp(a, b, n) == 0)
		return;
	for (i = 0; i + width <= n; i += width) {
		x = number(a + i, width);
		y = number(b + i, width);
		if (x == y)
			continue;
		at = first + i / width;
		pos = kv == NULL ? 0 : 16 * (at / block) +
		    kv_position(kv, at % block, &v);
		/* lanes behind the shorter one's end are zero there */
		if (kv == NULL || pos < limit)
			note_number(d, at, pos, v, x, y);
	}
}

void
qstate_compare(struct part *d, struct state *sa, struct state *sb,
    const struct object *oa, const struct object *ob, uint64_t limit)
{
	static unsigned char a[1 << 16], b[1 << 16];
	struct cursor ca = { .s = sa, .o = oa }, cb = { .s = sb, .o = ob };
	const struct qwen_state_layer *kv = NULL;
	uint64_t first = 0;
	size_t n, m;

	memset(d, 0, sizeof *d);
	if (strcmp(oa->kind, "kv") == 0)
		kv = &sa->info->layers[oa->layer];
	do {
		n = take(&ca, a, sizeof a);
		m = take(&cb, b, sizeof b);
		n = n < m ? n : m;
		compare_bytes(d, kv, limit, first, a, b, n);
		first += n / (kv != NULL ? 2 : 4);
	} while (n == sizeof a);
}
