/* SPDX-License-Identifier: ISC */
/*
 * spans.c - rows in the place of tokens on a card, as those of images: their
 * three positions, and what they add to the first layers (deepstack), have the
 * bits of the CPU.
 */
#include "whole.h"

enum { N = 41, N_SPANS = 2, ROWS = 26 };

/* A text with two spans. */
static int32_t ids[N];
static struct qwen_span_rows spans[N_SPANS] = {
	{ { .start = 5, .n = 6, .height = 2, .width = 3, .hash.b = { 1 } },
	    NULL },
	{ { .start = 13, .n = 20, .height = 5, .width = 4,
	    .hash.b = { 2 } }, NULL } };

/* Makes the text; returns the rows of its spans, for free(). */
static float *
make_text(const struct qwen_model *m)
{
	size_t i, k, n = qwen_model_n_row(m);
	float *rows = malloc(ROWS * n * sizeof *rows);
	uint64_t x = 7;

	for (i = 0; i < ROWS * n; i++)
		rows[i] = (float)((int)(next_random(&x) % 2001) - 1000) *
		    0x1p-10f;
	/* numbers whose bits an addition of 0 would change */
	rows[3] = rows[n - 2] = -0.0f;
	spans[0].rows = rows;
	spans[1].rows = rows + 6 * n;
	for (i = 0; i < N; i++)
		ids[i] = (int32_t)(3 + i * 7 % 60);
	for (k = 0; k < N_SPANS; k++) {
		for (i = 0; i < spans[k].span.n; i++)
			ids[spans[k].span.start + i] =
			    qwen_span_id(&spans[k].span, i);
	}
	return rows;
}

/* The next n tokens, of which only the last one's logits are wanted. */
static int
eval_last(struct whole *w, size_t at, size_t n)
{
	struct qwen_eval how = { .spans = spans, .n_spans = N_SPANS };
	size_t i;

	for (i = CPU; i <= CARD; i++)
		need(qwen_session_eval(w->s[i], ids + at, n, &how, &err));
	return memcmp(qwen_session_logits(w->s[CPU]), qwen_session_logits(
	    w->s[CARD]), qwen_model_n_vocab(w->m[CPU]) * sizeof(float)) == 0;
}

/* Cuts the text at `cut', which may be within a span. */
static void
test(const char *path, const char *what, size_t cut)
{
	struct whole w;
	float *rows;
	size_t i;
	int same;

	whole_open(&w, path, (struct qwen_model_opts){ .draft = 1 });
	rows = make_text(w.m[CPU]);
	same = whole_eval(&w, ids, cut, spans, N_SPANS);
	same &= eval_last(&w, cut, 35 - cut);
	for (i = 35; i < N; i++)
		same &= whole_eval(&w, ids + i, 1, spans, N_SPANS);
	ok(all_on_card(&w) && same && whole_same(&w),
	    "%s, cut at %zu", what, cut);
	whole_close(&w);
	free(rows);
}

static void
test_cuts(const char *path, const char *what)
{
	test(path, what, 3);
	test(path, what, 9);
	test(path, what, 34);
}

/* A model with so many vectors a row. */
static struct tiny *
deep(size_t n_layer, uint32_t n_deepstack)
{
	static const uint32_t sections[] = { 6, 5, 5, 0 };
	struct tiny_shape s = dense;
	struct tiny *t;

	s.arch = "qwen3vl";
	s.n_layer = n_layer;
	s.n_rot = 32;
	t = tiny_new(&s);
	tiny_u32s(t, "rope.dimension_sections", sections, 4);
	tiny_u32(t, "n_deepstack_layers", n_deepstack);
	return t;
}

int
main(void)
{
	static const uint32_t sections[] = { 2, 1, 1, 0 };
	struct tiny *t = tiny_new(&hybrid_moe);

	tiny_u32s(t, "rope.dimension_sections", sections, 4);
	test_cuts(write_tiny(t), "qwen35moe");
	test_cuts(write_tiny(deep(4, 3)), "qwen3vl");
	test_cuts(write_tiny(deep(2, 3)),
	    "qwen3vl, more deepstack vectors than layers");
	unlink(whole_path);
	return done_testing();
}
