/* SPDX-License-Identifier: ISC */
/*
 * blame.c - a NaN in one session of a pass on a card fails that session and no
 * other, even if its rows are not wanted.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"
#include "engine/timeline/timeline.h"
#include "small.h"

enum { BAD = 5 };

static struct qwen_cache *cache;

/* The embedding of one token becomes NaN. */
static void *
spoil(struct qwen_model *m)
{
	struct qwen_weight *w = &m->net.token_embd;
	unsigned char *copy = malloc(N_VOCAB * w->row_bytes);

	memcpy(copy, w->data, N_VOCAB * w->row_bytes);
	memset(copy + BAD * w->row_bytes, 0xff, w->row_bytes);
	w->data = copy;
	return copy;
}

static void
test(struct qwen_model *m, const char *device, size_t at)
{
	static const int32_t good[] = { 1, 2, 3 }, bad[] = { 1, BAD, 3 };
	struct qwen_part part[3] = { { 0 } };
	size_t i;

	if (qwen_place(m, device, &err) < 0)
		exit(1);
	for (i = 0; i < 3; i++) {
		part[i] = (struct qwen_part){ .tokens = i == at ? bad : good,
		    .n = 3, .logits = i == at ? QWEN_LOGITS_NONE :
		    QWEN_LOGITS_LAST };
		if (qwen_session_new_in(&part[i].s, cache, &err) < 0)
			exit(1);
	}
	ok(qwen_eval_parts(part, 3, &err) == 0 &&
	    part[0].failed == (at == 0) && part[1].failed == (at == 1) &&
	    part[2].failed == (at == 2), "%s: session %zu of 3 fails: %d%d%d",
	    device, at, part[0].failed, part[1].failed, part[2].failed);
	for (i = 0; i < 3; i++)
		qwen_session_free(part[i].s);
}

int
main(void)
{
	struct qwen_model *m = open_small(1000);
	void *p = spoil(m);
	size_t at;

	if (qwen_cache_new(&cache, m, 0, &err) < 0)
		return 1;
	for (at = 0; at < 3; at++) {
		test(m, "cpu", at);
		test(m, "cuda:0", at);
	}
	qwen_cache_free(cache);
	qwen_model_close(m);
	free(p);
	return done_testing();
}
