/* SPDX-License-Identifier: ISC */
/* tokens.c - the tokens to read and decode: of a file, or random. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "qbench.h"

int32_t *qbench_ids;

/*
 * Return a random id for position i with two properties of text: low ids are
 * more frequent (a BPE vocabulary begins with its most frequent words), and one
 * id in four repeats one of the last 64.
 */
static int32_t
walk(size_t i, size_t n_vocab, uint64_t *rng)
{
	uint64_t u = qwen_gguf_random_u64(rng), id;
	unsigned bits = 0;

	if (i > 0 && u % 4 == 0)
		return qbench_ids[i - 1 - (u >> 8) % (i < 64 ? i : 64)];
	while (n_vocab >> bits > 1)
		bits++;
	do {
		u = qwen_gguf_random_u64(rng);
		id = (uint64_t)1 << (u & 0xffff) % (bits + 1);
		id += (u >> 16) % id - 1;
	} while (id >= n_vocab);
	return (int32_t)id;
}

/*
 * Make at least need ids: those of --tokens, repeated, or random ones.  Every
 * call needs as many.
 */
static void
make_tokens(size_t need, size_t n_vocab)
{
	const struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS };
	const char *path = qbench_opt.tokens;
	uint64_t rng = 1;
	size_t have = 0, cap, i;
	int fd;

	if (qbench_ids != NULL)
		return;
	if (path != NULL) {
		fd = cli_open(path, &path);
		if (fd == -1)
			die("%s: %s", path, strerror(errno));
		cli_must(path, tool_read_ids(fd, &o, need, &qbench_ids, &have,
		    &cli_err));
		if (have == 0)
			die("%s: no token", path);
		if (fd != STDIN_FILENO)
			close(fd);
	}
	cap = have;
	cli_grow(&qbench_ids, &cap, need, sizeof *qbench_ids);
	for (i = have; i < need; i++)
		qbench_ids[i] = have > 0 ? qbench_ids[i - have] :
		    walk(i, n_vocab, &rng);
}

static size_t
longest_text(void)
{
	size_t one = qbench_longest(&qbench_opt.depth) + qbench_opt.n;
	size_t p = qbench_longest(&qbench_opt.prompt);

	return one > p ? one : p;
}

void
qbench_check_memory(void)
{
	struct qwen_model *m = tool_model_open_draft(qbench_model_path,
	    (int)qbench_opt.threads.v[0],
	    qbench_opt.numerics, &qbench_opt.draft.block);

	tool_memory_check(m, &(struct tool_need){ .n_tokens = longest_text(),
	    .n_sequences = qbench_longest(&qbench_opt.sequences),
	    .batch = qbench_longest(&qbench_opt.batch),
	    .in_memory = qbench_opt.synthetic != NULL });
	qwen_model_close(m);
}

void
qbench_prepare_tokens(const struct qwen_model *m)
{
	size_t one = qbench_longest(&qbench_opt.depth) + qbench_opt.n;
	size_t p = qbench_longest(&qbench_opt.prompt), need = longest_text();

	if (need > qwen_model_n_ctx(m))
		die("%s: %zu tokens, and the context is %zu",
		    qbench_model_name, need, qwen_model_n_ctx(m));
	one *= qbench_longest(&qbench_opt.sequences);
	make_tokens(one > p ? one : p, qwen_model_n_vocab(m));
}
