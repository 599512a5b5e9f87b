/* SPDX-License-Identifier: ISC */
/*
 * fuzz_tok.c - any text and any vocabulary: chunks give the ids of the whole
 * text, and decoding returns the bytes.
 *
 * Input: a byte of flags; if bit 1 is set, a vocabulary up to a NUL: lines of a
 * type ("1" to "6" for a token, "m" for a merge) and a text; then the text.
 * Bit 3: normalise the text, if the library can.
 */
#include "../unit/tok_util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
standard_vocab(struct vocab *v)
{
	vocab_pair(v, "t", "h");
	vocab_pair(v, "th", "e");
	vocab_pair(v, "\xc4\xa0", "the");
	vocab_pair(v, "a", "a");
	vocab_pair(v, "aa", "aa");
	vocab_pair(v, "\xc4\xa0", "\xc4\xa0");
	vocab_pair(v, "!", "!");
	vocab_token(v, "<|e|>", QWEN_TOKEN_CONTROL);
	vocab_token(v, "<e>", QWEN_TOKEN_USER_DEFINED);
}

/* Lines at p, up to a NUL or the end; returns what follows. */
static const uint8_t *
read_vocab(struct vocab *v, const uint8_t *p, const uint8_t *end)
{
	const uint8_t *line;

	while (p < end && *p != '\0') {
		for (line = p; p < end && *p != '\0' && *p != '\n'; p++)
			;
		if (*line == 'm')
			vocab_merge_n(v, line + 1, (size_t)(p - line) - 1);
		else if (p > line)
			vocab_token_n(v, line + 1, (size_t)(p - line) - 1,
			    *line - '0');
		if (p < end && *p == '\n')
			p++;
	}
	return p < end ? p + 1 : p;
}

static void
same_in_parts(const struct qwen_tok *t, const uint8_t *p, size_t n,
    unsigned flags, const int32_t *want, size_t n_want)
{
	struct qwen_tok_encoder *e;
	uint64_t seed = n;
	const int32_t *ids;
	size_t i, part, k, done = 0;

	if (qwen_tok_encoder_new(&e, t, flags, NULL) < 0)
		abort();
	for (i = 0; i < n; i += part) {
		part = 1 + rnd(&seed) % 7;
		part = part < n - i ? part : n - i;
		if (qwen_tok_encoder_feed(e, p + i, part, &ids, &k, NULL) < 0)
			abort();
		if (k > n_want - done ||
		    (k > 0 && memcmp(ids, want + done, k * sizeof *ids) != 0))
			abort();
		done += k;
	}
	if (qwen_tok_encoder_finish(e, &ids, &k, NULL) < 0 ||
	    done + k != n_want ||
	    (k > 0 && memcmp(ids, want + done, k * sizeof *ids) != 0))
		abort();
	qwen_tok_encoder_free(e);
}

/* Bytes as they were if there is nothing odd in the vocabulary. */
static void
decode(const struct qwen_tok *t, const int32_t *ids, size_t n_ids,
    const uint8_t *p, size_t n, int exact)
{
	struct qwen_tok_decoder *bytes, *text;
	struct qwen_str s;
	size_t i, at = 0;

	if (qwen_tok_decoder_new(&bytes, t, QWEN_TOK_SHOW_SPECIAL |
	    QWEN_TOK_BYTES, NULL) < 0 ||
	    qwen_tok_decoder_new(&text, t, QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		abort();
	for (i = 0; i < n_ids; i++) {
		if (qwen_tok_decoder_put(text, ids[i], &s, NULL) < 0 ||
		    qwen_tok_decoder_put(bytes, ids[i], &s, NULL) < 0)
			abort();
		if (exact && (s.len > n - at ||
		    memcmp(s.s, p + at, s.len) != 0))
			abort();
		at += s.len;
	}
	if (exact && at != n)
		abort();
	qwen_tok_decoder_finish(text, &s);
	qwen_tok_decoder_free(text);
	qwen_tok_decoder_free(bytes);
}

static void
encode(const struct qwen_tok *t, const uint8_t *p, size_t n, unsigned flags,
    int exact)
{
	int32_t *ids;
	size_t n_ids, i;

	if (qwen_tok_encode(t, p, n, flags, &ids, &n_ids, NULL) < 0)
		abort();
	for (i = 0; i < n_ids; i++) {
		if (ids[i] < 0 || (size_t)ids[i] >= qwen_tok_n_vocab(t))
			abort();
	}
	same_in_parts(t, p, n, flags, ids, n_ids);
	decode(t, ids, n_ids, p, n, exact);
	free(ids);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *p = data, *end = data + size;
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;
	struct qwen_err err;
	unsigned flags;
	int nfc;

	if (size == 0)
		return 0;
	flags = *p++;
	vocab_init(&v, flags & 4 ? "qwen35" : "qwen2");
	if (flags & 2)
		p = read_vocab(&v, p, end);
	else
		standard_vocab(&v);
	vocab_write(&v);
	err.msg[0] = '\0';
	if (qwen_gguf_open_memory(&g, v.file.p, v.file.n, &err) < 0)
		abort();
	if (qwen_tok_open(&t, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err) == 0) {
		nfc = flags & 8 && qwen_tok_set_nfc(t, 1, &err) == 0;
		encode(t, p, (size_t)(end - p), flags & 1 ? QWEN_TOK_SPECIAL :
		    0, (flags & 2) == 0 && !nfc);
	} else if (err.msg[0] == '\0')
		abort();
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
	return 0;
}
