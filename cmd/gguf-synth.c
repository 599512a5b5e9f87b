/* SPDX-License-Identifier: ISC */
/*
 * gguf-synth.c - write a model with the names, shapes, types and metadata of a
 * published file and random weights, for tests and measurements.
 */
#include <stdio.h>
#include <strings.h>

#include "gguf/recipe.h"
#include "tool/model_out.h"
#include "synth/synth.h"

static struct opts {
	const char		*out, *vocab;
	struct qwen_synth_opts	 synth;
	int			 list, list_recipes;
	const char		*lora;		/* model that the adapter is
						   for */
	uint32_t		 rank;
} opt = { .synth.seed = 1, .rank = 16 };

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_STD('o', "output", "file", &opt.out, "output",
	    "write to this file instead of stdout"),
	CLI_FILE(0, "recipe", "name", &opt.synth.recipe, "recipes",
	    "mix of number formats, instead of the shape's"),
	CLI_U64(0, "seed", "number", &opt.synth.seed,
	    "seed of the random weights (default 1)"),
	CLI_INT(0, "layers", "number", &opt.synth.n_layer, 1, 1000,
	    "number of layers, instead of the shape's"),
	CLI_FLAG(0, "no-mtp", &opt.synth.no_mtp,
	    "leave out the MTP block"),
	CLI_FLAG(0, "mtp-only", &opt.synth.mtp_only,
	    "write only the MTP block, to be used with --draft"),
	CLI_FLAG(0, "mmproj", &opt.synth.mmproj,
	    "write only the image encoder (mmproj), to be used beside the model"),
	CLI_INT(0, "experts", "number", &opt.synth.n_expert, 1, 4096,
	    "number of experts, instead of the shape's"),
	CLI_INT(0, "vocab-size", "number", &opt.synth.n_vocab, 1, 10000000,
	    "number of tokens, instead of the shape's"),
	CLI_FILE(0, "vocab", "file", &opt.vocab, "file gguf",
	    "take the vocabulary of this GGUF file"),
	CLI_FLAG(0, "sparse", &opt.synth.sparse,
	    "all weights zero, without using disk space"),
	CLI_FILE(0, "lora", "model", &opt.lora, "file gguf",
	    "write a random LoRA adapter for this model instead"),
	CLI_INT(0, "rank", "number", &opt.rank, 1, 4096,
	    "rank of the adapter (default 16)"),
	CLI_FLAG(0, "list", &opt.list, "list the shapes"),
	CLI_FLAG(0, "list-recipes", &opt.list_recipes, "list the recipes"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-synth",
	.about = "write a model of a known shape, with random weights",
	.usage = "[options] shape\n--lora model [options]\n"
	    "--list\n--list-recipes", .options = options, .max = 1,
	.completes = "shapes",
};

static void
list_shapes(void)
{
	const struct qwen_synth_info *s;
	size_t i;

	for (i = 0; (s = qwen_synth_info(i)) != NULL; i++)
		printf("%-26s %-10s %s%s, %s%s\n", s->name,
		    s->arch, cli_count(s->n_layer, "layer"),
		    s->n_mtp ? " + MTP" : "", cli_count(s->n_vocab, "token"),
		    s->images ? ", images" : "");
}

static void
list_recipes(void)
{
	const char *name;
	size_t i;

	for (i = 0; (name = qwen_recipe_name(i)) != NULL; i++)
		puts(name);
}

static size_t
find_shape(const char *name, const struct opts *o)
{
	size_t shape;

	if (qwen_synth_find(&shape, name, &cli_err) < 0)
		cli_usage("%s; --list shows the known ones", cli_err.msg);
	if (o->synth.n_expert && qwen_synth_info(shape)->n_expert == 0)
		cli_usage("--experts: %s has no experts",
		    qwen_synth_info(shape)->name);
	if (o->synth.no_mtp && o->synth.mtp_only)
		cli_usage("--no-mtp and --mtp-only exclude each other");
	if (o->synth.mtp_only && qwen_synth_info(shape)->n_mtp == 0)
		cli_usage("--mtp-only: %s has no MTP block",
		    qwen_synth_info(shape)->name);
	if (o->synth.mmproj && !qwen_synth_info(shape)->images)
		cli_usage("--mmproj: %s reads no images",
		    qwen_synth_info(shape)->name);
	if (o->synth.mmproj && (o->synth.n_expert || o->synth.n_vocab ||
	    o->synth.no_mtp || o->synth.mtp_only || o->vocab != NULL))
		cli_usage("--mmproj excludes --experts, --vocab-size, "
		    "--no-mtp, --mtp-only and --vocab");
	return shape;
}

static void
synth(size_t shape, struct opts *o)
{
	struct tool_model_out out;
	struct qwen_gguf *g = NULL;
	struct qwen_synth *s;
	int fd;

	if (!o->synth.mmproj)
		g = tool_gguf_open(o->vocab ? o->vocab :
		    tool_model_path_stream(NULL));
	o->synth.vocab = g;
	if (qwen_synth_new(&s, shape, &o->synth, &cli_err) < 0) {
		if (o->synth.mmproj && cli_err.code == QWEN_ERANGE)
			cli_usage("--mmproj: %s", cli_err.msg);
		if (cli_err.code == QWEN_EUNSUP)
			cli_usage("%s; --list-recipes shows the known ones",
			    cli_err.msg);
		cli_die_err(NULL, &cli_err);
	}
	fd = tool_model_out_open(&out, o->out, qwen_synth_writer(s));
	cli_must(out.name, qwen_synth_write(s, fd, &cli_err));
	tool_model_out_end(&out, qwen_synth_name(s));
	qwen_synth_free(s);
	qwen_gguf_close(g);
}

/* Write an adapter.  Its numbers are F32, F16 or BF16, as --recipe says. */
static void
synth_lora(const struct opts *o)
{
	static const struct { const char *name; uint32_t type; } plain[] = {
		{ "F32", 0 }, { "F16", 1 }, { "BF16", 30 } };
	struct qwen_synth_lora l = { .seed = o->synth.seed, .rank = o->rank,
	    .alpha = o->rank };
	const char *recipe = o->synth.recipe != NULL ? o->synth.recipe : "F32";
	struct qwen_gguf *g;
	struct cli_output *file;
	size_t i;

	for (i = 0; i < 3 && strcasecmp(recipe, plain[i].name) != 0;)
		i++;
	if (i == 3)
		cli_usage("--recipe: an adapter can be F32, F16 or BF16");
	l.type = plain[i].type;
	g = tool_gguf_open(o->lora);
	file = cli_output_open(o->out);
	cli_must(cli_output_name(file), qwen_synth_write_lora(g, &l,
	    cli_output_fd(file), &cli_err));
	cli_output_commit(file);
	qwen_gguf_close(g);
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);
	size_t shape = 0;

	if (opt.list)
		list_shapes();
	if (opt.list_recipes)
		list_recipes();
	if (opt.list || opt.list_recipes)
		return cli_finish();
	if ((n == 0) == (opt.lora == NULL))
		cli_usage(n == 0 ? "no shape given; --list shows the known ones"
		    : "--lora makes an adapter for an existing model: give no "
		    "shape");
	if (opt.synth.sparse && opt.out == NULL)
		cli_usage("--sparse needs -o: a pipe cannot have holes");
	if (opt.lora == NULL)
		shape = find_shape(argv[1], &opt);
	tool_model_out_check(opt.out);
	if (opt.lora != NULL)
		synth_lora(&opt);
	else
		synth(shape, &opt);
	return cli_finish();
}
