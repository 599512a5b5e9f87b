/* SPDX-License-Identifier: ISC */
/* pieces.c - the bytes of all tokens of a vocabulary. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pieces.h"
#include "text/token/tok.h"

void
qwen_pieces_close(struct qwen_pieces *p)
{
	if (p == NULL)
		return;
	free(p->at);
	free(p->bytes);
	free(p->eog);
	free(p);
}

/* Appends the bytes of all ids in order; control tokens have none. */
static int
decode_all(struct qwen_pieces *p, struct qwen_tok_decoder *d,
    struct qwen_err *err)
{
	size_t i, cap = 0, n = 0;
	struct qwen_str s;

	for (i = 0; i < p->n; i++) {
		if (qwen_tok_decoder_put(d, (int32_t)i, &s, err) < 0)
			return -1;
		/* no overflow: a file has at most 4 GiB of texts */
		if (qwen_grow(&p->bytes, &cap, n + s.len, 1) < 0)
			return qwen_oom(err);
		if (s.len > 0)
			memcpy(p->bytes + n, s.s, s.len);
		n += s.len;
		p->at[i + 1] = (uint32_t)n;
	}
	return 0;
}

static int
read_texts(struct qwen_pieces *p, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_tok_decoder *d = NULL;
	struct qwen_tok *t = NULL;
	int rc = -1;

	if (qwen_tok_open(&t, g, QWEN_TOK_DECODE, err) < 0)
		return -1;
	p->n = qwen_tok_n_vocab(t);
	if ((p->at = qwen_alloc(p->n + 1, sizeof *p->at)) == NULL)
		qwen_oom(err);
	else if (qwen_tok_decoder_new(&d, t, QWEN_TOK_BYTES, err) == 0)
		rc = decode_all(p, d, err);
	qwen_tok_decoder_free(d);
	qwen_tok_close(t);
	return rc;
}

/* Finds tokens that are known by name, whatever their type. */
static int
find_names(struct qwen_pieces *p, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_vocab v;
	struct qwen_str s;
	size_t i;

	p->think = p->unthink = -1;
	if (qwen_vocab_init(&v, g, err) < 0)
		return -1;
	for (i = 0; i < v.n; i++) {
		s = qwen_vocab_text(&v, i);
		if (s.len == 7 && memcmp(s.s, "<think>", 7) == 0)
			p->think = (int32_t)i;
		if (s.len == 8 && memcmp(s.s, "</think>", 8) == 0)
			p->unthink = (int32_t)i;
	}
	qwen_vocab_fini(&v);
	return 0;
}

static int
read_eog(struct qwen_pieces *p, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	size_t n;

	/* this count includes duplicates */
	if (qwen_vocab_eog(g, NULL, 0, &n, err) < 0)
		return -1;
	if ((p->eog = qwen_alloc(n, sizeof *p->eog)) == NULL)
		return qwen_oom(err);
	return qwen_vocab_eog(g, p->eog, n, &p->n_eog, err);
}

int
qwen_pieces_open(struct qwen_pieces **out, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_pieces *p = qwen_alloc(1, sizeof *p);

	*out = NULL;
	if (p == NULL)
		return qwen_oom(err);
	if (read_texts(p, g, err) < 0 || find_names(p, g, err) < 0 ||
	    read_eog(p, g, err) < 0) {
		qwen_pieces_close(p);
		return -1;
	}
	*out = p;
	return 0;
}
