/* SPDX-License-Identifier: ISC */
/*
 * tool.h - what the tools that run a model share: opening models, reading
 * tokens and lines, sampling, and the option rows for these.  Only cmd/ uses
 * it.  Like lib/cli, which it calls, it exits on errors: "dies" below means one
 * line on stderr and exit status 1.
 */
#ifndef TOOL_H
#define TOOL_H

#include "tool/rows.h"
#include "tool/sampling.h"
#include "tool/work.h"

/* ---------------------------------------------------------------- streams */

/*
 * tool_writer opens a writer; tool_write_header writes the header of a stream
 * of model m.  They die.
 */
struct qwen_writer *tool_writer(int fd, enum qwen_format format);
void tool_write_header(struct qwen_writer *w, enum qwen_stream_kind kind,
    const struct qwen_model *m);

/*
 * Reads the *n ids of a token stream, to be freed, also after an error; stops
 * when it has at least `need'.  Returns -1 and *err on failure; dies if out of
 * memory.
 */
int tool_read_ids(int fd, const struct qwen_reader_opts *o, size_t need,
    int32_t **ids, size_t *n, struct qwen_err *err);

/*
 * Reads the *n ids of a token stream, to be freed, also after an error; stops
 * when it has at least `need'.  Returns -1 and *err on failure; dies if out of
 * memory.
 */
int tool_read_ids(int fd, const struct qwen_reader_opts *o, size_t need,
    int32_t **ids, size_t *n, struct qwen_err *err);

/*
 * Returns what the n bytes at the beginning of an input are, such as "a GGUF
 * model file", or NULL if they may be text.  Text need not be UTF-8. nuls:
 * bytes of value 0 are allowed in text.
 */
const char *tool_not_text(const void *p, size_t n, int nuls);

/* ----------------------------------------------------------------- servers */

/*
 * Raises the limit of open descriptors to what is needed, as far as allowed;
 * returns the limit.
 */
uint64_t tool_fd_limit(uint64_t need);

/* Descriptors for poll(2); all zero at first, to be filled anew each time. */
struct pollfd;
struct tool_polled {
	struct pollfd	*fd;
	size_t		 n, cap;
};

void tool_poll_add(struct tool_polled *p, int fd, short events);

/* Returns the number of ready descriptors; ms as in poll(2).  Dies. */
int tool_poll(struct tool_polled *p, int ms);

/*
 * Removes n bytes, which were sent, from a text: *at is where the bytes to send
 * begin.
 */
void tool_sent(struct qwen_text *t, size_t *at, size_t n);

/* Makes a descriptor close on exec and nonblocking; -1 with errno set. */
int tool_fd_prepare(int fd);

/*
 * Returns a descriptor that becomes readable when SIGTERM or SIGINT arrives; a
 * second signal ends the process.  SIGPIPE is ignored from then on.  Dies.
 */
int tool_wake_open(void);

/*
 * Notes that the server is ending and waits until the n requests in progress
 * are `what': "done" or "answered".
 */
void tool_report_ending(size_t n, const char *what);

/*
 * Listens at a path that the users admitted by mode may open, and returns the
 * descriptor.  Replaces a socket that no process listens at.  Dies.
 * tool_socket_close also removes the path.
 */
int tool_socket_listen(const char *path, unsigned mode);
void tool_socket_close(int fd, const char *path);

/*
 * Accepts the next client: returns its descriptor, nonblocking and
 * close-on-exec; -1 with errno set if there is none.
 */
int tool_socket_accept(int listener);

/* ------------------------------------------------------------------- lines */

enum { TOOL_LINE_MAX = 16 << 20 };	/* bytes */

/* A reader of lines of any length; it stores at most max bytes of a line. */
struct tool_lines {
	int		 fd;
	const char	*name;		/* for messages */
	size_t		 max;		/* bytes of a line; 0: TOOL_LINE_MAX */
	char		*buf;
	size_t		 n, at, cap;
	uint64_t	 line;		/* number of the last line, from 1 */
	uint64_t	 offset;	/* of the byte after that line */
	int		 torn;		/* the last line had no newline */
	int		 eof;
};

struct tool_line {
	const char	*s;		/* without the newline; valid until the
					   next call; NULL if the line is too
					   long */
	size_t		 n;		/* length; if s is NULL, the limit */
};

/* Opens a file; NULL is stdin.  Dies. */
void tool_lines_open(struct tool_lines *l, const char *file);

/*
 * Dies if the line is the first one and does not look like text.  The message
 * is "NAME: this is KIND, not HINT".
 */
void tool_lines_check(const struct tool_lines *l, const struct tool_line *line,
    const char *hint);

/* Reads the next line: returns 1, or 0 at the end.  Dies if reading fails. */
int tool_lines_next(struct tool_lines *l, struct tool_line *out);

/* Returns 1 if the line has only white space; 0 if it is too long. */
int tool_line_is_blank(const struct tool_line *line);

/* Returns 1 if tool_lines_next would not wait for input. */
int tool_lines_waiting(const struct tool_lines *l);

/*
 * Returns the number of newlines after the current offset of a regular file;
 * the offset does not change. 0 for a file without offsets.
 */
uint64_t tool_lines_count(int fd);

void tool_lines_fini(struct tool_lines *l);

/* ----------------------------------------------------------------- network */

/*
 * Call this before a host name is looked up.  In a static tool it limits the lookup
 * to /etc/hosts and DNS; otherwise it does nothing.
 */
void tool_network_init(void);

/*
 * Returns the file of CA certificates that a static tool passes to libcurl:
 * $SSL_CERT_FILE, or the one of the distribution that it runs on.  NULL if there is
 * none, and in tools that are not static, whose libcurl knows the file.
 */
const char *tool_ca_file(void);

#endif
