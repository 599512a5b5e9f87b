/* SPDX-License-Identifier: ISC */
/* message.c - lines on stderr: die, warn, note, usage. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/internal.h"

const char *cli_name = "qpipe";
int cli_status;
const char *cli_default_from;
int cli_verbose;
int cli_quiet;
struct qwen_err cli_err;

/* more is appended to the message. */
static void __attribute__((format(printf, 1, 0)))
message(const char *fmt, va_list ap, const char *more)
{
	char buf[4096 + 512];	/* a path and an error message */

	vsnprintf(buf, sizeof buf, fmt, ap);
	qwen_utf8_mask(buf);
	cli_progress_wipe();
	/* one call, so that lines of different tools do not mix */
	fprintf(stderr, "%s: %s%s%s%s\n", cli_name, cli_default_from != NULL ?
	    cli_default_from : "", cli_default_from != NULL ? ": " : "", buf,
	    more);
}

void
cli_exit(int status, const char *fmt, ...)
{
	char see[64] = "";
	va_list ap;

	if (status == 2 && cli_default_from == NULL)
		snprintf(see, sizeof see, "; see %s --help", cli_name);
	va_start(ap, fmt);
	message(fmt, ap, see);
	va_end(ap);
	/* an error in a file is not a usage error */
	exit(cli_default_from != NULL ? 1 : status);
}

void
cli_message(int status, const char *fmt, ...)
{
	va_list ap;

	if (status == 0 && cli_quiet)
		return;
	va_start(ap, fmt);
	message(fmt, ap, "");
	va_end(ap);
	if (status == 1 || cli_status == 0)
		cli_status = status;
}

void
cli_die_err(const char *what, const struct qwen_err *err)
{
	if (err->code == QWEN_EPIPE)
		exit(1);
	if (what == NULL)
		die("%s", err->msg);
	die("%s: %s", what, err->msg);
}

void
cli_die_oom(const struct qwen_err *err)
{
	if (err->code == QWEN_ENOMEM)
		cli_die_err(NULL, err);
}

int
cli_must(const char *what, int rc)
{
	if (rc < 0)
		cli_die_err(what, &cli_err);
	return rc;
}

void *
cli_check_alloc(void *p)
{
	if (p == NULL)
		cli_must(NULL, qwen_oom(&cli_err));
	return p;
}

const char *
cli_opt_name(const struct cli_opt *o)
{
	static char name[80];

	if (o->letter != 0)
		snprintf(name, sizeof name, "-%c", o->letter);
	else
		snprintf(name, sizeof name, "--%s", o->name);
	return name;
}

const char *
cli_env(const char *name)
{
	const char *s = getenv(name);

	return s != NULL && s[0] != '\0' ? s : NULL;
}

const char *
cli_count(uint64_t n, const char *what)
{
	static char text[8][48];
	static unsigned at;
	char *s = text[at++ % 8];

	snprintf(s, sizeof text[0], "%" PRIu64 " %s%s", n, what,
	    n == 1 ? "" : "s");
	return s;
}

void
cli_grow(void *array, size_t *cap, size_t n, size_t size)
{
	if (qwen_grow(array, cap, n, size) < 0)
		cli_must(NULL, qwen_oom(&cli_err));
}
