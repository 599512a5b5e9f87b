/* SPDX-License-Identifier: ISC */
/*
 * qstate.c - states in files, and the prefix store: look, check, cut, compare.
 * This is the command line; the commands are in qstate/.
 */
#include <string.h>

#include "qstate/qstate.h"

static const char usage[] =
    "qstate show [-qv] [--tokens] [--json] state ...\n"
    "       qstate verify [-qv] [-t threads] [--json] state ...\n"
    "       qstate diff [-qv] [--all] [--json] state1 state2\n"
    "       qstate slice -n count [-qv] [-m model] [-t threads] [-o state]\n"
    "              [--no-checkpoints] [--no-compress] state\n"
    "       qstate pack [-qv] [-o state] [--no-checkpoints] [--no-compress]\n"
    "              state\n"
    "       qstate cat [-qv] state\n"
    "       qstate ls [-qv] [--store folder] [--json]\n"
    "       qstate du [-qv] [--store folder] [--json]\n"
    "       qstate gc [-qv] [--store folder] [--store-max size] [--json]\n"
    "       qstate verify [-qv] [-t threads] [--store folder] [--remove] [--json]\n"
    "       qstate rm [-qv] [--store folder] [--json] --all | prefix ...\n";

enum { O_ALL = 256, O_JSON, O_NO_CHECKPOINTS, O_NO_COMPRESS, O_REMOVE, O_STORE,
    O_STORE_MAX, O_TOKENS };

static const struct cli_option options[] = {
	{ 'm', "model", 1 },
	{ 'n', "count", 1 },
	{ 'o', "output", 1 },
	{ 't', "threads", 1 },
	{ O_ALL, "all", 0 },
	{ O_JSON, "json", 0 },
	{ O_NO_CHECKPOINTS, "no-checkpoints", 0 },
	{ O_NO_COMPRESS, "no-compress", 0 },
	{ O_REMOVE, "remove", 0 },
	{ O_STORE, "store", 1 },
	{ O_STORE_MAX, "store-max", 1 },
	{ O_TOKENS, "tokens", 0 },
	{ 0, NULL, 0 },
};

struct qstate_opts qstate_opt;

enum command { SHOW, VERIFY, DIFF, SLICE, PACK, CAT, LS, DU, GC, RM,
    N_COMMANDS };

static const struct {
	const char	*name;
	int		 min, max;	/* operands; max -1: any number */
	const char	*takes;		/* letters of the options */
} commands[N_COMMANDS] = {
	[SHOW] = { "show", 1, -1, "JT" },
	[VERIFY] = { "verify", 0, -1, "tJRS" },
	[DIFF] = { "diff", 2, 2, "AJ" },
	[SLICE] = { "slice", 1, 1, "nmtoKC" },
	[PACK] = { "pack", 1, 1, "oKC" },
	[CAT] = { "cat", 1, 1, "" },
	[LS] = { "ls", 0, 0, "JS" },
	[DU] = { "du", 0, 0, "JS" },
	[GC] = { "gc", 0, 0, "JSM" },
	[RM] = { "rm", 0, -1, "AJS" },
};

/* What the table above calls an option. */
static char
letter(int c)
{
	static const char big[] = "AJKCRSMT";	/* from O_ALL on */

	return c < O_ALL ? (char)c : big[c - O_ALL];
}

static void
set_option(int c, const char *arg)
{
	switch (c) {
	case 'm': qstate_opt.model = arg; break;
	case 'n':
		qstate_opt.count = (uint64_t)cli_int("-n", arg, 1, INT64_MAX);
		qstate_opt.count_given = 1;
		break;
	case 'o': qstate_opt.output = strcmp(arg, "-") == 0 ? NULL : arg; break;
	case 't': qstate_opt.n_threads = cli_threads(arg); break;
	case O_ALL: qstate_opt.all = 1; break;
	case O_JSON: qstate_opt.json = 1; break;
	case O_NO_CHECKPOINTS: qstate_opt.state.no_checkpoints = 1; break;
	case O_NO_COMPRESS: qstate_opt.state.no_compress = 1; break;
	case O_REMOVE: qstate_opt.remove = 1; break;
	case O_STORE: qstate_opt.store = arg; break;
	case O_STORE_MAX:
		qstate_opt.store_max = cli_bytes("--store-max", arg);
		if (qstate_opt.store_max == 0)
			cli_usage("--store-max: to remove all, use rm --all");
		break;
	case O_TOKENS: qstate_opt.tokens = 1; break;
	}
}

static enum command
find_command(const char *name)
{
	int i;

	for (i = 0; i < N_COMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return (enum command)i;
	}
	cli_usage("no command '%s'", name);
}

static const char *
option_name(int c)
{
	size_t i;

	for (i = 0; options[i].c != c; i++)
		;
	return options[i].name;
}

static void
check_options(enum command cmd, const int *seen, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strchr(commands[cmd].takes, letter(seen[i])) == NULL)
			cli_usage("--%s has no meaning for %s",
			    option_name(seen[i]), commands[cmd].name);
	}
}

/* The command, and its operands in *operands. */
static enum command
parse(int argc, char *argv[], char ***operands)
{
	int seen[64], c, operand, first = 0;
	const char *arg, *name = NULL;
	enum command cmd;
	size_t n = 0;

	/* the word goes first, but --help and the like need none */
	if (argc > 1 && argv[1][0] != '-') {
		name = argv[1];
		first = 1;
	}
	while ((c = cli_getopt(argc - first, argv + first, options, NULL, &arg,
	    &operand)) != -1) {
		set_option(c, arg);
		if (n < sizeof seen / sizeof seen[0])
			seen[n++] = c;
	}
	operand += first;
	if (name == NULL && operand < argc)
		name = argv[operand++];
	if (name == NULL)
		cli_usage("which command?");
	cmd = find_command(name);
	check_options(cmd, seen, n);
	if (argc - operand < commands[cmd].min)
		cli_usage("%s needs %s", cmd == DIFF ? "diff" : name,
		    cmd == DIFF ? "two states" : "a state");
	if (commands[cmd].max >= 0)
		cli_no_operands(argc, argv, operand + commands[cmd].max);
	*operands = argv + operand;
	return cmd;
}

int
main(int argc, char *argv[])
{
	char **operands;

	cli_init("qstate", usage);
	switch (parse(argc, argv, &operands)) {
	case SHOW: qstate_show(operands); break;
	case VERIFY: qstate_verify(operands); break;
	case LS: qstate_ls(); break;
	case DU: qstate_du(); break;
	case GC: qstate_gc(); break;
	case RM: qstate_rm(operands); break;
	case DIFF: return qstate_diff(operands);
	case SLICE: qstate_slice(operands); break;
	case PACK: qstate_pack(operands); break;
	case CAT: qstate_cat(operands); break;
	case N_COMMANDS: break;
	}
	return cli_finish();
}
