/* SPDX-License-Identifier: ISC */
/*
 * option.h - the options of a tool as rows.  A row is the only description of
 * an option: parsing, --help, hints, completion and the check of the manual
 * page use it.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stddef.h>
#include <stdint.h>

enum cli_kind {
	CLI_KIND_END,		/* after the last row */
	CLI_KIND_GROUP,		/* a heading of --help */
	CLI_KIND_ROWS,		/* more rows, from a function */
	CLI_KIND_FLAG,		/* no argument: *to |= max */
	CLI_KIND_COUNT,		/* no argument: *to += 1 */
	CLI_KIND_INT,		/* min to max; 4 or 8 bytes */
	CLI_KIND_U64,
	CLI_KIND_REAL,		/* low to high; a double */
	CLI_KIND_BYTES,		/* at least min; uint64_t */
	CLI_KIND_TEXT,		/* const char *, at least min bytes */
	CLI_KIND_STD,		/* the same; "-" is NULL, stdin or stdout */
	CLI_KIND_WORD,		/* index among the words; int or an enum */
	CLI_KIND_LIST,		/* struct cli_list; each use adds one */
	CLI_KIND_CALL,		/* call(row, argument) */
};

struct cli_opt {
	enum cli_kind	 kind;
	char		 letter;	/* or 0 */
	const char	*name;		/* long form, without dashes */
	const char	*arg;		/* name of the argument, or NULL;
					   "[text]": optional, --name=text (only
					   for CALL) */
	const char	*help;		/* its help line; of a GROUP, the
					   heading */
	/*
	 * The kind of the argument: "file", a file that is read, which no
	 * output may replace; "inout", a file that is read, which only the
	 * option "output" may replace; "output", a file that is written.  Each
	 * may have a suffix, "file gguf".  Other kinds matter only for
	 * completion: "folder"; "shapes" and "recipes" (of gguf-synth); "types"
	 * (of gguf-quantize); "tensors" (of the model); "words a b c".  NULL:
	 * none.
	 */
	const char	*completes;
	void		*to;
	size_t		 size;		/* of *to */
	int64_t		 min, max;
	double		 low, high;
	void		(*call)(const struct cli_opt *o, const char *arg);
	const struct cli_opt *(*rows)(void *to);
	/* called after the whole command line was read; or NULL */
	void		(*ready)(const struct cli_opt *o);
};

struct cli_list {
	const char	**v;		/* owned; the strings are borrowed */
	size_t		 n, cap;
};

/* p points to the value; a pointer to another type does not compile. */
#define CLI_P(type, p) (1 ? (p) : (type *)0)
#define CLI_ROW(k, l, n, a, p, h) .kind = CLI_KIND_##k, .letter = (l), \
	.name = (n), .arg = (a), .to = (p), .size = sizeof *(p), .help = (h)

#define CLI_GROUP(h) { .kind = CLI_KIND_GROUP, .help = (h) }
#define CLI_END { .kind = CLI_KIND_END }
#define CLI_ROWS(p, f) { .kind = CLI_KIND_ROWS, .to = (p), .rows = (f) }
#define CLI_SET(l, n, p, v, h) \
	{ CLI_ROW(FLAG, l, n, NULL, p, h), .max = (v) }
#define CLI_FLAG(l, n, p, h) CLI_SET(l, n, CLI_P(int, p), 1, h)
#define CLI_INT(l, n, a, p, lo, hi, h) \
	{ CLI_ROW(INT, l, n, a, p, h), .min = (lo), .max = (hi) }
#define CLI_U64(l, n, a, p, h) \
	{ CLI_ROW(U64, l, n, a, CLI_P(uint64_t, p), h) }
#define CLI_REAL(l, n, a, p, lo, hi, h) \
	{ CLI_ROW(REAL, l, n, a, CLI_P(double, p), h), .low = (lo), .high = (hi) }
#define CLI_BYTES(l, n, a, p, lo, h) \
	{ CLI_ROW(BYTES, l, n, a, CLI_P(uint64_t, p), h), .min = (lo) }
#define CLI_TEXT(l, n, a, p, h) \
	{ CLI_ROW(TEXT, l, n, a, CLI_P(const char *, p), h) }
#define CLI_FILE(l, n, a, p, comp, h) \
	{ CLI_ROW(TEXT, l, n, a, CLI_P(const char *, p), h), .completes = (comp) }
#define CLI_STD(l, n, a, p, comp, h) \
	{ CLI_ROW(STD, l, n, a, CLI_P(const char *, p), h), .completes = (comp) }
#define CLI_WORD(l, n, a, p, w, h) \
	{ CLI_ROW(WORD, l, n, a, p, h), .completes = "words " w }
#define CLI_LIST(l, n, a, p, comp, h) \
	{ CLI_ROW(LIST, l, n, a, CLI_P(struct cli_list, p), h), .completes = (comp) }
#define CLI_CALL(l, n, a, p, f, comp, h) \
	{ CLI_ROW(CALL, l, n, a, p, h), .call = (f), .completes = (comp) }

/* Options with the same meaning in every tool that has them. */
#define CLI_OPT_THREADS(p) \
	CLI_INT('t', "threads", "threads", p, 0, 1024, \
	    "threads; 0: one per processor or core (default 0)")
#define CLI_OPT_FORMAT(p, w, h) CLI_WORD('f', "format", "format", p, w, h)
#define CLI_OPT_TEMPLATE(p) CLI_FILE(0, "template", "name", p, \
	"words qwen3 qwen3.5 qwen3.6 qwen3.6-ud qwen3.8 qwen3-coder", \
	"use this chat template (name or file) instead of the model's")
#define CLI_OPT_SPECIAL(p) CLI_SET(0, "special", p, QWEN_TOK_SPECIAL, \
	"read names of control tokens in text as these tokens")
/* The value is 0 for on, 1 for off. */
#define CLI_OPT_THINK(p) CLI_WORD(0, "think", "on | off", CLI_P(int, p), \
	"on off", "turn thinking on or off, if the template can")
/*
 * A hint for an option of other programs that the tool does not have.  If it
 * begins with a dash, it is the option to use instead, "--listen HOST:PORT";
 * else it is a sentence that says why the option does not exist.
 */
struct cli_foreign {
	const char	*name;		/* "port" of --port, "c" of -c, "ngl" of
					   -ngl; NULL after the last one */
	const char	*hint;
};

/* A tool and its command line. */
struct cli_tool {
	const char	*name;
	const char	*about;		/* one line, as in its manual page */
	const char	*usage;		/* "[options] [file ...]", one line per
					   form */
	const struct cli_opt *options;	/* all except -q, -v, -h and -V */
	int		 max;		/* most operands; -1: any number */
	int		 command;	/* the first operand is a command */
	const char	*completes;	/* the kind of the operands, as in
					   struct cli_opt */
	const struct cli_foreign *foreign;	/* or NULL */
	int		 appends;	/* reads all of stdin before it
					   writes stdout, which may be the
					   same file */
};

/*
 * First call of main.  Parses the command line like getopt_long(3): long
 * options may be abbreviated, options may follow operands, -- ends the options.
 * --help, --version and errors exit.  Returns the number of operands: argv[1]
 * and so on, then NULL.
 */
int cli_begin(const struct cli_tool *t, int argc, char *argv[]);

/*
 * Sets an option from its argument, NULL if it takes none; exits if the
 * argument is wrong.  For callers whose rows are not the tool's own.
 */
void cli_set(const struct cli_opt *o, const char *arg);

/*
 * Sets an option to a default that becomes known only after the command line
 * was read. name is its long name or letter, n bytes.  Does nothing if the
 * command line has the option, or if the tool has no such option that takes an
 * argument (arg is NULL: takes none). cli_given() does not count it. from is
 * the source of the default, for error messages; an error exits with status 1.
 */
void cli_default(const char *from, const char *name, size_t n, const char *arg);

/*
 * Sets the options of the command line whose names begin with prefix again, in
 * their order: for a default that has set the same variables by another name.
 */
void cli_set_again(const char *prefix);

/* Returns how often an option with this target is on the command line. */
int cli_given(const void *to);

/* Returns our name for an option of other programs, n bytes; or NULL. */
const char *cli_our_name(const char *name, size_t n);

/*
 * Returns the nearest to word of the names name(0), name(1), ..., which end
 * with NULL; NULL if none is near.
 */
const char *cli_nearest(const char *word, const char *(*name)(size_t i));

/* Returns the option's name for messages: "-n", "--temp". */
const char *cli_opt_name(const struct cli_opt *o);

#endif
