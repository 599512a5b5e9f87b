/* SPDX-License-Identifier: ISC */
/*
 * qstate.c - print, check, cut and compare states; manage the prefix store.
 * This file is the command line; qstate/ has the commands.
 */
#include <string.h>

#include "qstate/qstate.h"

#define O qstate_opt

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_FLAG(0, "json", &O.json, "print JSON"),
	CLI_OPT_THREADS(&O.state.n_threads),
	CLI_FLAG(0, "tokens", &O.tokens, "show: also print the tokens"),
	CLI_FLAG(0, "all", &O.all,
	    "diff: also compare checkpoints and options, or all stages; "
	    "rm: remove the whole store"),
	CLI_REAL(0, "within", "share", &O.within, 0.0, 1e9,
	    "diff: ignore relative differences up to SHARE in traces"),
	CLI_INT('n', "count", "count", &O.count, 1, INT64_MAX,
	    "slice: keep the first COUNT tokens"),
	CLI_FILE('m', "model", "model", &O.model, "file gguf",
	    "slice: model to read with; ls: model to print first words with"),
	TOOL_OPT_LORA,
	CLI_STD('o', "output", "state", &O.output, "output",
	    "slice, pack: write the state to this file instead of stdout"),
	CLI_FLAG(0, "no-checkpoints", &O.state.no_checkpoints,
	    "slice, pack: leave out the checkpoints"),
	TOOL_OPT_NO_COMPRESS(&O.state),
	TOOL_OPT_KV,
	TOOL_OPT_STORE_DIR(&O.store),
	TOOL_OPT_STORE_MAX(&O.store_max),
	CLI_FLAG(0, "remove", &O.remove, "verify: remove damaged files"),
	CLI_END,
};

/*
 * The commands, each with pointers to the variables of the options that it
 * takes.
 */
static const struct command {
	const char	*name;
	int		 min, max;	/* number of operands; max -1: any */
	const void	*takes[7];
	void		(*run)(char *operands[]);
} commands[] = {
	{ "show", 1, -1, { &O.json, &O.tokens }, qstate_show },
	{ "verify", 0, -1, { &O.state.n_threads, &O.json, &O.remove,
	  &O.store }, qstate_verify },
	{ "diff", 2, 2, { &O.all, &O.json, &O.within }, qstate_diff },
	{ "slice", 1, 1, { &O.count, &O.model, &tool_lora,
	  &O.state.n_threads, &O.output, &O.state.no_checkpoints,
	  &O.state.no_compress }, qstate_slice },
	{ "pack", 1, 1, { &O.state.n_threads, &O.output,
	  &O.state.no_checkpoints, &O.state.no_compress, &tool_kv[0],
	  &tool_kv[1] }, qstate_pack },
	{ "cat", 1, 1, { NULL }, qstate_cat },
	{ "ls", 0, 0, { &O.json, &O.store, &O.model }, qstate_ls },
	{ "du", 0, 0, { &O.json, &O.store }, qstate_du },
	{ "gc", 0, 0, { &O.json, &O.store, &O.store_max }, qstate_gc },
	{ "rm", 0, -1, { &O.all, &O.json, &O.store }, qstate_rm },
	{ NULL, 0, 0, { NULL }, NULL },
};

static const struct cli_tool tool = {
	.name = "qstate",
	.about = "print, check, cut and compare states; manage the prefix "
	    "store",
	.usage = "show [--tokens] [--json] state | trace ...\n"
	    "verify [-t threads] [--json] state ...\n"
	    "diff [--all] [--json] state1 state2\n"
	    "diff [--all] [--json] [--within share] trace1 trace2\n"
	    "slice -n count [options] state\n"
	    "pack [-o state] [--kv kind] [options] state\n"
	    "cat state\n"
	    "ls [--store folder] [-m model] [--json]\n"
	    "du [--store folder] [--json]\n"
	    "gc [--store folder] [--store-max size] [--json]\n"
	    "verify [-t threads] [--store folder] [--remove] [--json]\n"
	    "rm [--store folder] [--json] --all | prefix ...",
	.options = options, .max = -1, .command = 1,
	.completes = "commands show verify diff slice pack cat ls du gc rm",
};

static const struct command *
find_command(const char *name)
{
	const struct command *c;

	if (name == NULL)
		cli_usage("no command given");
	for (c = commands; c->name != NULL; c++) {
		if (strcmp(c->name, name) == 0)
			return c;
	}
	cli_usage("unknown command '%s'", name);
}

static int
takes(const struct command *c, const void *to)
{
	size_t i;

	for (i = 0; i < sizeof c->takes / sizeof c->takes[0]; i++) {
		if (c->takes[i] == to)
			return 1;
	}
	return 0;
}

/* Check options and operands; n counts the command and its operands. */
static void
check_options(const struct command *c, int n, char *operands[])
{
	const struct cli_opt *o;

	for (o = options; o->kind != CLI_KIND_END; o++) {
		if (cli_given(o->to) && !takes(c, o->to))
			cli_usage("--%s has no effect on %s", o->name,
			    c->name);
	}
	if (n - 1 < c->min)
		cli_usage("%s needs %s", c->name,
		    c->min > 1 ? "two states" : "a state");
	if (c->max >= 0 && n - 1 > c->max)
		cli_usage("unexpected argument: %s", operands[c->max]);
}

int
main(int argc, char *argv[])
{
	const struct command *c;
	int n;

	tool_kv[0] = tool_kv[1] = -1;	/* the KV cache types of the state */
	n = cli_begin(&tool, argc, argv);
	c = find_command(n > 0 ? argv[1] : NULL);
	check_options(c, n, argv + 2);
	c->run(argv + 2);
	return cli_finish();
}
