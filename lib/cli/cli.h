/* SPDX-License-Identifier: ISC */
/*
 * cli.h - options, messages, files and progress, the same in every tool.  Only
 * cmd/ and lib/tool use it; it exits on errors, which the library never does.
 *
 * Exit status: 0 success; 1 an error (die) or a warning (warn); 2 a usage error
 * (cli_usage and everything that parses options); 3 done, but parts of the work
 * failed (cli_warn_part).
 */
#ifndef CLI_H
#define CLI_H

#include <stdio.h>

#include "base/text.h"
#include "cli/option.h"
#include "qwen.h"
#include "qwentext.h"

/* ----------------------------------------------------------- start and end */

/* The first call of main is cli_begin, see option.h. */

/*
 * Last call of main: returns the exit status.  Flushes and closes stdout first;
 * dies if that fails, as on a full disk.
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
 * Print one line on stderr, "name: message", with control characters masked.
 *
 * die		 prints an error and exits with status 1
 * cli_usage	 prints a usage error, adds "; see name --help", and exits
 *		 with status 2
 * cli_note	 prints a note, unless -q is given
 * warn		 prints a warning; the exit status will be 1
 * cli_warn_part	 prints a warning that part of the work failed; the exit
 *		 status will be 3, or 1 after warn
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
 * Dies with the message of err, after "what: " if what is not NULL.  Prints
 * nothing if the error is that the reader closed the pipe.
 */
void cli_die_err(const char *what, const struct qwen_err *err)
    __attribute__((noreturn));

/* The same, but only if memory ran out: callers can handle all other errors. */
void cli_die_oom(const struct qwen_err *err);

/*
 * cli_err holds the last error of the library. cli_must(path,
 * qwen_gguf_open(&g, path, &cli_err)) returns the function's result, or calls
 * cli_die_err(path, &cli_err) if the result is negative.
 */
extern struct qwen_err cli_err;
int cli_must(const char *what, int rc);

/* Check or grow an allocation; die if out of memory. */
void *cli_check_alloc(void *p);
void cli_grow(void *array, size_t *cap, size_t n, size_t size);

/* Returns an environment variable; NULL if it is unset or empty. */
const char *cli_env(const char *name);

/* Formats a string, to be freed with free(); dies if out of memory. */
#define cli_format(...) ((char *)cli_check_alloc(qwen_format(__VA_ARGS__)))

/* Returns n as printf's %llu needs it. */
static inline unsigned long long
cli_llu(uint64_t n)
{
	return n;
}

/* Returns "1 token", "2 tokens"; valid until the eighth call after this one. */
const char *cli_count(uint64_t n, const char *what);

extern int cli_verbose;		/* number of -v */
extern int cli_quiet;		/* -q */

/* ---------------------------------------------------------------- numbers */

/*
 * Parse a number within the limits; usage error otherwise. what is the option's
 * name for the message, "-n" or "--temp".
 */
int64_t cli_int(const char *what, const char *s, int64_t min, int64_t max);
uint64_t cli_u64(const char *what, const char *s);
double cli_double(const char *what, const char *s, double min, double max);

/* Parses a number of bytes; K, M, G, T (or KiB ...) are powers of 1024. */
uint64_t cli_bytes(const char *what, const char *s, uint64_t min);

/*
 * Copies the next word of a list with commas, as far as it has room, and moves
 * *s past it.  Returns 1, or 0 after the last word, where *s is NULL.
 */
int cli_next_word(const char **s, char *word, size_t size);

/* ------------------------------------------------------------------- files */

/*
 * Opens a file for reading; NULL or "-" is stdin. *name is its name for
 * messages.  Returns -1 with errno set on failure.
 */
int cli_open(const char *path, const char **name);

/*
 * Read a whole file of at most max bytes into memory for free(), with a NUL
 * after it; "-" is stdin.  Die on errors.  Outputs are not allowed to replace a
 * file that these functions or cli_open() have read.
 */
enum { CLI_FILE_MAX = 1 << 30 };

char *cli_read_file(const char *path, size_t max, size_t *n);
char *cli_read_fd(int fd, const char *name, size_t max, size_t *n);

/*
 * The same, but an output may replace the file, and failure is NULL with errno
 * set.
 */
char *cli_try_file(const char *path, size_t max, size_t *n);

/*
 * Creates a file in $TMPDIR, or in /tmp, whose name begins with name; writes its
 * path to path, of size bytes.  Returns a descriptor; dies on errors.
 */
int cli_temporary(const char *name, char *path, size_t size);

/* Reads up to n bytes.  Returns their number, 0 at the end; dies on errors. */
size_t cli_read(int fd, const char *name, void *buf, size_t n);

/* Returns 1 if both paths name the same file, which exists. */
int cli_same_file(const char *a, const char *b);

/* --------------------------------------------------------- stdin and stdout */

enum cli_stdin {
	CLI_STDIN_NONE,		/* a terminal, /dev/null, or closed */
	CLI_STDIN_PIPE,		/* a pipe, socket or device */
	CLI_STDIN_FILE,		/* a regular file */
};

enum cli_stdin cli_stdin_kind(void);

/* Usage error if stdin is a terminal: no user types CBOR. */
void cli_need_stdin(void);

/* Dies if stdout is a terminal: for binary output not requested by -f. */
void cli_no_binary_tty(void);

/* Writes text to stdout as a JSON string. */
void cli_json_string(const char *text);

/*
 * Writes untrusted text to stdout with control characters escaped, as by
 * qwen_shown_char(), so that it cannot control a terminal.
 */
void cli_show(const char *s, size_t n);

/*
 * The same for text of several lines, to a stream: keeps line feeds, tabs and
 * zero width joiners.  If the stream is not a terminal, writes all bytes
 * unchanged.
 */
void cli_show_text(FILE *f, const char *s, size_t n);

/*
 * cli_write writes a text and returns the number of bytes written; if that is
 * less than t->n, errno is set.  It exits with status 1 if the reader closed
 * the pipe and dies if building the text failed. cli_write_all also dies if it
 * cannot write everything; name is for the message.
 */
size_t cli_write(int fd, const struct qwen_text *t);
void cli_write_all(int fd, const char *name, const struct qwen_text *t);

/* ------------------------------------------------------------ output files */

/*
 * An output file that appears complete or not at all.  Bytes go to a temporary
 * file beside the target; commit makes them durable and renames the file.  Each
 * target has one name of temporary file, which is locked while in use: a killed
 * run leaves at most that file, and the next run reuses it.  The temporary file
 * is removed if the tool exits or dies by a signal before the commit.  A
 * symbolic link is followed.  A target that exists and is not a regular file
 * (/dev/null, a FIFO) is written in place; path NULL is stdout.
 *
 * All functions die on errors, except cli_output_replace and cli_replace_file.
 */
struct cli_output;

/*
 * Protect a regular file, open or by path, from being replaced by an output,
 * under any of its names. what is for the message, "the model that is in use".
 * Needed only for files that the command line does not name: option arguments,
 * operands and stdin are protected already (option.h).
 */
void cli_protect_fd(int fd, const char *what);
void cli_protect_input(const char *path, const char *what);

/* Returns -1 with *err set, "this is ...", if the open file is protected. */
int cli_check_protected(int fd, struct qwen_err *err);

struct cli_output *cli_output_open(const char *path);
int cli_output_fd(const struct cli_output *o);
/* Returns the name for messages. */
const char *cli_output_name(const struct cli_output *o);
void cli_output_commit(struct cli_output *o);		/* also frees o */
void cli_output_cancel(struct cli_output *o);		/* the same, but
							   discards the output;
							   the target is
							   unchanged */
/* Removes all temporary files; for handlers of signals that end the tool. */
void cli_output_abandon(void);

/*
 * Handles SIGINT and SIGTERM by this function from now on, each unless the tool
 * was started with the signal ignored.  flags is as in struct sigaction.
 */
void cli_on_signals(void (*handler)(int sig), int flags);

/*
 * Commits, and begins the next content of the same target, a regular file.
 * Returns -1 with errno set if the target is unchanged.  Closes *was, a
 * descriptor or -1, and sets it to the committed target's, to append to.
 */
int cli_output_replace(struct cli_output *o, int *was);

/*
 * Replaces the whole content of a file; returns -1 if that failed and the
 * target is unchanged.
 */
int cli_replace_file(const char *path, const struct qwen_text *t,
    struct qwen_err *err);

/* Discards what was written and begins again. */
void cli_output_rewind(struct cli_output *o);

/* Locks a file to write it in place; dies if another process writes it. */
void cli_lock(int fd, const char *name);

/* --------------------------------------------------------------- progress */

/*
 * Show "qprefill: 512/4096 tokens, 83.1 tok/s, 0:43 left" on stderr if stderr
 * is a terminal and -q is not given, after two seconds. total 0: unknown.
 */
void cli_progress_start(const char *unit, uint64_t total);
void cli_progress(uint64_t done);
/*
 * For estimates of time: each unit takes longer than the one before it, by
 * growth times the time of the first unit.
 */
void cli_progress_grows(double growth);
/* Returns the estimated seconds for all units, when `done' of them are done. */
double cli_progress_expect(uint64_t done);
/* Shows bytes in MiB, for callbacks; *started is an int, 0 at first. */
void cli_progress_bytes(void *started, uint64_t done, uint64_t total);
/* Also shows the rate of a second count: ", 41.0 tok/s". */
void cli_progress_also(uint64_t done, const char *unit);
/*
 * For long work, after start: if stderr is not a terminal, prints one progress
 * line every `seconds' seconds, unless -q is given.
 */
void cli_progress_log(double seconds);
/*
 * End the display: cli_progress_end erases the line, cli_progress_keep leaves
 * it.
 */
void cli_progress_end(void);
void cli_progress_keep(void);

/* Returns seconds since some fixed moment. */
double cli_now(void);

#endif
