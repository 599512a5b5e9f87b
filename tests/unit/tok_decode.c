/* SPDX-License-Identifier: ISC */
/*
 * tok_decode.c - the alphabet of bytes, strict UTF-8, and a decoder that
 * returns complete characters.
 */
#include "../tap.h"
#include "text/token/unicode.h"
#include "tok_util.h"

static void
alphabet(void)
{
	static const struct {
		unsigned byte;
		const char *text;
	} known[] = {
		{ '!', "!" }, { '~', "~" }, { ' ', "\xc4\xa0" },
		{ '\n', "\xc4\x8a" }, { '\t', "\xc4\x89" },
		{ '\r', "\xc4\x8d" }, { 0, "\xc4\x80" }, { 0x7f, "\xc4\xa1" },
		{ 0xa0, "\xc5\x82" }, { 0xad, "\xc5\x83" },
		{ 0xa1, "\xc2\xa1" }, { 0xac, "\xc2\xac" },
		{ 0xae, "\xc2\xae" }, { 0xff, "\xc3\xbf" },
	};
	unsigned char s[4];
	unsigned b;
	size_t i, n, len;
	int bad = 0;

	for (i = 0; i < sizeof known / sizeof known[0]; i++) {
		n = qwen_bytemap_write(known[i].byte, (char *)s);
		bad += n != strlen(known[i].text) ||
		    memcmp(s, known[i].text, n) != 0;
	}
	ok(bad == 0, "characters of some bytes");
	for (b = 0; b < 256; b++) {
		n = qwen_bytemap_write(b, (char *)s);
		bad += qwen_bytemap_read(s, n, &len) != (int)b || len != n;
	}
	ok(bad == 0, "each byte has its own");
	for (b = 0, n = 0; b < 0x10000; b++) {
		s[0] = (unsigned char)(b >> 8);
		s[1] = (unsigned char)b;
		n += s[0] >= 0x80 && qwen_bytemap_read(s, 2, &len) >= 0;
	}
	ok(n == 256 - 94, "and no others do (%zu)", n);
	ok(qwen_bytemap_read((const unsigned char *)"\xc4", 1, &len) == -1 &&
	    len == 1, "half a character");
}

/* Encode c, also where that is not allowed. */
static size_t
write_utf8(uint32_t c, unsigned char *p, size_t len)
{
	size_t i;

	if (len == 1) {
		p[0] = (unsigned char)c;
		return 1;
	}
	for (i = len; i-- > 1; c >>= 6)
		p[i] = (unsigned char)(0x80 | (c & 0x3f));
	p[0] = (unsigned char)((0xf00u >> len & 0xff) | c);
	return len;
}

static size_t
length(uint32_t c)
{
	return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static void
utf8(void)
{
	unsigned char p[4];
	uint32_t c, got;
	size_t len, n;
	int bad = 0, bad_cut = 0, bad_long = 0, k;

	for (c = 0; c < 0x110000; c++) {
		len = write_utf8(c, p, length(c));
		k = qwen_utf8_read(p, len, &got);
		if (c >= 0xd800 && c < 0xe000)
			bad += k != 0;
		else
			bad += k != (int)len || got != c;
		for (n = 1; n < len; n++)
			bad_cut += qwen_utf8_read(p, n, &got) !=
			    (c >= 0xd800 && c < 0xe000 && n > 1 ? 0 : -(int)n);
	}
	ok(bad == 0, "every code point, and no surrogate");
	ok(bad_cut == 0, "cut anywhere, it is known as a beginning");
	for (len = 2; len <= 4; len++) {
		for (c = 0; length(c) < len; c++) {
			write_utf8(c, p, len);
			bad_long += qwen_utf8_read(p, len, &got) != 0;
		}
	}
	ok(bad_long == 0, "nothing in more bytes than it needs");
	ok(qwen_utf8_read((const unsigned char *)"\xf4\x90\x80\x80", 4,
	    &got) == 0 && qwen_utf8_read((const unsigned char *)"\xf5", 1,
	    &got) == 0, "nothing above U+10FFFF");
}

/* ------------------------------------------------------------------- decoder */

static struct vocab voc;
static struct qwen_gguf *gguf;
static struct qwen_tok *tok;

static void
setup(void)
{
	vocab_init(&voc, "qwen2");
	vocab_token(&voc, "<|end|>", QWEN_TOKEN_CONTROL);	/* 256 */
	vocab_token(&voc, "<think> \xc4\xa0", QWEN_TOKEN_USER_DEFINED);
	vocab_token(&voc, "[PAD]", QWEN_TOKEN_UNUSED);
	vocab_token(&voc, "a \xe4\xb8\xad\xc4\xa0", QWEN_TOKEN_NORMAL);
	vocab_token(&voc, "<unk>", QWEN_TOKEN_UNKNOWN);		/* 260 */
	vocab_token(&voc, "\xc3\xa4\xc2\xb8\xc5\x83!", QWEN_TOKEN_NORMAL);
	tok = vocab_open(&voc, &gguf);
}

static struct qwen_tok_decoder *
decoder(unsigned flags)
{
	struct qwen_tok_decoder *d;

	if (qwen_tok_decoder_new(&d, tok, flags, NULL) < 0)
		exit(1);
	return d;
}

/* Put the byte b; what leaves is added to buf. */
static void
put_byte(struct qwen_tok_decoder *d, unsigned b, struct bytes *buf)
{
	struct qwen_str s;

	if (qwen_tok_decoder_put(d, tok->merges.byte_id[b], &s, NULL) < 0)
		exit(1);
	add_bytes(buf, s.s, s.len);
}

static void
finish(struct qwen_tok_decoder *d, struct bytes *buf)
{
	struct qwen_str s;

	qwen_tok_decoder_finish(d, &s);
	add_bytes(buf, s.s, s.len);
}

/* Bytes one by one: a bar where the text stood still, the end after a slash. */
static void
steps(const char *bytes, const char *want)
{
	struct qwen_tok_decoder *d = decoder(0);
	struct bytes buf = { NULL, 0, 0 };
	size_t n;

	for (; *bytes != '\0'; bytes++) {
		n = buf.n;
		put_byte(d, (unsigned char)*bytes, &buf);
		if (buf.n == n)
			add_bytes(&buf, "|", 1);
	}
	add_bytes(&buf, "/", 1);
	finish(d, &buf);
	add_bytes(&buf, "", 1);
	if (!ok(strcmp((char *)buf.p, want) == 0, "bytes one by one %d", tap_n))
		fprintf(stderr, "got %s\nwant %s\n", (char *)buf.p, want);
	qwen_tok_decoder_free(d);
	free(buf.p);
}

#define BAD "\xef\xbf\xbd"

static void
whole_characters(void)
{
	steps("abc", "abc/");
	steps("\xc3\xa9", "|\xc3\xa9/");
	steps("\xe4\xb8\xad", "||\xe4\xb8\xad/");
	steps("\xf0\x9f\xa6\x99", "|||\xf0\x9f\xa6\x99/");
	steps("\xff" "a", BAD "a/");
	steps("\xe4" "a", "|" BAD "a/");
	steps("\xe4\xb8" "a", "||" BAD "a/");
	steps("\xe4\xb8\xe4\xb8\xad", "||" BAD "|\xe4\xb8\xad/");
	steps("\xf0\x9f", "||/" BAD);
	steps("\xf0\x9f\xa6", "|||/" BAD);
	steps("\xed\xa0\x80", "|" BAD BAD BAD "/");
	steps("\xc0\xaf", BAD BAD "/");
	steps("\xf0\xc3\xa9", "|" BAD "\xc3\xa9/");
}

static void
text_of(int32_t id, unsigned flags, const char *want, const char *what)
{
	struct qwen_tok_decoder *d = decoder(flags);
	struct qwen_str s;
	int r = qwen_tok_decoder_put(d, id, &s, NULL);

	ok(r == 0 && s.len == strlen(want) && memcmp(s.s, want, s.len) == 0,
	    "%s", what);
	qwen_tok_decoder_free(d);
}

static void
types(void)
{
	struct qwen_tok_decoder *d = decoder(0);
	struct qwen_err err;
	struct qwen_str s;

	text_of(256, 0, "", "a control token is nothing");
	text_of(256, QWEN_TOK_SHOW_SPECIAL, "<|end|>", "unless it is shown");
	text_of(260, 0, "", "nor is an unknown one");
	text_of(260, QWEN_TOK_SHOW_SPECIAL, "<unk>", "unless that is shown");
	text_of(257, 0, "<think> \xc4\xa0", "a user-defined one is its text");
	text_of(258, QWEN_TOK_SHOW_SPECIAL, "", "padding is never anything");
	text_of(261, 0, "\xe4\xb8\xad!", "a normal one is its bytes");
	text_of(259, 0, "a \xe4\xb8\xad ",
	    "and what is not of the alphabet stays");
	ok(qwen_tok_decoder_put(d, 262, &s, &err) < 0 && strcmp(err.msg,
	    "token 262 is not in the vocabulary of 262") == 0, "an id beyond");
	ok(qwen_tok_decoder_put(d, -1, &s, &err) < 0, "an id below");
	qwen_tok_decoder_free(d);
}

static void
pending(void)
{
	struct qwen_tok_decoder *d = decoder(0);
	struct bytes buf = { NULL, 0, 0 };
	unsigned char p[QWEN_TOK_PENDING_MAX];
	size_t n;

	put_byte(d, 0xf0, &buf);
	put_byte(d, 0x9f, &buf);
	put_byte(d, 0xa6, &buf);
	n = qwen_tok_decoder_pending(d, p);
	ok(n == 3 && memcmp(p, "\xf0\x9f\xa6", 3) == 0, "bytes that wait");
	put_byte(d, 0x99, &buf);
	ok(qwen_tok_decoder_pending(d, p) == 0 && buf.n == 4 &&
	    memcmp(buf.p, "\xf0\x9f\xa6\x99", 4) == 0,
	    "the last byte completes the character");
	put_byte(d, 0xf0, &buf);
	finish(d, &buf);
	ok(qwen_tok_decoder_pending(d, p) == 0 && buf.n == 7,
	    "the end takes them");
	qwen_tok_decoder_free(d);
	free(buf.p);
}

static void
raw_bytes(void)
{
	struct qwen_tok_decoder *d = decoder(QWEN_TOK_BYTES);
	struct bytes buf = { NULL, 0, 0 };
	unsigned b;
	int bad = 0;

	for (b = 0; b < 256; b++) {
		put_byte(d, b, &buf);
		bad += buf.n != b + 1 || buf.p[b] != b;
	}
	finish(d, &buf);
	ok(bad == 0 && buf.n == 256, "bytes as they are, at once");
	qwen_tok_decoder_free(d);
	free(buf.p);
}

int
main(void)
{
	alphabet();
	utf8();
	setup();
	whole_characters();
	types();
	pending();
	raw_bytes();
	qwen_tok_close(tok);
	qwen_gguf_close(gguf);
	vocab_free(&voc);
	return done_testing();
}
