/* SPDX-License-Identifier: ISC */
/*
 * tok_vocab.c - vocabularies in files: each invalid statement is one error that
 * names it; and functions that read only the file.
 */
#include <time.h>

#include "../tap.h"
#include "tok_util.h"

/* A vocabulary that is good, for one thing to be spoilt. */
static void
good(struct vocab *v)
{
	vocab_init(v, "qwen2");
	vocab_pair(v, "a", "b");
	vocab_pair(v, "ab", "c");
	vocab_token(v, "<|endoftext|>", QWEN_TOKEN_CONTROL);
	vocab_token(v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	vocab_token(v, "<think>", QWEN_TOKEN_USER_DEFINED);
	vocab_token(v, "[PAD261]", QWEN_TOKEN_UNUSED);
}

/*
 * A look says what opening does, but for lines of merges, and texts that were
 * made for the tables.
 */
static int
looks_alike(const struct qwen_gguf *g, unsigned what, const char *opened)
{
	struct qwen_err err = { .msg = "" };

	if (strncmp(opened, "merge ", 6) == 0 ||
	    strstr(opened, "crafted to collide") != NULL)
		opened = "";
	if ((qwen_tok_check(g, what, &err) < 0) == (opened[0] != '\0') &&
	    strcmp(err.msg, opened) == 0)
		return 1;
	fprintf(stderr, "a look says '%s'\n", err.msg);
	return 0;
}

/* The message of opening it, "" if that succeeds. */
static const char *
message(struct vocab *v, unsigned what)
{
	static struct qwen_err err;
	struct qwen_gguf *g;
	struct qwen_tok *t;

	err.msg[0] = '\0';
	vocab_write(v);
	if (qwen_gguf_open_memory(&g, v->file.p, v->file.n, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	if (qwen_tok_open(&t, g, what, &err) < 0) {
		if (t != NULL || err.msg[0] == '\0')
			exit(1);
	} else
		qwen_tok_close(t);
	if (!looks_alike(g, what, err.msg))
		exit(1);
	qwen_gguf_close(g);
	return err.msg;
}

static void
refused(struct vocab *v, const char *want, const char *what)
{
	const char *got = message(v, QWEN_TOK_ENCODE);

	if (!ok(strstr(got, want) != NULL, "%s", what))
		fprintf(stderr, "got '%s', not '%s'\n", got, want);
	vocab_free(v);
}

/* Files from before there was the key, and others. */
static void
no_pre(void)
{
	static const char *const old[] = { "qwen2", "qwen2moe", "qwen3",
	    "qwen3vlmoe" };
	static const char *const other[] = { "qwen35", "qwen35moe", "qwen",
	    "qwen22", "llama", "", NULL };
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;
	size_t i;

	for (i = 0; i < sizeof old / sizeof old[0]; i++) {
		good(&v);
		v.arch = old[i];
		t = vocab_open(&v, &g);
		ok(qwen_tok_guess(t) == NULL, "%s: it is named", old[i]);
		qwen_tok_close(t);
		qwen_gguf_close(g);
		v.pre = NULL;
		t = vocab_open(&v, &g);
		ok(qwen_tok_guess(t) != NULL &&
		    strcmp(qwen_tok_guess(t), "qwen2") == 0, "%s: a guess",
		    old[i]);
		ok(message(&v, 3)[0] == '\0', "%s: a look says the same",
		    old[i]);
		qwen_tok_close(t);
		qwen_gguf_close(g);
		vocab_free(&v);
	}
	for (i = 0; i < sizeof other / sizeof other[0]; i++) {
		good(&v);
		v.arch = other[i];
		v.pre = NULL;
		refused(&v, "no tokenizer.ggml.pre", "no pre-tokenizer");
	}
}

static void
keys(void)
{
	/* what converters write for vocabularies of these families */
	static const char *const pre[] = { "qwen2", "qwen35",
	    "deepseek-r1-qwen", "f2llmv2", "kormo", "megrez" };
	struct vocab v;
	size_t i;

	good(&v);
	ok(message(&v, 3)[0] == '\0', "a good vocabulary");
	v.pre = NULL;
	ok(message(&v, QWEN_TOK_DECODE)[0] == '\0',
	    "decoding asks for no pre-tokenizer");
	vocab_free(&v);
	no_pre();
	good(&v);
	v.pre = "llama-bpe";
	refused(&v, "unknown pre-tokenizer 'llama-bpe'; known are qwen2 and qwen35",
	    "another pre-tokenizer");
	for (i = 0; i < sizeof pre / sizeof pre[0]; i++) {
		good(&v);
		v.pre = pre[i];
		ok(message(&v, 3)[0] == '\0', "%s", pre[i]);
		vocab_free(&v);
	}
	good(&v);
	v.model = "llama";
	refused(&v, "unknown tokenizer 'llama'", "another tokenizer");
	good(&v);
	v.model = NULL;
	refused(&v, "no tokenizer.ggml.model", "no tokenizer");
	good(&v);
	v.n_tokens = v.tokens.n = 0;
	refused(&v, "no vocabulary", "no tokens");
	good(&v);
	v.no_merges = 1;
	ok(message(&v, QWEN_TOK_DECODE)[0] == '\0',
	    "decoding asks for no merges");
	refused(&v, "merges is missing", "no merges");
	good(&v);
	v.n_types--;
	v.types.n -= 4;
	refused(&v, "262 tokens, but 261 token types", "too few types");
}

static void
merges(void)
{
	static const struct {
		const char *line, *want;
	} bad[] = {
		{ "ab", "merge 2 'ab': not two tokens" },
		{ "", "merge 2 ''" },
		{ " ", "merge 2 ' '" },
		{ "a ", "merge 2 'a '" },
		{ " b", "merge 2 ' b'" },
		{ "a  b", "merge 2 'a  b'" },
		{ "a b c", "merge 2 'a b c': not two tokens" },
		{ "x yz", "merge 2 'x yz': its right side is not a token" },
		{ "yz x", "merge 2 'yz x': its left side is not a token" },
		{ "x y", "merge 2 'x y': its result is not a token" },
		{ "[PAD261 ]", "merge 2 '[PAD261 ]': its left side" },
		{ "a \xff", "merge 2 'a ?': its right side" },
	};
	struct vocab v;
	char big[8], *huge = malloc(70000);
	size_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		good(&v);
		vocab_merge(&v, bad[i].line);
		refused(&v, bad[i].want, "a merge that is none");
	}
	good(&v);
	vocab_merge_n(&v, "a\0 b", 4);
	refused(&v, "merge 2 'a", "a merge with a NUL");
	good(&v);
	memset(huge, 'a', 70000);
	huge[35000] = ' ';
	vocab_merge_n(&v, huge, 70000);
	refused(&v, "merge 2 is 70000 bytes long", "a merge too long");
	good(&v);
	snprintf(big, sizeof big, "a b");
	vocab_merge(&v, big);
	ok(message(&v, QWEN_TOK_ENCODE)[0] == '\0', "a merge given twice");
	vocab_free(&v);
	free(huge);
}

static void
tokens(void)
{
	struct vocab v;
	char *huge = malloc(70000);

	memset(huge, 'a', 70000);
	good(&v);
	vocab_token_n(&v, huge, 65537, QWEN_TOKEN_NORMAL);
	refused(&v, "token 262 is 65537 bytes long", "a token too long");
	good(&v);
	vocab_token_n(&v, huge, 1025, QWEN_TOKEN_CONTROL);
	refused(&v, "special token 262 is 1025 bytes long",
	    "a special token too long");
	good(&v);
	vocab_token_n(&v, huge, 65536, QWEN_TOKEN_NORMAL);
	vocab_token_n(&v, huge, 1024, QWEN_TOKEN_CONTROL);
	vocab_token_n(&v, "", 0, QWEN_TOKEN_NORMAL);
	vocab_token_n(&v, "", 0, QWEN_TOKEN_CONTROL);
	vocab_token_n(&v, "", 0, QWEN_TOKEN_USER_DEFINED);
	vocab_token(&v, "odd", 77);
	vocab_token(&v, "ab", QWEN_TOKEN_NORMAL);
	ok(message(&v, 3)[0] == '\0',
	    "long, empty and repeated tokens, an unknown type");
	vocab_free(&v);
	vocab_init(&v, "qwen2");
	v.tokens.p[8] = '"';		/* was '!' */
	refused(&v, "no token for byte 33 ('!')", "a byte without a token");
	good(&v);
	qwen_put_le32(v.types.p, QWEN_TOKEN_UNUSED);
	refused(&v, "no token for byte 33 ('!')", "a byte that is unused");
	free(huge);
}

/* Two tokens of one text: the first is produced, by whatever merges. */
static void
duplicates(void)
{
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;
	int32_t *ids;
	size_t n;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "bc", QWEN_TOKEN_NORMAL);	/* 256 */
	vocab_pair(&v, "a", "b");			/* 257 */
	vocab_pair(&v, "b", "c");			/* 258, again */
	vocab_pair(&v, "bc", "d");			/* 259 */
	t = vocab_open(&v, &g);
	qwen_tok_encode(t, "bc", 2, 0, &ids, &n, NULL);
	ok(n == 1 && ids[0] == 256, "the first of two tokens of a text");
	free(ids);
	qwen_tok_encode(t, "bcd", 3, 0, &ids, &n, NULL);
	ok(n == 1 && ids[0] == 259, "and merges go on with that");
	free(ids);
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
}

/* n texts of 7 letters that want the same slot of a table of that size. */
static void
colliding(struct vocab *v, unsigned bits, size_t n)
{
	struct qwen_textmap m = { .bits = bits };
	struct qwen_textslot *none = calloc(1, 64);
	struct qwen_textkey k;
	char buf[16] = "";
	uint64_t i;
	size_t found = 0;

	m.slot = none;
	for (i = 0; found < n; i++) {
		snprintf(buf + 8, 8, "%07llx", (unsigned long long)i);
		qwen_textmap_begin(&m, &k, buf + 8, 7);
		if (k.slot != 0)
			continue;
		vocab_token(v, buf + 8, QWEN_TOKEN_NORMAL);
		found++;
	}
	free(none);
}

static void
collisions(void)
{
	struct vocab v;
	clock_t begin = clock();

	good(&v);
	colliding(&v, qwen_table_bits(262 + 600), 600);
	refused(&v, "were crafted to collide", "texts made to collide");
	ok((clock() - begin) / CLOCKS_PER_SEC < 10, "and that at once");
}

/* ----------------------------------------------------- asked of the file alone */

static struct qwen_gguf *
open_file(struct vocab *v)
{
	struct qwen_gguf *g;

	vocab_write(v);
	if (qwen_gguf_open_memory(&g, v->file.p, v->file.n, NULL) < 0)
		exit(1);
	return g;
}

static struct qwen_fp
fingerprint(struct vocab *v)
{
	struct qwen_gguf *g = open_file(v);
	struct qwen_fp fp;

	if (qwen_vocab_fingerprint(g, &fp, NULL) < 0)
		exit(1);
	qwen_gguf_close(g);
	return fp;
}

static void
fingerprints(void)
{
	struct vocab v;
	struct qwen_fp a, b[5];
	int i, j, equal = 0;

	good(&v);
	a = fingerprint(&v);
	v.eos = 256;
	b[0] = fingerprint(&v);
	ok(memcmp(&a, &b[0], sizeof a) == 0,
	    "other keys leave the fingerprint alone");
	v.pre = "qwen35";
	b[0] = fingerprint(&v);
	v.pre = "qwen2";
	v.types.p[0]++;
	b[1] = fingerprint(&v);
	v.types.p[0]--;
	v.tokens.p[8]++;
	b[2] = fingerprint(&v);
	v.tokens.p[8]--;
	v.merges.p[8]++;
	b[3] = fingerprint(&v);
	v.merges.p[8]--;
	v.no_merges = 1;
	b[4] = fingerprint(&v);
	for (i = 0; i < 5; i++) {
		equal += memcmp(&a, &b[i], sizeof a) == 0;
		for (j = 0; j < i; j++)
			equal += memcmp(&b[i], &b[j], sizeof a) == 0;
	}
	ok(equal == 0, "pre-tokenizer, types, tokens and merges do not");
	vocab_free(&v);
}

/* "256 257 ", or the error. */
static const char *
eog(struct vocab *v)
{
	static char buf[512];
	struct qwen_gguf *g = open_file(v);
	struct qwen_err err;
	int32_t ids[4];
	size_t n, i, len = 0;

	if (qwen_vocab_eog(g, ids, 4, &n, &err) < 0) {
		snprintf(buf, sizeof buf, "%s", err.msg);
		n = 0;
	} else
		buf[0] = '\0';
	for (i = 0; i < n; i++)
		len += (size_t)snprintf(buf + len, sizeof buf - len, "%d ",
		    (int)ids[i]);
	qwen_gguf_close(g);
	return buf;
}

static void
ends(void)
{
	struct vocab v;

	good(&v);
	ok(strcmp(eog(&v), "258 259 ") == 0, "ends of generation by text");
	v.eos = 259;
	v.eot = 7;
	ok(strcmp(eog(&v), "7 258 259 ") == 0, "and by key, each once");
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	ok(strcmp(eog(&v), "7 258 259 ") == 0, "the first of a text");
	v.eos = 263;
	ok(strcmp(eog(&v), "tokenizer.ggml.eos_token_id is 263, but there are "
	    "263 tokens") == 0, "an id that is none");
	vocab_free(&v);
	vocab_init(&v, "qwen2");
	ok(strcmp(eog(&v), "") == 0, "no end at all");
	vocab_free(&v);
}

static void
sizes(void)
{
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;
	size_t n;

	good(&v);
	t = vocab_open(&v, &g);
	ok(qwen_vocab_size(g, &n, NULL) == 0 && n == 262 &&
	    qwen_tok_n_vocab(t) == 262, "padding counts as vocabulary");
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
}

int
main(void)
{
	keys();
	merges();
	tokens();
	duplicates();
	collisions();
	fingerprints();
	ends();
	sizes();
	return done_testing();
}
