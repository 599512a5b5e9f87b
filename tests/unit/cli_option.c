/* SPDX-License-Identifier: ISC */
/* cli_option.c - the command line by tables: accepted and refused options. */
#include <sys/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"
#include "../tap.h"

enum { MANY = 300, WORDS_MAX = 16 };

static struct {
	int		 flag, other, level, word, many[MANY];
	unsigned	 bits;
	int64_t		 count;
	size_t		 size;
	uint64_t	 seed, bytes;
	double		 real;
	const char	*text, *file, *folder, *called;
	struct cli_list	 list;
} v;

static void
call(const struct cli_opt *o, const char *arg)
{
	*(const char **)o->to = arg;
}

/* Rows that are made when they are needed, as those of sampling are. */
static const struct cli_opt *
many_rows(void *to)
{
	static struct cli_opt rows[MANY + 1];
	static char names[MANY][16];
	int i;

	for (i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "x%03d", i);
		rows[i] = (struct cli_opt)CLI_INT(0, names[i], "n",
		    (int *)to + i, 0, MANY, "one of many");
	}
	return rows;
}

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_FLAG('a', "flag", &v.flag, "a flag"),
	CLI_FLAG('b', "flagship", &v.other, "a flag with a longer name"),
	CLI_SET(0, "four", &v.bits, 4, "a bit"),
	CLI_SET(0, "two", &v.bits, 2, "another bit"),
	CLI_INT('n', "count", "count", &v.count, 1, 100, "a number"),
	CLI_INT('l', "level", "level", &v.level, -2, 2, "a small number"),
	CLI_INT(0, "size", "size", &v.size, 1, INT64_MAX, "a large number"),
	CLI_U64(0, "seed", "n", &v.seed, "64 bits"),
	CLI_BYTES(0, "mem", "size", &v.bytes, 1024, "bytes"),
	CLI_REAL(0, "temp", "t", &v.real, 0, 2, "a real number"),
	CLI_TEXT('t', "text", "text", &v.text, "a text"),
	CLI_STD('o', "output", "file", &v.file, "output", "a file"),
	TOOL_OPT_STORE_DIR(&v.folder),
	CLI_WORD('f', "format", "format", &v.word, "cbor text json", "a word"),
	CLI_LIST(0, "reuse", "file", &v.list, "file", "a list"),
	CLI_CALL(0, "special", "text", &v.called, call, NULL, "called"),
	CLI_ROWS(v.many, many_rows),
	CLI_END,
};

static const struct cli_foreign foreign[] = {
	{ "port", "--seed HOST:PORT" }, { "ngl", "there are no layers to move" },
	{ "nx", "--seed" }, { "Y", "--seed" }, { "max-tokens", "--size" },
	{ NULL, NULL },
};

static struct cli_tool tool = {
	.name = "tool", .about = "a test", .usage = "[options] [file ...]",
	.options = options, .max = -1,
};

static char line[1024], *word[WORDS_MAX + 1];
static int n_operands;

/* Parse a command line, words between spaces. */
static void
parse(const char *text)
{
	int n = 0;
	char *p;

	free(v.list.v);
	memset(&v, 0, sizeof v);
	cli_quiet = cli_verbose = 0;
	snprintf(line, sizeof line, "tool %s", text);
	for (p = strtok(line, " "); p != NULL && n < WORDS_MAX;
	    p = strtok(NULL, " "))
		word[n++] = p;
	word[n] = NULL;
	n_operands = cli_begin(&tool, n, word);
}

/* The same elsewhere: whether it exits so, and says this and nothing else. */
static int
says(const char *text, int status, const char *want)
{
	static char got[1 << 16];
	size_t n = 0;
	ssize_t k;
	int fd[2], st;
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) == -1 || (pid = fork()) == -1)
		return 0;
	if (pid == 0) {
		dup2(fd[1], status == 2 ? STDERR_FILENO : STDOUT_FILENO);
		close(fd[0]);
		close(fd[1]);
		parse(text);
		_exit(99);
	}
	close(fd[1]);
	while ((k = read(fd[0], got + n, sizeof got - 1 - n)) > 0)
		n += (size_t)k;
	got[n] = '\0';
	close(fd[0]);
	waitpid(pid, &st, 0);
	if (status == 0)
		return WIFEXITED(st) && WEXITSTATUS(st) == 0 &&
		    strstr(got, want) != NULL;
	if (WIFEXITED(st) && WEXITSTATUS(st) == status &&
	    strncmp(got, "tool: ", 6) == 0 &&
	    strncmp(got + 6, want, strlen(want)) == 0 &&
	    strcmp(got + 6 + strlen(want), "; see tool --help\n") == 0)
		return 1;
	printf("# %s: %s", text, got);
	return 0;
}

static void
test_forms(void)
{
	parse("a -ab -n5 b --count=6 --level -1 -- -a c");
	ok(v.flag == 1 && v.other == 1 && v.count == 6 && v.level == -1,
	    "letters together, values with and without a space");
	ok(n_operands == 4 && strcmp(word[1], "a") == 0 &&
	    strcmp(word[2], "b") == 0 && strcmp(word[3], "-a") == 0 &&
	    strcmp(word[4], "c") == 0 && word[5] == NULL,
	    "operands in their order, before and after --");
	ok(cli_given(&v.count) == 2 && cli_given(&v.level) == 1 &&
	    cli_given(&v.text) == 0, "how often each was given");
	parse("-an7 -qvv -");
	ok(v.flag == 1 && v.count == 7 && cli_quiet && cli_verbose == 2 &&
	    n_operands == 1 && strcmp(word[1], "-") == 0,
	    "a value after letters; - is an operand");
	parse("--for text --flag --o F --forma=json");
	ok(v.word == 2 && v.flag == 1 && v.other == 0 && v.file != NULL,
	    "an abbreviation, and a name that begins another");
	setenv("POSIXLY_CORRECT", "1", 1);
	parse("-a x -b");
	ok(v.flag && !v.other && n_operands == 2, "POSIXLY_CORRECT");
	tool.command = 1;
	parse("-a x -b y -n 3");
	ok(v.other && v.count == 0 && n_operands == 4,
	    "POSIXLY_CORRECT after a command");
	tool.command = 0;
	unsetenv("POSIXLY_CORRECT");
}

static void
test_values(void)
{
	parse("--four --two --size 9223372036854775807 "
	    "--seed 18446744073709551615 --mem 3kiB --temp 1.5e0");
	ok(v.bits == 6 && v.size == INT64_MAX && v.seed == UINT64_MAX &&
	    v.bytes == 3072 && v.real == 1.5, "bits and numbers");
	parse("-t x -o - --store s --reuse a --reuse b --special y -f cbor");
	ok(strcmp(v.text, "x") == 0 && v.file == NULL &&
	    strcmp(v.folder, "s") == 0 && v.list.n == 2 &&
	    strcmp(v.list.v[1], "b") == 0 && strcmp(v.called, "y") == 0 &&
	    v.word == 0 && cli_given(&v.word) == 1,
	    "texts, lists, calls and words");
	parse("--x000 1 --x150=2 --x299 3");
	ok(v.many[0] == 1 && v.many[150] == 2 && v.many[299] == 3,
	    "hundreds of options");
}

static void
test_refused(void)
{
	static const char *const bad[][2] = {
		{ "--spcial", "unknown option --spcial (did you mean --special?)" },
		{ "--sede=5", "unknown option --sede (did you mean --seed?)" },
		{ "--temperature=1",
		  "unknown option --temperature (did you mean --temp?)" },
		{ "--max-tokens 1",
		  "unknown option --max-tokens (did you mean -n?)" },
		{ "--ctx-size 5", "unknown option --ctx-size" },
		{ "--zebra", "unknown option --zebra" },
		{ "-special", "unknown option -s (did you mean --special?)" },
		{ "-aZ", "unknown option -Z" },
		{ "--fla", "option --fla is ambiguous: --flag or --flagship" },
		{ "--n 5", "unknown option --n (did you mean -n?)" },
		{ "--t=x", "option --t is ambiguous: -t or --two" },
		{ "--s 1", "option --s is ambiguous: --size or --seed" },
		{ "--flag=1", "option --flag takes no argument" },
		{ "--count", "option --count needs an argument" },
		{ "-an", "option -n needs an argument" },
		{ "-n 0", "-n: 0 is not in 1..100" },
		{ "-n 101", "-n: 101 is not in 1..100" },
		{ "-n 99999999999999999999",
		  "-n: 99999999999999999999 is not in 1..100" },
		{ "-n 5x", "-n: not a number: '5x'" },
		{ "-l -3", "-l: -3 is not in -2..2" },
		{ "--size 0", "--size: 0 is below 1" },
		{ "--seed -1", "--seed: not a number: '-1'" },
		{ "--mem 1023", "--mem: 1023 is below 1024" },
		{ "--mem 5X", "--mem: '5X' is not a number of bytes, as in 500M, 20G "
		  "or 20GiB (units K, M, G, T)" },
		{ "--mem 5GB", "--mem: '5GB' is not a number of bytes, as in 500M, "
		  "20G or 20GiB (units K, M, G, T)" },
		{ "--mem 5iB", "--mem: '5iB' is not a number of bytes, as in 500M, "
		  "20G or 20GiB (units K, M, G, T)" },
		{ "--temp 2.5", "--temp: 2.5 is not in 0..2" },
		{ "--temp nan", "--temp: not a number: 'nan'" },
		{ "--store=", "--store: the name of the folder is empty" },
		{ "-f xml", "-f: 'xml' is not one of cbor, text and json" },
		{ "-f tex", "-f: 'tex' is not one of cbor, text and json" },
		{ "--x150 301", "--x150: 301 is not in 0..300" },
	};
	size_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(says(bad[i][0], 2, bad[i][1]), "refused: %s", bad[i][0]);
	tool.max = 1;
	ok(says("a b", 2, "unexpected argument: b"), "too many operands");
	tool.max = -1;
}

/* What the tool itself knows of the options of other programs. */
static void
test_foreign(void)
{
	static const char *const bad[][2] = {
		{ "--port=5",
		  "unknown option --port (did you mean --seed HOST:PORT?)" },
		{ "--por=5", "unknown option --por" },
		{ "-ngl 5", "unknown option -ngl (there are no layers to move)" },
		{ "-nx=5", "unknown option -nx (did you mean --seed?)" },
		{ "-n x", "-n: not a number: 'x'" },
		{ "-ngo", "-n: not a number: 'go'" },
		{ "-Y5", "unknown option -Y (did you mean --seed?)" },
		{ "-aY", "unknown option -Y (did you mean --seed?)" },
		{ "--max-tokens 1",
		  "unknown option --max-tokens (did you mean --size?)" },
		{ "--sede=5", "unknown option --sede (did you mean --seed?)" },
	};
	size_t i;

	tool.foreign = foreign;
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(says(bad[i][0], 2, bad[i][1]), "others say: %s", bad[i][0]);
	tool.foreign = NULL;
}

static void
test_help(void)
{
	ok(says("-h", 0, "usage: tool [options] [file ...]\n\nA test.\n\n"
	    "options:\n  -a, --flag              a flag\n"), "-h: the head");
	ok(says("--help", 0, "\n      --x299 N            one of many\n"),
	    "--help shows the last of many");
	ok(says("--help=list", 0, "operands\t-\t-\tfile\t-\n"
	    "-a\t--flag\t-\t-\ta flag\n"), "--help=list: the head");
	ok(says("--help=list", 0,
	    "\n-f\t--format\tformat\twords cbor text json\ta word\n"),
	    "--help=list: words");
	ok(says("-V", 0, "tool " QWEN_VERSION), "-V");
}

int
main(void)
{
	test_forms();
	test_values();
	test_refused();
	test_foreign();
	test_help();
	free(v.list.v);
	return done_testing();
}
