/* SPDX-License-Identifier: ISC */
/*
 * cli.h - common code of all tools: options, messages, files, progress.
 * Only cmd/ and lib/tool use it. These functions exit on errors; the library
 * never does.
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
 * Print "name: message" on stderr, in one line, with unprintable bytes masked.
 * die() then exits with status 1; cli_usage(), for a wrong command line, adds
 * "; see name --help" and exits with 2. The other macros return, and set the
 * status of cli_finish(): cli_note(), which -q silences, leaves it at 0; warn()
 * sets 1; cli_warn_part(), for results of which some are errors, sets 3 unless
 * it is 1.
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
 * die("what: message of err"), without "what: " if what is NULL.  Prints nothing
 * if the error is that the reader of stdout closed the pipe.
 */
void cli_die_err(const char *what, const struct qwen_err *err)
    __attribute__((noreturn));

/*
 * cli_err holds the library's last error.  cli_must() returns rc, or calls
 * cli_die_err(what, &cli_err) if rc is below 0, as in
 * cli_must(path, qwen_gguf_open(&g, path, &cli_err)).
 */
extern struct qwen_err cli_err;
int cli_must(const char *what, int rc);

/* Check or grow allocations; die without memory. */
void *cli_check_alloc(void *p);
void cli_grow(void *array, size_t *cap, size_t n, size_t size);

/* Formats a string, for free(); dies without memory. */
char *cli_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns "1 token", "2 tokens"; valid until the eighth call after this one. */
const char *cli_count(uint64_t n, const char *what);

extern int cli_verbose;		/* times -v */
extern int cli_quiet;		/* -q */

/* ---------------------------------------------------------------- numbers */

/*
 * Return the number in s.  A usage error, which names what ("-n", "--temp"), if s
 * is not a number or not within the limits.
 */
int64_t cli_int(const char *what, const char *s, int64_t min, int64_t max);
uint64_t cli_u64(const char *what, const char *s);
double cli_double(const char *what, const char *s, double min, double max);

/* Bytes: a number, and K, M, G or T, or KiB and so on, for powers of 1024. */
uint64_t cli_bytes(const char *what, const char *s, uint64_t min);

/* ------------------------------------------------------------------- files */

/*
 * Opens a file for reading; path "-" or NULL is stdin.  Returns the descriptor
 * and sets *name to the name for messages; -1 and errno on failure.
 */
int cli_open(const char *path, const char **name);

/*
 * Return the whole file with a NUL after it, to free(); "-" is stdin.  Die on
 * errors, also if the file has more than max bytes.  No output may replace a file
 * that these functions or cli_open() have read.
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

/* Dies if stdout is a terminal: for binary output that no -f asked for. */
void cli_no_binary_tty(void);

/* Writes text to stdout as a JSON string. */
void cli_json_string(const char *text);

/*
 * Writes untrusted text to stdout, harmless to terminals: controls are escaped
 * as by qwen_shown_char().
 */
void cli_show(const char *s, size_t n);

/*
 * The same to f, for text of several lines: keeps line feeds, tabs and joining
 * characters.  If f is not a terminal, writes all bytes unchanged.
 */
void cli_show_text(FILE *f, const char *s, size_t n);

/*
 * Writes a text to fd.  Returns the number of bytes written, with errno if that is
 * not all of them.  Exits with 1 if the reader closed the pipe; dies if memory ran
 * out while the text was made.  cli_write_all() dies, naming name, unless it
 * writes all.
 */
size_t cli_write(int fd, const struct qwen_text *t);
void cli_write_all(int fd, const char *name, const struct qwen_text *t);

/* ------------------------------------------------------------ output files */

/*
 * A file that appears complete or not at all.  Bytes go to a temporary beside
 * the target; commit makes them durable and renames.  The temporary has one
 * name for each target and is locked while in use, so a run that was killed
 * leaves at most that one, and the next run takes it over.  The temporary is
 * removed when the program exits or dies by a signal before the commit.  A
 * symbolic link is followed.  A target that exists and is no regular file
 * (/dev/null, a FIFO) is opened and written in place; path NULL is stdout.
 *
 * All of these functions die on errors, except cli_output_replace() and
 * cli_replace_file().
 */
struct cli_output;

/*
 * From now on no output may replace this regular file, given by a descriptor or a
 * path, under any of its names.  what is for the error message: "the model that is
 * in use".  Needed only for files that the command line does not name: option.h
 * protects the arguments of options, the operands and stdin.
 */
void cli_protect_fd(int fd, const char *what);
void cli_protect_input(const char *path, const char *what);

/* Returns -1 with *err, "this is ...", if the open file is protected. */
int cli_check_protected(int fd, struct qwen_err *err);

struct cli_output *cli_output_open(const char *path);
int cli_output_fd(const struct cli_output *o);
const char *cli_output_name(const struct cli_output *o);	/* for messages */
void cli_output_commit(struct cli_output *o);	/* replaces the target; frees o */
void cli_output_cancel(struct cli_output *o);	/* keeps the target; frees o */
/* Removes all temporaries: for the handler of a signal that ends the tool. */
void cli_output_abandon(void);

/*
 * Commits, and begins the next content of the same target, a regular file.
 * Returns -1 with errno if the target could not be replaced.  Closes *was, a
 * descriptor or -1, and sets it to a descriptor of the target, for appending.
 */
int cli_output_replace(struct cli_output *o, int *was);

/*
 * Opens, writes and commits at once.  Returns -1 with *err, and the target
 * unchanged, if that failed.
 */
int cli_replace_file(const char *path, const struct qwen_text *t,
    struct qwen_err *err);

/* Drops the bytes written so far. */
void cli_output_rewind(struct cli_output *o);

/* Locks a file to write it in place; dies if another process has the lock. */
void cli_lock(int fd, const char *name);

/* --------------------------------------------------------------- progress */

/*
 * Show "qprefill: 512/4096 tokens, 83.1 tok/s, 0:43 left" on stderr from the third
 * second on, if stderr is a terminal and -q is not given.  total 0: unknown.
 */
void cli_progress_start(const char *unit, uint64_t total);
void cli_progress(uint64_t done);
/*
 * For estimates of time: each unit takes longer than the one before it, by growth
 * times the time of the first one.
 */
void cli_progress_grows(double growth);
/* Returns the estimated seconds for all units, when done of them are done. */
double cli_progress_expect(uint64_t done);
/* A progress callback that counts MiB; *started, an int, must begin as 0. */
void cli_progress_bytes(void *started, uint64_t done, uint64_t total);
/* Adds a second count to the next line: ", 41.0 tok/s". */
void cli_progress_also(uint64_t done, const char *unit);
/*
 * For long work, called after start: if stderr is not a terminal and -q is not
 * given, prints a line of progress at this interval.
 */
void cli_progress_log(double seconds);
/* End the progress line: the first wipes it, the second leaves it standing. */
void cli_progress_end(void);
void cli_progress_keep(void);

/* Returns seconds since a fixed moment. */
double cli_now(void);

#endif
