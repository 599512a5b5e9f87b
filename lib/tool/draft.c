/* SPDX-License-Identifier: ISC */
/* draft.c - --draft and --draft-text of all tools that generate. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/what.h"
#include "tool/tool.h"

enum { TEXT_MAX = 1 << 28 };	/* bytes */

static const char *const modes[] = {
	[QWEN_DRAFT_AUTO] = "auto", [QWEN_DRAFT_MTP] = "mtp",
	[QWEN_DRAFT_LOOKUP] = "lookup", [QWEN_DRAFT_NONE] = "none",
};

enum { N_MODES = sizeof modes / sizeof *modes };

void
tool_draft_parse(const struct cli_opt *o, const char *arg)
{
	struct tool_draft *d = o->to;
	size_t n = strcspn(arg, ":"), i;
	const char *dot = strrchr(arg, '.');

	if (strchr(arg, '/') != NULL ||
	    (dot != NULL && strcmp(dot, ".gguf") == 0)) {
		d->file = arg;
		return;
	}
	for (i = 0; i < N_MODES && (strncmp(arg, modes[i], n) != 0 ||
	    modes[i][n] != '\0'); i++)
		;
	if (i == N_MODES)
		cli_usage("--draft: '%s' is not auto, mtp, lookup or none, "
		    "with :N for N drafts as in lookup:8, nor a file name "
		    "(x.gguf or ./x)", arg);
	d->mode = (enum qwen_tmpfile_mode)i;
	d->n = 0;
	if (arg[n] == ':' && d->mode == QWEN_DRAFT_NONE)
		cli_usage("--draft: none takes no number");
	if (arg[n] == ':')
		d->n = (size_t)cli_int("--draft", arg + n + 1, 1,
		    QWEN_GUESS_MAX);
}

/* Returns the ids of a token stream; head has the bytes of it already read. */
static int32_t *
read_stream(int fd, const char *name, const char *head, size_t n_head,
    struct qwen_model *m, size_t *n)
{
	struct qwen_reader_opts ro = { .kinds = QWEN_STREAM_TOKENS,
	    .head = head, .n_head = n_head };
	struct qwen_header self;
	int32_t *ids;

	tool_header_init(&self, QWEN_STREAM_TOKENS, m);
	ro.self = &self;
	cli_must(name, tool_read_ids(fd, &ro, SIZE_MAX, &ids, n, &cli_err));
	return ids;
}

static int32_t *
read_text(const char *name, const char *text, size_t len,
    const struct qwen_gguf *g, size_t *n)
{
	const char *what = tool_not_text(text, len, 1);
	struct qwen_tok *tok;
	int32_t *ids;

	if (what != NULL)
		die("%s: this is %s; --draft-text takes text or tokens", name,
		    what);
	cli_must(qwen_gguf_path(g, 0), qwen_tok_open(&tok, g, QWEN_TOK_ENCODE,
	    &cli_err));
	cli_must(name, qwen_tok_encode(tok, text, len, 0, &ids, n, &cli_err));
	qwen_tok_close(tok);
	return ids;
}

/* Returns the ids of --draft-text (a text or a token stream), to be freed. */
static int32_t *
read_file(const char *path, struct qwen_model *m, size_t *n)
{
	const char *name;
	size_t len;
	char *text;
	int32_t *ids;
	int fd;

	if ((fd = cli_open(path, &name)) == -1)
		die("%s: %s", name, strerror(errno));
	if (fd == STDIN_FILENO)
		cli_need_stdin();
	/* read once: a pipe cannot be read again */
	text = cli_read_fd(fd, name, TEXT_MAX, &len);
	/* a stream, a list of decimal ids, or text */
	if (qwen_what(text, len) == QWEN_IS_STREAM ||
	    (len > 0 && strspn(text, "0123456789 \t\r\n") == len))
		ids = read_stream(fd, name, text, len, m, n);
	else
		ids = read_text(name, text, len, qwen_model_gguf(m), n);
	free(text);
	if (fd != STDIN_FILENO)
		close(fd);
	return ids;
}

void
tool_draft_check(const struct tool_draft *d)
{
	if (d->file != NULL && d->mode < QWEN_DRAFT_MTP)
		cli_usage("--draft %s has no effect with --draft %s",
		    d->file, modes[d->mode]);
	if (d->text != NULL && (d->mode == QWEN_DRAFT_NONE ||
	    d->mode == QWEN_DRAFT_MTP))
		cli_usage("--draft-text has no effect with --draft %s",
		    modes[d->mode]);
}

void
tool_draft_open(struct tool_draft *d, struct qwen_model *m)
{
	struct qwen_draft_opts o = { .mode = d->mode, .n = d->n };
	int32_t *ids = NULL;

	if (d->text != NULL)
		o.text = ids = read_file(d->text, m, &o.n_text);
	cli_must(qwen_gguf_path(qwen_model_gguf(m), 0),
	    qwen_drafts_new(&d->drafts, m, &o, &cli_err));
	free(ids);
}

static void
report_drafts(const char *what, uint64_t n, uint64_t right)
{
	if (n > 0)
		cli_note("drafts: %s %s, %llu of them right (%.2f)",
		    cli_count(n, "token"), what, cli_llu(right),
		    (double)right / (double)n);
}

void
tool_report_draft(const struct tool_draft *d)
{
	struct qwen_draft_stats s;

	if (!cli_verbose || d->mode == QWEN_DRAFT_NONE)
		return;
	qwen_drafts_stats(d->drafts, &s);
	report_drafts("from the MTP block", s.mtp, s.mtp_right);
	report_drafts("looked up", s.looked_up, s.looked_up_right);
	if (s.n_passes > 0)
		cli_note("drafts: %.2f tokens per pass", (double)(s.n_passes +
		    s.mtp_right + s.looked_up_right) / (double)s.n_passes);
}
