/* SPDX-License-Identifier: ISC */
/*
 * wire_bad.c - hostile streams: each gives one error, fast, in little memory.
 */
#include <dirent.h>

#include "../tap.h"
#include "wire_util.h"

static void
load(struct bytes *b, const char *folder, const char *name)
{
	char path[1024], buf[4096];
	FILE *f;
	size_t n;

	snprintf(path, sizeof path, "%s/%s", folder, name);
	if ((f = fopen(path, "rb")) == NULL)
		abort();
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		bytes_add(b, buf, n);
	fclose(f);
}

/* A header of tokens, vocabulary 592. */
static void
good_header(struct bytes *b)
{
	struct qwen_header h = { .kind = QWEN_STREAM_TOKENS, .n_vocab = 592 };
	struct qwen_writer *w;
	struct qwen_err err;
	int fd = fd_of("", 0);

	qwen_writer_open(&w, fd, NULL, &err);
	qwen_write_header(w, &h, &err);
	qwen_writer_close(w, &err);
	bytes_of_fd(b, fd);
	close(fd);
}

static int
refused(const struct bytes *b, struct qwen_err *err)
{
	static const struct qwen_header self = {
	    .kind = QWEN_STREAM_TOKENS, .n_vocab = 592 };
	struct qwen_reader_opts o = { .self = &self };
	const char *p;

	err->msg[0] = '\0';
	if (read_bytes(b->p, b->n, &o, NULL, err) == 0 || err->msg[0] == '\0')
		return 0;
	for (p = err->msg; *p != '\0'; p++) {
		if ((unsigned char)*p < 0x20)
			return 0;
	}
	return 1;
}

static void
test_file(const char *folder, const char *name)
{
	struct bytes b = { 0 };
	struct qwen_err err;

	if (strncmp(name, "bad-body-", 9) == 0)
		good_header(&b);
	load(&b, folder, name);
	ok(refused(&b, &err), "%s: %s", name, err.msg);
	bytes_free(&b);
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
test_files(const char *folder)
{
	static char *names[200];
	struct dirent *e;
	size_t i, n = 0;
	DIR *d;

	if ((d = opendir(folder)) == NULL)
		abort();
	while ((e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, "bad-", 4) == 0 && n < 200)
			names[n++] = strdup(e->d_name);
	}
	closedir(d);
	qsort(names, n, sizeof *names, compare);
	for (i = 0; i < n; i++) {
		test_file(folder, names[i]);
		free(names[i]);
	}
	ok(n >= 60, "%zu hostile files", n);
}

/* What a later version may add is passed over. */
static void
test_future(const char *folder)
{
	struct bytes b = { 0 }, log = { 0 };
	struct qwen_err err = { 0 };
	int r;

	good_header(&b);
	load(&b, folder, "good-future.cbor");
	r = read_bytes(b.p, b.n, NULL, &log, &err);
	ok(r == 0 && strstr((char *)log.p, "\n2 n=2 1 2\n2 n=1 3\n") != NULL,
	    "unknown keys are passed over: %s", err.msg);
	bytes_free(&b);
	bytes_free(&log);
}

struct row {
	const char	*what;
	const char	*key_and_row;
	size_t		 n;
};

/* Each after a header of this kind with a vocabulary of 2. */
static void
test_table(enum qwen_stream_kind kind, const char *name,
    const struct row *rows, size_t n)
{
	struct qwen_header h = { .kind = kind, .n_vocab = 2 };
	struct qwen_writer *w;
	struct bytes b = { 0 };
	struct qwen_err err;
	size_t i, head;
	int fd = fd_of("", 0);

	qwen_writer_open(&w, fd, NULL, &err);
	qwen_write_header(w, &h, &err);
	qwen_writer_close(w, &err);
	bytes_of_fd(&b, fd);
	close(fd);
	head = b.n;
	for (i = 0; i < n; i++) {
		b.n = head;
		bytes_add(&b, rows[i].key_and_row, rows[i].n);
		err.msg[0] = '\0';
		ok(read_bytes(b.p, b.n, NULL, NULL, &err) < 0 &&
		    strstr(err.msg, "record 2 at byte") != NULL,
		    "%s %s: %s", name, rows[i].what, err.msg);
	}
	bytes_free(&b);
}

/* Rows after a header of logits with a vocabulary of 2. */
static void
test_rows(void)
{
	static const struct row rows[] = {
#define POS "hposition\5"
#define LOGITS "flogits\xd8\x55"
#define IDS "cids\xd8\x4e"
#define LSE "ilogsumexp\xfa\x3f\x80\0\0"
#define S(s) s, sizeof s - 1
	{ "too short", S("\xa2" POS LOGITS "\x44\0\0\0\0") },
	{ "too long", S("\xa2" POS LOGITS "\x4c\0\0\0\0\0\0\0\0\0\0\0\0") },
	{ "of no number", S("\xa2" POS LOGITS "\x40") },
	{ "without position", S("\xa1" LOGITS "\x48\0\0\0\0\0\0\0\0") },
	{ "at position 2^64 - 1", S("\xa2hposition\x1b\xff\xff\xff\xff\xff"
	    "\xff\xff\xff" LOGITS "\x48\0\0\0\0\0\0\0\0") },
	{ "with a NaN", S("\xa2" POS LOGITS "\x48\0\0\xc0\x7f\0\0\0\0") },
	{ "with infinity", S("\xa2" POS LOGITS "\x48\0\0\x80\x7f\0\0\0\0") },
	{ "of f64", S("\xa2" POS "flogits\xd8\x56\x48\0\0\0\0\0\0\0\0") },
	{ "with more ids", S("\xa4" POS LSE IDS "\x48\0\0\0\0\1\0\0\0" LOGITS
	    "\x44\0\0\0\0") },
	{ "with a foreign id", S("\xa4" POS LSE IDS "\x44\2\0\0\0" LOGITS
	    "\x44\0\0\0\0") },
	{ "cut, without logsumexp", S("\xa3" POS IDS "\x44\1\0\0\0" LOGITS
	    "\x44\0\0\0\0") },
	{ "cut, logsumexp a NaN", S("\xa4" POS "ilogsumexp\xf9\x7e\0" IDS
	    "\x44\1\0\0\0" LOGITS "\x44\0\0\0\0") },
	{ "cut, out of order", S("\xa4" POS LSE IDS "\x48\0\0\0\0\1\0\0\0"
	    LOGITS "\x48\0\0\0\0\0\0\x80\x3f") },
	{ "cut, one id twice", S("\xa4" POS LSE IDS "\x48\1\0\0\0\1\0\0\0"
	    LOGITS "\x48\0\0\0\0\0\0\0\0") },
	{ "of ids alone", S("\xa2" POS IDS "\x44\1\0\0\0") },
	};

	test_table(QWEN_STREAM_LOGITS, "a row", rows,
	    sizeof rows / sizeof rows[0]);
}

/* Values after a header of a trace with a vocabulary of 2. */
static void
test_traces(void)
{
	static const struct row rows[] = {
#define TRACE "etraceaa"
#define TOKEN "etoken\1"
#define ROW "crow\xd8\x55\x44\0\0\0\0"
#define CHOICES "gchoices\xd8\x4e"
	{ "without position", S("\xa3" TRACE TOKEN ROW) },
	{ "without token", S("\xa3" TRACE POS ROW) },
	{ "without numbers", S("\xa3" TRACE POS TOKEN) },
	{ "of no number", S("\xa4" TRACE POS TOKEN "crow\xd8\x55\x40") },
	{ "of a foreign token", S("\xa4" TRACE POS "etoken\2" ROW) },
	{ "of an id of 33 bits", S("\xa4" TRACE POS "etoken"
	    "\x3a\x80\0\0\0" ROW) },
	{ "at position 2^64 - 1", S("\xa4" TRACE "hposition\x1b\xff\xff\xff"
	    "\xff\xff\xff\xff\xff" TOKEN ROW) },
	{ "without a name", S("\xa4" "etrace`" POS TOKEN ROW) },
	{ "with a name of two lines", S("\xa4" "etracecA\nB" POS TOKEN ROW) },
	{ "with a name of 64 characters", S("\xa4" "etracex\x40"
	    "0123456789abcdef0123456789abcdef0123456789abcdef"
	    "0123456789abcdef" POS TOKEN ROW) },
	{ "with a choice below 0", S("\xa4" TRACE POS TOKEN CHOICES
	    "\x44\xff\xff\xff\xff") },
	{ "of f64", S("\xa4" TRACE POS TOKEN "crow\xd8\x56\x48\0\0\0\0\0\0"
	    "\0\0") },
	{ "among logits", S("\xa2" POS LOGITS "\x48\0\0\0\0\0\0\0\0") },
	};

	test_table(QWEN_STREAM_TRACE, "a trace", rows,
	    sizeof rows / sizeof rows[0]);
}

int
main(void)
{
	const char *top = getenv("TOP");
	char folder[512];

	snprintf(folder, sizeof folder, "%s/tests/files/stream",
	    top != NULL ? top : ".");
	test_files(folder);
	test_future(folder);
	test_rows();
	test_traces();
	return done_testing();
}
