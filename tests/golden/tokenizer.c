/* SPDX-License-Identifier: ISC */
/*
 * tokenizer.c - texts with known ids (see tokenizer/README), encoded at once
 * and in chunks, and decoded.
 */
#include <errno.h>
#include <zstd.h>

#include "../tap.h"
#include "../unit/tok_util.h"

/* Of the file that the vocabulary was taken from. */
static const char fingerprint[] = "d1ee45b5a15c7dd746ec7444cb59cfbb";

static const char *
top(void)
{
	const char *s = getenv("TOP");

	return s != NULL ? s : ".";
}

/* All of a file, and a NUL. */
static struct bytes
read_file(const char *path)
{
	struct bytes b = { NULL, 0, 0 };
	char buf[65536];
	size_t n;
	FILE *f = fopen(path, "rb");

	if (f == NULL) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		add_bytes(&b, buf, n);
	fclose(f);
	add_bytes(&b, "", 1);
	b.n--;
	return b;
}

/* A file under tests/golden, decompressed if it is compressed. */
static struct bytes
load(const char *name)
{
	char path[1024];
	struct bytes raw, b = { NULL, 0, 0 };
	size_t n = strlen(name);

	snprintf(path, sizeof path, "%s/tests/golden/%s", top(), name);
	raw = read_file(path);
	if (n < 4 || strcmp(name + n - 4, ".zst") != 0)
		return raw;
	b.cap = (size_t)ZSTD_getFrameContentSize(raw.p, raw.n) + 1;
	b.p = malloc(b.cap);
	b.n = b.p == NULL ? 0 : ZSTD_decompress(b.p, b.cap, raw.p, raw.n);
	if (b.p == NULL || ZSTD_isError(b.n)) {
		fprintf(stderr, "%s: cannot be decompressed\n", path);
		exit(1);
	}
	b.p[b.n] = '\0';
	free(raw.p);
	return b;
}

/* The vocabulary out of its merges. */
static void
make_vocab(struct vocab *v, const char *pre)
{
	struct bytes b = load("tokenizer/qwen.merges.zst");
	char *line, *end, *sp, buf[1024];

	vocab_init(v, pre);
	for (line = (char *)b.p; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		vocab_merge(v, line);
		sp = strchr(line, ' ');
		snprintf(buf, sizeof buf, "%.*s%s", (int)(sp - line), line,
		    sp + 1);
		vocab_token(v, buf, QWEN_TOKEN_NORMAL);
	}
	vocab_token(v, "<|endoftext|>", QWEN_TOKEN_CONTROL);
	vocab_token(v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	while (v->n_tokens < 151936) {
		snprintf(buf, sizeof buf, "[PAD%zu]", v->n_tokens);
		vocab_token(v, buf, QWEN_TOKEN_USER_DEFINED);
	}
	free(b.p);
}

/* ------------------------------------------------------------------ one case */

static int
equal(const char *text, const int32_t *ids, size_t n)
{
	char *end;
	size_t i;

	for (i = 0; i < n; i++) {
		if (strtol(text, &end, 10) != ids[i] || end == text)
			return 0;
		text = end;
	}
	return *text == '\0';
}

static int
in_parts(struct qwen_tok_encoder *e, const unsigned char *p, size_t n,
    size_t part, const int32_t *want, size_t n_want)
{
	const int32_t *ids;
	size_t i, k, done = 0;
	int same = 1;

	for (i = 0; i <= n; i += part) {
		if (i + part > n ? qwen_tok_encoder_feed(e, p + i, n - i, &ids,
		    &k, NULL) < 0 : qwen_tok_encoder_feed(e, p + i, part,
		    &ids, &k, NULL) < 0)
			return 0;
		same = same && done + k <= n_want && (k == 0 ||
		    memcmp(want + done, ids, k * sizeof *ids) == 0);
		done += k;
	}
	if (qwen_tok_encoder_finish(e, &ids, &k, NULL) < 0)
		return 0;
	return same && done + k == n_want && (k == 0 ||
	    memcmp(want + done, ids, k * sizeof *ids) == 0);
}

static int
comes_back(const struct qwen_tok *t, unsigned flags, const int32_t *ids,
    size_t n_ids, const unsigned char *p, size_t n)
{
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	struct bytes b = { NULL, 0, 0 };
	size_t i;
	int same;

	if (qwen_tok_decoder_new(&d, t, flags | QWEN_TOK_SHOW_SPECIAL,
	    NULL) < 0)
		exit(1);
	for (i = 0; i < n_ids; i++) {
		if (qwen_tok_decoder_put(d, ids[i], &s, NULL) < 0)
			exit(1);
		add_bytes(&b, s.s, s.len);
	}
	qwen_tok_decoder_finish(d, &s);
	add_bytes(&b, s.s, s.len);
	same = b.n == n && (n == 0 || memcmp(b.p, p, n) == 0);
	free(b.p);
	qwen_tok_decoder_free(d);
	return same;
}

struct tally {
	int	n, bad_ids, bad_parts, bad_text;
};

static void
try(const struct qwen_tok *t, const unsigned char *p, size_t n,
    unsigned flags, const char *want, struct tally *sum)
{
	struct qwen_tok_encoder *e;
	int32_t *ids;
	size_t n_ids, part;

	if (qwen_tok_encode(t, p, n, flags, &ids, &n_ids, NULL) < 0 ||
	    qwen_tok_encoder_new(&e, t, flags, NULL) < 0)
		exit(1);
	sum->n++;
	if (want != NULL && !equal(want, ids, n_ids)) {
		sum->bad_ids++;
		fprintf(stderr, "wanted %s\n", want);
	}
	for (part = 1; part < 18; part += 4)
		sum->bad_parts += !in_parts(e, p, n, part, ids, n_ids);
	sum->bad_text += !comes_back(t, want != NULL ? 0 : QWEN_TOK_BYTES, ids,
	    n_ids, p, n);
	qwen_tok_encoder_free(e);
	free(ids);
}

static void
report(const char *name, const struct tally *sum)
{
	ok(sum->n > 0 && sum->bad_ids == 0, "%s: ids of %d texts, %d differ",
	    name, sum->n, sum->bad_ids);
	ok(sum->bad_parts == 0, "%s: in parts, %d differ", name,
	    sum->bad_parts);
	ok(sum->bad_text == 0, "%s: and back, %d differ", name,
	    sum->bad_text);
}

/* -------------------------------------------------------------------- files */

static size_t
unhex(const char *hex, unsigned char *p)
{
	size_t n;
	unsigned b;

	for (n = 0; sscanf(hex + 2 * n, "%2x", &b) == 1; n++)
		p[n] = (unsigned char)b;
	return n;
}

/* kind, special, hex, ids; or, not UTF-8, hex alone. */
static void
tsv(const struct qwen_tok *t, const char *name, int valid)
{
	struct bytes b = load(name);
	unsigned char *p = malloc(b.n + 1);
	struct tally sum = { 0, 0, 0, 0 };
	char *line, *end, *hex, *ids;

	for (line = (char *)b.p; *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		if (line[0] == '#')
			continue;
		if (!valid) {
			try(t, p, unhex(line, p), 0, NULL, &sum);
			continue;
		}
		hex = strchr(strchr(line, '\t') + 1, '\t') + 1;
		ids = strchr(hex, '\t');
		*ids++ = '\0';
		try(t, p, unhex(hex, p), hex[-2] == '1' ? QWEN_TOK_SPECIAL : 0,
		    ids, &sum);
	}
	report(name, &sum);
	free(p);
	free(b.p);
}

static void
inp_out(const struct qwen_tok *t, const char *name)
{
	static const char bar[] = "\n__ggml_vocab_test__\n";
	char path[64];
	struct bytes inp, out;
	struct tally sum = { 0, 0, 0, 0 };
	char *text, *next, *ids, *end;

	snprintf(path, sizeof path, "tokenizer/%s.inp", name);
	inp = load(path);
	snprintf(path, sizeof path, "tokenizer/%s.out", name);
	out = load(path);
	ids = (char *)out.p;
	for (text = (char *)inp.p; text != NULL; text = next) {
		if ((next = strstr(text, bar)) != NULL) {
			*next = '\0';
			next += sizeof bar - 1;
		}
		if ((end = strchr(ids, '\n')) == NULL)
			break;
		*end = '\0';
		while (end > ids && end[-1] == ' ')
			*--end = '\0';
		try(t, (unsigned char *)text, strlen(text), 0, ids, &sum);
		ids = end + strlen(end) + 1;
		while (*ids == '\0' && ids < (char *)out.p + out.n)
			ids++;
	}
	report(name, &sum);
	free(inp.p);
	free(out.p);
}

static void
fingerprint_of(const struct qwen_gguf *g)
{
	struct qwen_fp fp;
	char hex[33];

	if (qwen_vocab_fingerprint(g, &fp, NULL) < 0)
		exit(1);
	ok(strcmp(qwen_fp_hex(&fp, hex), fingerprint) == 0,
	    "the vocabulary is the original one");
}

static void
with_vocab(const char *pre)
{
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;
	char name[64];

	make_vocab(&v, pre);
	t = vocab_open(&v, &g);
	if (strcmp(pre, "qwen35") == 0)
		fingerprint_of(g);
	inp_out(t, pre);
	snprintf(name, sizeof name, "tokenizer/cases-%s.tsv.zst", pre);
	tsv(t, name, 1);
	tsv(t, "tokenizer/invalid-utf8.tsv", 0);
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
}

static void
with_model(const char *model)
{
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct bytes b;
	char name[128];

	snprintf(name, sizeof name, "models/%s/model.gguf.zst", model);
	b = load(name);
	if (qwen_gguf_open_memory(&g, b.p, b.n, NULL) < 0 ||
	    qwen_tok_open(&t, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE, NULL) < 0)
		exit(1);
	snprintf(name, sizeof name, "tokenizer/cases-model-%s.tsv.zst", model);
	tsv(t, name, 1);
	qwen_tok_close(t);
	qwen_gguf_close(g);
	free(b.p);
}

int
main(void)
{
	with_vocab("qwen2");
	with_vocab("qwen35");
	with_model("qwen3");
	with_model("qwen35moe-ud");
	return done_testing();
}
