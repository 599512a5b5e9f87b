/* SPDX-License-Identifier: ISC */
/*
 * tok_linear.c - time and memory are linear in the length of any text.  A
 * quadratic step would take more than an hour, so the limits can be generous.
 * With QPIPE_LONG set, the texts have 100 MB.
 */
#include <sys/resource.h>
#include <time.h>

#include "../tap.h"
#include "tok_util.h"

static struct vocab voc;
static struct qwen_gguf *gguf;
static struct qwen_tok *tok;
static size_t text_bytes = 2000000;

/* Tokens as training makes them: of all lengths, on all classes. */
static void
setup(void)
{
	static const char *const words[] = {
		"the", "there", "thereof", "abcabc", "aaaaaaaa", "banana",
		"\xc4\xa0\xc4\xa0\xc4\xa0\xc4\xa0", "!!!!", "=-=-",
		"\xc3\xa4\xc2\xb8\xc5\x83", "\xc4\x8a\xc4\x8a", "<|<|",
	};
	char left[64], right[8];
	const char *w;
	size_t i, k, n;

	vocab_init(&voc, "qwen35");
	for (i = 0; i < sizeof words / sizeof words[0]; i++) {
		w = words[i];
		for (k = 0; w[k] != '\0'; k += n) {
			n = (unsigned char)w[k] < 0x80 ? 1 : 2;
			snprintf(left, sizeof left, "%.*s", (int)k, w);
			snprintf(right, sizeof right, "%.*s", (int)n, w + k);
			if (k > 0)
				vocab_pair(&voc, left, right);
		}
	}
	vocab_token(&voc, "<|im_end|>", QWEN_TOKEN_CONTROL);
	vocab_token(&voc, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&voc, "<think>", QWEN_TOKEN_USER_DEFINED);
	tok = vocab_open(&voc, &gguf);
}

/* A text of unit over and over, in parts; the seconds of processor time. */
static double
encode(const char *unit, size_t total, size_t part)
{
	struct qwen_tok_encoder *e;
	const int32_t *ids;
	clock_t begin = clock();
	size_t len = strlen(unit), i, k, n;
	char *buf = malloc(part + len);

	if (buf == NULL ||
	    qwen_tok_encoder_new(&e, tok, QWEN_TOK_SPECIAL, NULL) < 0)
		exit(1);
	for (i = 0; i < part + len; i++)
		buf[i] = unit[i % len];
	for (i = 0; i < total; i += n) {
		n = total - i < part ? total - i : part;
		if (qwen_tok_encoder_feed(e, buf + i % len, n, &ids, &k,
		    NULL) < 0)
			exit(1);
	}
	if (qwen_tok_encoder_finish(e, &ids, &k, NULL) < 0)
		exit(1);
	qwen_tok_encoder_free(e);
	free(buf);
	return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void
run_of(const char *what, const char *unit)
{
	double limit = 20 + (double)text_bytes / 5e5, s;

	s = encode(unit, text_bytes, 1 << 16);
	ok(s < limit, "%zu bytes of %s", text_bytes, what);
	fprintf(stderr, "%s: %.2f s, %.1f MB/s\n", what, s,
	    (double)text_bytes / s / 1e6);
	s = encode(unit, text_bytes / 10, 3);
	ok(s < limit, "and in parts of three bytes");
}

static long
peak_kib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

/* Words leave as they come: memory does not go with the text. */
static void
bounded(void)
{
	long before;

	encode("there and banana, ", text_bytes / 2, 1 << 16);
	before = peak_kib();
	encode("there and banana, ", 4 * text_bytes, 1 << 16);
	ok(peak_kib() - before < 4096, "words take no more memory (%ld KiB)",
	    peak_kib() - before);
}

int
main(void)
{
	const char *is_long = getenv("QPIPE_LONG");

	if (is_long != NULL && is_long[0] != '\0')
		text_bytes = 100000000;
	setup();
	bounded();
	run_of("words", "there and banana, ");
	run_of("one letter", "a");
	run_of("letters without a space", "abcabcthereofbananaxyz");
	run_of("ideographs", "\xe4\xb8\xad\xe6\x96\x87");
	run_of("spaces", " ");
	run_of("spaces and tabs", " \t");
	run_of("line ends", "\n");
	run_of("spaces and line ends", "  \r\n");
	run_of("one sign", "!");
	run_of("signs", "=-!+");
	run_of("signs and line ends", "!\n");
	run_of("digits", "1234567890");
	run_of("apostrophes", "'");
	run_of("half special tokens", "<|im_st");
	run_of("special tokens", "<|im_start|>");
	run_of("bytes that are no UTF-8", "\xff\xe4\xb8");
	qwen_tok_close(tok);
	qwen_gguf_close(gguf);
	vocab_free(&voc);
	return done_testing();
}
