/* SPDX-License-Identifier: ISC */
/*
 * tok_stream.c - text in chunks gives the ids of the whole text, however it is
 * divided; special tokens in text; every byte string can be decoded again.
 */
#include "../tap.h"
#include "tok_util.h"

static struct vocab voc;
static struct qwen_gguf *gguf;
static struct qwen_tok *tok;

static void
setup(void)
{
	vocab_init(&voc, "qwen35");
	vocab_pair(&voc, "t", "h");			/* 256 */
	vocab_pair(&voc, "th", "e");
	vocab_pair(&voc, "\xc4\xa0", "the");
	vocab_pair(&voc, "i", "n");
	vocab_pair(&voc, "\xc4\xa0", "\xc4\xa0");	/* 260 */
	vocab_pair(&voc, "\xc3\xa4", "\xc2\xb8");	/* e4 b8 */
	vocab_token(&voc, "<|end|>", QWEN_TOKEN_CONTROL);	/* 262 */
	vocab_token(&voc, "<think>", QWEN_TOKEN_USER_DEFINED);
	vocab_token(&voc, "<thin", QWEN_TOKEN_USER_DEFINED);
	vocab_token(&voc, "[PAD1]", QWEN_TOKEN_UNUSED);		/* 265 */
	vocab_token(&voc, "<unk>", QWEN_TOKEN_UNKNOWN);
	vocab_token(&voc, " \xe2\x82\xac ", QWEN_TOKEN_USER_DEFINED);
	tok = vocab_open(&voc, &gguf);
}

/* "1 2 3" */
static const char *
ids_text(const int32_t *ids, size_t n)
{
	static char buf[4096];
	size_t i, len = 0;

	buf[0] = '\0';
	for (i = 0; i < n && len < sizeof buf - 16; i++)
		len += (size_t)snprintf(buf + len, sizeof buf - len, "%s%d",
		    i > 0 ? " " : "", (int)ids[i]);
	return buf;
}

static void
encodes(const char *text, unsigned flags, const char *want)
{
	int32_t *ids;
	size_t n;
	int r = qwen_tok_encode(tok, text, strlen(text), flags, &ids, &n, NULL);

	if (!ok(r == 0 && strcmp(ids_text(ids, n), want) == 0, "%s%s", text,
	    flags ? " (special)" : ""))
		fprintf(stderr, "got %s\n", ids_text(ids, n));
	free(ids);
}

static void
specials(void)
{
	encodes("", 0, "");
	encodes("the the", 0, "257 258");
	encodes("<|end|>", 0, "27 91 68 77 67 91 29");
	encodes("<|end|>", QWEN_TOK_SPECIAL, "262");
	encodes("<think>", 0, "263");
	encodes("<thinks<thin", 0, "264 74 82 264");
	encodes("<thi<think>", 0, "27 256 72 263");
	encodes("<unk>", 0, "27 84 77 74 29");
	encodes("<unk>", QWEN_TOK_SPECIAL, "266");
	encodes("[PAD1]", QWEN_TOK_SPECIAL, "58 47 32 35 16 60");
	encodes("the  <think>  the", 0, "257 260 263 220 258");
	encodes("the  <thi", 0, "257 220 220 27 256 72");
	encodes("x \xe2\x82\xac y", 0, "87 267 88");
	encodes("<|end|><|end|>the<|end", QWEN_TOK_SPECIAL,
	    "262 262 257 27 91 68 77 67");
}

/* ------------------------------------------------------------------ in parts */

struct list {
	int32_t	*v;
	size_t	 n, cap;
};

static void
append(struct list *l, const int32_t *ids, size_t n)
{
	if (l->cap - l->n < n + 1) {
		l->cap = 2 * (l->cap + n + 1);
		l->v = realloc(l->v, l->cap * sizeof *l->v);
	}
	if (n > 0)
		memcpy(l->v + l->n, ids, n * sizeof *ids);
	l->n += n;
}

/* Parts of 1 to max bytes, each in memory of just its size. */
static void
encode_parts(struct qwen_tok_encoder *e, const unsigned char *p, size_t n,
    size_t max, uint64_t *seed, struct list *out)
{
	const int32_t *ids;
	unsigned char *copy;
	size_t i, part, k;

	for (i = 0; i < n; i += part) {
		part = 1 + rnd(seed) % max;
		part = part < n - i ? part : n - i;
		copy = malloc(part);
		memcpy(copy, p + i, part);
		if (qwen_tok_encoder_feed(e, copy, part, &ids, &k, NULL) < 0)
			exit(1);
		append(out, ids, k);
		free(copy);
	}
	if (qwen_tok_encoder_finish(e, &ids, &k, NULL) < 0)
		exit(1);
	append(out, ids, k);
}

static size_t
random_text(uint64_t *seed, unsigned char *p, size_t count)
{
	static const char *const bits[] = {
		"the", " the", "in", "  ", " ", "\n", "\r\n", "\t", "1", "!",
		"'s", "'", "'re", "<|end|>", "<think>", "<thin", "<", "<|",
		"<|end", "<thi", "\xe4\xb8\xad", "\xe4\xb8", "\xcc\x81",
		"\xff", "\xf0\x9f\xa6\x99", " \xe2\x82\xac ", " \xe2\x82\xac",
		" \xe2", "longer-words", "\xc5\xbf", "[PAD1]", "<unk>",
	};
	const char *s;
	size_t n = 0, k;

	for (k = 0; k < count; k++) {
		s = bits[rnd(seed) % (sizeof bits / sizeof bits[0])];
		memcpy(p + n, s, strlen(s));
		n += strlen(s);
		if (rnd(seed) % 8 == 0)
			p[n++] = (unsigned char)rnd(seed);
	}
	return n;
}

static int
decodes_to(const struct list *l, const unsigned char *p, size_t n)
{
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	size_t i, at = 0;
	int r = 1;

	if (qwen_tok_decoder_new(&d, tok,
	    QWEN_TOK_SHOW_SPECIAL | QWEN_TOK_BYTES, NULL) < 0)
		exit(1);
	for (i = 0; i < l->n && r; i++) {
		r = qwen_tok_decoder_put(d, l->v[i], &s, NULL) == 0 &&
		    s.len <= n - at && memcmp(s.s, p + at, s.len) == 0;
		at += s.len;
	}
	qwen_tok_decoder_free(d);
	return r && at == n;
}

static void
parts(unsigned flags)
{
	static unsigned char text[1 << 14];
	struct qwen_tok_encoder *e;
	struct list l = { NULL, 0, 0 };
	uint64_t seed = 7;
	int32_t *want;
	size_t n, n_want;
	int i, bad = 0, bad_text = 0;

	if (qwen_tok_encoder_new(&e, tok, flags, NULL) < 0)
		exit(1);
	for (i = 0; i < 20000; i++) {
		n = random_text(&seed, text, rnd(&seed) % (i % 50 ? 20 : 400));
		if (qwen_tok_encode(tok, text, n, flags, &want, &n_want,
		    NULL) < 0)
			exit(1);
		l.n = 0;
		encode_parts(e, text, n, i % 3 ? 5 : 100, &seed, &l);
		bad += l.n != n_want ||
		    memcmp(l.v, want, n_want * sizeof *want) != 0;
		bad_text += !decodes_to(&l, text, n);
		free(want);
	}
	ok(bad == 0, "20000 texts in parts, flags %u: %d differ", flags, bad);
	ok(bad_text == 0, "and their bytes come back (%d do not)", bad_text);
	qwen_tok_encoder_free(e);
	free(l.v);
}

/* What is certain leaves at once. */
static void
early(void)
{
	struct qwen_tok_encoder *e;
	const int32_t *ids;
	size_t n;

	if (qwen_tok_encoder_new(&e, tok, QWEN_TOK_SPECIAL, NULL) < 0)
		exit(1);
	qwen_tok_encoder_feed(e, "the th", 6, &ids, &n, NULL);
	ok(n == 1 && ids[0] == 257, "a word leaves when the next begins");
	qwen_tok_encoder_feed(e, "e<|end|", 7, &ids, &n, NULL);
	ok(n == 0, "a special token not complete holds back the word before");
	qwen_tok_encoder_feed(e, ">", 1, &ids, &n, NULL);
	ok(n == 2 && ids[0] == 258 && ids[1] == 262,
	    "and leaves when it is complete");
	qwen_tok_encoder_feed(e, "1", 1, &ids, &n, NULL);
	ok(n == 1 && ids[0] == 16, "a digit leaves by itself");
	qwen_tok_encoder_feed(e, "x", 1, &ids, &n, NULL);
	qwen_tok_encoder_finish(e, &ids, &n, NULL);
	ok(n == 1 && ids[0] == 87, "the end lets go of the rest");
	qwen_tok_encoder_finish(e, &ids, &n, NULL);
	ok(n == 0, "and leaves nothing");
	qwen_tok_encoder_feed(e, NULL, 0, &ids, &n, NULL);
	ok(n == 0, "nothing gives nothing");
	qwen_tok_encoder_free(e);
}

/* The wrong direction is an error, not a crash. */
static void
directions(void)
{
	struct qwen_tok *enc, *dec;
	struct qwen_tok_encoder *e;
	struct qwen_tok_decoder *d;
	struct qwen_err err;

	if (qwen_tok_open(&enc, gguf, QWEN_TOK_ENCODE, &err) < 0 ||
	    qwen_tok_open(&dec, gguf, QWEN_TOK_DECODE, &err) < 0)
		exit(1);
	ok(qwen_tok_encoder_new(&e, dec, 0, &err) < 0 && e == NULL,
	    "one opened to decode does not encode");
	ok(qwen_tok_decoder_new(&d, enc, 0, &err) < 0 && d == NULL,
	    "nor the other way round");
	qwen_tok_close(enc);
	qwen_tok_close(dec);
	qwen_tok_close(NULL);
	qwen_tok_encoder_free(NULL);
	qwen_tok_decoder_free(NULL);
}

int
main(void)
{
	setup();
	specials();
	early();
	parts(0);
	parts(QWEN_TOK_SPECIAL);
	directions();
	qwen_tok_close(tok);
	qwen_gguf_close(gguf);
	vocab_free(&voc);
	return done_testing();
}
