/* SPDX-License-Identifier: ISC */
/*
 * stop.c - texts that end the generation, wherever tokens begin and end.
 *
 * Searches the bytes of the tokens generated after the prompt.  The token that
 * completes a text is the last one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pieces.h"
#include "engine/sample/sample.h"

enum { TEXT_MAX = 4096 };

struct memory {
	char		*tail;		/* the last bytes, with room for one
					   token */
	size_t		 n, keep;	/* keep: maximum bytes kept between
					   tokens */
	int		 stopped;
};

static int
check(const char *text, struct qwen_err *err)
{
	size_t n = strlen(text);

	return n > 0 && n <= TEXT_MAX ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "a stop string of %zu bytes; must be 1 to %d", n, TEXT_MAX);
}

static void
end(struct qwen_chain_method *s)
{
	free(((struct memory *)s->memory)->tail);
}

static int
begin(struct qwen_chain_method *s, struct qwen_err *err)
{
	const struct qwen_pieces *p = s->w->pieces;
	struct memory *m = s->memory;
	size_t i, n, longest = 0;

	for (i = 0; i < s->v[0].list.n; i++) {
		n = strlen(s->v[0].list.v[i]) - 1;
		m->keep = n > m->keep ? n : m->keep;
	}
	for (i = 0; i < p->n; i++) {
		n = qwen_piece(p, (int32_t)i).len;
		longest = n > longest ? n : longest;
	}
	m->tail = qwen_alloc(m->keep + longest, 1);
	return m->tail != NULL ? 0 : qwen_oom(err);
}

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	struct memory *m = s->memory;
	struct qwen_str text = qwen_piece(s->w->pieces, token), tail;
	size_t i;

	m->stopped = 0;
	if (!generated) {
		m->n = 0;
		return 0;
	}
	if (text.len > 0)
		memcpy(m->tail + m->n, text.s, text.len);
	m->n += text.len;
	tail = (struct qwen_str){ m->tail, m->n };
	for (i = 0; i < s->v[0].list.n && !m->stopped; i++)
		m->stopped = qwen_text_has(tail, s->v[0].list.v[i]);
	if (m->stopped)
		m->n = 0;
	if (m->n > m->keep) {
		memmove(m->tail, m->tail + m->n - m->keep, m->keep);
		m->n = m->keep;
	}
	return 0;
}

static int
stops(const struct qwen_chain_method *s)
{
	return ((const struct memory *)s->memory)->stopped;
}

const struct qwen_sampler_method qwen_sampler_stop = {
	.name = "stop", .rank = QWEN_RANK_STOP, .keeps_best = 1,
	.memory = sizeof(struct memory), .needs_pieces = 1,
	.check = check, .begin = begin, .accept = accept, .stops = stops,
	.end = end,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "stop", .type = QWEN_SAMPLE_LIST, .arg = "TEXT",
	  .help = "end after TEXT; repeatable" },
};
