/* SPDX-License-Identifier: ISC */
/*
 * places.c - where the next prompt is likely to differ from this one, for
 * models with recurrent state, which can continue only from a checkpoint.
 *
 * Shared prefixes usually end where a turn of a chat, a paragraph, a line or a
 * sentence ends.  A checkpoint there helps if the next prompt differs after it,
 * but it always takes time to write and disk space.  So a place must follow the
 * previous one by enough tokens: reading them takes PAYS times as long as
 * writing a checkpoint.  The distances grow towards the beginning.  Places
 * depend only on the model and the tokens, not on a clock: a prompt has the
 * same places everywhere.
 */
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

/*
 * The cost of a checkpoint as a number of multiply-adds: per byte written to
 * disk, and per byte of the weights, which are read once more because a pass
 * ends at the checkpoint.  Measured: see doc/measurements.md.
 */
enum { WRITE_BYTE = 256, READ_BYTE = 10 };

enum {
	PAYS = 4,	/* assume that one checkpoint in four is used */
	LEAST = 64,	/* fewest tokens between places, for disk space */
	WIDER = 4,	/* factor between the lengths of two stretches */
};

/* Kinds of border between two tokens, weakest first. */
enum border { NONE, WORD, SENTENCE, LINE, PARAGRAPH, TURN };

/*
 * Returns the number of tokens whose reading takes PAYS times as long as
 * writing a checkpoint; 0 if the model needs no checkpoints.
 */
static size_t
tokens_that_pay(const struct qwen_model *m)
{
	double bytes, weights, n;
	struct qwen_plan p;

	if (qwen_model_checkpoint_every(m) == 0)
		return 0;
	qwen_plan_make(&p, m, 1, 1, 1, 0, NULL);
	bytes = (double)p.state + (double)qwen_model_n_vocab(m) * sizeof(float);
	weights = (double)p.sum.bytes -
	    (double)p.part[QWEN_PLAN_EMBEDDING].bytes;
	if (p.sum.macs == 0)
		return 0;
	n = PAYS * (bytes * WRITE_BYTE + weights * READ_BYTE) /
	    (double)p.sum.macs;
	return n > LEAST ? (size_t)n + 1 : LEAST;
}

static int
ends_with(const char *s, size_t n, const char *end)
{
	size_t len = strlen(end);

	return n >= len && memcmp(s + n - len, end, len) == 0;
}

/* Returns the border between the n bytes of text so far and the next token. */
static enum border
border(const char *s, size_t n, struct qwen_str next)
{
	static const char turn[] = "<|im_start|>";

	if (next.len == sizeof turn - 1 && memcmp(next.s, turn, next.len) == 0)
		return TURN;
	/* the line feeds of an empty line belong together */
	if (n == 0 || next.len == 0 || next.s[0] == '\n' || next.s[0] == '\r')
		return NONE;
	if (ends_with(s, n, "\n\n") || ends_with(s, n, "\n\r\n"))
		return PARAGRAPH;
	if (s[n - 1] == '\n')
		return LINE;
	if (next.s[0] != ' ')
		return NONE;
	return strchr(".!?", s[n - 1]) != NULL ? SENTENCE : WORD;
}

/*
 * Returns the border before each of n tokens, to be freed; NULL if out of
 * memory.
 */
static unsigned char *
borders(const struct qwen_model *m, const int32_t *ids, size_t n)
{
	unsigned char *b = calloc(n + 1, 1);
	struct qwen_tok_decoder *d = NULL;
	struct qwen_tok *t = NULL;
	char last[4] = "";
	size_t i, k, n_last = 0;
	struct qwen_str s;

	if (b == NULL || qwen_tok_open(&t, qwen_model_gguf(m), QWEN_TOK_DECODE,
	    NULL) < 0 || qwen_tok_decoder_new(&d, t, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		goto out;
	for (i = 0; i < n; i++) {
		if (ids[i] < 0)		/* a row of an image */
			continue;
		if (qwen_tok_decoder_put(d, ids[i], &s, NULL) < 0)
			break;
		b[i] = (unsigned char)border(last, n_last, s);
		for (k = s.len > sizeof last ? s.len - sizeof last : 0;
		    k < s.len; k++) {
			if (n_last == sizeof last)
				memmove(last, last + 1, --n_last);
			last[n_last++] = s.s[k];
		}
	}
out:
	qwen_tok_decoder_free(d);
	qwen_tok_close(t);
	return b;
}

/*
 * Returns the first (last: the last) of the strongest borders in lo .. hi - 1,
 * ignoring those below least; 0 if there is none.
 */
static size_t
strongest(const unsigned char *b, size_t lo, size_t hi, enum border least,
    int last)
{
	enum border best = NONE, is;
	size_t i, at = 0;

	for (i = lo; i < hi; i++) {
		is = (enum border)b[i];
		/* near the end, the first turn or paragraph counts */
		if (!last && is == TURN)
			is = PARAGRAPH;
		if (is >= least && (is > best || (last && is == best))) {
			best = is;
			at = i;
		}
	}
	return at;
}

/* Is there a place fewer than pay tokens away? */
static int
is_near(const struct tool_intake *in, size_t at, size_t pay)
{
	size_t i, to;

	for (i = 0; i < in->n_places; i++) {
		to = in->places[i];
		if ((to > at ? to - at : at - to) < pay)
			return 1;
	}
	return 0;
}

static void
add_place(struct tool_intake *in, size_t at)
{
	cli_grow(&in->places, &in->cap_places, in->n_places + 1,
	    sizeof *in->places);
	in->places[in->n_places++] = at;
}

/*
 * Among the last pay tokens, adds the first of the strongest borders: to read
 * from there again costs less than a second checkpoint.  In each stretch before
 * these tokens, adds the last of the strongest borders.
 */
static void
choose(struct tool_intake *in, const unsigned char *b, size_t pay)
{
	size_t n = in->n, hi = n, lo = n > pay ? n - pay : 0, width = pay, at;
	int first = 1;

	for (; hi > pay; hi = lo, lo = lo > width ? lo - width : 0) {
		width *= WIDER;
		at = strongest(b, lo > pay ? lo : pay, hi, first ? WORD :
		    SENTENCE, !first);
		first = 0;
		if (at > 0 && !is_near(in, at, pay))
			add_place(in, at);
	}
}

static int
descending(const void *a, const void *b)
{
	size_t p = *(const size_t *)a, q = *(const size_t *)b;

	return (p < q) - (p > q);
}

void
tool_places(struct tool_intake *in)
{
	const struct qwen_model *m = qwen_session_model(in->session);
	size_t pay = tokens_that_pay(m), i;
	unsigned char *b;

	in->n_places = 0;
	if (pay == 0)
		return;
	for (i = 0; i < in->n_marks; i++)
		add_place(in, (size_t)in->marks[i]);
	if (in->n > pay && (b = borders(m, in->tokens, in->n)) != NULL) {
		choose(in, b, pay);
		free(b);
	}
	if (in->n_places > 0)
		qsort(in->places, in->n_places, sizeof *in->places, descending);
}
