/* SPDX-License-Identifier: ISC */
/*
 * cli.h - what every tool does alike: options, messages, files, progress.
 * Only cmd/ uses it; it exits on errors, which the library never does.
 *
 * Exit status: 0 done; 1 the work failed (die, or warn on the way); 2 the
 * command line was wrong (cli_usage and everything that parses options).
 */
#ifndef CLI_H
#define CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/option.h"
#include "qwen.h"
#include "qwentext.h"

/* ----------------------------------------------------------- start and end */

/* First call of main: cli_begin, see option.h. */

/*
 * Last call of main: the exit status, 1 if there was a warning.  Flushes and
 * closes stdout first; when that fails (a full disk) it is an error.
 */
int cli_finish(void);

/*
 * Dies if a write to stdout by stdio failed.  Call it before writing more to
 * stdout: stdio resumes once there is room again, so later output would follow
 * right after the lost bytes.
 */
void cli_check_stdout(void);

/* --------------------------------------------------------------- messages */

/*
 * "name: message" on stderr, one line, what does not print masked.  The end, by
 * die() or, where the command line is wrong, by cli_usage(), which says "; see
 * name --help" too; or what is told on the way, and the status at the end:
 * a note, which -q silences, 0; a warning, 1; with cli_warn_part(), where all is
 * done and some of it is errors, 3, if it is not 1.
 */
void cli_exit(int status, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
void cli_message(int status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define die(...) cli_exit(1, __VA_ARGS__)
#define cli_usage(...) cli_exit(2, __VA_ARGS__)
#define cli_note(...) cli_message(0, __VA_ARGS__)
#define warn(...) cli_message(1, __VA_ARGS__)
#define cli_warn_part(...) cli_message(3, __VA_ARGS__)

/*
 * die("what: message of err"); without "what: " if what is NULL.  Silent if the
 * reader closed the pipe.
 */
void cli_die_err(const char *what, const struct qwen_err *err)
    __attribute__((noreturn));

/*
 * What the library said last, and a call that must not fail, as in
 * cli_must(path, qwen_gguf_open(&g, path, &cli_err)): what it returned, or
 * cli_die_err(what, &cli_err) where that is below 0.
 */
extern struct qwen_err cli_err;
int cli_must(const char *what, int rc);

/* Check or grow allocations; die without memory. */
void *cli_check_alloc(void *p);
void cli_grow(void *array, size_t *cap, size_t n, size_t size);

/* Formats a string, for free(); dies without memory. */
char *cli_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* "1 token", "2 tokens"; until the eighth call after this one. */
const char *cli_count(uint64_t n, const char *what);

extern int cli_verbose;		/* times -v */
extern int cli_quiet;		/* -q */

/* ---------------------------------------------------------------- numbers */

/*
 * Numbers, whole and within the limits, or a usage error that says what ("-n",
 * "--temp") was wrong and why.
 */
int64_t cli_int(const char *what, const char *s, int64_t min, int64_t max);
uint64_t cli_u64(const char *what, const char *s);
double cli_double(const char *what, const char *s, double min, double max);

/* Bytes: a number, and K, M, G or T, or KiB and so on, for powers of 1024. */
uint64_t cli_bytes(const char *what, const char *s, uint64_t min);

/* ------------------------------------------------------------------- files */

/* A descriptor, and what to call it; of "-" or NULL stdin; -1 and errno. */
int cli_open(const char *path, const char **name);

/*
 * All of a file, of at most max bytes, to free(), and a NUL after it; "-" is
 * stdin.  They die on errors.  No output may replace a file that these functions
 * or cli_open() have read.
 */
enum { CLI_FILE_MAX = 1 << 30 };

char *cli_read_file(const char *path, size_t max, size_t *n);
char *cli_read_fd(int fd, const char *name, size_t max, size_t *n);

/*
 * The same, but an output may replace the file, and NULL and errno are returned
 * if it cannot be read.
 */
char *cli_try_file(const char *path, size_t max, size_t *n);

/* --------------------------------------------------------- stdin and stdout */

enum cli_stdin {
	CLI_STDIN_NONE,		/* a terminal, /dev/null, or closed */
	CLI_STDIN_PIPE,		/* whatever a program may be behind */
	CLI_STDIN_FILE,		/* a regular file */
};

enum cli_stdin cli_stdin_kind(void);

/* Usage error if stdin is a terminal: no user types CBOR. */
void cli_need_stdin(void);

/*
 * Die if stdout is a terminal, which binary records would only confuse.  For
 * when no -f asked for them.
 */
void cli_no_binary_tty(void);

/* Text as a JSON string on stdout. */
void cli_json_string(const char *text);

/*
 * Writes untrusted text to stdout, harmless to terminals: controls are escaped
 * as by qwen_shown_char().
 */
void cli_show(const char *s, size_t n);

/*
 * The same on a stream for text of several lines: keeps line feeds, tabs and
 * joining characters.  If the stream is not a terminal, writes all bytes
 * unchanged.
 */
void cli_show_text(FILE *f, const char *s, size_t n);

/*
 * Write a text: how many bytes of it could be, and if not all errno.  Exits 1 if
 * the reader went away, and dies if the text failed.  The other one dies if
 * it cannot write all, to what is called name.
 */
size_t cli_write(int fd, const struct qwen_text *t);
void cli_write_all(int fd, const char *name, const struct qwen_text *t);

/* ------------------------------------------------------------ output files */

/*
 * A file that appears complete or not at all.  Bytes go to a temporary beside
 * the target; commit makes them durable and renames.  The temporary has one
 * name for each target and is locked while in use, so a run that was killed
 * leaves at most that one, and the next run takes it over.  It goes when
 * the program exits or dies by a signal before the commit.  A symbolic link
 * is followed.  A target that exists and is no regular file (/dev/null, a
 * FIFO) is opened and written in place; path NULL is stdout.
 *
 * All of these die on errors, but for the two that replace.
 */
struct cli_output;

/*
 * No output may replace this regular file, an open one or one by its path, under
 * any name.  what is for the message: "the model that is in use".  Needed only for
 * files that the command line does not name: the arguments of options, the
 * operands and stdin are known already (option.h).
 */
void cli_protect_fd(int fd, const char *what);
void cli_protect_input(const char *path, const char *what);

/* -1 and *err, "this is ...", if the open file is such an input. */
int cli_check_protected(int fd, struct qwen_err *err);

struct cli_output *cli_output_open(const char *path);
int cli_output_fd(const struct cli_output *o);
const char *cli_output_name(const struct cli_output *o);	/* for messages */
void cli_output_commit(struct cli_output *o);		/* and free */
void cli_output_cancel(struct cli_output *o);		/* likewise, but the
							   target stays */
/* For a handler of a signal that ends the tool: all drafts go. */
void cli_output_abandon(void);

/*
 * Commit, and begin with the next content of the same target, a regular file.
 * -1 and errno if the target is still what it was.  *was, a descriptor or -1, is
 * closed and becomes that of the target, to add to.
 */
int cli_output_replace(struct cli_output *o, int *was);

/*
 * Does all of that at once; returns -1 if it failed, and then the target is
 * unchanged.
 */
int cli_replace_file(const char *path, const struct qwen_text *t,
    struct qwen_err *err);

/* Forget what was written and begin again. */
void cli_output_rewind(struct cli_output *o);

/* Lock a file to write it in place; where another process writes it, die. */
void cli_lock(int fd, const char *name);

/* --------------------------------------------------------------- progress */

/*
 * "qprefill: 512/4096 tokens, 83.1 tok/s, 0:43 left" on stderr, if that is a
 * terminal, without -q, from the third second on.  total 0: not known.
 */
void cli_progress_start(const char *unit, uint64_t total);
void cli_progress(uint64_t done);
/*
 * Each unit takes longer than the one before it, by growth times what the first
 * one takes: for estimates of time.
 */
void cli_progress_grows(double growth);
/* Returns the seconds that all units will take, estimated when done of them are. */
double cli_progress_expect(uint64_t done);
/* Of bytes, in MiB, for what calls back; *started, an int, is 0 at first. */
void cli_progress_bytes(void *started, uint64_t done, uint64_t total);
/* So many of something else: ", 41.0 tok/s" in the next line. */
void cli_progress_also(uint64_t done, const char *unit);
/*
 * For long work: call it after start.  Unless -q is given, it prints a line of
 * progress every so often where stderr is not a terminal: seconds is the interval.
 */
void cli_progress_log(double seconds);
/* End, and wipe the line off the terminal; or end, and leave its last state. */
void cli_progress_end(void);
void cli_progress_keep(void);

/* Seconds since some fixed moment, for -v. */
double cli_now(void);

#endif
