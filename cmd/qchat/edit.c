/* SPDX-License-Identifier: ISC */
/* edit.c - edit input lines on a terminal with libedit. */
#define _XOPEN_SOURCE 700	/* wcwidth() */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/utf8.h"
#include "qchat.h"

#include <histedit.h>

enum { HISTORY = 1000, MARK = 48 };

static struct {
	EditLine	*el;
	History		*history;
	FILE		*out;
	const char	*prompt;
	int		 pastes;	/* bracketed paste is available */
	struct qwen_text *pasted;	/* texts that stand for the marks in
					   this line */
	size_t		 n, cap;
	unsigned char	 typed[4];	/* bytes of an incomplete character */
	size_t		 n_typed;
	int		 has_bad_utf8;	/* the line had invalid UTF-8 */
	sigset_t	 mask;		/* signal mask outside of editing */
} edit;

static char *
prompt(EditLine *el)
{
	(void)el;
	return (char *)(uintptr_t)edit.prompt;
}

/* ------------------------------------------------------------------ signals */

/*
 * While a line is edited, signals are delivered only while waiting for a key.
 * The terminal generates no signals from keys: pasted text may contain those
 * bytes, and the terminal would discard unread input.  So these keys are bound
 * to signal_key().  libedit's own handlers are not used, since each works only
 * once per line.
 */
static struct {
	int			 sig, key;	/* key: index in c_cc, or -1 */
	volatile sig_atomic_t	 came;
	struct sigaction	 old;
} signals[] = {
	{ .sig = SIGINT, .key = VINTR }, { .sig = SIGTSTP, .key = VSUSP },
	{ .sig = SIGQUIT, .key = VQUIT }, { .sig = SIGTERM, .key = -1 },
	{ .sig = SIGHUP, .key = -1 }, { .sig = SIGCONT, .key = -1 },
	{ .sig = SIGWINCH, .key = -1 },
};

enum { N_SIGNALS = sizeof signals / sizeof *signals };

static void
on_signal(int sig)
{
	size_t i;

	for (i = 0; i < N_SIGNALS; i++)
		signals[i].came |= signals[i].sig == sig;
}

static void
catch_signal(size_t i)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(signals[i].sig, NULL, &signals[i].old);
	/*
	 * SIGINT has a handler, which ends the wait; a SIGHUP ignored by nohup
	 * stays ignored
	 */
	if (signals[i].sig != SIGINT &&
	    signals[i].old.sa_handler != SIG_IGN)
		sigaction(signals[i].sig, &sa, NULL);
}

static void
catch_signals(void)
{
	sigset_t block;
	size_t i;

	sigemptyset(&block);
	for (i = 0; i < N_SIGNALS; i++)
		sigaddset(&block, signals[i].sig);
	sigprocmask(SIG_BLOCK, &block, &edit.mask);
	for (i = 0; i < N_SIGNALS; i++)
		catch_signal(i);
}

static void
restore_signals(void)
{
	size_t i;

	for (i = 0; i < N_SIGNALS; i++) {
		sigaction(signals[i].sig, &signals[i].old, NULL);
		if (signals[i].came)
			raise(signals[i].sig);
		signals[i].came = 0;
	}
	sigprocmask(SIG_SETMASK, &edit.mask, NULL);
}

static void
set_paste_mode(int on)
{
	if (edit.pastes)
		fputs(on ? "\033[?2004h" : "\033[?2004l", edit.out);
	fflush(edit.out);
}

/*
 * Move to the start of the line and erase from there: after a change of the
 * width, the terminal wraps the line at other places.
 */
static void
erase_line(void)
{
	const LineInfoW *l = el_wline(edit.el);
	size_t at = strlen(edit.prompt);
	const wchar_t *c;
	struct winsize w;
	int k;

	if (!edit.pastes || ioctl(STDIN_FILENO, TIOCGWINSZ, &w) == -1 ||
	    w.ws_col == 0)
		return;
	for (c = l->buffer; c < l->cursor; c++)
		/* A */
		at += (k = wcwidth(*c)) >= 0 ? (size_t)k : 2;
	putc('\r', edit.out);
	if (at >= w.ws_col)
		fprintf(edit.out, "\033[%zuA", at / w.ws_col);
	fputs("\033[J", edit.out);
	fflush(edit.out);
}

/*
 * Take the pending signals with their original handlers and the original
 * terminal settings.  If the program continues, show the line again.
 */
static void
handle_signals(void)
{
	size_t i, n = 0;
	int resized = 0;

	for (i = 0; i < N_SIGNALS; i++) {
		n += signals[i].came != 0;
		resized |= signals[i].came && signals[i].sig == SIGWINCH;
	}
	if (n == 0)
		return;
	set_paste_mode(0);
	el_set(edit.el, EL_PREP_TERM, 0);
	restore_signals();
	catch_signals();
	el_set(edit.el, EL_PREP_TERM, 1);
	set_paste_mode(1);
	if (resized && n == 1)
		erase_line();
	el_resize(edit.el);
	el_set(edit.el, EL_REFRESH);
}

/*
 * Handle a key that normally generates a signal: send it to all processes of
 * the job.
 */
static unsigned char
signal_key(EditLine *el, int ch)
{
	struct termios t;
	sigset_t block;
	size_t i;

	(void)el;
	if (tcgetattr(STDIN_FILENO, &t) == -1)
		return CC_ERROR;
	for (i = 0; i < N_SIGNALS; i++) {
		if (signals[i].key >= 0 && t.c_cc[signals[i].key] == ch)
			kill(0, signals[i].sig);
	}
	/* deliver the signal before later input is read */
	sigprocmask(SIG_SETMASK, &edit.mask, &block);
	sigprocmask(SIG_SETMASK, &block, NULL);
	return CC_NORM;
}

/* ------------------------------------------------------------------- typing */

/* Wait for input: 1, or 0 after Ctrl-C. */
static int
wait_for_key(void)
{
	fd_set in;

	for (;;) {
		handle_signals();
		if (qchat_interrupted) {
			errno = EINTR;
			return 0;
		}
		FD_ZERO(&in);
		FD_SET(STDIN_FILENO, &in);
		if (pselect(STDIN_FILENO + 1, &in, NULL, NULL, NULL,
		    &edit.mask) == 1)
			return 1;
	}
}

/*
 * Read a character: 1, 0 at the end, or -1.  Invalid UTF-8 becomes U+FFFD;
 * libedit's own reader would drop it.
 */
static int
get_char(EditLine *el, wchar_t *c)
{
	unsigned char *s = edit.typed;
	uint32_t u = 0;
	ssize_t got;
	int k;

	(void)el;
	while ((k = edit.n_typed == 0 ? -1 :
	    qwen_utf8_read(s, edit.n_typed, &u)) < 0) {
		if (!wait_for_key())
			return -1;
		got = read(STDIN_FILENO, s + edit.n_typed, 1);
		if (got == 1)
			edit.n_typed++;
		else if (got == 0 || (errno != EAGAIN && errno != EINTR))
			return (int)got;
	}
	*c = k > 0 ? (wchar_t)u : 0xfffd;
	edit.has_bad_utf8 |= k == 0;
	/* a byte that cannot continue the character begins the next one */
	s[0] = s[edit.n_typed - 1];
	edit.n_typed = k == 0 && edit.n_typed > 1;
	return 1;
}

/* ------------------------------------------------------------------ pasting */

#define PASTE_END "\033[201~"

/* Read pasted text up to its end: 1, or 0 if the input ended. */
static int
read_paste(struct qwen_text *t)
{
	const size_t n = sizeof PASTE_END - 1;
	wchar_t c, before = 0;
	char out[4];

	while (t->n < n || memcmp(t->s + t->n - n, PASTE_END, n) != 0) {
		if (el_wgetc(edit.el, &c) != 1)
			return 0;
		/* CR and CR LF become LF */
		if (c != 0 && (c != L'\n' || before != L'\r'))
			qwen_text_add(t, out, qwen_utf8_write(c == L'\r' ?
			    '\n' : (uint32_t)c, out));
		before = c;
		if (t->failed)
			cli_check_alloc(NULL);
	}
	t->n -= n;
	t->s[t->n] = '\0';
	return 1;
}

/*
 * Return 1 if the text, inserted into a line, could mean a command, a block or
 * a continued line, or has several lines.
 */
static int
is_special(const struct qwen_text *t)
{
	return strchr(t->s, '\n') != NULL || strchr("/\"", t->s[0]) != NULL ||
	    strchr("\\\"", t->s[t->n - 1]) != NULL;
}

static void
mark_of(size_t i, char out[MARK])
{
	const char *s = edit.pasted[i].s;
	size_t lines = 1;

	for (; (s = strchr(s, '\n')) != NULL && s[1] != '\0'; s++)
		lines++;
	snprintf(out, MARK, "[paste %zu: %s]", i + 1, cli_count(lines, "line"));
}

/*
 * Insert pasted text.  If it is special, insert a mark instead, which
 * qchat_edit_unmark() replaces by the text after editing.
 */
static unsigned char
paste(EditLine *el, int ch)
{
	struct qwen_text t = { 0 };
	char mark[MARK];

	(void)ch;
	if (!read_paste(&t)) {
		qwen_text_fini(&t);
		return CC_EOF;
	}
	if (t.n == 0 || !is_special(&t)) {
		el_insertstr(el, t.s);
		qwen_text_fini(&t);
		return CC_REFRESH;
	}
	cli_grow(&edit.pasted, &edit.cap, edit.n + 1, sizeof *edit.pasted);
	edit.pasted[edit.n] = t;
	mark_of(edit.n++, mark);
	el_insertstr(el, mark);
	return CC_REFRESH;
}

char *
qchat_edit_unmark(char *line)
{
	struct qwen_text t = { 0 };
	const char *s = line;
	char mark[MARK];
	size_t i, n;

	for (; *s != '\0'; s += n) {
		n = 1;
		for (i = 0; *s == '[' && i < edit.n && n == 1; i++) {
			mark_of(i, mark);
			if (strncmp(s, mark, strlen(mark)) != 0)
				continue;
			n = strlen(mark);
			qwen_text_add(&t, edit.pasted[i].s, edit.pasted[i].n);
		}
		if (n == 1)
			qwen_text_add(&t, s, 1);
	}
	qwen_text_str(&t, "");
	cli_check_alloc(t.failed ? NULL : t.s);
	while (edit.n > 0)
		qwen_text_fini(&edit.pasted[--edit.n]);
	free(line);
	return t.s;
}

/* --------------------------------------------------------------- completion */

/*
 * Return the number of words that complete the line; set *from to where they
 * begin in the line, and common to their common prefix.  List them on out,
 * unless it is NULL.
 */
static size_t
match(const char *s, size_t n, size_t *from, char common[64], FILE *out)
{
	const char *word;
	size_t i, k, found = 0;

	for (i = 0; (word = qchat_word(s, n, i, from)) != NULL; i++) {
		if (strncmp(word, s + *from, n - *from) != 0)
			continue;
		if (out != NULL)
			fprintf(out, "%s%s", found == 0 ? "\n" : "  ", word);
		if (found++ == 0)
			snprintf(common, 64, "%s", word);
		for (k = 0; common[k] != '\0' && common[k] == word[k]; k++)
			;
		common[k] = '\0';
	}
	return found;
}

static unsigned char
complete(EditLine *el, int ch)
{
	const LineInfo *l = el_line(el);
	size_t n = (size_t)(l->cursor - l->buffer), from = 0, found;
	const char *s = l->buffer;
	char common[64] = "";

	if (n == 0 || s[0] != '/') {
		el_insertstr(el, "\t");
		return CC_REFRESH;
	}
	if (qchat_wants_file(s, n))
		return _el_fn_complete(el, ch);
	found = match(s, n, &from, common, NULL);
	if (found == 0)
		return CC_ERROR;
	if (strlen(common) == n - from && found > 1) {
		match(s, n, &from, common, edit.out);
		putc('\n', edit.out);
		return CC_REDISPLAY;
	}
	el_insertstr(el, common + (n - from));
	if (found == 1)
		el_insertstr(el, " ");
	return CC_REFRESH;
}

/* ------------------------------------------------------------------ history */

/* Return the path of the history file, or NULL without $HOME. */
static const char *
history_path(void)
{
	static char path[4096];
	const char *home = getenv("HOME");

	if (home == NULL || *home == '\0' || (size_t)snprintf(path,
	    sizeof path, "%s/.qchat_history", home) >= sizeof path)
		return NULL;
	return path;
}

static void
remember(const char *line)
{
	HistEvent ev;

	if (line[0] != '\0' && edit.n == 0)	/* nothing pasted */
		history(edit.history, &ev, H_ENTER, line);
}

/*
 * Replace the history file as a whole; only its owner may read it.  libedit
 * writes to a temporary FILE first.
 */
static void
save_history(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	FILE *f = tmpfile();
	struct qwen_text t = { 0 };
	char part[4096];
	HistEvent ev;
	size_t n;

	if (fd != -1 && f != NULL &&
	    history(edit.history, &ev, H_SAVE_FP, f) != -1) {
		rewind(f);
		while ((n = fread(part, 1, sizeof part, f)) > 0)
			qwen_text_add(&t, part, n);
		if (!ferror(f) && cli_replace_file(path, &t, &cli_err) < 0)
			cli_note("%s: %s", path, cli_err.msg);
	} else
		cli_note("%s: cannot save the history of input lines", path);
	if (f != NULL)
		fclose(f);
	if (fd != -1)
		close(fd);
	qwen_text_fini(&t);
}

/* -------------------------------------------------------- beginning and end */

static int
is_utf8(const char *locale)
{
	return setlocale(LC_CTYPE, locale) != NULL &&
	    strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/*
 * Sets the UTF-8 locale that is installed beside a static tool, whose C library
 * has none.
 */
static int
set_own_locale(void)
{
	int done = 0;

#ifdef QPIPE_STATIC
	if (getenv("LOCPATH") == NULL) {
		setenv("LOCPATH", tool_sibling_path("../share/qpipe/locale"),
		    1);
		done = is_utf8("C.UTF-8");
		unsetenv("LOCPATH");
	}
#endif
	return done;
}

static void
bind(const char *keys, const char *function)
{
	el_set(edit.el, EL_BIND, keys, function, NULL);
}

/* Bind the keys that generate signals, in both modes of vi too. */
static void
set_signal_keys(void)
{
	struct termios t;
	char keys[8];
	size_t i;

	el_wset(edit.el, EL_ADDFN, L"qchat-signal", L"signals", signal_key);
	if (tcgetattr(STDIN_FILENO, &t) == -1)
		return;
	for (i = 0; i < N_SIGNALS; i++) {
		if (signals[i].key < 0 ||
		    t.c_cc[signals[i].key] == _POSIX_VDISABLE)
			continue;
		snprintf(keys, sizeof keys, "\\%03o",
		    (unsigned)t.c_cc[signals[i].key]);
		bind(keys, "qchat-signal");
		el_set(edit.el, EL_BIND, "-a", keys, "qchat-signal", NULL);
	}
}

static void
set_keys(void)
{
	el_set(edit.el, EL_EDITOR, "emacs");
	/* el_wset() instead of el_set(), which leaks copies of these names */
	el_wset(edit.el, EL_ADDFN, L"qchat-paste", L"what is pasted", paste);
	el_wset(edit.el, EL_ADDFN, L"qchat-complete", L"commands", complete);
	bind("^R", "em-inc-search-prev");
	bind("\\e[H", "ed-move-to-beg");
	bind("\\e[F", "ed-move-to-end");
	bind("\\e[1~", "ed-move-to-beg");
	bind("\\e[4~", "ed-move-to-end");
	bind("\\e[3~", "ed-delete-next-char");
	bind("\\e[1;5C", "em-next-word");
	bind("\\e[1;5D", "ed-prev-word");
	el_source(edit.el, NULL);
	bind("^I", "qchat-complete");
	bind("\\e[200~", "qchat-paste");
	bind("\\e[201~", "ed-ignore");	/* the end of a paste without its
					   start */
	set_signal_keys();
}

int
qchat_edit_begin(void)
{
	const char *term = getenv("TERM"), *path = history_path();
	HistEvent ev;

	if (!isatty(STDIN_FILENO))
		return 0;
	edit.out = isatty(STDERR_FILENO) ? stderr : fopen("/dev/tty", "w");
	if (edit.out == NULL)
		return 0;
	/* wide characters are Unicode in any locale that has UTF-8 */
	if (!set_own_locale() && !is_utf8("") && !is_utf8("C.UTF-8"))
		is_utf8("en_US.UTF-8");
	edit.el = cli_check_alloc(el_init("qchat", stdin, edit.out, edit.out));
	edit.history = cli_check_alloc(history_init());
	edit.pastes = term != NULL && strcmp(term, "dumb") != 0;
	history(edit.history, &ev, H_SETSIZE, HISTORY);
	history(edit.history, &ev, H_SETUNIQUE, 1);
	if (path != NULL)
		history(edit.history, &ev, H_LOAD, path);
	el_set(edit.el, EL_HIST, history, edit.history);
	el_set(edit.el, EL_PROMPT, prompt);
	el_set(edit.el, EL_GETCFN, get_char);
	/* without -icrnl, CR LF would look like two line ends */
	el_set(edit.el, EL_SETTY, "-d", "-icrnl", "-inlcr", "-isig", NULL);
	set_keys();
	qchat_echo_begin();
	return 1;
}

/* el_gets() with bracketed paste and our signal handling. */
static const char *
get_line(int *n)
{
	const char *got;
	int why;

	qchat_echo_on();
	set_paste_mode(1);
	catch_signals();
	errno = 0;
	got = el_gets(edit.el, n);
	why = errno;
	restore_signals();
	set_paste_mode(0);
	qchat_echo_off();
	errno = why;
	return got;
}

char *
qchat_edit_line(const char *text)
{
	const char *got;
	char *line;
	int n = 0;

	edit.prompt = text;
	edit.has_bad_utf8 = 0;
	got = get_line(&n);
	if (got == NULL || n <= 0) {
		if (n < 0 && !qchat_interrupted)
			warn("stdin: %s", strerror(errno));
		free(qchat_edit_unmark(cli_format("%s", "")));
		if (!qchat_interrupted)
			putc('\n', edit.out);
		return NULL;
	}
	if (edit.has_bad_utf8)
		cli_note("the input is not all UTF-8: invalid bytes became "
		    "U+FFFD");
	line = cli_format("%.*s", n - (got[n - 1] == '\n'), got);
	remember(line);
	return line;
}

void
qchat_edit_end(void)
{
	qchat_echo_on();
	if (history_path() != NULL)
		save_history(history_path());
	el_end(edit.el);
	history_end(edit.history);
	free(edit.pasted);
}
