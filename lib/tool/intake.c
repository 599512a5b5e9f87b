/* SPDX-License-Identifier: ISC */
/*
 * intake.c - the state and the tokens that a command continues from.
 *
 * With -s FILE and a pipe on stdin, the upstream command may be writing FILE.
 * So FILE is opened only when stdin has ended, and only if a token or a ready
 * record came.  A pipe that brings neither means that upstream failed and FILE
 * is left from an earlier run.
 */
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

static void
add_tokens(struct tool_intake *in, const int32_t *ids, size_t n, size_t limit)
{
	if (n > limit - in->n)
		die("stdin: more tokens than the model's context of %zu",
		    limit);
	cli_grow(&in->tokens, &in->cap, in->n + n, sizeof *ids);
	/* a record of no tokens has no ids */
	if (n > 0)
		memcpy(in->tokens + in->n, ids, n * sizeof *ids);
	in->n += n;
}

/* Is the id the BOS that the model's file wants in front of a text? */
static int
is_bos(struct qwen_model *m, int32_t id)
{
	int32_t bos;

	cli_must(NULL, qwen_bos_read(&bos, qwen_model_gguf(m), QWEN_BOS_FILE,
	    &cli_err));
	return bos >= 0 && id == bos;
}

/* Takes a header; if it is that of a state, loads the state after it. */
static void
take_header(struct tool_intake *in, struct qwen_model *m,
    struct qwen_reader *r, const struct qwen_record *rec)
{
	if (rec->header->kind != QWEN_STREAM_STATE)
		return;
	if (in->state != NULL)
		cli_usage("both a state on stdin and -s %s: give only "
		    "one", in->state);
	if (in->whole)
		cli_usage("both a state on stdin and --reuse: give only one");
	if (in->session != NULL || in->n > 0)
		die("stdin: a state after %s", in->session != NULL ?
		    "another" : "tokens");
	cli_must("stdin", qwen_state_load(&in->session, &in->extra, m, r, rec,
	    NULL, &cli_err));
	in->restored = 1;
}

static void
take_record(struct tool_intake *in, struct qwen_model *m,
    struct qwen_reader *r, const struct qwen_record *rec, int *ended)
{
	size_t skip;

	switch (rec->kind) {
	case QWEN_REC_HEADER:
		take_header(in, m, r, rec);
		in->begins = 1;
		break;
	case QWEN_REC_TOKENS:
		if (*ended && rec->n > 0)
			die("stdin: more than one document");
		/*
		 * each stream begins with BOS if the model's file wants it, but
		 * the text already begins with BOS
		 */
		skip = in->begins && in->n > 0 && rec->n > 0 &&
		    is_bos(m, rec->ids[0]);
		add_tokens(in, rec->ids + skip, rec->n - skip,
		    qwen_model_n_ctx(m));
		in->begins &= rec->n == 0;
		break;
	case QWEN_REC_SPAN:
		if (*ended)
			die("stdin: more than one document");
		in->spans.name = "stdin";
		tool_spans_add(&in->spans, m, qwen_reader_span(r), in->n);
		add_tokens(in, rec->ids, rec->n, qwen_model_n_ctx(m));
		in->begins = 0;
		break;
	case QWEN_REC_ROWS:
		in->spans.name = "stdin";
		tool_spans_take(&in->spans, rec);
		break;
	case QWEN_REC_MARK:
		if (in->n_marks > 0 && in->marks[in->n_marks - 1] == in->n)
			break;
		cli_grow(&in->marks, &in->cap_marks, in->n_marks + 1,
		    sizeof *in->marks);
		in->marks[in->n_marks++] = in->n;
		break;
	case QWEN_REC_END:
		*ended = 1;
		break;
	case QWEN_REC_READY:
		if (in->state == NULL)
			die("stdin: the state is in a file: give -s %s",
			    rec->path);
		in->ready = 1;
		in->fp = rec->fp;
		break;
	default:
		die("stdin: a record that no tool expects here");
	}
}

static void
read_stdin(struct tool_intake *in, struct qwen_model *m)
{
	struct qwen_reader_opts o = {
		.kinds = QWEN_STREAM_TOKENS | QWEN_STREAM_STATE, .spans = 1,
	};
	struct qwen_header self;
	struct qwen_reader *r;
	struct qwen_record rec;
	int ended = 0;

	tool_header_init(&self, QWEN_STREAM_STATE, m);
	o.self = &self;
	cli_must("stdin", qwen_reader_open(&r, 0, &o, &cli_err));
	while (cli_must("stdin", qwen_reader_next(r, &rec, &cli_err)) > 0) {
		tool_demo_note(rec.kind == QWEN_REC_HEADER);
		take_record(in, m, r, &rec, &ended);
	}
	qwen_reader_close(r);
}

void
tool_intake_stdin(struct tool_intake *in, struct qwen_model *m)
{
	enum cli_stdin kind = cli_stdin_kind();

	if (in->state == NULL)
		cli_need_stdin();
	if (kind != CLI_STDIN_NONE)
		read_stdin(in, m);
	tool_demo_note(0);
	if (in->state != NULL && kind == CLI_STDIN_PIPE && in->n == 0 &&
	    !in->ready)
		die("stdin ended without a token or a ready record: "
		    "upstream failed; not using %s", in->state);
}

void
tool_intake_state(struct tool_intake *in, struct qwen_model *m)
{
	size_t i, bos;

	if (in->state != NULL) {
		cli_must(in->state, qwen_state_load_file(&in->session,
		    &in->extra, m, in->state, in->ready ? &in->fp : NULL,
		    &cli_err));
		in->restored = 1;
	}
	if (in->session == NULL)
		cli_must(NULL, qwen_session_new(&in->session, m, &cli_err));
	/* drop BOS from tokens that follow a state, whose text has BOS */
	bos = in->n > 0 && qwen_session_n_tokens(in->session) > 0 &&
	    is_bos(m, in->tokens[0]);
	tool_spans_end(&in->spans, qwen_session_n_tokens(in->session) - bos);
	if (!bos)
		return;
	in->n--;
	memmove(in->tokens, in->tokens + 1, in->n * sizeof *in->tokens);
	for (i = 0; i < in->n_marks; i++)
		in->marks[i] -= in->marks[i] > 0;
}

void
tool_intake_fits(const struct tool_intake *in, const struct qwen_model *m)
{
	size_t n = qwen_session_n_tokens(in->session);

	if (in->n > qwen_model_n_ctx(m) - n)
		die("%s after a state of %zu: the model's context is "
		    "%zu", cli_count(in->n, "token"), n, qwen_model_n_ctx(m));
}

void
tool_intake(struct tool_intake *in, struct qwen_model *m)
{
	tool_intake_stdin(in, m);
	tool_intake_state(in, m);
	tool_intake_fits(in, m);
}

void
tool_intake_fini(struct tool_intake *in)
{
	qwen_store_close(in->store);
	qwen_session_free(in->session);
	qwen_state_extra_fini(&in->extra);
	free(in->tokens);
	tool_spans_fini(&in->spans);
	free(in->marks);
	free(in->places);
	memset(in, 0, sizeof *in);
}
