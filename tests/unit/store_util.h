/* SPDX-License-Identifier: ISC */
/*
 * store_util.h - stores, and sessions whose contents are computed from their
 * tokens, like those of a real model.
 */
#ifndef STORE_UTIL_H
#define STORE_UTIL_H

#include <sys/stat.h>

#include <unistd.h>

#include "../tree.h"
#include "state_util.h"
#include "engine/store/store.h"

static const struct shape store_shape = {
	.n_layer = 2, .n_ctx = 1 << 20, .n_vocab = 1000, .n_head_kv = 1,
	.n_embd_head = 2, .n_head_k = 1, .n_head_v = 1, .dk = 2, .dv = 3,
	.conv_kernel = 3,
};

/*
 * Return a model with recurrent state; any_cut: without, so that sessions can
 * be cut anywhere.
 */
static inline struct qwen_model *
store_model(const char *name, int any_cut)
{
	struct qwen_model *m = fake_model(&store_shape, name, "x");
	size_t i;

	for (i = 0; any_cut && i < m->net.hp.n_layer; i++)
		m->net.hp.recurrent[i] = 0;
	return m;
}

static inline void
fill_recurrent(const struct qwen_session *s, void *recurrent, uint64_t seed)
{
	float *p = recurrent, *base = s->mem.recurrent;
	size_t i;

	for (i = 0; i < s->mem.n_layer; i++) {
		const struct qwen_layer_state *l = &s->mem.layer[i];

		if (l->n_s == 0)
			continue;
		fill_floats(p + (l->s - base), l->n_s, &seed);
		fill_floats(p + (l->conv - base), l->n_conv, &seed);
	}
}

/* Fill position pos of all KV caches. */
static inline void
fill_position(struct qwen_session *s, size_t pos, uint64_t seed)
{
	size_t i, k, d = s->model->net.hp.n_head_kv * s->model->net.hp.n_embd_head;
	size_t lane = pos % QWEN_KV_BLOCK;
	uint16_t *b;

	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].kv_block_bytes == 0)
			continue;
		b = s->mem.layer[i].block[pos / QWEN_KV_BLOCK];
		for (k = 0; k < d; k++) {
			b[k * QWEN_KV_BLOCK + lane] =
			    (uint16_t)(0x3800 + next_random(&seed) % 999);
			b[d * QWEN_KV_BLOCK + lane * d + k] =
			    (uint16_t)(0x3800 + next_random(&seed) % 999);
		}
	}
}

static inline uint64_t
mix(uint64_t x, int32_t token)
{
	x = (x ^ (uint32_t)token) * 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

static inline void
keep_here(struct qwen_session *s, size_t at, uint64_t seed)
{
	struct qwen_kept k = { .c = { .at = at, .named = 1, .logits = 1 } };
	struct qwen_err e;

	if (s->mem.recurrent_bytes > 0) {
		k.recurrent = qwen_map_zero(s->mem.recurrent_bytes);
		fill_recurrent(s, k.recurrent, seed);
	}
	k.logits = qwen_alloc(s->model->net.hp.n_vocab, sizeof *k.logits);
	fill_floats(k.logits, s->model->net.hp.n_vocab, &seed);
	if (qwen_session_add_kept(s, &k, &e) < 0)
		abort();
}

/*
 * Return the session that "evaluating" n tokens gives, with checkpoints at
 * multiples of every.
 */
static inline struct qwen_session *
session_of(struct qwen_model *m, const int32_t *tokens, size_t n, size_t every)
{
	struct qwen_session *s;
	struct qwen_err e;
	uint64_t x = 1;
	size_t i;

	if (qwen_session_new(&s, m, &e) < 0 ||
	    qwen_session_reserve(s, n, &e) < 0)
		abort();
	s->n_tokens = n;
	for (i = 0; i < n; i++) {
		s->tokens[i] = tokens[i];
		x = mix(x, tokens[i]);
		fill_position(s, i, x);
		if (every > 0 && (i + 1) % every == 0 && i + 1 < n)
			keep_here(s, i + 1, x);
	}
	if (s->mem.recurrent_bytes > 0)
		fill_recurrent(s, s->mem.recurrent, x);
	s->have_logits = n > 0;
	fill_floats(s->logits, m->net.hp.n_vocab, &x);
	return s;
}

/* Set out to n tokens that depend on the seed. */
static inline void
tokens_of(int32_t *out, size_t n, uint64_t seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		out[i] = (int32_t)(next_random(&seed) % store_shape.n_vocab);
}

/* Make a new folder for a store in tmp; return its path, which is static. */
static inline const char *
store_dir_in(const char *tmp)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/store-XXXXXX", tmp);
	if (mkdtemp(path) == NULL)
		abort();
	return path;
}

static inline const char *
store_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	return store_dir_in(tmp != NULL ? tmp : "/tmp");
}

/* The number of warnings of a store, and the last one. */
struct warnings {
	int	n;
	char	last[300];
};

static inline void
on_warning(void *arg, const char *msg)
{
	struct warnings *w = arg;

	w->n++;
	snprintf(w->last, sizeof w->last, "%s", msg);
}

static inline struct qwen_store *
open_store(const char *dir, uint64_t max, struct warnings *w)
{
	struct qwen_store_opts o = { .dir = dir, .max = max,
	    .warn = on_warning, .arg = w };
	struct qwen_store *st;
	struct qwen_err e;

	if (w != NULL)
		memset(w, 0, sizeof *w);
	else
		o.warn = NULL;
	if (qwen_store_open(&st, &o, &e) < 0) {
		printf("# %s\n", e.msg);
		abort();
	}
	return st;
}

/*
 * Return the number of tokens that the store has; -1 if the restored session
 * differs from the one that evaluating these tokens gives.
 */
static inline long
restored(struct qwen_store *st, struct qwen_model *m, const int32_t *tokens,
    size_t n)
{
	struct qwen_session *s, *t;
	struct qwen_err e;
	size_t len;
	long r;

	if (qwen_store_restore(st, &s, m, tokens, n, &e) < 0) {
		printf("# %s\n", e.msg);
		return -1;
	}
	if (s == NULL)
		return 0;
	len = qwen_session_n_tokens(s);
	r = (long)len;
	t = session_of(m, tokens, len, 0);
	/* a session that ends before token n needs no logits */
	if (!s->have_logits && len < n)
		t->have_logits = 0;
	if (len > n || !same_session(s, t) || (len == n && !s->have_logits)) {
		printf("# %zu tokens of %zu: wrong content\n", len, n);
		r = -1;
	}
	qwen_session_free(s);
	qwen_session_free(t);
	return r;
}

/* Insert the session that evaluating the tokens gives. */
static inline int
inserted(struct qwen_store *st, struct qwen_model *m, const int32_t *tokens,
    size_t n, size_t every)
{
	struct qwen_session *s = session_of(m, tokens, n, every);
	struct qwen_err e;
	int r = qwen_store_insert(st, s, &e);

	qwen_session_free(s);
	return r;
}

/* Count the files of the store, its orphans, and the bytes of all files. */
static inline size_t
count_files(struct qwen_store *st, size_t *orphans, uint64_t *bytes)
{
	struct qwen_store_list *l;
	struct qwen_err e;
	size_t i, n;

	if (qwen_store_list(&l, st, &e) < 0)
		abort();
	n = qwen_store_list_n(l);
	if (orphans != NULL)
		*orphans = 0;
	if (bytes != NULL)
		*bytes = 0;
	for (i = 0; i < n; i++) {
		if (orphans != NULL)
			*orphans += (size_t)qwen_store_list_at(l, i)->orphan;
		if (bytes != NULL)
			*bytes += qwen_store_list_at(l, i)->bytes;
	}
	qwen_store_list_free(l);
	return n;
}

static inline void
ignore_bad(void *arg, const char *path, const char *msg)
{
	(void)arg;
	printf("# %s: %s\n", path, msg);
}

/* Count the bad files of the store. */
static inline uint64_t
count_bad(struct qwen_store *st, int remove_them)
{
	struct qwen_store_verifier v = { .bad = ignore_bad,
	    .remove = remove_them };
	uint64_t files, bad;
	struct qwen_err e;

	if (qwen_store_verify(st, &v, &files, &bad, &e) < 0)
		abort();
	return bad;
}

/*
 * Count the entries below path whose names begin with a dot: incomplete files.
 */
static inline size_t
count_hidden(const char *path)
{
	char sub[2048];
	struct dirent *e;
	struct stat st;
	size_t n = 0;
	DIR *d = opendir(path);

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >=
		    (int)sizeof sub)
			continue;
		n += e->d_name[0] == '.';
		if (stat(sub, &st) == 0 && S_ISDIR(st.st_mode))
			n += count_hidden(sub);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

#endif
