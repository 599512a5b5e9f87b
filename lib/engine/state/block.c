/* SPDX-License-Identifier: ISC */
/* block.c - reads the records of an opened file. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/state/read.h"

int
qwen_state_read_at(int fd, void *buf, size_t n, uint64_t offset,
    struct qwen_err *err)
{
	size_t done = 0;
	ssize_t got;

	while (done < n) {
		got = pread(fd, (char *)buf + done, n - done,
		    (off_t)(offset + done));
		if (got == 0)
			return qwen_fail(err, QWEN_EFORMAT,
			    "the file ends at byte %llu",
			    (unsigned long long)(offset + done));
		if (got < 0 && errno != EINTR)
			return qwen_fail_errno(err, "read");
		done += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

/* Compares a record's entry with the index. */
static int
same_entry(const struct qwen_state_entry *a, const struct qwen_state_entry *b)
{
	return strcmp(a->name, b->name) == 0 && a->has_data == b->has_data &&
	    a->codec == b->codec && a->layer == b->layer && a->at == b->at &&
	    a->off == b->off && a->len == b->len &&
	    memcmp(a->check, b->check, sizeof a->check) == 0;
}

int
qwen_state_file_parse(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, const unsigned char *p, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &f->list.entry[i];

	if (qwen_state_rec_parse(rec, f->steps && i > 0 ? QWEN_INDEX_ANY : i,
	    e->offset, f->head, f->n_head, p, (size_t)e->bytes, err) < 0)
		return -1;
	rec->index = i;
	if (same_entry(&rec->e, e))
		return 0;
	qwen_fail(err, QWEN_EFORMAT, "it differs from its entry in the index");
	return qwen_state_rec_fail(rec, err);
}

int
qwen_state_file_rec(const struct qwen_state_file *f, size_t i,
    struct qwen_state_rec *rec, unsigned char *buf, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &f->list.entry[i];

	if (qwen_state_read_at(f->fd, buf, (size_t)e->bytes, e->offset,
	    err) < 0)
		return qwen_fail_in(err, "state block %zu", i);
	return qwen_state_file_parse(f, i, rec, buf, err);
}

int
qwen_state_file_data(const struct qwen_state_file *f,
    const struct qwen_state_rec *rec, struct qwen_coder *c,
    const unsigned char **raw, struct qwen_err *err)
{
	return qwen_state_rec_data(&f->in.lay, rec, c, raw, err) < 0 ?
	    qwen_state_rec_fail(rec, err) : 0;
}

struct qwen_state_file *
qwen_state_file_of(struct qwen_source *src)
{
	/* no other kind of source has this type */
	return (struct qwen_state_file *)(void *)src;
}
