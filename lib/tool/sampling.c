/* SPDX-License-Identifier: ISC */
/*
 * sampling.c - the sampling options of all tools, made from the option table of
 * the library, so that they are the same everywhere.
 */
#include <sys/random.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

enum tool_seed tool_seed;
int tool_seed_draws;

void
tool_seed_draw(char buf[TOOL_SEED_ROOM])
{
	uint64_t n;

	if (getentropy(&n, sizeof n) < 0)
		die("no random seed: %s", strerror(errno));
	snprintf(buf, TOOL_SEED_ROOM, "%llu", cli_llu(n >> 12));
}

void
tool_report_seed(const struct qwen_sampler *s)
{
	if (tool_seed == TOOL_SEED_RANDOM)
		cli_note("seed %llu", cli_llu(qwen_sampler_seed(s)));
}

static void
set(const struct cli_opt *row, const char *arg)
{
	struct qwen_sampler **s = row->to;
	char drawn[TOOL_SEED_ROOM];

	if (strcmp(row->name, "seed") == 0) {
		tool_seed = strcmp(arg, "random") == 0 ?
		    TOOL_SEED_RANDOM : TOOL_SEED_NUMBER;
		if (tool_seed == TOOL_SEED_RANDOM) {
			tool_seed_draw(drawn);
			arg = drawn;
		}
	}
	if (qwen_sampler_set(*s, row->name, arg, &cli_err) < 0) {
		cli_die_oom(&cli_err);
		cli_usage("--%s: %s", row->name, cli_err.msg);
	}
}

/* Returns the option's help line with its default. */
static const char *
help(const struct qwen_sample_opt *o)
{
	struct qwen_text t = { 0 };

	qwen_text_str(&t, o->help);
	if (strcmp(o->name, "seed") == 0)
		qwen_text_fmt(&t, " (default %s)",
		    tool_seed_draws ? "random" : "0");
	else if (o->type == QWEN_SAMPLE_REAL || o->type == QWEN_SAMPLE_INT)
		qwen_text_fmt(&t, " (default %g)", o->def);
	return cli_check_alloc(t.failed ? NULL : t.s);
}

/* --sampling */
static enum { NOT_GIVEN, NONE, MODEL, THINKING } whose;

static void
set_from(const struct cli_opt *row, const char *arg)
{
	static const char *const words[] = { [NONE] = "none",
	    [MODEL] = "model", [THINKING] = "thinking" };

	(void)row;
	for (whose = NONE; whose <= THINKING; whose++) {
		if (strcmp(arg, words[whose]) == 0)
			return;
	}
	cli_usage("--sampling: '%s' is not one of none, model and thinking",
	    arg);
}

static int
is_sampling(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < qwen_sample_n_opts(); i++) {
		if (strncmp(qwen_sample_opt(i)->name, name, n) == 0 &&
		    qwen_sample_opt(i)->name[n] == '\0')
			return qwen_sample_opt(i)->type == QWEN_SAMPLE_FLAG ?
			    2 : 1;
	}
	return 0;
}

const struct cli_opt *
tool_sampling_rows(void *to)
{
	static struct cli_opt *rows;
	size_t n = qwen_sample_n_opts(), i;
	const struct qwen_sample_opt *o;

	tool_is_sampling = is_sampling;
	cli_must(NULL, qwen_sampler_new(to, &cli_err));
	if (rows == NULL)
		rows = cli_check_alloc(calloc(n + 3, sizeof *rows));
	rows[0].kind = CLI_KIND_GROUP;
	rows[0].help = "sampling:";
	rows[1] = (struct cli_opt){ .kind = CLI_KIND_CALL, .name = "sampling",
	    .arg = "whose", .help = "start from the model's recommended "
	    "settings",
	    .completes = "words none model thinking", .to = to,
	    .call = set_from };
	for (i = 0; i < n && rows[i + 2].help == NULL; i++) {
		o = qwen_sample_opt(i);
		rows[i + 2] = (struct cli_opt){ .kind = CLI_KIND_CALL,
		    .name = o->name, .arg = o->arg, .help = help(o), .to = to,
		    .call = set, .completes = strcmp(o->name, "seed") == 0 ?
		    "words random" : NULL };
	}
	return rows;
}

int
tool_sampling_asked(void)
{
	return whose >= MODEL;
}

const char *
tool_sampling_advise(struct qwen_sampler *s, const struct qwen_gguf *g,
    int usual, int thinking)
{
	static struct qwen_advice a;
	int rc;

	a.settings[0] = '\0';
	if (whose == NOT_GIVEN ? !usual : whose == NONE)
		return NULL;
	if (qwen_sampling_advice(g, thinking || whose == THINKING, &a,
	    &cli_err) < 0 ||
	    (rc = qwen_sampler_advise(s, a.settings, &cli_err)) < 0) {
		cli_die_oom(&cli_err);
		die("%s: its recommended settings: %s; --sampling none ignores "
		    "them", qwen_gguf_path(g, 0), cli_err.msg);
	}
	return rc == 0 && a.settings[0] != '\0' ? a.source : NULL;
}

void
tool_report_sampling(const struct qwen_sampler *s, const char *source,
    const char *when)
{
	char set[2048];

	if (!cli_verbose)
		return;
	qwen_sampler_describe(s, set, sizeof set);
	cli_note("sampling%s: %s%s%s", when, set[0] != '\0' ? set : "greedy",
	    source != NULL ? ", recommended by the " : "",
	    source != NULL ? source : "");
}

void
tool_sampling_check(struct qwen_sampler *s)
{
	cli_must(NULL, qwen_sampler_cpu(s, tool_cpu(), &cli_err));
	if (qwen_sampler_check(s, &cli_err) < 0)
		cli_usage("%s", cli_err.msg);
}

struct qwen_pieces *
tool_sampling_pieces(struct qwen_sampler *s, const struct qwen_gguf *g)
{
	struct qwen_pieces *p = NULL;

	if (qwen_sampler_needs_pieces(s))
		cli_must(qwen_gguf_path(g, 0), qwen_pieces_open(&p, g,
		    &cli_err));
	qwen_sampler_pieces(s, p);
	return p;
}

void
tool_mask_unused(struct qwen_sampler *s, const struct qwen_gguf *g)
{
	const char *path = qwen_gguf_path(g, 0);
	int32_t *ids;
	size_t n;

	cli_must(path, qwen_vocab_unused(g, NULL, 0, &n, &cli_err));
	if (n == 0)
		return;
	ids = cli_check_alloc(calloc(n, sizeof *ids));
	cli_must(path, qwen_vocab_unused(g, ids, n, &n, &cli_err));
	cli_must(NULL, qwen_sampler_mask(s, ids, n, &cli_err));
	free(ids);
}

int32_t
tool_sample_token(struct qwen_sampler *s, const struct qwen_session *from)
{
	int32_t id;

	cli_must(NULL, qwen_sampler_sample(s, qwen_session_logits(from), NULL,
	    qwen_model_n_vocab(qwen_session_model(from)),
	    qwen_session_n_tokens(from), &id, &cli_err));
	cli_must(NULL, qwen_sampler_accept(s, &id, 1, 1, &cli_err));
	return id;
}

int
tool_is_ending(const struct qwen_header *h, int32_t id)
{
	size_t i;

	for (i = 0; i < h->n_eog && h->eog[i] != id; i++)
		;
	return i < h->n_eog;
}
