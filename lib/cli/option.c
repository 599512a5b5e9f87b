/* SPDX-License-Identifier: ISC */
/* option.c - the command line, over getopt_long. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/internal.h"

enum { MAX_OPTIONS = 64 };

static const struct cli_option common[] = {
	{ 'h', "help", 0 },
	{ 'q', "quiet", 0 },
	{ 'v', "verbose", 0 },
	{ 'V', "version", 0 },
	{ 0, NULL, 0 },
};

/* What getopt wants, made once from the tables. */
static struct {
	int		 ready;
	size_t		 n;
	struct option	 longs[MAX_OPTIONS + 1];
	char		 shorts[2 * MAX_OPTIONS + 2];
} spec;

static void
add_table(const struct cli_option *t)
{
	size_t len;

	for (; t != NULL && t->c != 0; t++) {
		if (spec.n == MAX_OPTIONS)
			abort();
		if (t->name != NULL) {
			spec.longs[spec.n].name = t->name;
			spec.longs[spec.n].has_arg = t->arg;
			spec.longs[spec.n].val = t->c;
			spec.n++;
		}
		if (t->c < 256) {
			len = strlen(spec.shorts);
			spec.shorts[len] = (char)t->c;
			if (t->arg)
				spec.shorts[len + 1] = ':';
		}
	}
}

/*
 * getopt has seen argv[optind - 1], or is inside a cluster of letters there or
 * at argv[optind].
 */
static void
complain(char *argv[], int c)
{
	const char *word = argv[optind - 1];

	if (optopt > 0 && optopt < 256 && strncmp(word, "--", 2) != 0) {
		if (c == ':')
			cli_usage("option -%c needs an argument", optopt);
		cli_usage("unknown option -%c", optopt);
	}
	if (c == ':')
		cli_usage("option %s needs an argument", word);
	cli_usage("unknown option %s", word);
}

static void
print_version(void)
{
	printf("%s %s (libqwen %s)\n", cli_name, QWEN_VERSION, QWEN_VERSION);
}

int
cli_getopt(int argc, char *argv[], const struct cli_option *a,
    const struct cli_option *b, const char **arg, int *operand)
{
	int c;

	if (!spec.ready) {
		spec.shorts[0] = ':';
		add_table(a);
		add_table(b);
		add_table(common);
		spec.ready = 1;
		opterr = 0;
	}
	for (;;) {
		c = getopt_long(argc, argv, spec.shorts, spec.longs, NULL);
		switch (c) {
		case 'q':
			cli_quiet = 1;
			continue;
		case 'v':
			cli_verbose++;
			continue;
		case 'h':
			cli_print_usage(0);
			exit(cli_finish());
		case 'V':
			print_version();
			exit(cli_finish());
		case '?':
		case ':':
			complain(argv, c);
		}
		*arg = optarg;
		*operand = optind;
		return c;
	}
}

void
cli_no_operands(int argc, char *argv[], int operand)
{
	if (operand < argc)
		cli_usage("unexpected argument: %s", argv[operand]);
}
