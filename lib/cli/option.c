/* SPDX-License-Identifier: ISC */
/* option.c - parses the command line by the rows of the tool. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/internal.h"
#include "qwen/base.h"

static const char commit[] =
#include "commit.inc"
;

/* --help=list is for completion and tests. */
static void
help(const struct cli_opt *o, const char *arg)
{
	if (arg != NULL && strcmp(arg, "list") != 0)
		cli_usage("option --%s takes no argument", o->name);
	cli_help(arg != NULL);
	exit(cli_finish());
}

static void
version(const struct cli_opt *o, const char *arg)
{
	const char *digit;

	(void)o;
	(void)arg;
	printf("%s %s (%s%s%snumerics", cli_name, QWEN_VERSION,
	    commit[0] != '\0' ? "commit " : "", commit,
	    commit[0] != '\0' ? ", " : "");
	for (digit = QWEN_NUMERICS_ALL; *digit != '\0'; digit++)
		printf(" %c", *digit);
	puts(")");
	exit(cli_finish());
}

static const struct cli_opt common[] = {
	CLI_GROUP("in every tool:"),
	{ CLI_ROW(COUNT, 'v', "verbose", NULL, &cli_verbose,
	    "print more on stderr") },
	CLI_FLAG('q', "quiet", &cli_quiet, "print no notes and no progress"),
	CLI_CALL('h', "help", NULL, &cli_status, help, NULL,
	    "print this help; the manual page says more"),
	CLI_CALL('V', "version", NULL, &cli_status, version, NULL,
	    "print version, commit and numerics versions"),
	CLI_END,
};

/* All option rows: the tool's, those from functions, and the common ones. */
static struct {
	const struct cli_tool	 *tool;
	const struct cli_opt	**row;
	size_t			  n, cap;
	struct given {
		const struct cli_opt	*row;
		const char		*arg;
	}			 *given;	/* in order of use */
	size_t			  n_given, cap_given;
} spec;

static void
add_rows(const struct cli_opt *o)
{
	for (; o->kind != CLI_KIND_END; o++) {
		if (o->kind == CLI_KIND_ROWS) {
			add_rows(o->rows(o->to));
			continue;
		}
		cli_grow(&spec.row, &spec.cap, spec.n + 1, sizeof *spec.row);
		spec.row[spec.n++] = o;
	}
}

const struct cli_opt *
cli_opt_row(size_t i)
{
	return i < spec.n ? spec.row[i] : NULL;
}

const struct cli_tool *
cli_this_tool(void)
{
	return spec.tool;
}

int
cli_given(const void *to)
{
	size_t i;
	int n = 0;

	for (i = 0; i < spec.n_given; i++)
		n += spec.given[i].row->to == to;
	return n;
}

/* ------------------------------------------------------------------- values */

/* Stores v, which is in the range of the target. */
static void
put_int(const struct cli_opt *o, int64_t v)
{
	int32_t small = (int32_t)v;

	memcpy(o->to, o->size == sizeof small ? (void *)&small : (void *)&v,
	    o->size);
}

/* Stores the index of arg among "words a b c". */
static void
put_word(const struct cli_opt *o, const char *arg)
{
	const char *w = strchr(o->completes, ' ');
	char list[256] = "";
	size_t n, len = strlen(arg), used = 0;
	int i;

	for (i = 0; w != NULL; w = w[n] == ' ' ? w + n : NULL, i++) {
		w++;
		n = strcspn(w, " ");
		if (n == len && memcmp(w, arg, n) == 0) {
			put_int(o, i);
			return;
		}
		used += (size_t)snprintf(list + used, sizeof list - used,
		    "%s%.*s", i == 0 ? "" : w[n] == ' ' ? ", " : " and ",
		    (int)n, w);
	}
	cli_usage("%s: '%s' is not one of %s", cli_opt_name(o), arg, list);
}

static void
put_text(const struct cli_opt *o, const char *arg)
{
	if (strlen(arg) < (size_t)o->min)
		cli_usage("%s: the name of the %s is empty", cli_opt_name(o),
		    o->arg);
	if (o->kind == CLI_KIND_STD && strcmp(arg, "-") == 0)
		arg = NULL;
	*(const char **)o->to = arg;
}

void
cli_set(const struct cli_opt *o, const char *arg)
{
	const char *name = cli_opt_name(o);
	struct cli_list *l = o->to;

	switch (o->kind) {
	case CLI_KIND_FLAG: *(unsigned *)o->to |= (unsigned)o->max; break;
	case CLI_KIND_COUNT: ++*(int *)o->to; break;
	case CLI_KIND_INT: put_int(o, cli_int(name, arg, o->min, o->max)); break;
	case CLI_KIND_U64: *(uint64_t *)o->to = cli_u64(name, arg); break;
	case CLI_KIND_REAL:
		*(double *)o->to = cli_double(name, arg, o->low, o->high);
		break;
	case CLI_KIND_BYTES:
		*(uint64_t *)o->to = cli_bytes(name, arg, (uint64_t)o->min);
		break;
	case CLI_KIND_TEXT:
	case CLI_KIND_STD: put_text(o, arg); break;
	case CLI_KIND_WORD: put_word(o, arg); break;
	case CLI_KIND_LIST:
		cli_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v);
		l->v[l->n++] = arg;
		break;
	case CLI_KIND_CALL: o->call(o, arg); break;
	case CLI_KIND_END:
	case CLI_KIND_GROUP:
	case CLI_KIND_ROWS: break;
	}
}

static void
set(size_t i, const char *arg)
{
	cli_grow(&spec.given, &spec.cap_given, spec.n_given + 1,
	    sizeof *spec.given);
	spec.given[spec.n_given++] = (struct given){ spec.row[i], arg };
	cli_set(spec.row[i], arg);
}

void
cli_default(const char *from, const char *name, size_t n, const char *arg)
{
	const struct cli_opt *o;
	size_t i, k;

	for (i = 0; i < spec.n; i++) {
		o = spec.row[i];
		if (n == 1 ? o->letter != name[0] : o->name == NULL ||
		    strncmp(o->name, name, n) != 0 || o->name[n] != '\0')
			continue;
		for (k = 0; k < spec.n_given && spec.given[k].row != o; k++)
			;
		/* -c may be another option here, without an argument */
		if (k < spec.n_given || (o->arg == NULL) != (arg == NULL))
			continue;
		cli_default_from = from;
		cli_set(o, arg);
		cli_default_from = NULL;
	}
}

void
cli_set_again(const char *prefix)
{
	const struct cli_opt *o;
	size_t i;

	for (i = 0; i < spec.n_given; i++) {
		o = spec.given[i].row;
		if (o->name != NULL && strncmp(o->name, prefix,
		    strlen(prefix)) == 0)
			cli_set(o, spec.given[i].arg);
	}
}

/* ------------------------------------------------------------------ parsing */

static void __attribute__((noreturn))
unknown(const char *word, size_t len, const char *hint)
{
	if (hint == NULL)
		cli_usage("unknown option %.*s", (int)len, word);
	cli_usage("unknown option %.*s (%s%s%s", (int)len, word, hint[0] == '-' ?
	    "did you mean " : "", hint, hint[0] == '-' ? "?)" : ")");
}

static size_t
find_letter(char c)
{
	size_t i;

	for (i = 0; i < spec.n && spec.row[i]->letter != c; i++)
		;
	return i;
}

/* Returns the row of a long option or of an unambiguous abbreviation. */
static size_t
find_long(const char *word, size_t len)
{
	const char *name = word + 2, *s;
	size_t i, found = spec.n, letter = spec.n;

	for (i = 0; i < spec.n; i++) {
		s = spec.row[i]->name;
		if (s != NULL && strncmp(s, name, len) == 0 && s[len] == '\0')
			return i;
	}
	if (len == 1)
		found = letter = find_letter(name[0]);
	for (i = 0; i < spec.n; i++) {
		s = spec.row[i]->name;
		if (i == letter || s == NULL || strncmp(s, name, len) != 0)
			continue;
		if (found < spec.n)
			cli_usage("option %.*s is ambiguous: %s%.*s or --%s",
			    (int)len + 2, word, found == letter ? "-" : "--",
			    found == letter ? 1 : INT_MAX, found == letter ?
			    name : spec.row[found]->name, s);
		found = i;
	}
	s = found < spec.n ? spec.row[found]->name : NULL;
	if (s == NULL || strncmp(s, name, len) != 0)
		unknown(word, len + 2, found < spec.n ?
		    cli_opt_name(spec.row[found]) : cli_hint(name));
	return found;
}

/* Takes --name, --name=value or --name value; returns the next argv index. */
static int
take_long(char *argv[], int i)
{
	const char *name = argv[i] + 2, *value;
	size_t len = strcspn(name, "="), k = find_long(argv[i], len);
	const struct cli_opt *o = spec.row[k];

	value = name[len] == '=' ? name + len + 1 : NULL;
	if (value != NULL && o->arg == NULL && o->call != help)
		cli_usage("option --%s takes no argument", o->name);
	if (value == NULL && o->arg != NULL && o->arg[0] != '[' &&
	    (value = argv[++i]) == NULL)
		cli_usage("option --%s needs an argument", o->name);
	set(k, value);
	return i + 1;
}

/* Takes -abc, -n5 or -n 5; returns the next index in argv. */
static int
take_letters(char *argv[], int i)
{
	const char *word = argv[i], *s, *value, *hint;
	size_t k, n = strcspn(word + 1, "=");
	char bad[3] = "-";

	/* -ngl may be a long option of another program */
	if (n > 1 && (hint = cli_foreign(word + 1, n)) != NULL)
		unknown(word, n + 1, hint);
	for (s = word + 1; *s != '\0'; s++) {
		bad[1] = *s;
		if ((k = find_letter(*s)) == spec.n)
			unknown(bad, 2, (hint = cli_foreign(s, 1)) != NULL ?
			    hint : cli_hint(word + 1));
		if (spec.row[k]->arg == NULL) {
			set(k, NULL);
			continue;
		}
		value = s[1] != '\0' ? s + 1 : argv[++i];
		if (value == NULL)
			cli_usage("option %s needs an argument", bad);
		set(k, value);
		break;
	}
	return i + 1;
}

const char *
cli_operands(const struct cli_tool *t)
{
	return t->max == 0 ? "-" : t->completes != NULL ? t->completes : "file";
}

/*
 * Protects the files that the command line names for reading; dies if it names
 * one of them as an output.
 */
static void
check_files(char *operands[])
{
	const struct given *g, *end = spec.given + spec.n_given;
	size_t i;

	for (g = spec.given; g < end; g++)
		cli_add_input(g->row->completes, g->arg, NULL, g->row);
	for (i = 0; spec.tool->max != 0 && operands[i] != NULL; i++)
		cli_add_input(cli_operands(spec.tool), operands[i],
		    "an input of this run", NULL);
	cli_check_stdio(spec.tool->appends);
	for (g = spec.given; g < end; g++)
		cli_check_output(g->row, g->arg);
}

int
cli_begin(const struct cli_tool *t, int argc, char *argv[])
{
	int posix = getenv("POSIXLY_CORRECT") != NULL, stop = 0, i = 1, n = 0;
	size_t k;

	cli_start(t->name);
	spec.tool = t;
	spec.n = spec.n_given = 0;
	add_rows(t->options);
	add_rows(common);
	while (i < argc && !stop && strcmp(argv[i], "--") != 0) {
		if (argv[i][0] == '-' && argv[i][1] != '\0') {
			i = (argv[i][1] == '-' ? take_long : take_letters)
			    (argv, i);
			continue;
		}
		argv[++n] = argv[i++];
		stop = posix && (n > 1 || !t->command);
	}
	if (i < argc && strcmp(argv[i], "--") == 0)
		i++;
	while (i < argc)
		argv[++n] = argv[i++];
	if (n + 1 < argc)
		argv[n + 1] = NULL;
	if (t->max >= 0 && n > t->max)
		cli_usage("unexpected argument: %s", argv[t->max + 1]);
	for (k = 0; k < spec.n; k++) {
		if (spec.row[k]->ready != NULL)
			spec.row[k]->ready(spec.row[k]);
	}
	check_files(argv + 1);
	return n;
}
