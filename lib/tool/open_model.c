/* SPDX-License-Identifier: ISC */
/* open_model.c - the model a command computes with, and the CPU level. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

const char *
tool_cpu(void)
{
	static int noted;
	const char *level = cli_env("QWEN_CPU");

	if (level == NULL)
		return NULL;
	switch (qwen_cpu_check(level)) {
	case -1:
		/* no option: a hint at --help would not help */
		warn("QWEN_CPU: unknown level '%s'; give scalar, avx2, "
		    "avxvnni, avx512, vbmi, bf16, amx, or on arm64 neon, "
		    "dotprod, i8mm; see qwen(7)", level);
		exit(2);
	case 0:
		/* called for the model and for the sampler: note it once */
		if (!noted++)
			cli_note("QWEN_CPU: this CPU lacks %s; using its best "
			    "level below that", level);
	}
	return level;
}

const char *
tool_tuning(void)
{
	static char *path;

	if (path == NULL)
		path = tool_xdg("XDG_CACHE_HOME", ".cache", "qpipe/kernels");
	return path;
}

const struct qwen_model *tool_share;

int tool_kv[2] = { QWEN_KV_OWN, QWEN_KV_OWN };

void
tool_kv_parse(const struct cli_opt *o, const char *arg)
{
	int *kv = o->to, i;

	for (i = 0; i < QWEN_KV_N; i++) {
		if (strcmp(arg, qwen_kv_name((enum qwen_kv)i)) == 0) {
			kv[0] = kv[1] = i;
			return;
		}
	}
	cli_usage("--kv: '%s' is not one of f16, q8_0, q4_0 and f32", arg);
}

void
tool_numerics_parse(const struct cli_opt *o, const char *arg)
{
	unsigned *version = o->to;

	if (strlen(arg) != 1 || strchr(QWEN_NUMERICS_ALL, *arg) == NULL)
		cli_usage("--numerics: '%s' is not one of 1, 3 and 4%s", arg,
		    strcmp(arg, "2") == 0 ? "; version 2 was removed, use "
		    "4" : "");
	*version = (unsigned)(*arg - '0');
}

void
tool_numerics_check(const char *name, uint32_t version)
{
	if (version == 0 || version > 9 ||
	    strchr(QWEN_NUMERICS_ALL, (int)('0' + version)) == NULL)
		die("%s: made by numerics version %lu, which this program "
		    "lacks: read its tokens again",
		    name, (unsigned long)version);
}

struct qwen_rope tool_rope;

void
tool_rope_parse(const struct cli_opt *o, const char *arg)
{
	if (qwen_rope_parse(o->to, arg) < 0)
		cli_usage("--rope-scaling: '%s' is not none, linear=F, yarn=F "
		    "or yarn=F,orig=N, with F from 1 to %d in steps of 0.001 "
		    "and N up to %d",
		    arg, QWEN_ROPE_FACTOR_MAX, QWEN_ROPE_N_MAX);
}

struct tool_lora tool_lora;

void
tool_lora_parse(const struct cli_opt *o, const char *arg)
{
	struct tool_lora *l = o->to;
	struct qwen_adapter a = { .path = arg, .scale = 1 };
	const char *eq = strrchr(arg, '=');

	if (eq != NULL && access(arg, F_OK) == -1) {
		a.scale = cli_double("--lora", eq + 1, -1e6, 1e6);
		a.path = cli_format("%.*s", (int)(eq - arg), arg);
	}
	if (a.path[0] == '\0')
		cli_usage("--lora: no file in '%s'", arg);
	cli_protect_input(a.path, "an adapter that is in use");
	cli_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v);
	l->v[l->n++] = a;
}

/* Notes a RoPE scaling set by --rope-scaling or by the file. */
static void
tell_rope(const struct qwen_model *m)
{
	struct qwen_rope r = qwen_model_rope(m);
	char text[QWEN_ROPE_TEXT];

	if (r.kind == QWEN_ROPE_FILE) {
		r = qwen_model_rope_of_file(m);
		if (r.kind != QWEN_ROPE_NONE && r.factor > 1000)
			cli_note("RoPE scaled by %s, as the file says: %zu "
			    "tokens of context", qwen_rope_text(&r, text),
			    qwen_model_n_ctx(m));
		return;
	}
	qwen_rope_text(&r, text);
	if (r.kind == QWEN_ROPE_NONE)
		cli_note("RoPE not scaled: %zu tokens of context",
		    qwen_model_n_ctx(m));
	else
		cli_note("RoPE scaled by %s: %zu tokens of context, trained "
		    "with %u; results for short texts change as well", text,
		    qwen_model_n_ctx(m), (unsigned)r.n_orig);
}

const char *tool_device;

struct qwen_model *
tool_model_open(const char *opt, int n_threads, unsigned numerics)
{
	static const struct tool_draft none;

	return tool_model_open_draft(opt, n_threads, numerics, &none);
}

/*
 * Dies since a model was not opened.  A value out of range is that of the device
 * if the model opens without.
 */
static void
die_of_model(const char *path, struct qwen_model_opts mo,
    const struct qwen_err *why)
{
	const char *device = mo.device;
	struct qwen_model *m;
	struct qwen_err err;

	mo.device = NULL;
	if (device != NULL && qwen_model_open_gguf(&m,
	    tool_gguf_open_threads(path, mo.n_threads), &mo, &err) == 0)
		path = tool_device != NULL ? "--device" : "QWEN_DEVICE";
	cli_die_err(path, why);
}

static void
tell(void *arg, const char *text)
{
	(void)arg;
	cli_note("%s", text);
}

/*
 * A process that is not rank 0 of MPI computes for rank 0, as often as that opens
 * a model, and then exits.
 */
static void
serve_rank(struct qwen_model *m, const char *path,
    const struct qwen_model_opts *mo)
{
	int rc;

	while ((rc = cli_must(NULL, qwen_model_serve(m, &cli_err))) == 2) {
		qwen_model_close(m);
		cli_must(path, qwen_model_open_gguf(&m,
		    tool_gguf_open_threads(path, mo->n_threads), mo, &cli_err));
	}
	if (rc == 0)
		return;
	qwen_model_close(m);
	exit(0);
}

struct qwen_model *
tool_model_open_draft(const char *opt, int n_threads, unsigned numerics,
    const struct tool_draft *d)
{
	struct qwen_model_opts mo = { .n_threads = n_threads,
	    .numerics = numerics, .k = (enum qwen_kv)tool_kv[0],
	    .v = (enum qwen_kv)tool_kv[1], .rope = tool_rope,
	    .draft = d->mode >= QWEN_DRAFT_MTP, .draft_file = d->file,
	    .adapters = tool_lora.v, .n_adapters = tool_lora.n,
	    .share = tool_share, .note = tell };
	const char *path = tool_model_path(opt);
	struct qwen_model *m;

	if (d->file != NULL)
		cli_protect_input(d->file, "the draft model that is in use");
	mo.cpu = tool_cpu();
	mo.tuning = tool_tuning();
	mo.device = tool_device != NULL ? tool_device :
	    cli_env("QWEN_DEVICE");
	if (qwen_model_open_gguf(&m, tool_gguf_open_threads(path, n_threads),
	    &mo, &cli_err) < 0)
		die_of_model(path, mo, &cli_err);
	serve_rank(m, path, &mo);
	tell_rope(m);
	return m;
}

void
tool_header_init(struct qwen_header *h, enum qwen_stream_kind kind,
    const struct qwen_model *m)
{
	cli_must(qwen_gguf_path(qwen_model_gguf(m), 0), qwen_model_header(h,
	    m, kind, &cli_err));
	/* size of the output rows and range of ids of this model */
	h->n_vocab = (uint32_t)qwen_model_n_vocab(m);
}

void
tool_write_header(struct qwen_writer *w, enum qwen_stream_kind kind,
    const struct qwen_model *m)
{
	struct qwen_header h;

	tool_header_init(&h, kind, m);
	cli_must("stdout", qwen_write_header(w, &h, &cli_err));
}
