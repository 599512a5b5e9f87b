/* SPDX-License-Identifier: ISC */
/* help.c - --help, and --help=list for completion. */
#include <ctype.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/internal.h"

enum { WIDTH = 79, COLUMN = 26 };

/* Prints "usage: qtok ...", one line per form. */
static void
put_usage(const struct cli_tool *t)
{
	const char *s = t->usage, *before = "usage:";
	int n;

	for (; *s != '\0'; s += n + (s[n] == '\n'), before = "      ") {
		n = (int)strcspn(s, "\n");
		printf("%s %s %.*s\n", before, t->name, n, s);
	}
	printf("\n%c%s.\n", toupper((unsigned char)t->about[0]), t->about + 1);
}

/* Prints words in lines that begin at COLUMN; the cursor is in column at. */
static void
put_words(const char *s, int at)
{
	int n;

	if (at > COLUMN - 2) {
		putchar('\n');
		at = 0;
	}
	printf("%*s", COLUMN - at, "");
	for (at = COLUMN; *s != '\0'; s += n + (s[n] == ' ')) {
		n = (int)strcspn(s, " ");
		if (n >= 7 && s[n] == ' ' &&	/* keep its value on the line */
		    strncmp(s + n - 7, "default", 7) == 0)
			n += 1 + (int)strcspn(s + n + 1, " ");
		if (at > COLUMN && at + 1 + n > WIDTH) {
			printf("\n%*s", COLUMN, "");
			at = COLUMN;
		}
		at += printf("%s%.*s", at > COLUMN ? " " : "", n, s);
	}
	putchar('\n');
}

/* Does the option take one of a few numbers, so that help lists them all? */
static int
has_few(const struct cli_opt *o)
{
	return o->kind == CLI_KIND_INT && o->max - o->min < 4 && o->min > 0;
}

/* Prints the help, and the possible values unless arg lists them. */
static void
put_help(const struct cli_opt *o, int at)
{
	const char *w = o->completes, *before = " (";
	const char *usual = strstr(o->help, " (default ");
	struct qwen_text t = { 0 };
	int64_t v;
	size_t n;

	qwen_text_fmt(&t, "%.*s", (int)(usual != NULL ? usual - o->help :
	    (ptrdiff_t)strlen(o->help)), o->help);
	for (v = o->min; has_few(o) && v <= o->max; v++, before = " or ")
		qwen_text_fmt(&t, "%s%lld", before, (long long)v);
	if (w == NULL || strncmp(w, "words ", 6) != 0 ||
	    strchr(o->arg, '|') != NULL)
		w = "";
	for (w += *w != '\0' ? 6 : 0; *w != '\0'; w += n + (w[n] == ' ')) {
		n = strcspn(w, " ");
		qwen_text_fmt(&t, "%s%.*s", before, (int)n, w);
		before = strchr(w + n + (w[n] == ' '), ' ') != NULL ? ", " :
		    " or ";
	}
	if (usual != NULL)	/* the default goes into the same brackets */
		qwen_text_fmt(&t, "%s%s", before[1] == '(' ? " (" : "; ",
		    usual + 2);
	else
		qwen_text_str(&t, before[1] == '(' ? "" : ")");
	put_words(cli_check_alloc(t.s), at);
	qwen_text_fini(&t);
}

static void
put_row(const struct cli_opt *o)
{
	char left[128];
	int n;

	if (o->kind == CLI_KIND_GROUP) {
		printf("\n%s\n", o->help);
		return;
	}
	n = snprintf(left, sizeof left, "  %c%c%c %s%s",
	    o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
	    o->letter && o->name ? ',' : ' ', o->name ? "--" : "",
	    o->name ? o->name : "");
	fputs(left, stdout);
	if (o->arg != NULL) {
		n += printf("%s", o->arg[0] == '[' ? "[=" : " ");
		for (const char *s = o->arg + (o->arg[0] == '['); *s != '\0'; s++, n++)
			putchar(strchr(o->arg, '|') ? *s : toupper((unsigned char)*s));
	}
	put_help(o, n);
}

/* Prints letter, long name, argument, kind and help, separated by tabs. */
static void
list_row(const struct cli_opt *o)
{
	if (o->kind == CLI_KIND_GROUP)
		return;
	if (o->letter != 0)
		printf("-%c\t", o->letter);
	else
		printf("-\t");
	printf("%s%s\t%s\t", o->name ? "--" : "-", o->name ? o->name : "",
	    o->arg ? o->arg : "-");
	if (has_few(o)) {
		fputs("words", stdout);
		for (int64_t v = o->min; v <= o->max; v++)
			printf(" %lld", (long long)v);
	} else
		fputs(o->completes ? o->completes : "-", stdout);
	printf("\t%s\n", o->help);
}

void
cli_help(int list)
{
	const struct cli_tool *t = cli_this_tool();
	const struct cli_opt *o;
	size_t i;

	if (list)
		printf("operands\t-\t-\t%s\t-\n", cli_operands(t));
	else
		put_usage(t);
	for (i = 0; (o = cli_opt_row(i)) != NULL; i++)
		(list ? list_row : put_row)(o);
}
