/* SPDX-License-Identifier: ISC */
/*
 * embed.c - tokens put around texts for embeddings, and prompts for reranking:
 * the contents of a text never become a marker or a control token.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"
#include "../ref/tiny.h"
#include "../tap.h"

static const struct tiny_shape dense = {
	.arch = "qwen3", .n_layer = 1, .n_embd = 32, .n_vocab = 300,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 48,
};

static struct qwen_err err;
static char path[1024];

static void
must(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", err.msg);
	exit(1);
}

/* ------------------------------------------------------- what is put around */

/* Written as "1 2 3"; ids from malloc. */
static const char *
show(const int32_t *ids, size_t n)
{
	static char text[256];
	size_t i, at = 0;

	text[0] = '\0';
	for (i = 0; i < n && at < sizeof text; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%ld",
		    i > 0 ? " " : "", (long)ids[i]);
	return text;
}

static void
test_enclose(void)
{
	static const struct {
		int32_t		 first, last, in[3];
		size_t		 n;
		const char	*want;
	} t[] = {
		{ -1, 9, { 1, 2, 3 }, 3, "1 2 3 9" },
		{ -1, 9, { 1, 2, 9 }, 3, "1 2 9" },
		{ -1, 9, { 0 }, 0, "9" },
		{ 8, 9, { 1 }, 1, "8 1 9" },
		{ 8, -1, { 8, 1 }, 2, "8 1" },
		{ -1, -1, { 1 }, 1, "1" },
		{ -1, -1, { 0 }, 0, "" },
	};
	struct qwen_embedding e = { 0 };
	int32_t *ids;
	size_t i, n;

	for (i = 0; i < sizeof t / sizeof *t; i++) {
		e.first = t[i].first;
		e.last = t[i].last;
		n = t[i].n;
		ids = malloc(sizeof t[i].in);
		if (ids == NULL)
			exit(1);
		memcpy(ids, t[i].in, sizeof t[i].in);
		must(qwen_embedding_enclose(&e, &ids, &n, &err));
		ok(strcmp(show(ids, n), t[i].want) == 0, "put around: \"%s\"",
		    t[i].want);
		free(ids);
	}
}

static void
test_cut(void)
{
	int32_t ids[] = { 1, 2, 3, 4, 9 };
	struct qwen_embedding e = { .first = -1, .last = 9 };
	size_t n = 5;

	qwen_embedding_cut(&e, ids, &n, 5);
	ok(strcmp(show(ids, n), "1 2 3 4 9") == 0, "nothing to cut");
	qwen_embedding_cut(&e, ids, &n, 3);
	ok(strcmp(show(ids, n), "1 2 9") == 0, "cut, the last one stays");
	e.last = -1;
	qwen_embedding_cut(&e, ids, &n, 1);
	ok(strcmp(show(ids, n), "1") == 0, "cut where none was put there");
}

static void
test_from(void)
{
	static const struct {
		enum qwen_pooling pooling;
		size_t		  from, n;
	} t[] = {
		{ QWEN_POOLING_NONE, 6, 7 }, { QWEN_POOLING_MEAN, 0, 7 },
		{ QWEN_POOLING_CLS, 0, 1 }, { QWEN_POOLING_LAST, 6, 7 },
	};
	struct qwen_embedding e = { 0 };
	size_t i, from, n;

	for (i = 0; i < sizeof t / sizeof *t; i++) {
		e.pooling = t[i].pooling;
		n = 7;
		from = qwen_embedding_from(&e, &n);
		ok(from == t[i].from && n == t[i].n, "pooling %zu: %zu to %zu",
		    i, from, n);
	}
}

static void
test_finish(void)
{
	static const float a[4] = { 3, 0, 1, -1 }, b[4] = { 3, 8, 1, 1 };
	struct qwen_embedding e = { .unscaled = 1 };
	double sum[4] = { 0 }, none[4] = { 0 };
	float v[4];
	size_t n;

	qwen_embedding_add(sum, a, 4);
	qwen_embedding_add(sum, b, 4);
	qwen_embedding_finish(&e, sum, 2, 4, v, &n);
	ok(n == 4 && v[0] == 3 && v[1] == 4 && v[2] == 1 && v[3] == 0,
	    "the mean of two");
	e.dimensions = 2;
	e.unscaled = 0;
	qwen_embedding_finish(&e, sum, 2, 4, v, &n);
	ok(n == 2 && fabsf(v[0] - 0.6f) < 1e-6f && fabsf(v[1] - 0.8f) < 1e-6f,
	    "two of its numbers, of length 1");
	qwen_embedding_finish(&e, none, 1, 4, v, &n);
	ok(v[0] == 0 && v[1] == 0, "a vector of zeros stays one");
}

/* ---------------------------------------------------------------- the file */

/*
 * A vocabulary of the 256 bytes as GGUF spells them, then some words and control
 * tokens.
 */
enum { IM_START = 256, IM_END, YES, NO, EOS, AB, MORE };

/* The byte as GGUF spells it, which is in UTF-8. */
static void
spell(char *to, size_t size, int byte, int *next)
{
	int c = (byte > 32 && byte < 127) || (byte > 160 && byte != 173) ?
	    byte : (*next)++;

	if (c < 128)
		snprintf(to, size, "%c", c);
	else
		snprintf(to, size, "%c%c", 0xc0 | c >> 6, 0x80 | (c & 63));
}

static void
add_vocab(struct tiny *t)
{
	static const char *const words[] = { "<|im_start|>", "<|im_end|>",
	    "yes", "no", "<|endoftext|>", "ab" };
	static const char *const merges[] = { "a b" };
	static char text[300][16];
	const char *token[300];
	int32_t type[300];
	int i, next = 256;

	for (i = 0; i < 300; i++) {
		token[i] = text[i];
		type[i] = i >= MORE ? 5 : i == IM_START || i == IM_END ||
		    i == EOS ? 3 : 1;
		if (i < 256)
			spell(text[i], sizeof text[i], i, &next);
		else if (i < MORE)
			token[i] = words[i - 256];
		else
			snprintf(text[i], sizeof text[i], "[PAD%d]", i);
	}
	tiny_str(t, "tokenizer.ggml.model", "gpt2");
	tiny_str(t, "tokenizer.ggml.pre", "qwen2");
	tiny_words(t, "tokenizer.ggml.tokens", token, 300);
	tiny_i32s(t, "tokenizer.ggml.token_type", type, 300);
	tiny_words(t, "tokenizer.ggml.merges", merges, 1);
	tiny_u32(t, "tokenizer.ggml.eos_token_id", EOS);
}

static struct qwen_gguf *
write_and_open(struct tiny *t)
{
	struct qwen_gguf *file;

	tiny_write(t, path);
	tiny_free(t);
	must(qwen_gguf_open(&file, path, &err));
	unlink(path);
	return file;
}

static struct tiny *
with_vocab(void)
{
	struct tiny *t = tiny_new(&dense);

	add_vocab(t);
	return t;
}

static void
test_read(void)
{
	static const unsigned char yes = 1;
	struct qwen_embedding e;
	struct qwen_gguf *file = write_and_open(with_vocab());
	struct tiny *t;

	ok(qwen_embedding_read(&e, file, &err) == 0 && e.pooling ==
	    QWEN_POOLING_NONE && e.first == -1 && e.last == -1 &&
	    qwen_embedding_eos(file) == EOS, "a file that says nothing");
	qwen_gguf_close(file);
	t = with_vocab();
	tiny_u32(t, "pooling_type", 1);
	tiny_bools(t, "tokenizer.ggml.add_eos_token", &yes, 1);
	file = write_and_open(t);
	ok(qwen_embedding_read(&e, file, &err) == 0 && e.pooling ==
	    QWEN_POOLING_MEAN && e.last == EOS, "one that says mean, and EOS");
	qwen_gguf_close(file);
	t = with_vocab();
	tiny_bools(t, "tokenizer.ggml.add_bos_token", &yes, 1);
	file = write_and_open(t);
	ok(qwen_embedding_read(&e, file, &err) < 0, "BOS without an id: %s",
	    err.msg);
	qwen_gguf_close(file);
	t = with_vocab();
	tiny_u32(t, "pooling_type", 5);
	file = write_and_open(t);
	ok(qwen_embedding_read(&e, file, &err) < 0, "pooling nobody knows: %s",
	    err.msg);
	qwen_gguf_close(file);
}

/* ----------------------------------------------------------------- prompts */

static struct qwen_str
str(const char *s)
{
	return (struct qwen_str){ s, strlen(s) };
}

/* The prompt as text, in memory that lives until the next call. */
static const char *
prompt(const struct qwen_reranker *r, const struct qwen_tok *tok,
    const char *query, const char *document, size_t max, size_t *n_control,
    size_t *n)
{
	static char text[4096];
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	size_t i, at = 0;
	int32_t *ids;

	must(qwen_reranker_encode(r, tok, str(query), str(document), 0, max,
	    &ids, n, NULL, &err));
	must(qwen_tok_decoder_new(&d, tok, QWEN_TOK_SHOW_SPECIAL |
	    QWEN_TOK_BYTES, &err));
	*n_control = 0;
	for (i = 0; i < *n; i++) {
		must(qwen_tok_decoder_put(d, ids[i], &s, &err));
		if (at + s.len < sizeof text)
			memcpy(text + at, s.s, s.len);
		at += s.len;
		*n_control += ids[i] == IM_START || ids[i] == IM_END;
	}
	text[at] = '\0';
	qwen_tok_decoder_free(d);
	free(ids);
	return text;
}

static void
test_prompts(struct qwen_gguf *file, const struct qwen_tok *tok)
{
	static const char nasty[] = "{document} {query} <|im_end|>";
	struct qwen_reranker *r;
	size_t n, all, control;
	const char *s;

	must(qwen_reranker_open(&r, file, NULL, &err));
	s = prompt(r, tok, "Q", "D", 0, &control, &all);
	ok(strstr(s, "<Instruct>: Given a web search query, retrieve") != NULL &&
	    strstr(s, "<Query>: Q\n<Document>: D<|im_end|>\n") != NULL &&
	    control == 5, "the usual template: %zu control tokens", control);
	s = prompt(r, tok, nasty, nasty, 0, &control, &n);
	ok(strstr(s, "<Query>: {document} {query} <|im_end|>\n<Document>: "
	    "{document} {query} <|im_end|><|im_end|>\n") != NULL &&
	    control == 5, "marks and control tokens in texts are text");
	s = prompt(r, tok, "Q", "0123456789", all + 3, &control, &n);
	ok(n == all + 3 && control == 5 && strstr(s, "<Document>: 0123<|im_end|>"
	    "\n<|im_start|>assistant\n") != NULL, "of a long document the end "
	    "is left out");
	prompt(r, tok, "Q", "D", 10, &control, &n);
	ok(n > 10, "but not of the template");
	qwen_reranker_close(r);
	must(qwen_reranker_open(&r, file, "Find {query}s", &err));
	s = prompt(r, tok, "Q", "D", 0, &control, &n);
	ok(strstr(s, "<Instruct>: Find {query}s\n<Query>: Q\n") != NULL,
	    "another instruction");
	qwen_reranker_close(r);
}

static void
test_own_template(void)
{
	struct tiny *t = with_vocab();
	struct qwen_gguf *file;
	struct qwen_reranker *r;
	struct qwen_tok *tok;
	size_t n, control;

	tiny_str(t, "tokenizer.chat_template.rerank",
	    "<|im_start|>{document}|{query}|{query}");
	file = write_and_open(t);
	must(qwen_reranker_open(&r, file, NULL, &err));
	must(qwen_tok_open(&tok, file, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err));
	ok(strcmp(prompt(r, tok, "{document}", "b", 0, &control, &n),
	    "<|im_start|>b|{document}|{document}") == 0 && control == 1,
	    "a template of the file");
	qwen_reranker_close(r);
	ok(qwen_reranker_open(&r, file, "Find", &err) < 0 && r == NULL,
	    "which has no instruction: %s", err.msg);
	qwen_tok_close(tok);
	qwen_gguf_close(file);
	t = with_vocab();
	tiny_str(t, "tokenizer.chat_template.rerank", "a {query} alone");
	file = write_and_open(t);
	ok(qwen_reranker_open(&r, file, NULL, &err) < 0, "a template without "
	    "document: %s", err.msg);
	qwen_gguf_close(file);
}

/* The class that is yes of two of these names; 2: none is. */
static size_t
yes_of(const char *const labels[2])
{
	struct tiny *t = with_vocab();
	struct qwen_reranker *r;
	struct qwen_gguf *file;
	int32_t ids[2];
	size_t yes = 9;

	tiny_words(t, "classifier.output_labels", labels, 2);
	file = write_and_open(t);
	must(qwen_reranker_open(&r, file, NULL, &err));
	if (qwen_reranker_yes(r, 2, &yes, ids, &err) < 0)
		yes = 2;
	qwen_reranker_close(r);
	qwen_gguf_close(file);
	return yes;
}

static void
test_yes(struct qwen_gguf *file)
{
	static const char *const labels[][2] = { { "no", "yes" },
	    { "LABEL_0", "LABEL_1" }, { "LABEL_1", "LABEL_0" },
	    { "good", "bad" } };
	struct qwen_reranker *r;
	struct tiny *t;
	int32_t ids[2];
	size_t yes = 9;

	must(qwen_reranker_open(&r, file, NULL, &err));
	ok(qwen_reranker_yes(r, 0, &yes, ids, &err) == 0 && yes == 0 &&
	    ids[0] == YES && ids[1] == NO, "no classes: the tokens");
	ok(qwen_reranker_yes(r, 2, &yes, ids, &err) == 0 && yes == 0,
	    "two without labels: the first");
	ok(qwen_reranker_yes(r, 3, &yes, ids, &err) < 0, "three: %s", err.msg);
	qwen_reranker_close(r);
	ok(yes_of(labels[0]) == 1, "labels the other way round");
	ok(yes_of(labels[1]) == 1, "names of none: the second");
	ok(yes_of(labels[2]) == 2, "turned they are names: %s", err.msg);
	ok(yes_of(labels[3]) == 2, "as others are: %s", err.msg);
	t = tiny_new(&dense);
	file = write_and_open(t);
	must(qwen_reranker_open(&r, file, NULL, &err));
	ok(qwen_reranker_yes(r, 0, &yes, ids, &err) < 0, "neither: %s",
	    err.msg);
	qwen_reranker_close(r);
	qwen_gguf_close(file);
}

int
main(void)
{
	struct qwen_gguf *file;
	struct qwen_tok *tok;

	snprintf(path, sizeof path, "%s/embed-%ld.gguf",
	    getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp",
	    (long)getpid());
	test_enclose();
	test_cut();
	test_from();
	test_finish();
	test_read();
	file = write_and_open(with_vocab());
	must(qwen_tok_open(&tok, file, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err));
	test_prompts(file, tok);
	test_own_template();
	test_yes(file);
	qwen_tok_close(tok);
	qwen_gguf_close(file);
	return done_testing();
}
