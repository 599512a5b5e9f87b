/* SPDX-License-Identifier: ISC */
/*
 * generate.c - continue a text, one token after another.
 *
 *	cc -o generate generate.c $(pkg-config --cflags --libs libqwentext)
 *	./generate model.gguf 'Once upon a time' 40
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qwen.h>
#include <qwentext.h>

static struct qwen_err err;

/* Library functions return -1 on failure, with a message in err. */
static void
check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "generate: %s\n", err.msg);
		exit(1);
	}
}

static int
ends(const struct qwen_gguf *g, int32_t id)
{
	int32_t eog[QWEN_EOG_MAX];
	size_t i, n;

	check(qwen_vocab_eog(g, eog, QWEN_EOG_MAX, &n, &err));
	for (i = 0; i < n && i < QWEN_EOG_MAX; i++) {
		if (eog[i] == id)
			return 1;
	}
	return 0;
}

int
main(int argc, char *argv[])
{
	struct qwen_model *m;
	struct qwen_session *s;
	struct qwen_sampler *c;
	struct qwen_tok *t;
	struct qwen_tok_decoder *d;
	struct qwen_str text;
	int32_t *ids, id;
	size_t n, n_max;

	if (argc != 4) {
		fprintf(stderr, "usage: generate model.gguf text n\n");
		return 2;
	}
	n_max = strtoul(argv[3], NULL, 10);
	check(qwen_model_open(&m, argv[1], NULL, &err));
	check(qwen_tok_open(&t, qwen_model_gguf(m),
	    QWEN_TOK_ENCODE | QWEN_TOK_DECODE, &err));
	check(qwen_tok_encode(t, argv[2], strlen(argv[2]), 0, &ids, &n, &err));
	check(qwen_tok_decoder_new(&d, t, 0, &err));
	if (n == 0) {
		fprintf(stderr, "generate: the text is empty\n");
		return 1;
	}

	/* a session: the tokens read and generated so far */
	check(qwen_session_new(&s, m, &err));
	check(qwen_session_eval(s, ids, n, NULL, &err));

	/* without options, the sampler chooses the most likely token */
	check(qwen_sampler_new(&c, &err));
	check(qwen_sampler_begin(c, qwen_model_n_vocab(m), &err));
	check(qwen_sampler_accept(c, ids, n, 0, &err));
	for (; n_max > 0; n_max--) {
		check(qwen_sampler_sample(c, qwen_session_logits(s), NULL,
		    qwen_model_n_vocab(m), qwen_session_n_tokens(s), &id,
		    &err));
		if (ends(qwen_model_gguf(m), id))
			break;
		check(qwen_tok_decoder_put(d, id, &text, &err));
		fwrite(text.s, 1, text.len, stdout);
		fflush(stdout);
		check(qwen_sampler_accept(c, &id, 1, 1, &err));
		check(qwen_session_eval(s, &id, 1, NULL, &err));
	}
	qwen_tok_decoder_finish(d, &text);
	fwrite(text.s, 1, text.len, stdout);
	putchar('\n');

	free(ids);
	qwen_sampler_free(c);
	qwen_session_free(s);
	qwen_tok_decoder_free(d);
	qwen_tok_close(t);
	qwen_model_close(m);	/* close the model last: the others use it */
	return fflush(stdout) == 0 ? 0 : 1;
}
