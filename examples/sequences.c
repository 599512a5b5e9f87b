/* SPDX-License-Identifier: ISC */
/*
 * sequences.c - continue several texts at the same time, in common passes.
 *
 *	cc -o sequences sequences.c $(pkg-config --cflags --libs libqwentext)
 *	./sequences model.gguf 20 'One text' 'Another' 'A third one'
 *
 * Each text gets the same tokens as alone.  All of them take little more time
 * than one, because a pass reads the weights once for all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qwen.h>
#include <qwentext.h>

/* A text and its continuation. */
struct text {
	const char		*begin;
	struct qwen_tok_decoder	*decoder;
	char			*more;
	size_t			 n_more;
};

static struct qwen_err err;

static void
check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "sequences: %s\n", err.msg);
		exit(1);
	}
}

static void
append(struct text *t, struct qwen_str s)
{
	if ((t->more = realloc(t->more, t->n_more + s.len + 1)) == NULL)
		exit(1);
	if (s.len > 0)
		memcpy(t->more + t->n_more, s.s, s.len);
	t->n_more += s.len;
}

/* Called for each generated token; returns 0 to continue. */
static int
token(void *arg, const struct qwen_choice *c)
{
	struct text *t = arg;
	struct qwen_str s;

	check(qwen_tok_decoder_put(t->decoder, c->id, &s, &err));
	append(t, s);
	return 0;
}

static void
end(void *arg, enum qwen_job_end why, const struct qwen_err *bad)
{
	struct text *t = arg;
	struct qwen_str s;

	if (why == QWEN_JOB_FAILED) {
		printf("%s: %s\n", t->begin, bad->msg);
		return;
	}
	qwen_tok_decoder_finish(t->decoder, &s);
	append(t, s);
	printf("%s%.*s\n", t->begin, (int)t->n_more, t->more);
}

static void
add(struct qwen_work *w, const struct qwen_tok *tok, struct text *t,
    const char *begin, size_t max)
{
	struct qwen_job job = { 0 };
	int32_t *ids;

	memset(t, 0, sizeof *t);
	t->begin = begin;
	check(qwen_tok_decoder_new(&t->decoder, tok, 0, &err));
	check(qwen_tok_encode(tok, begin, strlen(begin), 0, &ids, &job.n,
	    &err));
	job.tokens = ids;
	job.max = max;
	job.token = token;
	job.end = end;
	job.arg = t;
	check(qwen_work_add(w, &job, &err));
	free(ids);
}

int
main(int argc, char *argv[])
{
	struct qwen_work_opts opts = { 0 };
	struct qwen_model *m;
	struct qwen_cache *c;
	struct qwen_work *w;
	struct qwen_tok *tok;
	struct text *t;
	int i, more;

	if (argc < 4) {
		fprintf(stderr, "usage: sequences model.gguf n text...\n");
		return 2;
	}
	if ((t = calloc((size_t)argc, sizeof *t)) == NULL)
		return 1;
	check(qwen_model_open(&m, argv[1], NULL, &err));
	check(qwen_tok_open(&tok, qwen_model_gguf(m),
	    QWEN_TOK_ENCODE | QWEN_TOK_DECODE, &err));
	check(qwen_cache_new(&c, m, 0, &err));
	opts.model = m;
	opts.cache = c;
	check(qwen_work_new(&w, &opts, &err));
	for (i = 3; i < argc; i++)
		add(w, tok, &t[i], argv[i], strtoul(argv[2], NULL, 10));
	while ((more = qwen_work_step(w, &err)) > 0)
		;
	check(more);

	for (i = 3; i < argc; i++) {
		qwen_tok_decoder_free(t[i].decoder);
		free(t[i].more);
	}
	free(t);
	qwen_work_free(w);
	qwen_cache_free(c);
	qwen_tok_close(tok);
	qwen_model_close(m);
	return fflush(stdout) == 0 ? 0 : 1;
}
