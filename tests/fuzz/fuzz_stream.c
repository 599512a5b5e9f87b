/* SPDX-License-Identifier: ISC */
/* fuzz_stream.c - any bytes as a stream: no crash, and no wrong record. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The promises of qwen.h that a caller builds upon. */
static void
check(const struct qwen_record *rec)
{
	size_t i, limit = QWEN_VOCAB_MAX;

	if (rec->header != NULL)
		limit = rec->header->n_vocab;
	for (i = 0; rec->ids != NULL && i < rec->n; i++) {
		if (rec->kind == QWEN_REC_SPAN ? rec->ids[i] >= 0 :
		    rec->ids[i] < 0 || (size_t)rec->ids[i] >= limit)
			abort();
	}
	for (i = 0; rec->logits != NULL && i < rec->n; i++) {
		if (!(rec->logits[i] - rec->logits[i] == 0))
			abort();
	}
	if (rec->kind == QWEN_REC_LOGITS && (rec->n == 0 || rec->n > limit))
		abort();
	if (rec->kind == QWEN_REC_READY && rec->path[0] == '\0')
		abort();
	if (rec->kind == QWEN_REC_MARK && qwen_mark_check(rec->path,
	    strlen(rec->path), NULL) < 0)
		abort();
	if (rec->kind == QWEN_REC_TRACE && (rec->trace.n == 0 ||
	    (rec->trace.row != NULL) == (rec->trace.choices != NULL) ||
	    rec->trace.stage[0] == '\0' || (size_t)rec->trace.token >= limit))
		abort();
	if (rec->kind == QWEN_REC_STATE && rec->n_raw > QWEN_STATE_MAX)
		abort();
}

static void
read_all(const uint8_t *data, size_t size, int lines)
{
	struct qwen_reader_opts o = { .lines = lines, .spans = 1 };
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_err err;
	int p[2], got;

	if (pipe(p) == -1 || write(p[1], data, size) != (ssize_t)size)
		abort();
	close(p[1]);
	if (qwen_reader_open(&r, p[0], &o, &err) < 0)
		abort();
	err.msg[0] = '\0';
	while ((got = qwen_reader_next(r, &rec, &err)) > 0)
		check(&rec);
	if (got < 0 && err.msg[0] == '\0')
		abort();
	qwen_reader_close(r);
	close(p[0]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 32768)	/* a pipe holds that much */
		return -1;
	read_all(data, size, 0);
	if (size > 0 && data[0] < 0x80)
		read_all(data, size, 1);
	return 0;
}
