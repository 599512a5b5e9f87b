/* SPDX-License-Identifier: ISC */
/* wire.c - streams: written records are read back, however the bytes arrive. */
#include <pthread.h>
#include <signal.h>

#include "../tap.h"
#include "wire_util.h"

static uint64_t seed = 1;

static uint32_t
rnd(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

/* A writer that has its own idea of how much to write at a time. */
struct feed {
	const struct bytes	*b;
	int			 fd;
	size_t			 most;
};

static void *
feed(void *arg)
{
	struct feed *f = arg;
	size_t at = 0, n;
	ssize_t done;

	while (at < f->b->n) {
		n = 1 + rnd() % f->most;
		if (n > f->b->n - at)
			n = f->b->n - at;
		if ((done = write(f->fd, f->b->p + at, n)) <= 0)
			break;
		at += (size_t)done;
	}
	close(f->fd);
	return NULL;
}

static void
test_chunks(void)
{
	static const size_t most[] = { 1, 2, 3, 7, 50, 1000 };
	struct bytes s = { 0 }, want = { 0 }, got = { 0 };
	struct qwen_err err = { 0 };
	struct feed f = { .b = &s };
	pthread_t t;
	size_t i;
	int p[2], r;

	sample_stream(&s, QWEN_FORMAT_CBOR);
	r = read_bytes(s.p, s.n, NULL, &want, &err);
	ok(r == 0, "a stream with every record reads: %s", err.msg);
	for (i = 0; i < sizeof most / sizeof most[0]; i++) {
		if (pipe(p) == -1)
			abort();
		f.fd = p[1];
		f.most = most[i];
		pthread_create(&t, NULL, feed, &f);
		got.n = 0;
		r = read_all(p[0], NULL, &got, &err);
		pthread_join(t, NULL);
		close(p[0]);
		ok(r == 0 && got.n == want.n &&
		    memcmp(got.p, want.p, got.n) == 0,
		    "the same in chunks of up to %zu bytes", most[i]);
	}
	bytes_free(&s);
	bytes_free(&want);
	bytes_free(&got);
}

/* The facts, not only that they are stable. */
static void
test_facts(void)
{
	struct bytes s = { 0 }, log = { 0 };
	struct qwen_err err;

	sample_stream(&s, QWEN_FORMAT_CBOR);
	read_bytes(s.p, s.n, NULL, &log, &err);
	ok(strstr((char *)log.p, "2 n=5 0 7 255 256 591\n3 n=0\n2 n=1 255\n") !=
	    NULL, "ids and the end of the document");
	ok(strstr((char *)log.p, "7 n=0 caf\303\251 \"1\"\n") != NULL,
	    "a mark");
	ok(strstr((char *)log.p, "5 n=0 dir/state.cbor 6 fffefdfc") != NULL,
	    "the ready record");
	ok(strstr((char *)log.p, "kind=2 vocab=6 00112233") != NULL &&
	    strstr((char *)log.p, "eog 2 5\n") != NULL, "a header of logits");
	ok(strstr((char *)log.p, "4 n=6 -0x1.8p+0 0x1.ap+1 0x0p+0 0x1.ap+1 "
	    "-0x0p+0") != NULL && strstr((char *)log.p, " pos=5 ") != NULL,
	    "a whole row, bit for bit");
	ok(strstr((char *)log.p, "4 n=3 1 3 5 0x1.ap+1 0x1.ap+1") != NULL &&
	    strstr((char *)log.p, " pos=300 lse=0x1.003d") != NULL,
	    "the three best of a row, equal ones by id");
	ok(strstr((char *)log.p, " norm 8 -2147483648 n=1 0x1p+1\n") != NULL,
	    "a stage of a row of a span");
	bytes_free(&s);
	bytes_free(&log);
}

/* Writes a header and a span; returns -1 if the span is refused. */
static int
write_span(struct bytes *out, const struct qwen_span *span,
    enum qwen_format format, struct qwen_err *err)
{
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS, .n_vocab = 592 };
	struct qwen_writer_opts o = { .format = format };
	FILE *f = tmpfile();
	struct qwen_writer *w;
	int r;

	if (f == NULL || qwen_writer_open(&w, fileno(f), &o, err) < 0 ||
	    qwen_write_header(w, &h, err) < 0)
		abort();
	r = qwen_write_span(w, span, err);
	qwen_writer_close(w, NULL);
	out->n = 0;
	bytes_of_fd(out, fileno(f));
	fclose(f);
	return r;
}

/* Reads a stream of one span; returns what the reader returned for it. */
static int
read_span(const struct bytes *s, struct qwen_span *out, size_t *wrong,
    struct qwen_err *err)
{
	struct qwen_reader_opts o = { .spans = 1 };
	int fd = fd_of(s->p, s->n), r;
	struct qwen_reader *rd;
	struct qwen_record rec;
	size_t i;

	if (qwen_reader_open(&rd, fd, &o, err) < 0 ||
	    qwen_reader_next(rd, &rec, err) != 1)
		abort();
	*wrong = 1;
	if ((r = qwen_reader_next(rd, &rec, err)) > 0 &&
	    rec.kind == QWEN_REC_SPAN) {
		*out = *qwen_reader_span(rd);
		*wrong = rec.n != out->n;
		for (i = 0; i < rec.n; i++)
			*wrong += rec.ids[i] >= 0 ||
			    rec.ids[i] != qwen_span_id(out, i);
	}
	qwen_reader_close(rd);
	close(fd);
	return r;
}

/* Rows instead of tokens: the record, and their ids. */
static void
test_spans(void)
{
	static const struct qwen_span good[] = {
		{ .n = 12, .height = 3, .width = 4, .hash.b = { 1, 2, 255 } },
		{ .n = 4, .hash.b = { [15] = 1 } }, { .n = 65536 } };
	static const struct qwen_span bad[] = { { .n = 3 }, { .n = 65537 },
		{ .n = 12, .height = 3, .width = 5 },
		{ .n = 4, .height = 1u << 31, .width = 1u << 31 } };
	struct bytes s = { 0 };
	struct qwen_span p = { 0 };
	struct qwen_err err;
	size_t i, wrong, n = 0;

	for (i = 0; i < 3; i++) {
		n += write_span(&s, &good[i], QWEN_FORMAT_CBOR, &err) < 0 ||
		    read_span(&s, &p, &wrong, &err) != 1 || wrong > 0 ||
		    memcmp(&p, &good[i], sizeof p) != 0;
	}
	ok(n == 0, "spans that were written are read");
	ok(read_bytes(s.p, s.n, NULL, NULL, &err) < 0 &&
	    err.code == QWEN_EUNSUP, "not by who does not ask: %s", err.msg);
	for (i = 0; i < 4; i++) {
		if (write_span(&s, &bad[i], QWEN_FORMAT_CBOR, &err) < 0)
			abort();
		ok(read_span(&s, &p, &wrong, &err) < 0 &&
		    err.code == QWEN_ERANGE, "refused: %s", err.msg);
	}
	ok(write_span(&s, &good[0], QWEN_FORMAT_TEXT, &err) < 0 &&
	    err.code == QWEN_EUNSUP, "not in text: %s", err.msg);
	ok(write_span(&s, &good[0], QWEN_FORMAT_JSON, &err) == 0 &&
	    strstr((char *)s.p, "{\"span\":12,\"grid\":[3,4],\"hash\":"
	    "\"0102ff00000000000000000000000000\"}") != NULL, "in JSON");
	bytes_free(&s);
}

/* The numbers of rows, in as many records as they need. */
static void
test_rows(void)
{
	enum { N = (1 << 18) + 5 };
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS, .n_vocab = 592 };
	struct qwen_reader_opts o = { .spans = 1 };
	struct qwen_fp hash = { { 7, 8, 9 } };
	float *x = calloc(N, sizeof *x);
	struct qwen_writer *w;
	struct bytes s = { 0 };
	struct qwen_reader *rd;
	struct qwen_record rec;
	struct qwen_err err;
	FILE *f = tmpfile();
	size_t i, n = 0, bad = 0;

	for (i = 0; i < N; i++)
		x[i] = (float)i * 0x1p-9f - 3;
	if (f == NULL || qwen_writer_open(&w, fileno(f), NULL, &err) < 0 ||
	    qwen_write_header(w, &h, &err) < 0 ||
	    qwen_write_rows(w, &hash, x, N, &err) < 0 ||
	    qwen_writer_close(w, &err) < 0 || lseek(fileno(f), 0, 0) != 0)
		abort();
	if (qwen_reader_open(&rd, fileno(f), &o, &err) < 0 ||
	    qwen_reader_next(rd, &rec, &err) != 1)
		abort();
	while (qwen_reader_next(rd, &rec, &err) > 0) {
		bad += rec.kind != QWEN_REC_ROWS || rec.n > N - n ||
		    memcmp(&rec.fp, &hash, sizeof hash) != 0 ||
		    memcmp(rec.logits, x + n, rec.n * sizeof *x) != 0;
		n += rec.n;
	}
	ok(bad == 0 && n == N, "rows that were written are read: %zu", n);
	qwen_reader_close(rd);
	bytes_of_fd(&s, fileno(f));
	ok(read_bytes(s.p, s.n, NULL, NULL, &err) < 0 &&
	    err.code == QWEN_EUNSUP, "not by who does not ask: %s", err.msg);
	s.p[s.n - 23] = 0x7f;		/* of the last number */
	s.p[s.n - 24] = 0xff;
	o.head = s.p;
	o.n_head = s.n;
	n = 0;
	if (qwen_reader_open(&rd, fileno(f), &o, &err) < 0)
		abort();
	while (qwen_reader_next(rd, &rec, &err) > 0)
		n++;
	ok(n == 3 && err.code == QWEN_ENUMERIC, "no number: %s", err.msg);
	qwen_reader_close(rd);
	bytes_free(&s);
	fclose(f);
	free(x);
}

/* The ids of a span decide how much two texts share. */
static void
test_ids(void)
{
	struct qwen_span a = { .n = 9 }, b = { .n = 9, .hash.b = { [9] = 1 } };
	int32_t x[12], y[12];
	size_t i, equal = 0;

	for (i = 0; i < 9; i++)
		equal += qwen_span_id(&a, i) == qwen_span_id(&b, i);
	ok(equal == 0 && qwen_span_id(&a, 0) == -605077780 &&
	    qwen_span_id(&b, 8) == -1841508036,
	    "the ids of two hashes: %ld, %ld", (long)qwen_span_id(&a, 0),
	    (long)qwen_span_id(&b, 8));
	for (i = 0; i < 12; i++)
		x[i] = y[i] = i < 2 ? (int32_t)i : qwen_span_id(&a, i);
	ok(qwen_ids_common(x, 12, y, 12) == 12 &&
	    qwen_ids_common(x, 4, y, 12) == 4, "equal texts");
	y[5] = -5;
	ok(qwen_ids_common(x, 12, y, 12) == 2,
	    "three rows in common are none: %zu", qwen_ids_common(x, 12, y, 12));
	y[5] = x[5];
	y[6] = -5;
	ok(qwen_ids_common(x, 12, y, 12) == 6, "four are four");
	y[5] = 5;
	ok(qwen_ids_common(x, 12, y, 12) == 5, "three before a token are three");
}

/* Each prefix is the beginning of the stream, or an error; never a surprise. */
static void
test_truncated(void)
{
	struct bytes s = { 0 }, want = { 0 }, got = { 0 };
	struct qwen_err err;
	size_t n, good = 0, refused = 0, wrong = 0;

	sample_stream(&s, QWEN_FORMAT_CBOR);
	read_bytes(s.p, s.n, NULL, &want, &err);
	for (n = 0; n < s.n; n++) {
		got.n = 0;
		err.msg[0] = '\0';
		if (read_bytes(s.p, n, NULL, &got, &err) == 0)
			good++;
		else if (err.msg[0] != '\0' && strchr(err.msg, '\n') == NULL)
			refused++;
		if (got.n > want.n || (got.n > 0 &&
		    memcmp(got.p, want.p, got.n) != 0))
			wrong++;
	}
	ok(good == 15, "cut between records: accepted (%zu)", good);
	ok(good + refused == s.n, "cut within a record: refused (%zu)",
	    refused);
	ok(wrong == 0, "what came before the cut is right");
	bytes_free(&s);
	bytes_free(&want);
	bytes_free(&got);
}

/* Streams have no checksum: a flipped bit is an error or another valid record,
 * and under a sanitizer this shows that it is nothing worse. */
static void
test_flipped(void)
{
	struct bytes s = { 0 };
	struct qwen_err err;
	size_t i, refused = 0, silent = 0;
	int bit;

	sample_stream(&s, QWEN_FORMAT_CBOR);
	for (i = 0; i < s.n; i++) {
		for (bit = 0; bit < 8; bit++) {
			s.p[i] ^= (unsigned char)(1 << bit);
			err.msg[0] = '\0';
			if (read_bytes(s.p, s.n, NULL, NULL, &err) < 0) {
				refused++;
				silent += err.msg[0] == '\0';
			}
			s.p[i] ^= (unsigned char)(1 << bit);
		}
	}
	ok(refused > 4 * s.n, "most flipped bits are refused: %zu of %zu",
	    refused, 8 * s.n);
	ok(silent == 0, "each with a message");
	bytes_free(&s);
}

/* 200,000 ids take several records and more than the first buffer. */
static void
test_long(void)
{
	enum { N = 200000 };
	int32_t *ids = malloc(N * sizeof *ids);
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS,
	    .n_vocab = QWEN_VOCAB_MAX };
	struct qwen_reader *r;
	struct qwen_writer *w;
	struct qwen_record rec;
	struct qwen_err err;
	size_t i, n = 0, wrong = 0, records = 0;
	int fd = fd_of("", 0);

	for (i = 0; i < N; i++)
		ids[i] = (int32_t)(rnd() % QWEN_VOCAB_MAX);
	qwen_writer_open(&w, fd, NULL, &err);
	qwen_write_header(w, &h, &err);
	qwen_write_tokens(w, ids, N, &err);
	qwen_writer_close(w, &err);
	lseek(fd, 0, SEEK_SET);
	qwen_reader_open(&r, fd, NULL, &err);
	while (qwen_reader_next(r, &rec, &err) > 0) {
		for (i = 0; i < rec.n; i++, n++)
			wrong += n >= N || rec.ids[i] != ids[n];
		records++;
	}
	ok(n == N && wrong == 0, "%d ids come back", N);
	ok(records == 5, "in records of bounded size");
	qwen_reader_close(r);
	close(fd);
	free(ids);
}

/* A row of a real vocabulary is 1 MB. */
static void
test_big_row(void)
{
	enum { N = 248320 };
	struct qwen_header h = { .kind = QWEN_STREAM_LOGITS, .n_vocab = N };
	float *row = malloc(N * sizeof *row);
	struct qwen_reader *r;
	struct qwen_writer *w;
	struct qwen_record rec;
	struct qwen_err err;
	size_t i;
	int fd = fd_of("", 0), good;

	for (i = 0; i < N; i++)
		row[i] = (float)(int32_t)rnd() * 1e-8f;
	qwen_writer_open(&w, fd, NULL, &err);
	qwen_write_header(w, &h, &err);
	qwen_write_logits(w, 9, row, N, &err);
	qwen_write_top(w, 10, row, N, 50, &err);
	qwen_writer_close(w, &err);
	lseek(fd, 0, SEEK_SET);
	qwen_reader_open(&r, fd, NULL, &err);
	qwen_reader_next(r, &rec, &err);
	good = qwen_reader_next(r, &rec, &err) == 1 && rec.n == N &&
	    memcmp(rec.logits, row, N * sizeof *row) == 0;
	ok(good, "a row of %d logits comes back", N);
	good = qwen_reader_next(r, &rec, &err) == 1 && rec.n == 50;
	for (i = 0; good && i < rec.n; i++)
		good = rec.logits[i] == row[rec.ids[i]];
	for (i = 0; good && i < N; i++)
		good = row[i] <= rec.logits[49] || row[i] >= rec.logits[0] ||
		    row[i] > rec.logits[49];
	ok(good, "and its 50 best");
	qwen_reader_close(r);
	close(fd);
	free(row);
}

/* The next stage sees a record when it is written, not when the next comes. */
static void
test_prompt(void)
{
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS, .n_vocab = 10 };
	struct qwen_reader *r;
	struct qwen_writer *w;
	struct qwen_record rec;
	struct qwen_err err;
	int32_t id;
	int p[2], good = 1;

	if (pipe(p) == -1)
		abort();
	qwen_writer_open(&w, p[1], NULL, &err);
	qwen_reader_open(&r, p[0], NULL, &err);
	qwen_write_header(w, &h, &err);
	good &= qwen_reader_next(r, &rec, &err) == 1;
	for (id = 0; id < 10; id++) {
		qwen_write_tokens(w, &id, 1, &err);
		good &= qwen_reader_next(r, &rec, &err) == 1 && rec.n == 1 &&
		    rec.ids[0] == id;
	}
	ok(good, "ten tokens, each read before the next was written");
	if (write(p[1], "\xa1", 1) != 1)
		abort();
	qwen_writer_close(w, &err);
	close(p[1]);
	ok(qwen_reader_next(r, &rec, &err) == -1 &&
	    strstr(err.msg, "record 12 at byte ") == err.msg,
	    "an error says where: %s", err.msg);
	ok(qwen_reader_next(r, &rec, &err) == -1, "and stays");
	qwen_reader_close(r);
	close(p[0]);
}

static int
plain(const char *s, int lines, const char *want)
{
	struct qwen_reader_opts o = { .lines = lines };
	struct bytes log = { 0 };
	struct qwen_err err;
	int r = read_bytes(s, strlen(s), &o, &log, &err), same;

	if (want == NULL)
		same = r < 0;
	else
		same = r == 0 && strcmp(log.p != NULL ? (char *)log.p : "",
		    want) == 0;
	if (!same)
		printf("# got %d %s%s\n", r, log.p != NULL ? (char *)log.p : "",
		    r < 0 ? err.msg : "");
	bytes_free(&log);
	return same;
}

static void
test_plain(void)
{
	ok(plain("", 0, ""), "an empty stream");
	ok(plain("\n \t\r\n", 0, ""), "white space alone");
	ok(plain("5", 0, "2 n=1 5\n"), "an id that the end ends");
	ok(plain("1 2\n3\t00004\r\n", 0, "2 n=4 1 2 3 4\n"),
	    "ids between white space");
	ok(plain("1 2\n\n3\n", 1,
	    "2 n=2 1 2\n3 n=0\n3 n=0\n2 n=1 3\n3 n=0\n"),
	    "lines as documents, one of them empty");
	ok(plain("1\n2", 1, "2 n=1 1\n3 n=0\n2 n=1 2\n3 n=0\n"),
	    "a last line without newline is a document");
	ok(plain("1 x", 0, NULL), "a word");
	ok(plain("12x", 0, NULL), "a number that runs into a word");
	ok(plain("-1", 0, NULL), "a negative id");
	ok(plain("4194304", 0, NULL), "an id too large for any vocabulary");
	ok(plain("99999999999999999999999999", 0, NULL), "one without end");
	ok(plain("1.5", 0, NULL), "a fraction");
}

static void
test_plain_long(void)
{
	struct bytes s = { 0 };
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_err err;
	size_t i, n = 0, wrong = 0;
	int fd, got;

	for (i = 0; i < 100000; i++)
		bytes_addf(&s, "%zu%s", i, i % 10 == 9 ? "\n" : "  ");
	fd = fd_of(s.p, s.n);
	qwen_reader_open(&r, fd, NULL, &err);
	while ((got = qwen_reader_next(r, &rec, &err)) > 0) {
		for (i = 0; i < rec.n; i++, n++)
			wrong += rec.ids[i] != (int32_t)n;
	}
	ok(got == 0 && n == 100000 && wrong == 0, "100,000 decimal ids");
	qwen_reader_close(r);
	close(fd);
	bytes_free(&s);
}

/* Wrong kinds and owners: an error that names both sides. */
static void
test_mismatch(void)
{
	struct qwen_header self = { .kind = QWEN_STREAM_TOKENS,
	    .n_vocab = 592 };
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_LOGITS };
	struct bytes s = { 0 };
	struct qwen_err err;

	sample_stream(&s, QWEN_FORMAT_CBOR);
	ok(read_bytes(s.p, s.n, &o, NULL, &err) < 0 &&
	    err.code == QWEN_EMISMATCH &&
	    strstr(err.msg, "a stream of tokens, not of logits") != NULL,
	    "%s", err.msg);
	ok(read_bytes("1 2", 3, &o, NULL, &err) < 0 &&
	    strstr(err.msg, "plain text") != NULL, "%s", err.msg);
	o.kinds = QWEN_STREAM_TOKENS | QWEN_STREAM_STATE;
	ok(read_bytes(s.p, s.n, &o, NULL, &err) < 0 &&
	    strstr(err.msg, "of logits, not of tokens or state") != NULL,
	    "%s", err.msg);
	o.kinds = 0;
	o.self = &self;
	ok(read_bytes(s.p, s.n, &o, NULL, &err) < 0 &&
	    err.code == QWEN_EMISMATCH &&
	    strstr(err.msg, "00112233445566778899aabbccddeeff") != NULL &&
	    strstr(err.msg, "00000000000000000000000000000000") != NULL,
	    "%s", err.msg);
	ok(read_bytes("591", 3, &o, NULL, &err) == 0, "a plain id in range");
	ok(read_bytes("592", 3, &o, NULL, &err) < 0, "%s", err.msg);
	bytes_free(&s);
}

static void
test_writer_errors(void)
{
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS, .n_vocab = 10 };
	struct qwen_writer *w;
	struct qwen_err err;
	int p[2];

	signal(SIGPIPE, SIG_IGN);
	if (pipe(p) == -1)
		abort();
	close(p[0]);
	qwen_writer_open(&w, p[1], NULL, &err);
	ok(qwen_write_header(w, &h, &err) < 0 && err.code == QWEN_EPIPE,
	    "a reader that went away is QWEN_EPIPE");
	ok(qwen_write_mark(w, "a", &err) < 0, "to a mark too");
	ok(qwen_write_end(w, &err) < 0, "and the writer stays broken");
	ok(qwen_writer_close(w, &err) < 0, "to its end");
	close(p[1]);
}

static int
text_of(enum qwen_format f, const char *want)
{
	struct bytes s = { 0 };
	int same;

	sample_stream(&s, f);
	same = strcmp((char *)s.p, want) == 0;
	if (!same)
		printf("# got %s\n", s.p);
	bytes_free(&s);
	return same;
}

static void
test_formats(void)
{
	ok(text_of(QWEN_FORMAT_TEXT, "0\n7\n255\n256\n591\n255\n"
	    "5 -1.5 3.25 0 3.25 -0 1e-30\n300 1:3.25 3:3.25 5:1e-30\n"
	    "blk.0.ffn 7 5 0.5 inf -0\nblk.0.router.experts 7 5 511 0\n"
	    "norm 8 -2147483648 2\n"),
	    "text");
	ok(text_of(QWEN_FORMAT_JSON,
	    "{\"qwen\":1,\"kind\":\"tokens\",\"n_vocab\":592,"
	    "\"vocabulary\":\"00112233445566778899aabbccddeeff\"}\n"
	    "{\"tokens\":[0,7,255,256,591]}\n{\"end\":\"document\"}\n"
	    "{\"tokens\":[255]}\n{\"mark\":\"caf\303\251 \\\"1\\\"\"}\n"
	    "{\"ready\":\"dir/state.cbor\",\"n_tokens\":6,"
	    "\"fingerprint\":\"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0\"}\n"
	    "{\"qwen\":1,\"kind\":\"logits\",\"n_vocab\":6,"
	    "\"vocabulary\":\"00112233445566778899aabbccddeeff\","
	    "\"model\":\"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0\","
	    "\"numerics\":1,\"eog\":[2,5]}\n"
	    "{\"position\":5,\"logits\":[-1.5,3.25,0,3.25,-0,1e-30]}\n"
	    "{\"position\":300,\"logsumexp\":4.00375986,\"ids\":[1,3,5],"
	    "\"logits\":[3.25,3.25,1e-30]}\n"
	    "{\"qwen\":1,\"kind\":\"trace\",\"n_vocab\":6,"
	    "\"vocabulary\":\"00112233445566778899aabbccddeeff\","
	    "\"model\":\"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0\","
	    "\"numerics\":1}\n"
	    "{\"trace\":\"blk.0.ffn\",\"position\":7,\"token\":5,"
	    "\"row\":[0.5,null,-0]}\n"
	    "{\"trace\":\"blk.0.router.experts\",\"position\":7,"
	    "\"token\":5,\"choices\":[511,0]}\n"
	    "{\"trace\":\"norm\",\"position\":8,\"token\":-2147483648,"
	    "\"row\":[2]}\n"), "JSON");
}

/* Documents a line, the empty one an empty line. */
static void
test_lines(void)
{
	static const int32_t ids[] = { 1, 2, 3 };
	struct qwen_writer_opts o = { .format = QWEN_FORMAT_TEXT, .lines = 1 };
	struct qwen_writer *w;
	struct bytes s = { 0 };
	struct qwen_err err;
	int fd = fd_of("", 0);

	qwen_writer_open(&w, fd, &o, &err);
	qwen_write_tokens(w, ids, 2, &err);
	qwen_write_tokens(w, ids + 2, 1, &err);
	qwen_write_end(w, &err);
	qwen_write_end(w, &err);
	qwen_write_tokens(w, ids, 1, &err);
	qwen_write_end(w, &err);
	qwen_writer_close(w, &err);
	bytes_of_fd(&s, fd);
	ok(strcmp((char *)s.p, "1 2 3\n\n1\n") == 0, "a document a line");
	close(fd);
	bytes_free(&s);
}

int
main(void)
{
	test_facts();
	test_spans();
	test_rows();
	test_ids();
	test_chunks();
	test_truncated();
	test_flipped();
	test_long();
	test_big_row();
	test_prompt();
	test_plain();
	test_plain_long();
	test_mismatch();
	test_writer_errors();
	test_formats();
	test_lines();
	return done_testing();
}
