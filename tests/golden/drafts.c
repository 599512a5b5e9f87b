/* SPDX-License-Identifier: ISC */
/*
 * drafts.c - the MTP block against recorded logits and chains of drafts, and
 * against tests/ref on odd shapes.  Drafts do not depend on the division of
 * tokens, on threads, or on earlier drafts, and change no logit of the model.
 *
 * Uses the folders with mtp-n65.f32 in tests/golden/drafts and, if it exists,
 * ../shared/fixtures/models.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/timeline/timeline.h"
#include "golden.h"
#include "qwen.h"
#include "../kernel/random.h"
#include "../ref/ref.h"
#include "../ref/tiny.h"
#include "../tap.h"

enum { CHAIN_MAX = 16, TEXT = 65 };

static struct qwen_err err;

static void
die(const char *what, const char *name)
{
	fprintf(stderr, "drafts: %s: %s\n", what, name);
	exit(1);
}

static void *
need(size_t n, size_t size)
{
	void *p = calloc(n > 0 ? n : 1, size);

	if (p == NULL)
		die("out of memory", "");
	return p;
}

static struct qwen_model *
open_model(const char *path, int n_threads, unsigned numerics, int draft)
{
	struct qwen_model_opts opts = { .n_threads = n_threads,
	    .numerics = numerics, .draft = draft };
	struct qwen_model *m;

	if (qwen_model_open(&m, path, &opts, &err) < 0)
		die(path, err.msg);
	return m;
}

static struct qwen_session *
session_of(struct qwen_model *m)
{
	struct qwen_session *s;

	if (qwen_session_new(&s, m, &err) < 0)
		die("session", err.msg);
	return s;
}

/* Read tokens from the session's end up to n, step at a time. */
static void
read_to(struct qwen_session *s, const int32_t *ids, size_t n, size_t step)
{
	size_t at, m;

	while ((at = qwen_session_n_tokens(s)) < n) {
		m = n - at < step ? n - at : step;
		if (qwen_session_eval(s, ids + at, m, NULL, &err) < 0)
			die("eval", err.msg);
	}
}

static size_t
draft(struct qwen_session *s, int32_t next, size_t n, int32_t *id, float *prob)
{
	size_t got;

	if (qwen_session_draft(s, next, n, id, prob, &got, &err) < 0)
		die("draft", err.msg);
	return got;
}

/* ---- logits of the block, a row a token; as the library has them */

static void
draft_rows(struct qwen_model *m, const int32_t *ids, size_t n, size_t step,
    float *out)
{
	struct qwen_session *s = session_of(m);
	size_t t, n_vocab = qwen_model_n_vocab(m);
	int32_t id;
	float prob;

	for (t = 1; t < n; t++) {
		read_to(s, ids, t, step);
		if (draft(s, ids[t], 1, &id, &prob) != 1)
			die("draft", "none came");
		memcpy(out + (t - 1) * n_vocab, s->cache->pass.draft,
		    n_vocab * sizeof *out);
	}
	qwen_session_free(s);
}

/* ---- recorded ones */

struct folder {
	char	 name[64], dir[1024], model[1200];
	size_t	 n_vocab;
	double	 kl, max_abs;
	FILE	*lines;
};

/* ---- the same rows as a trace has them */

struct traced {
	const float	*row;		/* of position 1, and those that follow */
	size_t		 n_vocab, n, wrong;
};

static int
compare_row(void *arg, const struct qwen_trace_value *v, struct qwen_err *e)
{
	struct traced *t = arg;

	(void)e;
	t->wrong += v->position != ++t->n || v->n != t->n_vocab ||
	    memcmp(v->row, t->row + (t->n - 1) * t->n_vocab,
	    t->n_vocab * sizeof *v->row) != 0;
	return 0;
}

static int
as_traced(struct qwen_model *m, const int32_t *ids, size_t n, const float *row)
{
	static const char *const head[] = { "*.nextn.shared_head_head" };
	struct traced t = { .row = row, .n_vocab = qwen_model_n_vocab(m) };
	const struct qwen_trace how = { .patterns = head, .n_patterns = 1,
	    .value = compare_row, .arg = &t };
	struct qwen_session *s = session_of(m);

	if (qwen_session_trace(s, &how, &err) < 0)
		die("trace", err.msg);
	read_to(s, ids, n, SIZE_MAX);
	qwen_session_free(s);
	return t.n == n - 1 && t.wrong == 0;
}

/* The file itself, or unpacked from what lies beside it. */
static void
plain_file(char *out, size_t size, const struct folder *f, const char *name)
{
	const char *tmp = getenv("TMPDIR");
	char cmd[3000];

	snprintf(out, size, "%s/%s", f->dir, name);
	if (access(out, R_OK) == 0)
		return;
	snprintf(out, size, "%s/draft-%s-%s", tmp != NULL ? tmp : "/tmp",
	    f->name, name);
	snprintf(cmd, sizeof cmd, "zstd -q -d -f -o '%s' '%s/%s.zst'", out,
	    f->dir, name);
	if (system(cmd) != 0)
		die("command failed", cmd);
}

static void
check_recorded(const struct folder *f, struct qwen_model *m, unsigned numerics,
    const int32_t *ids)
{
	struct golden_model g = { .n_vocab = f->n_vocab };
	struct golden_case c = { .n_rows = TEXT - 1 };
	float *got = need((TEXT - 1) * f->n_vocab, sizeof *got);
	char path[1200];
	double d[6];
	FILE *in;

	c.logits = need((TEXT - 1) * f->n_vocab, sizeof *c.logits);
	plain_file(path, sizeof path, f, "mtp-n65.f32");
	if ((in = fopen(path, "rb")) == NULL || fread(c.logits,
	    sizeof *c.logits * f->n_vocab, TEXT - 1, in) != TEXT - 1)
		die("cannot read", path);
	fclose(in);
	draft_rows(m, ids, TEXT, 1, got);
	golden_distance(&g, &c, got, d);
	ok(d[0] <= f->kl, "%u: %s: KL of draft logits %.3g (limit %g)",
	    numerics, f->name, d[0], f->kl);
	ok(d[2] <= f->max_abs, "%u: %s: largest difference %.3g (limit %g)",
	    numerics, f->name, d[2], f->max_abs);
	ok(as_traced(m, ids, TEXT, got), "%u: %s: a trace has the same bits",
	    numerics, f->name);
	free(c.logits);
	free(got);
}

/*
 * One chain: equal up to where two ids are closer than slack; 1 if all of it
 * is, 0 if it is so far, -1 if not.  Of a run, the session that comes along
 * goes on with the chain for guesses.
 */
static int
check_chain(struct folder *f, struct qwen_model *m, const int32_t *ids,
    struct qwen_session *run, double slack)
{
	struct qwen_session *s = run != NULL ? run : session_of(m);
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST };
	size_t at, n, i, got;
	int32_t next, id[CHAIN_MAX], want[CHAIN_MAX];
	float prob[CHAIN_MAX];
	double margin[CHAIN_MAX];

	if (fscanf(f->lines, "%zu %d %zu", &at, &next, &n) != 3 ||
	    n > CHAIN_MAX)
		die("bad chain", f->name);
	for (i = 0; i < n; i++) {
		if (fscanf(f->lines, "%d %lf", &want[i], &margin[i]) != 2)
			die("bad draft", f->name);
	}
	read_to(s, ids, at, SIZE_MAX);
	got = draft(s, next, n, id, prob);
	for (i = 0; i < n && i < got && id[i] == want[i]; i++)
		;
	how.guess = id;
	how.n_guess = got;
	if (run == NULL)
		qwen_session_free(s);
	else if (qwen_session_eval(s, &next, 1, &how, &err) < 0)
		die("eval", err.msg);
	return i == n ? 1 : i < got && margin[i] <= slack ? 0 : -1;
}

/* All chains of a text. */
static void
check_text(struct folder *f, struct qwen_model *m, unsigned numerics,
    double slack)
{
	struct qwen_session *run = NULL;
	size_t n, n_chain, i, whole = 0, wrong = 0;
	int32_t *ids;
	int r;

	if (fscanf(f->lines, "%zu %zu", &n, &n_chain) != 2)
		die("bad text", f->name);
	ids = need(n, sizeof *ids);
	for (i = 0; i < n; i++) {
		if (fscanf(f->lines, "%d", &ids[i]) != 1)
			die("bad ids", f->name);
	}
	if (n == TEXT)
		check_recorded(f, m, numerics, ids);
	else
		run = session_of(m);
	for (i = 0; i < n_chain; i++) {
		r = check_chain(f, m, ids, run, slack);
		whole += r > 0;
		wrong += r < 0;
	}
	ok(wrong == 0 && whole > 0, "%u: %s: %zu of %zu chains of drafts are "
	    "equal, others up to a margin of %g", numerics, f->name, whole,
	    n_chain, slack);
	qwen_session_free(run);
	free(ids);
}

static void
check_folder(const char *parent, const char *name)
{
	struct folder f = { 0 };
	struct qwen_model *m;
	unsigned numerics;
	char cmd[1100];
	int c;

	snprintf(f.name, sizeof f.name, "%.63s", name);
	snprintf(f.dir, sizeof f.dir, "%s/%s", parent, name);
	plain_file(f.model, sizeof f.model, &f, "model.gguf");
	snprintf(cmd, sizeof cmd, "sh tests/golden/drafts.sh '%s'", f.dir);
	for (numerics = 1; numerics <= 4; numerics += 3) {
		m = open_model(f.model, 0, numerics, 1);
		f.lines = popen(cmd, "r");
		if (f.lines == NULL || fscanf(f.lines, "%zu %lf %lf",
		    &f.n_vocab, &f.kl, &f.max_abs) != 3)
			die("command failed", cmd);
		do {
			/* what rounding of weights may move, or of f32 */
			check_text(&f, m, numerics, f.max_abs > 1 ? 1 : 0.02);
			while ((c = getc(f.lines)) == '\n')
				;
			ungetc(c, f.lines);
		} while (c != EOF);
		pclose(f.lines);
		qwen_model_close(m);
	}
}

static void
check_folders(const char *parent)
{
	char path[1024];
	struct dirent *e;
	DIR *d = opendir(parent);

	while (d != NULL && (e = readdir(d)) != NULL) {
		snprintf(path, sizeof path, "%s/%s/drafts-n65.json", parent,
		    e->d_name);
		if (e->d_name[0] != '.' && access(path, R_OK) == 0)
			check_folder(parent, e->d_name);
	}
	if (d != NULL)
		closedir(d);
}

/* ---- the contract */

static const struct tiny_shape dense = {
	.arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 48,
	.n_vocab = 71, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .n_ff = 80, .conv_kernel = 4, .dk = 32, .dv = 32,
	.n_head_k = 2, .n_head_v = 4,
};

static const struct tiny_shape moe = {
	.arch = "qwen35moe", .n_layer = 4, .n_nextn = 1, .n_embd = 48,
	.n_vocab = 71, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .n_expert = 7, .n_expert_used = 3, .n_ff_exp = 24,
	.n_ff_shexp = 40,
};

static const struct tiny_shape tied = {
	.arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 32,
	.n_vocab = 71, .n_head = 4, .n_head_kv = 1, .n_embd_head = 32,
	.n_rot = 16, .n_ff = 64, .conv_kernel = 4, .dk = 32, .dv = 32,
	.n_head_k = 2, .n_head_v = 2, .tied = 1,
};

enum { N_VOCAB = 71, LONG = 400 };

static char path[1024];

static int32_t *
random_ids(size_t n)
{
	int32_t *ids = need(n, sizeof *ids);
	size_t i;

	for (i = 0; i < n; i++)
		ids[i] = (int32_t)(random_u32() % N_VOCAB);
	return ids;
}

/* Against the readable pass. */
static void
check_ref(const struct tiny *t, const char *what)
{
	int32_t *ids = random_ids(TEXT);
	double *want = need((TEXT - 1) * N_VOCAB, sizeof *want), d, max = 0;
	float *got = need((TEXT - 1) * N_VOCAB, sizeof *got);
	struct qwen_model *m;
	struct ref_model *ref;
	size_t i;

	tiny_write(t, path);
	ref = ref_open(path);
	ref_round_kv(ref);
	ref_drafts(ref, ids, TEXT, want);
	ref_close(ref);
	m = open_model(path, 2, 0, 1);
	draft_rows(m, ids, TEXT, 1, got);
	for (i = 0; i < (TEXT - 1) * N_VOCAB; i++) {
		d = fabs(want[i] - (double)got[i]);
		max = d > max || d != d ? d : max;
	}
	ok(qwen_model_has_mtp(m) && max < 0.02, "%s: within %.2g of the "
	    "readable pass", what, max);
	qwen_model_close(m);
	unlink(path);
	free(ids);
	free(want);
	free(got);
}

static void
check_shapes(const struct tiny_shape *shape)
{
	struct tiny *t = tiny_new(shape);
	char what[80], name[64];
	size_t i;

	check_ref(t, shape->arch);
	tiny_add(t, "blk.4.nextn.shared_head_norm.weight", 0, shape->n_embd, 1,
	    1, 1, 0.3);
	snprintf(what, sizeof what, "%s with a norm of its own", shape->arch);
	check_ref(t, what);
	tiny_add(t, "blk.4.nextn.embed_tokens.weight", 0, shape->n_embd,
	    N_VOCAB, 1, 0, 1);
	tiny_add(t, "blk.4.nextn.shared_head_head.weight", 0, shape->n_embd,
	    N_VOCAB, 1, 0, 0.2);
	snprintf(what, sizeof what, "%s with ends of its own", shape->arch);
	check_ref(t, what);
	for (i = 0; i < t->n_tensor; ) {
		snprintf(name, sizeof name, "%s", t->tensor[i].name);
		if (strncmp(name, "blk.4.ffn_", 10) == 0)
			tiny_drop(t, name);
		else
			i++;
	}
	tiny_drop(t, "blk.4.post_attention_norm.weight");
	snprintf(what, sizeof what, "%s without a feed-forward part",
	    shape->arch);
	check_ref(t, what);
	tiny_free(t);
}

/* What all ways of reading must give. */
struct seen {
	int32_t	 id[CHAIN_MAX];
	float	 prob[CHAIN_MAX];
	float	 logits[N_VOCAB];
};

/* Read the next token, with guesses after it of which some may be right. */
static void
guess(struct qwen_session *s, const int32_t *ids, size_t n)
{
	size_t at = qwen_session_n_tokens(s), k = random_u32() % 9;
	int32_t after[8];
	struct qwen_eval how = { .guess = after };

	how.n_guess = n - at - 1 < k ? n - at - 1 : k;
	memcpy(after, ids + at + 1, how.n_guess * sizeof *after);
	if (how.n_guess > 0 && random_u32() % 3 > 0)
		after[random_u32() % how.n_guess] = 1;
	if (qwen_session_eval(s, ids + at, 1, &how, &err) < 0)
		die("eval", err.msg);
}

/*
 * After n tokens, of which every so many were followed by a draft, and the next
 * one by guesses.
 */
static void
look(struct qwen_model *m, const int32_t *ids, size_t n, size_t step,
    size_t every, struct seen *out)
{
	struct qwen_session *s = session_of(m);
	size_t at;

	memset(out, 0, sizeof *out);
	for (at = every; every > 0 && at < n; at += every) {
		read_to(s, ids, at, step);
		draft(s, (ids[at] + (int32_t)(at % 2)) % N_VOCAB, 1 + at % 5, out->id,
		    out->prob);
		guess(s, ids, n);
	}
	read_to(s, ids, n, step);
	memcpy(out->logits, qwen_session_logits(s), sizeof out->logits);
	memset(out->id, 0, sizeof out->id);
	memset(out->prob, 0, sizeof out->prob);
	if (draft(s, ids[n], 8, out->id, out->prob) != 8)
		die("draft", "too few");
	qwen_session_free(s);
}

static void
check_cuts(const struct tiny_shape *shape)
{
	static const size_t steps[] = { 1, 3, 16, 79, 80, 81, 200, SIZE_MAX };
	struct tiny *t = tiny_new(shape);
	int32_t *ids = random_ids(LONG + 1);
	size_t n = 1 + random_u32() % 60, end[] = { n, n + 100, LONG }, i, j;
	struct qwen_model *m, *plain;
	struct seen want, got, other;
	int same, same_logits = 1;

	tiny_write(t, path);
	plain = open_model(path, 1, 0, 0);
	for (i = 0; i < 3; i++) {
		m = open_model(path, 1, 0, 1);
		look(m, ids, end[i], SIZE_MAX, 0, &want);
		qwen_model_close(m);
		same = 1;
		for (j = 0; j < sizeof steps / sizeof steps[0]; j++) {
			m = open_model(path, 1 + (int)(j % 3), 0, 1);
			look(m, ids, end[i], steps[j], 0, &got);
			same &= memcmp(&want, &got, sizeof got) == 0;
			look(m, ids, end[i], steps[j], 1 + random_u32() % 40,
			    &got);
			same &= memcmp(&want, &got, sizeof got) == 0;
			qwen_model_close(m);
		}
		ok(same && want.prob[7] > 0, "%s: %zu tokens, cut in any way, "
		    "with drafts between: the same drafts", shape->arch,
		    end[i]);
		other = want;
		{
			struct qwen_session *s = session_of(plain);
			size_t none = 9;

			read_to(s, ids, end[i], 7);
			same_logits &= memcmp(other.logits,
			    qwen_session_logits(s), sizeof other.logits) == 0;
			ok(qwen_session_draft(s, 0, 3, got.id, got.prob, &none,
			    &err) == 0 && none == 0 &&
			    !qwen_model_has_mtp(plain),
			    "no drafts where nobody asked for the block");
			qwen_session_free(s);
		}
	}
	ok(same_logits, "%s: logits are those without the block",
	    shape->arch);
	qwen_model_close(plain);
	unlink(path);
	tiny_free(t);
	free(ids);
}

/* The same as of a session that read these tokens and nothing else? */
static int
as_new(struct qwen_session *s, const int32_t *ids, size_t n)
{
	struct seen want, got = { 0 };

	look(qwen_session_model(s), ids, n, SIZE_MAX, 0, &want);
	read_to(s, ids, n, 1 + random_u32() % 90);
	memcpy(got.logits, qwen_session_logits(s), sizeof got.logits);
	return draft(s, ids[n], 8, got.id, got.prob) == 8 &&
	    memcmp(&want, &got, sizeof got) == 0;
}

/* Timelines with the same past, one of which goes on with other tokens. */
static void
check_forks(struct qwen_model *m, const char *arch)
{
	int32_t *ids = random_ids(LONG + 1), *own = random_ids(LONG + 1);
	struct qwen_session *s, *fork;
	size_t n, i;
	int same = 1;

	for (i = 0; i < 12; i++) {
		/* also where a block begins, whose first row is in the last */
		n = i < 6 ? 16 * (1 + random_u32() % 20) :
		    2 + random_u32() % 300;
		memcpy(own, ids, n * sizeof *ids);
		s = session_of(m);
		read_to(s, ids, n, i % 2 ? 1 : SIZE_MAX);
		if (i % 3 == 0)
			same &= as_new(s, ids, n);
		if (qwen_session_fork(&fork, s, &err) < 0)
			die("fork", err.msg);
		same &= as_new(fork, own, n + random_u32() % 40);
		same &= as_new(s, ids, n + random_u32() % 40);
		same &= as_new(fork, own, LONG);
		qwen_session_free(fork);
		qwen_session_free(s);
	}
	ok(same, "%s: forks draft as timelines of their own", arch);
	free(ids);
	free(own);
}

/* Back to checkpoints, and on with other tokens. */
static void
check_rewinds(struct qwen_model *m, const char *arch)
{
	static const uint64_t at[] = { 1, 16, 33, 100, 160, 250 };
	const struct qwen_checkpoints keep = { .at = at, .n_at = 6 };
	const struct qwen_eval how = { .keep = &keep };
	int32_t *ids = random_ids(LONG + 1), *own = random_ids(LONG + 1);
	struct qwen_session *s = session_of(m);
	size_t i, to;
	int same = 1;

	if (qwen_session_eval(s, ids, LONG, &how, &err) < 0)
		die("eval", err.msg);
	for (i = 6; i-- > 0; ) {
		if (qwen_session_rewind(s, at[i], 1, &to, &err) < 0 ||
		    to != at[i])
			die("rewind", err.msg);
		same &= as_new(s, ids, to);
		memcpy(own, ids, to * sizeof *ids);
		same &= as_new(s, own, to + random_u32() % 120);
	}
	if (qwen_session_rewind(s, 0, 0, &to, &err) < 0 || to != 0)
		die("rewind", err.msg);
	same &= as_new(s, own, 20);
	ok(same, "%s: a timeline that was cut drafts as a new one", arch);
	qwen_session_free(s);
	free(ids);
	free(own);
}

static void
check_timelines(const struct tiny_shape *shape)
{
	struct tiny *t = tiny_new(shape);
	struct qwen_model *m;

	tiny_write(t, path);
	m = open_model(path, 2, 0, 1);
	check_forks(m, shape->arch);
	check_rewinds(m, shape->arch);
	qwen_model_close(m);
	unlink(path);
	tiny_free(t);
}

int
main(void)
{
	const char *dir = getenv("TMPDIR");

	snprintf(path, sizeof path, "%s/drafts-%ld.gguf",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	check_shapes(&dense);
	check_shapes(&moe);
	check_shapes(&tied);
	check_cuts(&dense);
	check_cuts(&moe);
	check_cuts(&tied);
	check_timelines(&dense);
	check_timelines(&moe);
	check_folders("tests/golden/drafts");
	check_folders("../shared/fixtures/models");
	return done_testing();
}
