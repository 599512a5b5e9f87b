/* SPDX-License-Identifier: ISC */
/*
 * save_restore.c - read token ids once, continue from them any number of times.
 *
 *	cc -o save_restore save_restore.c $(pkg-config --cflags --libs libqwen)
 *	echo 'A long text' | qtok | ./save_restore model.gguf state.cbor
 *	./save_restore model.gguf state.cbor 20 | qtok -d
 *
 * Reads ids from a token stream and writes generated ids one per line: it uses
 * the engine without the text library.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <qwen.h>

static struct qwen_err err;

static void
check(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "save_restore: %s\n", err.msg);
		exit(1);
	}
}

/* Evaluate the tokens on stdin, and save the state to a file. */
static void
save(struct qwen_model *m, const char *path)
{
	struct qwen_session *s;
	struct qwen_header self;
	struct qwen_reader_opts opts = { .kinds = QWEN_STREAM_TOKENS,
	    .self = &self };
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_writer *w;
	int fd, more;

	check(qwen_header_init(&self, QWEN_STREAM_TOKENS, qwen_model_gguf(m),
	    &err));
	check(qwen_session_new(&s, m, &err));
	check(qwen_reader_open(&r, STDIN_FILENO, &opts, &err));
	while ((more = qwen_reader_next(r, &rec, &err)) > 0) {
		if (rec.kind == QWEN_REC_TOKENS)
			check(qwen_session_eval(s, rec.ids, rec.n, NULL,
			    &err));
	}
	check(more);
	qwen_reader_close(r);

	if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666)) < 0) {
		perror(path);
		exit(1);
	}
	check(qwen_writer_open(&w, fd, NULL, &err));
	check(qwen_state_save(s, NULL, w, NULL, NULL, &err));
	check(qwen_writer_close(w, &err));
	if (close(fd) < 0) {
		perror(path);
		exit(1);
	}
	qwen_session_free(s);
}

/* Load the state and print the n most likely next tokens, one after another. */
static void
restore(struct qwen_model *m, const char *path, size_t n)
{
	struct qwen_session *s;
	struct qwen_sampler *c;
	int32_t id;

	check(qwen_state_load_file(&s, NULL, m, path, NULL, &err));
	check(qwen_sampler_new(&c, &err));
	check(qwen_sampler_begin(c, qwen_model_n_vocab(m), &err));
	check(qwen_sampler_accept(c, qwen_session_tokens(s),
	    qwen_session_n_tokens(s), 0, &err));
	for (; n > 0; n--) {
		check(qwen_sampler_sample(c, qwen_session_logits(s), NULL,
		    qwen_model_n_vocab(m), qwen_session_n_tokens(s), &id,
		    &err));
		printf("%d\n", (int)id);
		check(qwen_sampler_accept(c, &id, 1, 1, &err));
		check(qwen_session_eval(s, &id, 1, NULL, &err));
	}
	qwen_sampler_free(c);
	qwen_session_free(s);
}

int
main(int argc, char *argv[])
{
	struct qwen_model *m;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: save_restore model.gguf file [n]\n");
		return 2;
	}
	check(qwen_model_open(&m, argv[1], NULL, &err));
	if (argc == 3)
		save(m, argv[2]);
	else
		restore(m, argv[2], strtoul(argv[3], NULL, 10));
	qwen_model_close(m);
	return fflush(stdout) == 0 ? 0 : 1;
}
