/* SPDX-License-Identifier: ISC */
/*
 * rope.c - contexts longer than the trained one: angles up to position
 * 1,048,575 against arithmetic with 60 digits (rope.tsv, written by rope.py);
 * models whose RoPE is scaled by an option against files with the same scaling.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/cpu/cpu.h"
#include "engine/model.h"
#include "qwen.h"
#include "../ref/tiny.h"
#include "../tap.h"

enum { N_VOCAB = 71, N = 40, MODEL_MAX = 64 };

static char path[] = "/tmp/rope.XXXXXX";

/* What is said of the positions; 0 or NULL: nothing. */
struct keys {
	size_t		 n_ctx;
	const char	*type;
	float		 factor, base;
	size_t		 n_orig, n_rot;
	float		 fast, slow;	/* of YaRN's ramp */
	float		 attn, scale;	/* of YaRN; of attention */
};

static int
open_with(struct qwen_model **m, const struct keys *k, const char *option)
{
	struct tiny_shape shape = { .arch = "qwen3", .n_layer = 2, .n_embd = 48,
	    .n_vocab = N_VOCAB, .n_head = 4, .n_head_kv = 2, .n_embd_head = 128,
	    .n_ff = 80, .n_rot = k->n_rot };
	struct qwen_model_opts o = { .n_threads = 1, .k = QWEN_KV_F32,
	    .v = QWEN_KV_F32 };
	struct tiny *t = tiny_new(&shape);
	struct qwen_err err;
	int rc;

	tiny_u32(t, "context_length", (uint32_t)k->n_ctx);
	if (k->base > 0)
		tiny_f32(t, "rope.freq_base", k->base);
	if (k->type != NULL) {
		tiny_str(t, "rope.scaling.type", k->type);
		tiny_f32(t, "rope.scaling.factor", k->factor);
		tiny_u32(t, "rope.scaling.original_context_length",
		    (uint32_t)k->n_orig);
	}
	if (k->type == NULL && k->factor > 0)
		tiny_f32(t, k->n_orig > 0 ? "rope.scaling.factor" :
		    "rope.scale_linear", k->factor);
	if (k->fast > 0) {
		tiny_f32(t, "rope.scaling.yarn_beta_fast", k->fast);
		tiny_f32(t, "rope.scaling.yarn_beta_slow", k->slow);
	}
	if (k->attn > 0)
		tiny_f32(t, "rope.scaling.yarn_attn_factor", k->attn);
	if (k->scale > 0)
		tiny_f32(t, "attention.scale", k->scale);
	tiny_write(t, path);
	tiny_free(t);
	if (option != NULL && qwen_rope_parse(&o.rope, option) < 0)
		return -1;
	rc = qwen_model_open(m, path, &o, &err);
	if (rc < 0)
		printf("# %s\n", err.msg);
	return rc;
}

/* --------------------------------------------------------------- the angles */

static void
angles(void)
{
	char line[256], kind[16], last[64] = "", id[64], text[64];
	double factor, cosine, sine, worst = 0, off;
	float c[QWEN_HEAD_MAX], s[QWEN_HEAD_MAX];
	unsigned base, n, orig, pos, j;
	size_t lines = 0, nearest = 0;
	struct qwen_model *m = NULL;
	FILE *f = fopen("tests/golden/rope.tsv", "r");

	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%u %u %15s %lf %u %u %u %lf %lf", &base, &n,
		    kind, &factor, &orig, &pos, &j, &cosine, &sine) != 9)
			continue;
		snprintf(id, sizeof id, "%u %u %s %g %u", base, n, kind,
		    factor, orig);
		if (strcmp(id, last) != 0) {
			qwen_model_close(m);
			snprintf(text, sizeof text, *kind == 'n' ? "none" :
			    "%s=%g", kind, factor);
			if (open_with(&m, &(struct keys){ .n_ctx = orig,
			    .base = (float)base, .n_rot = n }, text) < 0)
				break;
			strcpy(last, id);
		}
		qwen_rope_at(&m->net.hp, (uint32_t[]){ pos, pos, pos }, c, s);
		off = fmax(fabs(c[j] - cosine), fabs(s[j] - sine));
		worst = off > worst ? off : worst;
		nearest += c[j] == (float)cosine && s[j] == (float)sine;
		lines++;
	}
	if (f != NULL)
		fclose(f);
	qwen_model_close(m);
	/* half an ulp of an f32 from 1 to 2, and what the angle may miss */
	ok(lines == 330 && worst <= 0x1p-24 + 1e-9,
	    "%zu angles up to position 1048575: at most %.3g off", lines, worst);
	ok(nearest >= lines - 2, "%zu of %zu are the nearest f32", nearest,
	    lines);
}

/* ---------------------------------------------------------- keys and options */

static int
keep(void *arg, size_t pos, const float *row, struct qwen_err *err)
{
	(void)err;
	memcpy((float *)arg + pos * N_VOCAB, row, N_VOCAB * sizeof *row);
	return 0;
}

/* Logits of N tokens; how the model calls its scaling, and its context. */
static int
rows(float *out, const struct keys *k, const char *option, char *text,
    size_t *n_ctx)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep,
	    .arg = out };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	struct qwen_rope r;
	struct qwen_err err;
	int32_t ids[N];
	int i, rc;

	for (i = 0; i < N; i++)
		ids[i] = i * i % N_VOCAB;
	if (open_with(&m, k, option) < 0)
		return -1;
	r = qwen_model_rope(m);
	qwen_rope_text(&r, text);
	*n_ctx = qwen_model_n_ctx(m);
	rc = qwen_session_new(&s, m, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids, N, &how, &err);
	qwen_session_free(s);
	qwen_model_close(m);
	return rc;
}

/* The option says what the file says, in other words. */
static void
same(const char *what, const struct keys *with, const struct keys *without,
    const char *option, const char *text, size_t n_ctx)
{
	static float a[N * N_VOCAB], b[N * N_VOCAB];
	char other[QWEN_ROPE_TEXT], got[QWEN_ROPE_TEXT];
	size_t n_a, n_b;
	int rc = rows(a, with, NULL, other, &n_a);

	rc |= rows(b, without, option, got, &n_b);
	ok(rc == 0 && n_b == n_ctx && memcmp(a, b, sizeof a) == 0,
	    "%s: the same bits, %zu tokens of context", what, n_b);
	ok(*other == '\0' && strcmp(got, text) == 0, "and called \"%s\"", got);
}

static void
options(void)
{
	static const struct keys plain = { .n_ctx = 48 }, some = { .n_ctx = 40 };
	static const struct keys yarn = { 192, "yarn", 4, 0, 48, 0, 0, 0, 0, 0 };
	static const struct keys odd = { 120, "yarn", 2.7f, 0, 40, 0, 0, 0, 0, 0 };
	static const struct keys linear = { 96, "linear", 2, 0, 48, 0, 0, 0, 0, 0 };
	static const struct keys usual = { 192, "yarn", 4, 0, 48, 0, 32, 1, 0, 0 };
	static const struct keys ramp = { 192, "yarn", 4, 0, 48, 0, 4, 0.5f, 0, 0 };
	static const struct keys old = { .n_ctx = 96, .factor = 2, .n_orig = 0 };
	static const struct keys untold = { .n_ctx = 96, .factor = 2,
	    .n_orig = 1 };
	static const struct keys half = { 192, "yarn", 4, 0, 48, .attn = 0.5f };
	static const struct keys quarter = { 192, "yarn", 4, 0, 48,
	    .scale = 0.25f };
	static const struct keys half_one = { 192, "yarn", 4, 0, 48,
	    .attn = 0.5f, .scale = 1 };
	static const struct keys new = { 64, "longer", 2, 0, 48, 0, 0, 0, 0, 0 };
	static float a[N * N_VOCAB], b[N * N_VOCAB];
	char text[QWEN_ROPE_TEXT];
	size_t n;

	same("yarn", &yarn, &plain, "yarn=4", "yarn=4,orig=48", 192);
	same("a fraction", &odd, &plain, "yarn=2.7,orig=40",
	    "yarn=2.7,orig=40", 108);
	same("of the file's length", &odd, &some, "yarn=2.700",
	    "yarn=2.7,orig=40", 108);
	same("linear", &linear, &plain, "linear=2", "linear=2,orig=48", 96);
	same("linear, by the older key", &old, &linear, NULL, "", 96);
	same("linear, where no kind is told", &untold, &linear, NULL, "", 96);
	same("in place of another", &yarn, &linear, "yarn=4", "yarn=4,orig=48",
	    192);
	same("of one that is not known", &yarn, &new, "yarn=4",
	    "yarn=4,orig=48", 192);
	same("none", &plain, &yarn, "none", "none", 48);
	same("none of none", &plain, &plain, "none", "", 48);
	same("what the file says", &yarn, &yarn, "yarn=4", "", 192);
	same("the usual ramp", &usual, &plain, "yarn=4", "yarn=4,orig=48", 192);
	same("in place of another ramp", &yarn, &ramp, "yarn=4",
	    "yarn=4,orig=48", 192);
	ok(rows(a, &ramp, NULL, text, &n) == 0 &&
	    rows(b, &yarn, NULL, text, &n) == 0 && memcmp(a, b, sizeof a) != 0,
	    "another ramp is another one");
	/* queries and keys by half: their products are a quarter, exactly */
	ok(rows(a, &half_one, NULL, text, &n) == 0 &&
	    rows(b, &quarter, NULL, text, &n) == 0 &&
	    memcmp(a, b, sizeof a) == 0, "a factor of cos and sin");
	same("in place of another factor", &yarn, &half, "yarn=4",
	    "yarn=4,orig=48", 192);
	ok(rows(a, &(struct keys){ 192, "yarn", 4, 0, 48, .attn = 1000 }, NULL,
	    text, &n) < 0, "one of 1000 is refused");
	ok(rows(a, &plain, NULL, text, &n) == 0 &&
	    rows(b, &yarn, NULL, text, &n) == 0 && memcmp(a, b, sizeof a) != 0,
	    "and they are not the same without it");
}

static void
texts(void)
{
	static const char *const bad[] = { "", "yarn", "yarn=", "yarn=0",
	    "yarn=0.9", "yarn=4097", "yarn=4,", "yarn=4,orig=", "yarn=4.",
	    "yarn=4,orig=0", "yarn=4,orig=1048577", "yarn=-4", "linear=1e3",
	    "none=1", "ntk=2", "yarn=4,orig=32768x", "yarn=2.7001", " yarn=4",
	    "linear=99999999999999999999", "yarn=4 ", "non", "yarn=\xff" };
	static const char *const good[][2] = { { "none", "none" },
	    { "yarn=1", "yarn=1" }, { "linear=2.50", "linear=2.5" },
	    { "yarn=4.125,orig=1048576", "yarn=4.125,orig=1048576" },
	    { "yarn=4096", "yarn=4096" }, { "linear=0010", "linear=10" } };
	char buf[QWEN_ROPE_TEXT];
	struct qwen_model *m;
	struct qwen_rope r;
	size_t i, wrong = 0;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
		wrong += qwen_rope_parse(&r, bad[i]) == 0;
	for (i = 0; i < sizeof good / sizeof good[0]; i++)
		wrong += qwen_rope_parse(&r, good[i][0]) < 0 ||
		    strcmp(qwen_rope_text(&r, buf), good[i][1]) != 0;
	ok(wrong == 0, "texts that are taken, and those that are not");
	ok(open_with(&m, &(struct keys){ .n_ctx = 262144 }, "yarn=4.001") < 0,
	    "more than 1048576 positions are refused");
	ok(open_with(&m, &(struct keys){ .n_ctx = 262144 }, "yarn=4") == 0 &&
	    qwen_model_n_ctx(m) == 1048576, "and so many are not");
	qwen_model_close(m);
}

int
main(void)
{
	int fd = mkstemp(path);

	if (fd == -1)
		return 1;
	close(fd);
	angles();
	options();
	texts();
	unlink(path);
	return done_testing();
}
