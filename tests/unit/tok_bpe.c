/* SPDX-License-Identifier: ISC */
/*
 * tok_bpe.c - merging against the literal rule: of all neighbours that have a
 * merge take the one of lowest rank, the leftmost of equals.  The vocabularies
 * are random, in any order, even such as training never makes; the pieces are
 * long enough to be merged in windows.
 */
#include "../tap.h"
#include "tok_util.h"

struct model {
	struct vocab	 v;
	struct qwen_gguf *g;
	struct qwen_tok	*t;
};

/* The rule: quadratic, and looks up merges through the texts. */
static size_t
merge_slowly(const struct qwen_tok *t, const unsigned char *p, size_t n,
    int32_t *ids)
{
	struct qwen_pair pair, best = { 0, 0 };
	size_t i, at = 0;

	for (i = 0; i < n; i++)
		ids[i] = t->merges.byte_id[p[i]];
	for (;; n--) {
		best.rank = UINT32_MAX;
		for (i = 0; i + 1 < n; i++) {
			pair = qwen_merge_find(&t->merges, (uint32_t)ids[i],
			    (uint32_t)ids[i + 1]);
			if (pair.rank != 0 && pair.rank < best.rank) {
				best = pair;
				at = i;
			}
		}
		if (best.rank == UINT32_MAX)
			return n;
		ids[at] = (int32_t)best.id;
		memmove(ids + at + 1, ids + at + 2,
		    (n - at - 2) * sizeof *ids);
	}
}

/*
 * Random merges over the letters a to a + n_letters, each of two tokens there
 * were before; then in random order if shuffled.
 */
static void
random_model(struct model *m, uint64_t *seed, unsigned n_letters,
    unsigned n_merges, int shuffled)
{
	char (*text)[40] = calloc(n_letters + n_merges, sizeof *text);
	char (*line)[80] = calloc(n_merges, sizeof *line), tmp[80];
	size_t n = 0, k, i, j, n_lines = 0;

	vocab_init(&m->v, "qwen2");
	for (; n < n_letters; n++)
		text[n][0] = (char)('a' + n);
	for (k = 0; k < 20 * n_merges && n_lines < n_merges; k++) {
		i = rnd(seed) % n;
		j = rnd(seed) % n;
		if (strlen(text[i]) + strlen(text[j]) > 30)
			continue;
		snprintf(tmp, sizeof tmp, "%s%s", text[i], text[j]);
		snprintf(line[n_lines++], 80, "%s %s", text[i], text[j]);
		for (i = 0; i < n && strcmp(text[i], tmp) != 0; i++)
			;
		if (i == n) {
			memcpy(text[n++], tmp, 40);
			vocab_token(&m->v, tmp, QWEN_TOKEN_NORMAL);
		}
	}
	for (k = 0; k < n_lines; k++) {
		i = shuffled ? k + rnd(seed) % (n_lines - k) : k;
		vocab_merge(&m->v, line[i]);
		memcpy(line[i], line[k], sizeof *line);
	}
	free(text);
	free(line);
	m->t = vocab_open(&m->v, &m->g);
}

static void
close_model(struct model *m)
{
	qwen_tok_close(m->t);
	qwen_gguf_close(m->g);
	vocab_free(&m->v);
}

static int
same(const struct model *m, const unsigned char *p, size_t n,
    struct qwen_bpe_scratch *scratch)
{
	int32_t *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
	size_t n_want = merge_slowly(m->t, p, n, want);
	int64_t n_got = qwen_bpe(&m->t->merges, p, n, got, scratch, NULL);
	int r = n_got == (int64_t)n_want &&
	    memcmp(want, got, n_want * sizeof *got) == 0;

	free(want);
	free(got);
	return r;
}

static void
random_piece(uint64_t *seed, unsigned char *p, size_t n, unsigned n_letters)
{
	size_t i, period = 1 + rnd(seed) % 9;
	int periodic = rnd(seed) % 4 == 0;

	for (i = 0; i < n; i++)
		p[i] = periodic && i >= period ? p[i - period] :
		    (unsigned char)('a' + rnd(seed) % n_letters);
}

/* Many small vocabularies, pieces of up to max bytes. */
static void
against_rule(const char *what, int shuffled, size_t max, int n_models,
    int n_pieces)
{
	struct qwen_bpe_scratch scratch = { NULL, 0 };
	unsigned char *p = malloc(max);
	uint64_t seed = (uint64_t)max + (uint64_t)shuffled;
	unsigned letters, merges;
	int i, k, bad = 0;
	struct model m;

	for (i = 0; i < n_models; i++) {
		letters = 1 + rnd(&seed) % 6;
		merges = 1 + rnd(&seed) % 60;
		random_model(&m, &seed, letters, merges, shuffled);
		for (k = 0; k < n_pieces; k++) {
			size_t n = 1 + rnd(&seed) % max;

			random_piece(&seed, p, n, letters);
			bad += !same(&m, p, n, &scratch);
		}
		close_model(&m);
	}
	ok(bad == 0, "%s, pieces up to %zu: %d of %d differ", what, max, bad,
	    n_models * n_pieces);
	free(scratch.mem);
	free(p);
}

/* Merging goes by rank, not by what is longest or leftmost. */
static void
by_rank(void)
{
	static const unsigned char abc[] = "abcabc", aaa[] = "aaaaaaa";
	struct model m;
	int32_t ids[16];
	int64_t n;

	vocab_init(&m.v, "qwen2");
	vocab_pair(&m.v, "b", "c");		/* 256 */
	vocab_pair(&m.v, "a", "b");		/* 257 */
	vocab_pair(&m.v, "ab", "c");		/* 258, out of reach */
	vocab_pair(&m.v, "a", "a");		/* 259 */
	vocab_pair(&m.v, "aa", "aa");		/* 260 */
	m.t = vocab_open(&m.v, &m.g);
	n = qwen_bpe(&m.t->merges, abc, 6, ids, NULL, NULL);
	ok(n == 4 && ids[0] == 'a' - '!' && ids[1] == 256 &&
	    ids[2] == 'a' - '!' && ids[3] == 256,
	    "a whole piece that is a token is not what merging gives");
	n = qwen_bpe(&m.t->merges, aaa, 7, ids, NULL, NULL);
	ok(n == 3 && ids[0] == 260 && ids[1] == 259 && ids[2] == 'a' - '!',
	    "of equal ranks the leftmost first");
	close_model(&m);
}

/*
 * A vocabulary whose windows do not agree: a text in which no two bytes follow
 * each other twice, the merges of its pairs ranked from the end.  So what it
 * ends with decides how it begins.
 */
static void
far_reach(void)
{
	enum { N = 5000 };
	static unsigned char seen[256][256], p[N];
	struct qwen_bpe_scratch scratch = { NULL, 0 };
	char left[5] = "", right[5] = "";
	uint64_t seed = 1;
	struct model m;
	size_t n, i;
	int bad = 0;

	for (i = 1; i < N; i++) {
		do
			p[i] = (unsigned char)rnd(&seed);
		while (seen[p[i - 1]][p[i]]);
		seen[p[i - 1]][p[i]] = 1;
	}
	vocab_init(&m.v, "qwen2");
	for (i = N - 1; i > 0; i--) {
		left[qwen_bytemap_write(p[i - 1], left)] = 0;
		right[qwen_bytemap_write(p[i], right)] = 0;
		vocab_pair(&m.v, left, right);
	}
	m.t = vocab_open(&m.v, &m.g);
	for (n = N - 20; n <= N; n++)
		bad += !same(&m, p, n, &scratch);
	ok(bad == 0, "windows that do not agree");
	close_model(&m);
	free(scratch.mem);
}

/* Tokens that fill a window leave nothing to keep of it. */
static void
long_tokens(void)
{
	struct qwen_bpe_scratch scratch = { NULL, 0 };
	char half[2049];
	unsigned char p[9000];
	struct model m;
	size_t n;
	int bad = 0;

	vocab_init(&m.v, "qwen2");
	for (n = 1; n <= 2048; n *= 2) {
		memset(half, 'a', n);
		half[n] = '\0';
		vocab_pair(&m.v, half, half);
	}
	m.t = vocab_open(&m.v, &m.g);
	memset(p, 'a', sizeof p);
	for (n = 4000; n <= sizeof p; n += 1250)
		bad += !same(&m, p, n, &scratch);
	ok(bad == 0, "tokens of up to 4096 bytes");
	close_model(&m);
	free(scratch.mem);
}

int
main(void)
{
	by_rank();
	against_rule("merges in the order of training", 0, 12, 300, 40);
	against_rule("merges in the order of training", 0, 64, 200, 20);
	against_rule("merges in the order of training", 0, 200, 100, 20);
	against_rule("merges in any order", 1, 12, 300, 40);
	against_rule("merges in any order", 1, 64, 200, 20);
	against_rule("merges in any order", 1, 200, 100, 20);
	against_rule("windows, order of training", 0, 6000, 20, 3);
	against_rule("windows, any order", 1, 6000, 20, 3);
	far_reach();
	long_tokens();
	return done_testing();
}
