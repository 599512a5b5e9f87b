/* SPDX-License-Identifier: ISC */
/* tokens.c - what is read and decoded: tokens of a file, or made ones. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbench.h"

static int32_t	*ids;
static size_t	 n_ids;

uint64_t
qbench_draw(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * The id at position i of a walk that has two properties of text: an id comes
 * about as often as its number is low (a vocabulary made by merging has its
 * commonest words first), and one in four was among the last 64.
 */
static int32_t
walk(size_t i, size_t n_vocab, uint64_t *rng)
{
	uint64_t u = qbench_draw(rng), id;
	unsigned bits = 0;

	if (i > 0 && u % 4 == 0)
		return ids[i - 1 - (u >> 8) % (i < 64 ? i : 64)];
	while (n_vocab >> bits > 1)
		bits++;
	do {
		u = qbench_draw(rng);
		id = (uint64_t)1 << (u & 0xffff) % (bits + 1);
		id += (u >> 16) % id - 1;
	} while (id >= n_vocab);
	return (int32_t)id;
}

static void
append(const int32_t *more, size_t n)
{
	ids = cli_got(realloc(ids, (n_ids + n) * sizeof *ids));
	memcpy(ids + n_ids, more, n * sizeof *ids);
	n_ids += n;
}

/* Up to need ids of the file. */
static void
read_tokens(const char *path, size_t need)
{
	struct qwen_reader_opts ro = { .kinds = QWEN_STREAM_TOKENS };
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_err err;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd == -1)
		die("%s: %s", path, strerror(errno));
	if (qwen_reader_open(&r, fd, &ro, &err) < 0)
		cli_die_err(path, &err);
	while (n_ids < need && (rc = qwen_reader_next(r, &rec, &err)) != 0) {
		if (rc < 0)
			cli_die_err(path, &err);
		if (rec.kind == QWEN_REC_TOKENS)
			append(rec.ids, rec.n);
	}
	if (n_ids == 0)
		die("%s: no token", path);
	qwen_reader_close(r);
	close(fd);
}

/* The first need ids: of the file, over and over, or of the walk. */
void
qbench_make_tokens(size_t need, size_t n_vocab)
{
	uint64_t rng = 1;
	size_t have;

	if (n_ids >= need)
		return;
	if (qbench_opt.tokens != NULL)
		read_tokens(qbench_opt.tokens, need);
	have = n_ids;
	ids = cli_got(realloc(ids, (need > have ? need : have) * sizeof *ids));
	for (; n_ids < need; n_ids++)
		ids[n_ids] = have > 0 ? ids[n_ids - have] :
		    walk(n_ids, n_vocab, &rng);
}

const int32_t *
qbench_ids(void)
{
	return ids;
}

void
qbench_free_tokens(void)
{
	free(ids);
	ids = NULL;
	n_ids = 0;
}
