/* SPDX-License-Identifier: ISC */
/*
 * state_mtp.c - data of the MTP block in states: however a session was made, it
 * drafts like one that read the tokens itself; a state without this data can be
 * continued, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "../kernel/random.h"
#include "../ref/tiny.h"
#include "../tap.h"
#include "../tree.h"

enum { N_VOCAB = 71, LONG = 230, CHAIN = 8, PARTS = 8 };

static struct qwen_err err;
static char dir[800], path[1000];

static const struct tiny_shape dense = {
	.arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 48,
	.n_vocab = N_VOCAB, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .n_ff = 80, .conv_kernel = 4, .dk = 32, .dv = 32,
	.n_head_k = 2, .n_head_v = 4,
};

static void
must(int rc)
{
	if (rc >= 0)
		return;
	printf("Bail out! %s\n", err.msg);
	exit(1);
}

static int32_t *
random_ids(void)
{
	int32_t *ids = calloc(LONG + 1, sizeof *ids);
	size_t i;

	if (ids == NULL)
		abort();
	for (i = 0; i <= LONG; i++)
		ids[i] = (int32_t)(random_u32() % N_VOCAB);
	return ids;
}

/* With the block, without it, or with that of another file. */
static struct qwen_model *
open_model(const char *model, int draft, const char *side)
{
	struct qwen_model_opts opts = { .n_threads = 2, .draft = draft,
	    .draft_file = side };
	struct qwen_model *m;

	must(qwen_model_open(&m, model, &opts, &err));
	return m;
}

/* A checkpoint every so many tokens. */
static struct qwen_session *
read_ids(struct qwen_model *m, const int32_t *ids, size_t n, uint64_t every)
{
	const struct qwen_checkpoints keep = { .every = every };
	const struct qwen_eval how = { .keep = every > 0 ? &keep : NULL };
	struct qwen_session *s;

	must(qwen_session_new(&s, m, &err));
	must(qwen_session_eval(s, ids, n, &how, &err));
	return s;
}

struct seen {
	size_t	 n;
	int32_t	 id[CHAIN];
	float	 prob[CHAIN], logits[N_VOCAB];
};

static void
look(struct qwen_session *s, int32_t next, struct seen *out)
{
	memset(out, 0, sizeof *out);
	must(qwen_session_draft(s, next, CHAIN, out->id, out->prob, &out->n,
	    &err));
	if (qwen_session_logits(s) != NULL)
		memcpy(out->logits, qwen_session_logits(s),
		    sizeof out->logits);
}

/* Here and after more tokens it drafts as one that read them all? */
static int
as_new(struct qwen_session *s, const int32_t *ids)
{
	size_t n = qwen_session_n_tokens(s), i;
	struct qwen_session *new;
	struct seen want, got;
	int same = n > 0 && memcmp(qwen_session_tokens(s), ids,
	    n * sizeof *ids) == 0;

	for (i = 0; same && i < 3 && n < LONG; i++) {
		new = read_ids(qwen_session_model(s), ids, n, 0);
		look(new, ids[n], &want);
		look(s, ids[n], &got);
		if (qwen_session_logits(s) == NULL)
			memcpy(got.logits, want.logits, sizeof got.logits);
		same = want.n == CHAIN && memcmp(&want, &got, sizeof got) == 0;
		qwen_session_free(new);
		must(qwen_session_eval(s, ids + n, 1 + i, NULL, &err));
		n += 1 + i;
	}
	return same;
}

static void
save(const struct qwen_session *s, const char *file,
    const struct qwen_state_opts *opts)
{
	struct qwen_writer *w;
	int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0)
		abort();
	must(qwen_writer_open(&w, fd, NULL, &err));
	must(qwen_state_save(s, NULL, w, opts, NULL, &err));
	must(qwen_writer_close(w, &err));
	close(fd);
}

static struct qwen_session *
load(struct qwen_model *m, const char *file)
{
	struct qwen_session *s;

	must(qwen_state_load_file(&s, NULL, m, file, NULL, &err));
	return s;
}

/* The same through a pipe's code. */
static struct qwen_session *
load_stream(struct qwen_model *m, const char *file)
{
	struct qwen_session *s;
	struct qwen_reader *r;
	struct qwen_record rec;
	int fd = open(file, O_RDONLY);

	must(qwen_reader_open(&r, fd, NULL, &err));
	must(qwen_reader_next(r, &rec, &err) > 0 ? 0 : -1);
	must(qwen_state_load(&s, NULL, m, r, &rec, NULL, &err));
	qwen_reader_close(r);
	close(fd);
	return s;
}

/* Blocks of a kind that a file has. */
static size_t
count_blocks(const char *file, const char *kind)
{
	struct qwen_state_file *f;
	struct qwen_state_block b;
	size_t i, n = 0;

	must(qwen_state_open(&f, file, &err));
	for (i = 0; i < qwen_state_info(f)->n_blocks; i++) {
		qwen_state_block(f, i, &b);
		n += strcmp(b.kind, kind) == 0;
	}
	qwen_state_close(f);
	return n;
}

/* Saved at any length, in both forms, loaded in both ways, and once more. */
static void
test_save(struct qwen_model *m, const int32_t *ids)
{
	static const size_t lengths[] = { 1, 2, 15, 16, 17, 18, 33, 200 };
	struct qwen_session *s, *t;
	char again[1100];
	size_t i;
	int same = 1, form;

	snprintf(again, sizeof again, "%s.again", path);

	for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		for (form = 0; form < 2; form++) {
			struct qwen_state_opts o = { .no_compress = form };

			s = read_ids(m, ids, lengths[i], 0);
			if (i % 2)	/* which leaves rows of drafts */
				same &= as_new(s, ids);
			save(s, path, &o);
			same &= qwen_state_verify(path, 2, &err) == 0;
			t = load_stream(m, path);
			same &= as_new(t, ids);
			qwen_session_free(t);
			t = load(m, path);
			save(t, again, &o);
			qwen_session_free(t);
			t = load(m, again);
			same &= as_new(t, ids) && as_new(s, ids);
			qwen_session_free(t);
			qwen_session_free(s);
		}
	}
	ok(same, "what was saved drafts as what was read %s", err.msg);
}

/* Cut at checkpoints: by the library, in the file, and in a session of it. */
static void
test_cuts(struct qwen_model *m, const int32_t *ids)
{
	struct qwen_session *s = read_ids(m, ids, 200, 47), *t;
	struct qwen_state_opts o = { 0 };
	struct qwen_state_file *f;
	struct qwen_writer *w;
	char cut[1100];
	size_t at, to;
	int same = 1, fd;

	snprintf(cut, sizeof cut, "%s.cut", path);
	for (at = 47; at < 200; at += 47) {
		o.to = at;
		save(s, cut, &o);
		t = load(m, cut);
		same &= qwen_session_n_tokens(t) == at && as_new(t, ids);
		qwen_session_free(t);
		save(s, path, NULL);
		must(qwen_state_open(&f, path, &err));
		fd = open(cut, O_RDWR | O_CREAT | O_TRUNC, 0600);
		must(qwen_writer_open(&w, fd, NULL, &err));
		must(qwen_state_copy(f, w, &o, NULL, &err));
		must(qwen_writer_close(w, &err));
		close(fd);
		qwen_state_close(f);
		same &= qwen_state_verify(cut, 1, &err) == 0;
		t = load(m, cut);
		same &= qwen_session_n_tokens(t) == at && as_new(t, ids);
		qwen_session_free(t);
		t = load(m, path);
		must(qwen_session_rewind(t, at, 0, &to, &err));
		same &= to == at && as_new(t, ids);
		qwen_session_free(t);
	}
	ok(same, "and what was cut %s", err.msg);
	unlink(cut);
	qwen_session_free(s);
}

/* A chain of parts that end anywhere, up to n of the tokens of the last. */
static void
test_chain(struct qwen_model *m, struct qwen_model *plain, const int32_t *ids,
    int without)
{
	size_t at[PARTS + 1] = { 0 }, i, n;
	struct qwen_state_file *f[PARTS];
	struct qwen_session *s;
	char part[1100];
	int same = 1;

	for (n = 0; n < PARTS && at[n] + 40 < LONG - 10; n++) {
		/* some where a block begins */
		at[n + 1] = at[n] + 1 + random_u32() % 39;
		if (n % 2)
			at[n + 1] = at[n] / 16 * 16 + 32;
	}
	for (i = 0; i < n; i++) {
		struct qwen_state_opts o = { .from = at[i] };

		s = read_ids((int)i == without ? plain : m, ids, at[i + 1], 0);
		snprintf(part, sizeof part, "%s.%zu", path, i);
		save(s, part, &o);
		must(qwen_state_open(&f[i], part, &err));
		unlink(part);
		qwen_session_free(s);
	}
	for (i = 1; i <= n; i++) {
		must(qwen_state_restore(&s, NULL, m, f, i, SIZE_MAX, 0, &err));
		same &= qwen_session_n_tokens(s) == at[i];
		if (without < 0 || (int)i <= without)
			same &= as_new(s, ids);
		else {
			/* no more than that there are drafts, in the end */
			struct seen seen;
			size_t end = at[i];

			must(qwen_session_eval(s, ids + end, 17, NULL, &err));
			look(s, ids[end + 17], &seen);
			same &= seen.n == CHAIN;
		}
		qwen_session_free(s);
	}
	for (i = 0; i < n; i++)
		qwen_state_close(f[i]);
	if (without < 0)
		ok(same, "and what came from %zu parts %s", n, err.msg);
	else
		ok(same, "number %d of them may be without %s", without,
		    err.msg);
}

/* States of programs without the block, and for them. */
static void
test_without(struct qwen_model *m, struct qwen_model *plain,
    const int32_t *ids)
{
	struct qwen_session *s, *t, *new;
	struct seen seen, again;
	char other[1100];
	size_t i, n, late = 0;
	int same = 1;

	snprintf(other, sizeof other, "%s.other", path);

	for (n = 1; n < 100; n += 9) {
		s = read_ids(plain, ids, n, 0);
		save(s, path, NULL);
		same &= count_blocks(path, "mtp") == 0;
		t = load(m, path);
		for (i = n; i < n + 40; i++) {
			look(t, ids[i], &seen);
			same &= seen.n == 0 || seen.n == CHAIN;
			if (seen.n == 0)
				late = i - n + 1 > late ? i - n + 1 : late;
			must(qwen_session_eval(t, ids + i, 1, NULL, &err));
			must(qwen_session_eval(s, ids + i, 1, NULL, &err));
			same &= memcmp(qwen_session_logits(s),
			    qwen_session_logits(t), sizeof seen.logits) == 0;
		}
		same &= seen.n == CHAIN;
		/* what it has by now is kept, from where it begins */
		save(t, other, NULL);
		new = load(m, other);
		look(t, ids[i], &seen);
		look(new, ids[i], &again);
		same &= memcmp(&seen, &again, sizeof seen) == 0;
		qwen_session_free(new);
		qwen_session_free(t);
		qwen_session_free(s);
	}
	ok(same && late > 0 && late <= 17, "a state without: the same logits, "
	    "and drafts after %zu tokens at most", late);
	s = read_ids(m, ids, 100, 30);
	save(s, path, NULL);
	ok(count_blocks(path, "mtp") == 1 && count_blocks(path, "mtp-kv") > 0 &&
	    count_blocks(path, "hidden") == 4, "a state has the block's part");
	t = load(plain, path);
	look(s, 0, &seen);
	same = memcmp(qwen_session_logits(t), seen.logits,
	    sizeof seen.logits) == 0;
	save(t, other, NULL);
	ok(same && count_blocks(other, "mtp") == 0 &&
	    count_blocks(other, "hidden") == 0,
	    "which a model without the block leaves out");
	qwen_session_free(t);
	qwen_session_free(s);
}

/* That of another file is not taken for one's own. */
static void
test_other(struct qwen_model *m, struct qwen_model *other, const int32_t *ids)
{
	struct qwen_session *s = read_ids(other, ids, 60, 20), *t;
	struct seen seen;
	size_t to;

	save(s, path, NULL);
	t = load(m, path);
	look(t, ids[60], &seen);
	ok(seen.n == 0, "what another block left is not used");
	must(qwen_session_rewind(t, 40, 0, &to, &err));
	look(t, ids[40], &seen);
	ok(to == 40 && seen.n == 0, "nor at a checkpoint");
	qwen_session_free(t);
	t = load(other, path);
	ok(as_new(t, ids), "but by itself");
	qwen_session_free(t);
	qwen_session_free(s);
}

static void
test_store(struct qwen_model *m, const int32_t *ids)
{
	struct qwen_store_opts o = { .dir = path };
	struct qwen_store *st;
	struct qwen_session *s;
	int32_t *own = random_ids();
	size_t n;
	int same = 1;

	unlink(path);
	must(qwen_store_open(&st, &o, &err));
	for (n = 20; n < 200; n += 61) {
		s = read_ids(m, ids, n, 16);
		must(qwen_store_insert(st, s, &err));
		qwen_session_free(s);
		memcpy(own, ids, n * sizeof *ids);
		s = read_ids(m, own, n + 9, 0);
		must(qwen_store_insert(st, s, &err));
		qwen_session_free(s);
	}
	for (n = 30; n < LONG; n += 21) {
		must(qwen_store_restore(st, &s, m, ids, n, &err));
		same &= s != NULL && as_new(s, ids);
		qwen_session_free(s);
	}
	ok(same, "and what a store gives %s", err.msg);
	qwen_store_close(st);
	remove_tree(path);
	free(own);
}

/* Write a model and, beside it, a side file: its ends and block alone. */
static void
write_models(char *model, char *side, size_t size)
{
	struct tiny *t = tiny_new(&dense);
	size_t i;

	snprintf(model, size, "%s/model.gguf", dir);
	snprintf(side, size, "%s/side.gguf", dir);
	tiny_write(t, model);
	for (i = 0; i < t->n_tensor; ) {
		if (strncmp(t->tensor[i].name, "blk.4.", 6) != 0 &&
		    strncmp(t->tensor[i].name, "blk.", 4) == 0)
			tiny_drop(t, t->tensor[i].name);
		else
			i++;
	}
	tiny_write(t, side);
	tiny_free(t);
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");
	char file[1000], side[1000];
	int32_t *ids = random_ids();
	struct qwen_model *m, *plain, *other;
	int i;

	snprintf(dir, sizeof dir, "%s/state-mtp-XXXXXX",
	    tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL)
		abort();
	snprintf(path, sizeof path, "%s/state", dir);
	write_models(file, side, sizeof file);
	m = open_model(file, 1, NULL);
	plain = open_model(file, 0, NULL);
	other = open_model(file, 0, side);
	test_save(m, ids);
	test_save(other, ids);
	test_cuts(m, ids);
	test_chain(m, plain, ids, -1);
	for (i = 0; i < 4; i++)
		test_chain(m, plain, ids, i);
	test_without(m, plain, ids);
	test_other(m, other, ids);
	test_store(m, ids);
	qwen_model_close(m);
	qwen_model_close(plain);
	qwen_model_close(other);
	remove_tree(dir);
	free(ids);
	return done_testing();
}
