/* SPDX-License-Identifier: ISC */
/*
 * lost.c - a card that is lost at any of its launches: the CPU goes on, and every
 * row of logits, draft, checkpoint and state is the same, told once.  Sessions
 * with drafts, forks that share blocks, spans, cuts, several parts, two cards.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../ref/tiny.h"
#include "../tap.h"
#include "engine/pass/open.h"
#include "engine/pass/pass.h"

enum { N = 44, SPAN = 5, SPAN_ROWS = 6, N_VOCAB = 71 };

static const struct tiny_shape shapes[] = {
	{ .arch = "qwen3", .n_layer = 3, .n_embd = 32, .n_vocab = N_VOCAB,
	    .n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 32,
	    .n_ff = 48 },
	{ .arch = "qwen3moe", .n_layer = 2, .n_embd = 32, .n_vocab = N_VOCAB,
	    .n_head = 2, .n_head_kv = 2, .n_embd_head = 16, .n_expert = 3,
	    .n_expert_used = 2, .n_ff_exp = 16 },
	{ .arch = "qwen35moe", .n_layer = 2, .n_nextn = 1, .n_embd = 32,
	    .n_vocab = N_VOCAB, .n_head = 2, .n_head_kv = 1, .n_embd_head = 16,
	    .n_rot = 8, .conv_kernel = 4, .dk = 16, .dv = 16, .n_head_k = 1,
	    .n_head_v = 2, .n_expert = 2, .n_expert_used = 1, .n_ff_exp = 32,
	    .n_ff_shexp = 32, .interval = 2 },
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static struct qwen_err err;
static char notes[1000];
static int n_notes;

static void
note(void *arg, const char *text)
{
	(void)arg;
	n_notes++;
	snprintf(notes, sizeof notes, "%s", text);
}

static struct qwen_model *
open_model(const struct tiny_shape *shape)
{
	struct qwen_model_opts opts = { .n_threads = 1, .draft = 1,
	    .note = note };
	struct tiny *t = tiny_new(shape);
	struct qwen_model *m;
	char path[] = "/tmp/lost-XXXXXX";
	int fd = mkstemp(path);

	tiny_u32(t, "context_length", 256);
	tiny_write(t, path);
	tiny_free(t);
	if (fd < 0 || qwen_model_open(&m, path, &opts, &err) < 0) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	close(fd);
	unlink(path);
	return m;
}

/* ------------------------------------------------------------- what is computed */

struct seen {
	uint64_t	hash;
	size_t		rows;
	int		failed;
};

static void
add(struct seen *o, const void *p, size_t n)
{
	const unsigned char *b = p;
	size_t i;

	for (i = 0; i < n; i++)
		o->hash = (o->hash ^ b[i]) * 0x100000001b3;
}

static int
row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct seen *o = arg;

	(void)e;
	add(o, &pos, sizeof pos);
	add(o, logits, N_VOCAB * sizeof *logits);
	o->rows++;
	return 0;
}

static int
failed(struct seen *o, int rc)
{
	if (rc < 0 && !o->failed++)
		printf("# %s\n", err.msg);
	return o->failed;
}

/* Adds what saving the session writes. */
static void
add_state(struct seen *o, const struct qwen_session *s)
{
	int fd = open("/dev/null", O_WRONLY);
	struct qwen_writer *w;
	struct qwen_fp fp;

	if (failed(o, fd) || failed(o, qwen_writer_open(&w, fd, NULL, &err)))
		return;
	if (!failed(o, qwen_state_save(s, NULL, w, NULL, &fp, &err)))
		add(o, &fp, sizeof fp);
	qwen_writer_free(w);
	close(fd);
}

static void
fill_text(const struct qwen_model *m, int32_t *ids,
    struct qwen_span_rows *span, float *rows)
{
	size_t i, n = SPAN_ROWS * qwen_model_n_row(m);

	for (i = 0; i < n; i++)
		rows[i] = (float)((int)(i * 37 % 101) - 50) * 0x1p-6f;
	for (i = 0; i < N; i++)
		ids[i] = (int32_t)(i * 11 % N_VOCAB);
	*span = (struct qwen_span_rows){ .span = { .start = SPAN,
	    .n = SPAN_ROWS }, .rows = rows };
	memset(&span->span.hash, 7, sizeof span->span.hash);
	for (i = 0; i < SPAN_ROWS; i++)
		ids[SPAN + i] = qwen_span_id(&span->span, i);
}

/* Two sessions that share their start continue in one pass. */
static void
run_two(struct seen *o, struct qwen_session *s, const int32_t *ids)
{
	struct qwen_session *t;
	struct qwen_part part[2] = { { .s = s, .tokens = ids + 28, .n = 3,
	    .logits = QWEN_LOGITS_ALL, .row = row, .arg = o } };

	if (failed(o, qwen_session_fork(&t, s, &err)))
		return;
	part[1] = part[0];
	part[1].s = t;
	part[1].tokens = ids + 33;
	part[1].guess = ids + 36;
	part[1].n_guess = 2;
	if (!failed(o, qwen_eval_parts(part, 2, &err)) &&
	    !failed(o, -(part[0].failed | part[1].failed))) {
		add_state(o, t);
		failed(o, qwen_session_eval(t, ids + 36, 2, NULL, &err));
		add(o, qwen_session_logits(t), N_VOCAB * sizeof(float));
		add_state(o, t);
	}
	qwen_session_free(t);
}

/* A token with drafts, of which the first is right; then drafts of the model. */
static void
run_drafts(struct seen *o, struct qwen_session *s, const int32_t *ids)
{
	struct qwen_eval how = { .row = row, .arg = o,
	    .logits = QWEN_LOGITS_LAST, .guess = ids + 24, .n_guess = 2 };
	int32_t guess[2];
	float prob[2];
	size_t n = 0;

	if (failed(o, qwen_session_eval(s, ids + 23, 1, &how, &err)) ||
	    failed(o, qwen_session_eval(s, ids + 24, 1, &how, &err)))
		return;
	how.n_guess = 0;
	if (failed(o, qwen_session_eval(s, ids + 25, 2, &how, &err)) ||
	    failed(o, qwen_session_draft(s, ids[27], 2, guess, prob, &n,
	    &err)))
		return;
	add(o, guess, n * sizeof *guess);
	how.guess = guess;
	how.n_guess = n;
	failed(o, qwen_session_eval(s, ids + 27, 1, &how, &err));
}

static struct seen
run(struct qwen_model *m)
{
	static float rows[SPAN_ROWS * 32];
	const struct qwen_checkpoints keep = { .every = 8 };
	struct seen o = { .hash = 0xcbf29ce484222325 };
	struct qwen_session *s;
	struct qwen_span_rows span;
	int32_t ids[N];
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .batch = 4,
	    .row = row, .arg = &o, .keep = &keep, .spans = &span,
	    .n_spans = 1 };
	size_t at;

	fill_text(m, ids, &span, rows);
	if (failed(&o, qwen_session_new(&s, m, &err)))
		return o;
	if (!failed(&o, qwen_session_eval(s, ids, 23, &how, &err)))
		run_drafts(&o, s, ids);
	if (!o.failed)
		run_two(&o, s, ids);
	if (!o.failed && !failed(&o, qwen_session_rewind(s, 29, 0, &at,
	    &err))) {
		how = (struct qwen_eval){ .spans = &span, .n_spans = 1 };
		failed(&o, qwen_session_eval(s, ids + at, 40 - at, &how,
		    &err));
	}
	if (!o.failed)
		add_state(&o, s);
	qwen_session_free(s);
	return o;
}

/* ---------------------------------------------------------------------- losses */

static int
same(const struct seen *a, const struct seen *b)
{
	return a->hash == b->hash && a->rows == b->rows && !a->failed;
}

/* Returns the launches since the driver was loaded. */
static unsigned long
launches(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p;
	unsigned long (*fn)(void);

	if (lib == NULL)
		return 0;
	p = dlsym(lib, "fake_launches");
	memcpy(&fn, &p, sizeof p);
	dlclose(lib);
	return fn();
}

static void
lose_at(const char *name, unsigned long at)
{
	char text[32];

	snprintf(text, sizeof text, "%lu", at);
	setenv(name, text, 1);
}

/*
 * Loses the card at launches `from', `from' + step, ..., and at copies, until none
 * is left; counts the runs that were right, and the losses that were told.
 */
static void
test_device(struct qwen_model *m, const char *device,
    const struct seen *want, const char *what, unsigned long step)
{
	unsigned long at;
	size_t right = 0, told = 0, n = 0;
	struct seen got;

	for (at = 0;; at += step) {
		if (qwen_place(m, device, &err) < 0)
			break;
		lose_at(what, at + (strcmp(what, "QWEN_FAKE_LOSE") == 0 ?
		    launches() : 0));
		n_notes = 0;
		got = run(m);
		n++;
		right += (size_t)same(&got, want);
		told += n_notes == 1;
		unsetenv(what);
		if (qwen_place(m, NULL, &err) < 0 || n_notes == 0)
			break;
	}
	ok(right == n && told + 1 == n && n > 2, "%s, %s: %s, each %luth "
	    "of %lu: %zu of %zu right, %zu told (%s)", qwen_model_arch(m),
	    device, what, step, at, right, n, told, notes);
}

int
main(void)
{
	unsigned long step = getenv("QPIPE_LONG") != NULL ? 1 : 23;
	struct qwen_model *m;
	struct seen want;
	size_t i;

	if (getenv("CARD") != NULL) {
		skip("lost", "only the fake driver loses a card");
		return done_testing();
	}
	for (i = 0; i < N_SHAPES; i++) {
		m = open_model(&shapes[i]);
		want = run(m);
		ok(!want.failed && want.rows > 30, "%s on the CPU",
		    shapes[i].arch);
		test_device(m, "cuda:0", &want, "QWEN_FAKE_LOSE", step);
		test_device(m, "cuda:0@1-2", &want, "QWEN_FAKE_LOSE", step);
		test_device(m, "cuda:0", &want, "QWEN_FAKE_LOSE_COPY", step);
		setenv("QWEN_FAKE_LOSE_CARD", "1", 1);
		test_device(m, "cuda:0@0,cuda:1@1-2", &want, "QWEN_FAKE_LOSE",
		    step);
		unsetenv("QWEN_FAKE_LOSE_CARD");
		qwen_model_close(m);
	}
	return done_testing();
}
