/* SPDX-License-Identifier: ISC */
/*
 * gguf-synth.c - write a model with the names, shapes, types and metadata of a
 * published file and random weights, for measuring and testing without it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"
#include "qwentext.h"
#include "synth/synth.h"

static const char usage[] =
    "gguf-synth [-qv] [-o file] [--seed number] [--layers number] [--no-mtp]\n"
    "                  [--experts number] [--vocab-size number] [--vocab file]\n"
    "                  [--sparse] shape\n"
    "       gguf-synth --list\n";

enum {
	OPT_SEED = 256, OPT_LAYERS, OPT_NO_MTP, OPT_EXPERTS, OPT_VOCAB_SIZE,
	OPT_VOCAB, OPT_SPARSE, OPT_LIST
};

static const struct cli_option options[] = {
	{ 'o', "output", 1 },
	{ OPT_SEED, "seed", 1 },
	{ OPT_LAYERS, "layers", 1 },
	{ OPT_NO_MTP, "no-mtp", 0 },
	{ OPT_EXPERTS, "experts", 1 },
	{ OPT_VOCAB_SIZE, "vocab-size", 1 },
	{ OPT_VOCAB, "vocab", 1 },
	{ OPT_SPARSE, "sparse", 0 },
	{ OPT_LIST, "list", 0 },
	{ 0, NULL, 0 },
};

struct opts {
	const char		*out, *vocab;
	struct qwen_synth_opts	 synth;
};

static void
list_shapes(void)
{
	const struct qwen_synth_info *s;
	size_t i;

	for (i = 0; (s = qwen_synth_info(i)) != NULL; i++)
		printf("%-26s %-10s %u layers%s, %u tokens\n", s->name,
		    s->arch, s->n_layer, s->n_mtp ? " + MTP" : "", s->n_vocab);
}

static size_t
find_shape(const char *name, const struct opts *o)
{
	struct qwen_err err;
	size_t shape;

	if (qwen_synth_find(&shape, name, &err) < 0)
		cli_usage("%s; --list shows those known", err.msg);
	if (o->synth.n_expert && qwen_synth_info(shape)->n_expert == 0)
		cli_usage("--experts: %s has none",
		    qwen_synth_info(shape)->name);
	return shape;
}

static void
write_model(struct qwen_synth *s, int fd, const char *out)
{
	int started = 0;
	const struct qwen_synth_progress p = { cli_progress_bytes, &started };
	struct qwen_err err;
	double start = cli_now();
	int rc;

	rc = qwen_synth_write(s, fd, &p, &err);
	cli_progress_end();
	if (rc < 0)
		cli_die_err(out, &err);
	if (cli_verbose)
		cli_note("%zu tensors, %.2f MiB in %.1f s",
		    qwen_synth_n_tensors(s),
		    (double)qwen_synth_bytes(s) / (1 << 20),
		    cli_now() - start);
}

static void
synth(size_t shape, struct opts *o)
{
	const char *vocab = o->vocab ? o->vocab : cli_model_path(NULL);
	struct cli_output *file;
	struct qwen_gguf *g;
	struct qwen_synth *s;
	struct qwen_err err;

	if (qwen_gguf_open(&g, vocab, &err) < 0)
		cli_die_err(vocab, &err);
	o->synth.vocab = g;
	if (qwen_synth_new(&s, shape, &o->synth, &err) < 0)
		cli_die_err(NULL, &err);
	if (o->out != NULL) {
		file = cli_output_open(o->out);
		write_model(s, cli_output_fd(file), o->out);
		cli_output_commit(file);
	} else {
		write_model(s, STDOUT_FILENO, "stdout");
	}
	qwen_synth_free(s);
	qwen_gguf_close(g);
}

static void
set(struct opts *o, int c, const char *arg)
{
	switch (c) {
	case 'o':
		o->out = strcmp(arg, "-") == 0 ? NULL : arg;
		break;
	case OPT_SEED:
		o->synth.seed = cli_u64("--seed", arg);
		break;
	case OPT_LAYERS:
		o->synth.n_layer = (uint32_t)cli_int("--layers", arg, 1, 1000);
		break;
	case OPT_NO_MTP:
		o->synth.no_mtp = 1;
		break;
	case OPT_EXPERTS:
		o->synth.n_expert = (uint32_t)cli_int("--experts", arg, 1,
		    4096);
		break;
	case OPT_VOCAB_SIZE:
		o->synth.n_vocab = (uint32_t)cli_int("--vocab-size", arg, 1,
		    10000000);
		break;
	case OPT_VOCAB:
		o->vocab = arg;
		break;
	case OPT_SPARSE:
		o->synth.sparse = 1;
		break;
	}
}

int
main(int argc, char *argv[])
{
	struct opts o = { .synth.seed = 1 };
	const char *arg;
	int c, operand;
	size_t shape;

	cli_init("gguf-synth", usage);
	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1) {
		if (c == OPT_LIST) {
			list_shapes();
			return cli_finish();
		}
		set(&o, c, arg);
	}
	if (operand == argc)
		cli_usage("which shape? --list shows those known");
	cli_no_operands(argc, argv, operand + 1);
	shape = find_shape(argv[operand], &o);
	if (o.out == NULL && isatty(STDOUT_FILENO))
		die("not writing a model to a terminal; give -o file");
	synth(shape, &o);
	return cli_finish();
}
