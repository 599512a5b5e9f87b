/* SPDX-License-Identifier: ISC */
/*
 * similar.c - how similar texts are to the first one, by their embeddings.
 *
 *	cc -o similar similar.c $(pkg-config --cflags --libs libqwentext)
 *	./similar model.gguf 'Where is the key?' 'Under the pot.' 'Cats sleep.'
 *
 * All texts are read together; each gets the same embedding as alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qwen.h>
#include <qwentext.h>

/* The sum of a text's hidden states, and the embedding made from it. */
struct text {
	size_t	 n_embd, n_states;
	double	*sum;
	float	*vector;
};

static struct qwen_err err;

static void
check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "similar: %s\n", err.msg);
		exit(1);
	}
}

static void *
got(void *p)
{
	if (p == NULL) {
		fprintf(stderr, "similar: out of memory\n");
		exit(1);
	}
	return p;
}

static void
hidden(void *arg, size_t at, const float *x)
{
	struct text *t = arg;

	(void)at;
	qwen_embedding_add(t->sum, x, t->n_embd);
	t->n_states++;
}

static void
end(void *arg, enum qwen_job_end why, const struct qwen_err *bad)
{
	(void)arg;
	if (why == QWEN_JOB_FAILED) {
		err = *bad;
		check(-1);
	}
}

static void
add(struct qwen_work *w, const struct qwen_embedding *e,
    const struct qwen_tok *tok, const char *s, struct text *t)
{
	struct qwen_job job = { 0 };
	int32_t *ids;

	t->sum = got(calloc(t->n_embd, sizeof *t->sum));
	t->vector = got(calloc(t->n_embd, sizeof *t->vector));
	check(qwen_embedding_encode(e, tok, NULL, s, strlen(s), 0, &ids,
	    &job.n, &err));
	job.from = qwen_embedding_from(e, &job.n);
	job.tokens = ids;
	job.hidden = hidden;
	job.end = end;
	job.arg = t;
	check(qwen_work_add(w, &job, &err));
	free(ids);
}

static double
product(const struct text *a, const struct text *b, size_t n)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < n; i++)
		sum += (double)a->vector[i] * (double)b->vector[i];
	return sum;
}

int
main(int argc, char *argv[])
{
	struct qwen_work_opts opts = { 0 };
	struct qwen_embedding e;
	struct qwen_work *work;
	struct qwen_tok *tok;
	struct text *text;
	size_t n = 0;
	int i, more;

	if (argc < 4) {
		fprintf(stderr, "usage: similar model text text ...\n");
		return 2;
	}
	check(qwen_model_open(&opts.model, argv[1], NULL, &err));
	check(qwen_tok_open(&tok, qwen_model_gguf(opts.model),
	    QWEN_TOK_ENCODE, &err));
	check(qwen_embedding_read(&e, qwen_model_gguf(opts.model), &err));
	check(qwen_cache_new(&opts.cache, opts.model, 0, &err));
	check(qwen_work_new(&work, &opts, &err));
	text = got(calloc((size_t)argc, sizeof *text));
	for (i = 2; i < argc; i++) {
		text[i].n_embd = qwen_model_n_embd(opts.model);
		add(work, &e, tok, argv[i], &text[i]);
	}
	while ((more = qwen_work_step(work, &err)) > 0)
		;
	check(more);
	for (i = 2; i < argc; i++) {
		qwen_embedding_finish(&e, text[i].sum, text[i].n_states,
		    text[i].n_embd, text[i].vector, &n);
		if (i > 2)
			printf("%.4f\t%s\n", product(&text[2], &text[i], n),
			    argv[i]);
		free(text[i].sum);
	}
	for (i = 2; i < argc; i++)
		free(text[i].vector);
	free(text);
	qwen_work_free(work);
	qwen_cache_free(opts.cache);
	qwen_tok_close(tok);
	qwen_model_close(opts.model);
	return 0;
}
