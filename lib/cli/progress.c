/* SPDX-License-Identifier: ISC */
/* progress.c - the progress line on stderr. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/internal.h"

static const double quiet_s = 2.0;	/* no line for short work */
static const double step_s = 0.2;
static const double log_s = 60;	/* between log lines of cli_progress_bytes */

static struct {
	int		 on;
	const char	*unit;
	uint64_t	 total;
	const char	*also;		/* unit of a second count, or NULL */
	uint64_t	 also_done;
	double		 growth;	/* cost added by each further unit,
					   relative to the first unit's cost */
	double		 start_s;
	double		 next_s;
	double		 log_s;		/* between log lines; 0: stderr is a
					   terminal */
	uint64_t	 done;
	int		 width;		/* of the line shown now */
} line;

void
cli_progress_start(const char *unit, uint64_t total)
{
	memset(&line, 0, sizeof line);
	line.on = !cli_quiet && isatty(STDERR_FILENO);
	line.unit = unit;
	line.total = total;
	line.start_s = cli_now();
	line.next_s = line.start_s + quiet_s;
}

void
cli_progress_grows(double growth)
{
	line.growth = growth;
}

/* Returns the cost of n units, in units of the first one's cost. */
static double
cost(double n)
{
	return n + line.growth * n * n / 2;
}

double
cli_progress_expect(uint64_t done)
{
	return (cli_now() - line.start_s) * cost((double)line.total) /
	    cost((double)done);
}

/* Formats ", 1:02 left". */
static void
time_left(char *buf, size_t size, double seconds)
{
	uint64_t s = seconds < 1e9 ? (uint64_t)(seconds + 0.5) : 1000000000;

	if (s >= 3600)
		snprintf(buf, size, ", %" PRIu64 ":%02u:%02u left", s / 3600,
		    (unsigned)(s / 60 % 60), (unsigned)(s % 60));
	else
		snprintf(buf, size, ", %u:%02u left", (unsigned)(s / 60),
		    (unsigned)(s % 60));
}

void
cli_progress_log(double seconds)
{
	if (line.on || cli_quiet)
		return;
	line.on = 1;
	line.log_s = seconds;
	line.next_s = line.start_s + seconds;
}

/* Formats "qbatch: 3/40 items, 0.3 items/s, 41.0 tok/s", and the time left. */
static int
format(char *buf, size_t size, double now)
{
	char of[32] = "", left[48] = "", also[64] = "";
	double took = now > line.start_s ? now - line.start_s : 1e-9;

	if (line.total > 0) {
		snprintf(of, sizeof of, "/%" PRIu64, line.total);
		if (line.done > 0 && line.done < line.total)
			time_left(left, sizeof left,
			    cli_progress_expect(line.done) - took);
	}
	if (line.also != NULL)
		snprintf(also, sizeof also, ", %.1f %s/s",
		    (double)line.also_done / took, line.also);
	return snprintf(buf, size, "%s: %" PRIu64 "%s %s, %.1f %s/s%s%s",
	    cli_name, line.done, of, line.unit, (double)line.done / took,
	    strcmp(line.unit, "tokens") == 0 ? "tok" : line.unit, also, left);
}

/* Prints the line: on a terminal over the previous one, in a log below it. */
static void
print_line(double now)
{
	char buf[512];
	int n = format(buf, sizeof buf, now);

	if (line.log_s > 0) {
		fprintf(stderr, "%s\n", buf);
		return;
	}
	fprintf(stderr, "\r%s", buf);
	if (n < line.width)
		fprintf(stderr, "%*s", line.width - n, "");
	if (n > line.width)
		line.width = n;
	fflush(stderr);
}

void
cli_progress(uint64_t done)
{
	double now;

	line.done = done;
	if (!line.on || (now = cli_now()) < line.next_s)
		return;
	line.next_s = now + (line.log_s > 0 ? line.log_s : step_s);
	print_line(now);
}

void
cli_progress_bytes(void *started, uint64_t done, uint64_t total)
{
	int *p = started;

	if (!*p) {
		cli_progress_start("MiB", total >> 20);
		cli_progress_log(log_s);
	}
	*p = 1;
	cli_progress(done >> 20);
}

void
cli_progress_also(uint64_t done, const char *unit)
{
	line.also = unit;
	line.also_done = done;
}

void
cli_progress_wipe(void)
{
	if (line.width == 0)
		return;
	fprintf(stderr, "\r%*s\r", line.width, "");
	fflush(stderr);
	line.width = 0;
}

void
cli_progress_end(void)
{
	cli_progress_wipe();
	line.on = 0;
}

void
cli_progress_keep(void)
{
	if (line.on && line.width > 0) {
		print_line(cli_now());
		fputc('\n', stderr);
		line.width = 0;
	}
	line.on = 0;
}
