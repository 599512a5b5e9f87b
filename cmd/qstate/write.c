/* SPDX-License-Identifier: ISC */
/* write.c - write a state to -o or stdout: unchanged, converted or cut. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qstate.h"

/* Verify by path, write from a descriptor; so check that both are one file. */
void
qstate_cat(char *paths[])
{
	const char *name, *path = qstate_file(paths[0], &name);
	struct stat a, b;
	int fd;

	cli_no_binary_tty();
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		die("%s: %s", name, strerror(errno));
	cli_must(name, qwen_state_verify(path, 0, &cli_err));
	if (fstat(fd, &a) == -1 || stat(path, &b) == -1)
		die("%s: %s", name, strerror(errno));
	if (a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		die("%s: the file was replaced while it was being read", name);
	qstate_copy_bytes(fd, name, STDOUT_FILENO, "stdout");
	close(fd);
	qstate_file_done();
}

static void
note_loss(const struct qstate_state *s, const char *what, enum qwen_kv from,
    int to, double loss)
{
	if ((int)from != to)
		cli_note("%s: converting %s from %s to %s loses %.3g %% of "
		    "their size", s->name, what, qwen_kv_name(from),
		    qwen_kv_name((enum qwen_kv)to), 100 * loss);
}

/* Write the state with the options of the command line. */
static void
write_copy(struct qstate_state *s)
{
	struct qwen_state_loss loss;
	struct cli_output *out = cli_output_open(qstate_opt.output);
	const char *name = cli_output_name(out);
	struct qwen_writer *w = tool_writer(cli_output_fd(out),
	    QWEN_FORMAT_CBOR);
	struct qwen_err err;

	if (qwen_state_convert(s->f, w, (enum qwen_kv)tool_kv[0],
	    (enum qwen_kv)tool_kv[1], &qstate_opt.state, &loss, NULL,
	    &err) < 0)
		cli_die_err(err.code == QWEN_EIO || err.code == QWEN_EPIPE ?
		    name : s->name, &err);
	cli_must(name, qwen_writer_close(w, &cli_err));
	cli_output_commit(out);
	note_loss(s, "keys", s->info->header.k, tool_kv[0], loss.keys);
	note_loss(s, "values", s->info->header.v, tool_kv[1], loss.values);
}

/* Set KV cache types that --kv does not give to those of the state. */
static void
find_kinds(const struct qwen_header *h)
{
	tool_kv[0] = tool_kv[0] < 0 ? (int)h->k : tool_kv[0];
	tool_kv[1] = tool_kv[1] < 0 ? (int)h->v : tool_kv[1];
}

void
qstate_pack(char *paths[])
{
	struct qstate_state s;

	if (qstate_opt.output == NULL)
		cli_no_binary_tty();
	qstate_open(&s, paths[0]);
	find_kinds(&s.info->header);
	write_copy(&s);
	qwen_state_close(s.f);
}

/*
 * Return 1 if the state can be cut after n tokens, with logits, without the
 * model.
 */
static int
has_cut(const struct qwen_state_info *s, uint64_t n)
{
	size_t i;

	if (n == s->n_tokens)
		return s->recurrent;
	for (i = 0; i < s->n_checkpoints; i++) {
		if (s->checkpoints[i].at == n)
			return s->checkpoints[i].logits;
	}
	return 0;
}

/*
 * Restore the session at the last possible position before the cut, read the
 * tokens up to the cut with the numerics of the state, and save it.
 */
static void
cut_with_model(struct qstate_state *s, uint64_t n)
{
	static const struct tool_draft draft = { .mode = QWEN_DRAFT_AUTO };
	const struct qwen_header *h = &s->info->header;
	struct tool_intake in = { 0 };
	struct qwen_model *m;
	struct cli_output *out;
	size_t at;

	tool_kv[0] = (int)h->k;
	tool_kv[1] = (int)h->v;
	tool_rope = h->rope;
	tool_numerics_check(s->name, h->numerics);
	m = tool_model_open_draft(qstate_opt.model, qstate_opt.state.n_threads,
	    h->numerics, &draft);
	tool_report_model(m);
	cli_must(s->name, qwen_state_restore(&in.session, &in.extra, m, &s->f,
	    1, (size_t)n, 1, &cli_err));
	at = qwen_session_n_tokens(in.session);
	if (cli_verbose)
		cli_note("%s from %s, %zu to read",
		    cli_count(at, "token"), s->name, (size_t)n - at);
	in.n = (size_t)n - at;
	in.tokens = cli_check_alloc(calloc(in.n + 1, sizeof *in.tokens));
	if (in.n > 0)
		memcpy(in.tokens, s->info->tokens + at,
		    in.n * sizeof *in.tokens);
	tool_prefill(&in, NULL);
	out = cli_output_open(qstate_opt.output);
	tool_save(&in, cli_output_fd(out), cli_output_name(out),
	    &qstate_opt.state, NULL);
	cli_output_commit(out);
	tool_report_stats(m);
	tool_intake_fini(&in);
	qwen_model_close(m);
}

void
qstate_slice(char *paths[])
{
	struct qstate_state s;

	if (qstate_opt.count == 0)
		cli_usage("slice needs -n, the number of tokens to keep");
	if (qstate_opt.output == NULL)
		cli_no_binary_tty();
	qstate_open_whole(&s, paths[0]);
	if (qstate_opt.count > s.info->n_tokens)
		die("%s: has only %s, not %" PRIu64, s.name,
		    cli_count(s.info->n_tokens, "token"), qstate_opt.count);
	find_kinds(&s.info->header);
	if (has_cut(s.info, qstate_opt.count)) {
		qstate_opt.state.to = qstate_opt.count < s.info->n_tokens ?
		    qstate_opt.count : 0;
		write_copy(&s);
	} else
		cut_with_model(&s, qstate_opt.count);
	qwen_state_close(s.f);
}
