/* SPDX-License-Identifier: ISC */
/*
 * state.c - saved and loaded sessions: the same bits, complete, and no others.
 */
#include "state_util.h"
#include "../tap.h"

static struct qwen_err err;

/* Save, load, compare; returns the bytes of the state. */
static size_t
round_trip(const struct shape *sh, size_t n, int no_compress)
{
	struct qwen_model *m = fake_model(sh, "a", "x");
	struct qwen_session *s = fake_session(m, n, n + 1), *t;
	struct bytes b = { 0 };
	size_t bytes;
	int good;

	save_bytes(&b, s, NULL, no_compress, NULL);
	bytes = b.n;
	err.msg[0] = '\0';
	good = load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0 &&
	    same_session(s, t);
	ok(good, "%zu tokens, %s, %zu bytes%s", n,
	    no_compress ? "plain" : "packed", b.n, err.msg);
	qwen_session_free(s);
	qwen_session_free(t);
	bytes_free(&b);
	fake_model_free(m);
	return bytes;
}

static void
test_round_trips(void)
{
	static const size_t n[] = { 0, 1, 15, 16, 17, 255, 256, 257, 1000 };
	/* cache blocks and recurrent states larger than one record */
	static const struct shape wide = { .n_layer = 3, .n_ctx = 64,
	    .n_vocab = 200000, .n_head_kv = 30, .n_embd_head = 512,
	    .n_head_k = 8, .n_head_v = 33, .dk = 128, .dv = 128,
	    .conv_kernel = 4 };
	static const struct shape all_kv = { .n_layer = 0, .n_ctx = 64,
	    .n_vocab = 3 };
	size_t i, plain, packed;

	for (i = 0; i < sizeof n / sizeof n[0]; i++) {
		plain = round_trip(&small_shape, n[i], 1);
		packed = round_trip(&small_shape, n[i], 0);
		ok(packed < plain, "packed is smaller");
	}
	round_trip(&wide, 17, 0);
	round_trip(&wide, 17, 1);
	round_trip(&all_kv, 5, 0);
}

static void
test_without_logits(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 20, 1), *t;
	struct bytes b = { 0 };

	s->have_logits = 0;
	save_bytes(&b, s, NULL, 0, NULL);
	ok(load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0 &&
	    same_session(s, t) && qwen_session_logits(t) == NULL,
	    "a state without logits");
	qwen_session_free(s);
	qwen_session_free(t);
	bytes_free(&b);
	fake_model_free(m);
}

static void
test_extra(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 40, 1), *t;
	struct qwen_state_extra x = { 0 }, y;
	struct qwen_sampler *sampler;
	struct bytes b = { 0 };

	qwen_sampler_new(&sampler, &err);
	qwen_sampler_set(sampler, "temp", "0.7", &err);
	qwen_sampler_set(sampler, "seed", "3", &err);
	qwen_state_extra_sampler(&x, sampler, &err);
	qwen_state_extra_generated(&x, 3, 2, &err);
	qwen_state_extra_generated(&x, 5, 1, &err);
	qwen_state_extra_generated(&x, 6, 0, &err);
	qwen_state_extra_generated(&x, 10, 1, &err);
	qwen_state_extra_generated(&x, 39, 1, &err);
	memcpy(x.pending, "\xf0\x9f\x98", 3);
	x.n_pending = 3;
	ok(x.n_generated == 3 && x.generated[0].n == 3, "runs are joined");
	save_bytes(&b, s, &x, 0, NULL);
	ok(load_bytes(&t, &y, m, b.p, b.n, NULL, &err) == 0 &&
	    y.sampler != NULL && strcmp(y.sampler, "seed=3 temp=0.7") == 0 &&
	    y.n_generated == 3 && memcmp(y.generated, x.generated,
	    3 * sizeof *y.generated) == 0 &&
	    y.n_pending == 3 && memcmp(y.pending, x.pending, 3) == 0,
	    "options, generated runs and pending bytes come back");
	qwen_sampler_free(sampler);
	qwen_state_extra_fini(&x);
	qwen_state_extra_fini(&y);
	qwen_state_extra_fini(&y);
	qwen_session_free(s);
	qwen_session_free(t);
	bytes_free(&b);
	fake_model_free(m);
}

/* What could not be read again is not written. */
static void
test_bad_extra(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 8, 1);
	static char options[] = "n=3";
	struct qwen_state_extra bytes = { .n_pending = 5 };
	struct qwen_state_extra run = { .run = { .options = options,
	    .from = 5, .count = 3, .input = 9 } };
	struct qwen_writer *w;
	int fd = open("/dev/null", O_WRONLY);

	qwen_writer_open(&w, fd, NULL, &err);
	ok(qwen_state_save(s, &bytes, w, NULL, NULL, &err) < 0 &&
	    err.code == QWEN_ERANGE, "pending bytes: %s", err.msg);
	bytes.n_pending = SIZE_MAX;
	ok(qwen_state_save(s, &bytes, w, NULL, NULL, &err) < 0 &&
	    err.code == QWEN_ERANGE, "however many: %s", err.msg);
	ok(qwen_state_save(s, &run, w, NULL, NULL, &err) < 0 &&
	    err.code == QWEN_ERANGE, "a run: %s", err.msg);
	qwen_writer_free(w);
	close(fd);
	qwen_session_free(s);
	fake_model_free(m);
}

/* x survives a session of n tokens as state, or rather its run does. */
static int
run_kept(struct qwen_model *m, size_t n, const struct qwen_state_extra *x)
{
	struct qwen_session *s = fake_session(m, n, 1), *t;
	const struct qwen_run *a = &x->run, *b;
	struct qwen_state_extra y;
	struct bytes v = { 0 };
	int kept;

	save_bytes(&v, s, x, 0, NULL);
	if (load_bytes(&t, &y, m, v.p, v.n, NULL, &err) < 0)
		printf("# %s\n", err.msg);
	b = &y.run;
	kept = b->options != NULL && strcmp(a->options, b->options) == 0 &&
	    a->from == b->from && a->count == b->count &&
	    a->input == b->input && a->finished == b->finished &&
	    a->again == b->again && a->has_base == b->has_base &&
	    memcmp(&a->base, &b->base, sizeof a->base) == 0;
	qwen_state_extra_fini(&y);
	qwen_session_free(s);
	qwen_session_free(t);
	bytes_free(&v);
	return kept;
}

static void
test_run(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	char options[] = "n=9 temp=0.7";
	struct qwen_run run = { .options = options, .from = 30, .count = 5,
	    .input = 7, .finished = 1, .has_base = 1, .base = { { 1, 2 } } };
	struct qwen_state_extra x = { 0 };

	ok(qwen_state_extra_run(&x, &run, &err) == 0 && run_kept(m, 35, &x),
	    "a run comes back");
	ok(!run_kept(m, 36, &x), "with a token after it, it is the past");
	ok(!run_kept(m, 34, &x), "cut through, it is no run");
	ok(!run_kept(m, 29, &x), "nor cut off");
	run = (struct qwen_run){ .options = options, .again = 1, .from = 35 };
	ok(qwen_state_extra_run(&x, &run, &err) == 0 && run_kept(m, 35, &x),
	    "a run without tokens and base");
	qwen_state_extra_run(&x, NULL, &err);
	ok(x.run.options == NULL && x.run.from == 0, "forgotten");
	qwen_state_extra_fini(&x);
	fake_model_free(m);
}

/* What the sampler's penalties see after a replay. */
static void
test_replay(void)
{
	static const int32_t tokens[] = { 0, 1, 2, 0, 1, 3 };
	static const float row[] = { 1, 1.1f, 1.2f, 1.3f };
	static const struct { size_t n; int prompt; int32_t best; } want[] = {
		{ 6, 0, 0 },	/* 2, 1 and 3 were generated */
		{ 6, 1, 0 },	/* all are there */
		{ 5, 0, 3 },
		{ 2, 0, 3 },
		{ 0, 0, 3 },
	};
	struct qwen_state_extra x = { 0 };
	struct qwen_sampler *s;
	size_t i;
	int32_t id;

	qwen_state_extra_generated(&x, 2, 1, &err);
	qwen_state_extra_generated(&x, 4, 2, &err);
	for (i = 0; i < sizeof want / sizeof want[0]; i++) {
		qwen_sampler_new(&s, &err);
		qwen_sampler_set(s, "presence-penalty", "0.5", &err);
		if (want[i].prompt)
			qwen_sampler_set(s, "penalty-prompt", NULL, &err);
		qwen_sampler_begin(s, 4, &err);
		qwen_state_extra_replay(&x, s, tokens, want[i].n, &err);
		qwen_sampler_sample(s, row, NULL, 4, 0, &id, &err);
		ok(id == (want[i].prompt ? 3 : want[i].best),
		    "replay of %zu tokens: %d", want[i].n, id);
		qwen_sampler_free(s);
	}
	qwen_state_extra_fini(&x);
}

static void
test_fingerprint(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 40, 1), *t;
	struct bytes b = { 0 }, c = { 0 };
	struct qwen_fp fp, again, other;

	save_bytes(&b, s, NULL, 0, &fp);
	save_bytes(&c, s, NULL, 0, &again);
	ok(b.n == c.n && memcmp(b.p, c.p, b.n) == 0 &&
	    memcmp(&fp, &again, sizeof fp) == 0,
	    "the same session gives the same bytes");
	ok(load_bytes(&t, NULL, m, b.p, b.n, &fp, &err) == 0,
	    "the announced fingerprint");
	qwen_session_free(t);
	s->logits[3] += 1;
	c.n = 0;
	save_bytes(&c, s, NULL, 0, &other);
	ok(memcmp(&fp, &other, sizeof fp) != 0,
	    "another session, another fingerprint");
	ok(load_bytes(&t, NULL, m, c.p, c.n, &fp, &err) < 0 && t == NULL &&
	    err.code == QWEN_EMISMATCH, "%s", err.msg);
	qwen_session_free(s);
	bytes_free(&b);
	bytes_free(&c);
	fake_model_free(m);
}

/* Between other records of one stream. */
static void
test_in_band(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 40, 1), *t = NULL;
	struct qwen_header h, self;
	struct qwen_writer *w;
	struct qwen_reader *r;
	struct qwen_reader_opts o = { .self = &self };
	struct qwen_record rec;
	int32_t ids[] = { 1, 2 };
	int fd = fd_of("", 0), good;

	qwen_header_init(&h, QWEN_STREAM_TOKENS, m->net.gguf, &err);
	qwen_header_init(&self, QWEN_STREAM_STATE, m->net.gguf, &err);
	qwen_writer_open(&w, fd, NULL, &err);
	qwen_write_header(w, &h, &err);
	qwen_write_tokens(w, ids, 2, &err);
	qwen_state_save(s, NULL, w, NULL, NULL, &err);
	qwen_write_header(w, &h, &err);
	qwen_write_tokens(w, ids, 2, &err);
	qwen_writer_close(w, &err);
	lseek(fd, 0, SEEK_SET);
	qwen_reader_open(&r, fd, &o, &err);
	good = qwen_reader_next(r, &rec, &err) == 1 &&
	    qwen_reader_next(r, &rec, &err) == 1 &&
	    qwen_reader_next(r, &rec, &err) == 1 &&
	    rec.header->kind == QWEN_STREAM_STATE;
	ok(good && qwen_state_load(&t, NULL, m, r, &rec, NULL, &err) == 0 &&
	    same_session(s, t), "a state within a stream");
	ok(qwen_reader_next(r, &rec, &err) == 1 &&
	    rec.kind == QWEN_REC_HEADER &&
	    qwen_reader_next(r, &rec, &err) == 1 && rec.n == 2 &&
	    qwen_reader_next(r, &rec, &err) == 0, "the stream goes on");
	qwen_reader_close(r);
	close(fd);
	qwen_session_free(s);
	qwen_session_free(t);
	fake_model_free(m);
}

/* Each head of data in the plain form is followed by an aligned byte. */
static void
test_aligned(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 700, 1);
	struct qwen_reader *r;
	struct qwen_record in;
	struct qwen_state_rec rec;
	struct qwen_state_counts sum;
	struct bytes b = { 0 };
	int fd, bad = 0, n = 0;

	save_bytes(&b, s, NULL, 1, NULL);
	fd = fd_of(b.p, b.n);
	qwen_reader_open(&r, fd, NULL, &err);
	qwen_reader_next(r, &in, &err);
	qwen_state_counts_init(&sum, in.raw, in.n_raw, &err);
	while (qwen_reader_next(r, &in, &err) == 1) {
		if (qwen_state_rec_decode(&rec, &sum, in.raw, in.n_raw,
		    &err) < 0)
			break;
		if (rec.n_data == 0)
			continue;
		n++;
		bad += (rec.e.offset + (size_t)(rec.data - in.raw)) %
		    QWEN_ALIGN != 0 || rec.e.codec != QWEN_CODEC_NONE;
	}
	ok(n > 5 && bad == 0 && sum.bytes == b.n, "data of %d plain records "
	    "is aligned", n);
	qwen_state_counts_fini(&sum);
	qwen_reader_close(r);
	close(fd);
	bytes_free(&b);
	qwen_session_free(s);
	fake_model_free(m);
}

/* A byte in the middle of the first block of this kind. */
static size_t
block_of(const struct bytes *b, const char *kind)
{
	struct qwen_state_file *f;
	struct qwen_state_block bl;
	char path[64];
	size_t i, n;
	int fd = fd_of(b->p, b->n);

	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	if (qwen_state_open(&f, path, &err) < 0)
		abort();
	for (i = 0; i < qwen_state_info(f)->n_blocks; i++) {
		qwen_state_block(f, i, &bl);
		if (strcmp(bl.kind, kind) == 0)
			break;
	}
	n = (size_t)(bl.offset + bl.bytes / 2);
	qwen_state_close(f);
	close(fd);
	return n;
}

static void
test_tokens_only(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 300, 1);
	struct qwen_state_extra x = { 0 }, y;
	struct qwen_header h;
	struct bytes b = { 0 };
	struct qwen_fp fp, got;
	char path[64];
	int32_t *tokens;
	size_t n;
	int fd;

	qwen_state_extra_generated(&x, 200, 100, &err);
	save_bytes(&b, s, &x, 0, &fp);
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	ok(qwen_state_load_tokens(&tokens, &n, &y, &h, path, &got, &err) == 0 &&
	    n == 300 && memcmp(tokens, s->tokens, n * sizeof *tokens) == 0 &&
	    h.n_vocab == 9 && memcmp(&fp, &got, sizeof fp) == 0 &&
	    y.n_generated == 1, "tokens of a state without its model");
	free(tokens);
	close(fd);
	b.p[b.n - 1] ^= 1;	/* of the end, then of the tokens */
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	ok(qwen_state_load_tokens(&tokens, &n, NULL, &h, path, NULL, &err) < 0 &&
	    tokens == NULL, "%s", err.msg);
	close(fd);
	b.p[b.n - 1] ^= 1;
	b.p[block_of(&b, "tokens")] ^= 1;
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	ok(qwen_state_load_tokens(&tokens, &n, NULL, &h, path, NULL, &err) < 0 &&
	    tokens == NULL, "%s", err.msg);
	close(fd);
	ok(qwen_state_load_tokens(&tokens, &n, NULL, &h, "/nonexistent/s",
	    NULL, &err) < 0 && err.code == QWEN_EIO, "%s", err.msg);
	qwen_state_extra_fini(&x);
	qwen_state_extra_fini(&y);
	bytes_free(&b);
	qwen_session_free(s);
	fake_model_free(m);
}

/* A disk that fills up, a reader that goes away. */
static void
test_write_fails(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 300, 1);
	struct qwen_writer *w;
	int fd = open("/dev/full", O_WRONLY);

	if (fd == -1)
		skip("a full disk", "no /dev/full");
	else {
		qwen_writer_open(&w, fd, NULL, &err);
		ok(qwen_state_save(s, NULL, w, NULL, NULL, &err) < 0,
		    "%s", err.msg);
		qwen_writer_free(w);
		close(fd);
	}
	qwen_session_free(s);
	fake_model_free(m);
}

/*
 * state -e MODEL A B: whether two states hold the same, but for checkpoints,
 * which tell where the text was interrupted.
 */
static int
compare_files(char *argv[])
{
	struct qwen_state_extra x, y;
	struct qwen_session *s, *t;
	struct qwen_model *m;
	int same;

	if (qwen_model_open(&m, argv[2], NULL, &err) < 0 ||
	    qwen_state_load_file(&s, &x, m, argv[3], NULL, &err) < 0 ||
	    qwen_state_load_file(&t, &y, m, argv[4], NULL, &err) < 0) {
		fprintf(stderr, "state: %s\n", err.msg);
		return 2;
	}
	same = same_session(s, t) && x.n_generated == y.n_generated &&
	    (x.n_generated == 0 || memcmp(x.generated, y.generated,
	    x.n_generated * sizeof *x.generated) == 0) &&
	    x.n_pending == y.n_pending &&
	    memcmp(x.pending, y.pending, x.n_pending) == 0;
	qwen_state_extra_fini(&x);
	qwen_state_extra_fini(&y);
	qwen_session_free(s);
	qwen_session_free(t);
	qwen_model_close(m);
	return !same;
}

/* ------------------------------------------------------------ for python.t */

static const char *folder;

/* A file of the folder, named by the words that are not NULL or negative. */
static FILE *
create(const char *kind, long layer, long at, const char *end)
{
	char path[1200];
	int n = snprintf(path, sizeof path, "%s/%s", folder, kind);
	FILE *f;

	if (layer >= 0)
		n += sprintf(path + n, ".%ld", layer);
	if (at >= 0)
		n += sprintf(path + n, ".%ld", at);
	sprintf(path + n, "%s", end);
	if ((f = fopen(path, "w")) == NULL) {
		perror(path);
		exit(2);
	}
	return f;
}

static void
put(const char *kind, long layer, long at, const void *p, size_t bytes)
{
	FILE *f = create(kind, layer, at, "");

	fwrite(p, 1, bytes, f);
	fclose(f);
}

/* Keys and values by position, as a model reads them. */
static void
put_rows(const struct qwen_session *s, size_t layer)
{
	const struct qwen_hparams *h = &s->model->net.hp;
	size_t d = h->n_embd_head, pos, head, i, lane;
	FILE *k = create("kv", (long)layer, -1, ".k");
	FILE *v = create("kv", (long)layer, -1, ".v");
	const uint16_t *b;

	for (pos = 0; pos < s->n_tokens; pos++) {
		b = s->mem.layer[layer].block[pos / QWEN_KV_BLOCK];
		lane = pos % QWEN_KV_BLOCK;
		for (head = 0; head < h->n_head_kv; head++) {
			for (i = 0; i < d; i++)
				fwrite(b + (head * d + i) * QWEN_KV_BLOCK +
				    lane, sizeof *b, 1, k);
			fwrite(b + ((h->n_head_kv + head) * QWEN_KV_BLOCK +
			    lane) * d, sizeof *b, d, v);
		}
	}
	fclose(k);
	fclose(v);
}

/* What is known at the present end alone. */
static void
put_end(const struct qwen_session *s)
{
	long at = (long)s->n_tokens;
	size_t i;

	for (i = 0; i < s->mem.n_layer; i++) {
		const struct qwen_layer_state *l = &s->mem.layer[i];

		if (l->kv_block_bytes != 0)
			continue;
		put("delta", (long)i, at, l->s, l->n_s * sizeof *l->s);
		put("conv", (long)i, at, l->conv, l->n_conv *
		    sizeof *l->conv);
	}
	if (s->have_logits)
		put("logits", -1, at, s->logits, s->model->net.hp.n_vocab *
		    sizeof *s->logits);
}

static void
put_about(const struct qwen_session *s, const struct qwen_state_extra *x)
{
	FILE *f = create("about", -1, -1, "");
	const struct qwen_run *r = &x->run;
	struct qwen_checkpoint c;
	size_t i;

	fprintf(f, "n_tokens %zu\n", s->n_tokens);
	for (i = 0; i < qwen_session_n_checkpoints(s); i++) {
		qwen_session_checkpoint(s, i, &c);
		if (c.named)
			fprintf(f, "named %llu\n", (unsigned long long)c.at);
	}
	for (i = 0; i < x->n_generated; i++)
		fprintf(f, "generated %llu %llu\n",
		    (unsigned long long)x->generated[i].pos,
		    (unsigned long long)x->generated[i].n);
	if (x->sampler != NULL) {
		fprintf(f, "sampler %s\npending ", x->sampler);
		for (i = 0; i < x->n_pending; i++)
			fprintf(f, "%02x", x->pending[i]);
		fputs("\n", f);
	}
	if (r->options != NULL)
		fprintf(f, "run %llu %llu %llu %d %d %s\n",
		    (unsigned long long)r->from, (unsigned long long)r->count,
		    (unsigned long long)r->input, r->finished, r->again,
		    r->options);
	fclose(f);
}

/* state -d MODEL STATE FOLDER: the content as files, as state_reader.py does. */
static int
dump(char *argv[])
{
	struct qwen_state_extra x;
	struct qwen_checkpoint c;
	struct qwen_session *s;
	struct qwen_model *m;
	size_t i, at;

	folder = argv[4];
	if (qwen_model_open(&m, argv[2], NULL, &err) < 0 ||
	    qwen_state_load_file(&s, &x, m, argv[3], NULL, &err) < 0) {
		fprintf(stderr, "state: %s\n", err.msg);
		return 2;
	}
	put("tokens", -1, -1, s->tokens, s->n_tokens * sizeof *s->tokens);
	put_about(s, &x);
	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].kv_block_bytes != 0)
			put_rows(s, i);
	}
	put_end(s);
	while ((i = qwen_session_n_checkpoints(s)) > 0) {
		qwen_session_checkpoint(s, i - 1, &c);
		if (qwen_session_rewind(s, c.at, 0, &at, &err) < 0 ||
		    at != c.at)
			return 2;
		put_end(s);
	}
	qwen_state_extra_fini(&x);
	qwen_session_free(s);
	qwen_model_close(m);
	return 0;
}

int
main(int argc, char *argv[])
{
	if (argc == 5 && strcmp(argv[1], "-e") == 0)
		return compare_files(argv);
	if (argc == 5 && strcmp(argv[1], "-d") == 0)
		return dump(argv);
	test_round_trips();
	test_without_logits();
	test_extra();
	test_bad_extra();
	test_run();
	test_replay();
	test_fingerprint();
	test_in_band();
	test_aligned();
	test_tokens_only();
	test_write_fails();
	return done_testing();
}
