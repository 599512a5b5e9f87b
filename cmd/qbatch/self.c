/* SPDX-License-Identifier: ISC */
/*
 * self.c - describe the model and options of this run for its results, without
 * options that do not influence answers, such as threads and memory.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "qbatch.h"

/* Add an option: " name=value", or " name" alone. */
static void
add_option(struct qwen_text *t, const char *name, const char *value)
{
	qwen_text_fmt(t, t->n > 0 ? " %s" : "%s", name);
	if (value != NULL)
		qwen_text_fmt(t, "=%s", value);
}

static void
add_hash(struct qwen_text *t, const char *name, const void *p, size_t n)
{
	char hex[QBATCH_HASH];

	add_option(t, name, qbatch_hex(XXH3_64bits(p, n), hex));
}

char *
qbatch_hex(uint64_t hash, char out[QBATCH_HASH])
{
	snprintf(out, QBATCH_HASH, "%016llx", cli_llu(hash));
	return out;
}

/* --- the model */

/*
 * Return a hash of the weights with adapters, the vocabulary and the file's
 * template.
 */
static uint64_t
hash_model(const struct qwen_gguf *g, const struct qwen_header *h)
{
	struct qwen_str chat = { "", 0 };
	struct qwen_err err;
	XXH3_state_t *s = cli_check_alloc(XXH3_createState());
	uint64_t hash;

	if (qwen_gguf_get_str(g, "tokenizer.chat_template", &chat, &err) < 0)
		chat.len = 0;
	XXH3_64bits_reset(s);
	XXH3_64bits_update(s, &h->model, sizeof h->model);
	XXH3_64bits_update(s, &h->vocab, sizeof h->vocab);
	XXH3_64bits_update(s, chat.s, chat.len);
	hash = XXH3_64bits_digest(s);
	XXH3_freeState(s);
	return hash;
}

/* --- options */

static void
add_arithmetic(struct qwen_text *t, const struct qwen_header *h)
{
	char buf[QWEN_ROPE_TEXT];

	qwen_text_fmt(t, "%snumerics=%u", t->n > 0 ? " " : "", h->numerics);
	add_option(t, h->k == h->v ? "kv" : "kv-k", qwen_kv_name(h->k));
	if (h->k != h->v)
		add_option(t, "kv-v", qwen_kv_name(h->v));
	if (qwen_rope_text(&h->rope, buf)[0] != '\0')
		add_option(t, "rope-scaling", buf);
}

/* Return 1 if the chat template writes the date. */
static int
writes_date(const struct tool_service *w)
{
	struct qwen_str own = { "", 0 };
	char *text;
	size_t n;
	int found;

	if (w->template != NULL && strchr(w->template, '/') == NULL)
		return 0;	/* no published template does */
	if (w->template != NULL)
		text = cli_read_file(w->template, CLI_FILE_MAX, &n);
	else if (qwen_gguf_get_str(w->gguf, "tokenizer.chat_template", &own,
	    &cli_err) < 0)
		return 0;
	else
		text = cli_format("%.*s", (int)own.len, own.s);
	found = strstr(text, "strftime_now") != NULL;
	free(text);
	return found;
}

/*
 * Fix the date of the run: that of its start, even after midnight.  Results
 * record it, so that results of different days are not mixed.
 */
static void
keep_date(const struct tool_service *w)
{
	static char today[sizeof "2026-01-31" + 16];
	struct tm tm;

	if (tool_effort.date != NULL || !writes_date(w) ||
	    tool_template_now(NULL, &tm) < 0 ||
	    strftime(today, sizeof today, "%Y-%m-%d", &tm) == 0)
		return;
	tool_effort.date = today;
}

/* Add the options that influence the tokens of prompts. */
static void
add_prompts(struct qwen_text *t, const struct tool_service *w)
{
	static const char *const systems[] = { NULL, "first", "template" };
	char *text;
	size_t n;

	if (w->template != NULL && strchr(w->template, '/') != NULL) {
		text = cli_read_file(w->template, CLI_FILE_MAX, &n);
		add_hash(t, "template", text, n);
		free(text);
	} else if (w->template != NULL)
		add_option(t, "template", w->template);
	if (tool_effort.level != NULL)
		add_option(t, "effort", tool_effort.level);
	if (tool_effort.high != NULL)
		add_option(t, "effort-high", tool_effort.high);
	if (tool_effort.date != NULL)
		add_option(t, "date", tool_effort.date);
	if (systems[w->systems] != NULL)
		add_option(t, "system-messages", systems[w->systems]);
	if (w->service.placeholder != NULL)
		add_hash(t, "image-placeholder", w->service.placeholder,
		    strlen(w->service.placeholder));
	if (w->service.encode & QWEN_TOK_SPECIAL)
		add_option(t, "special", NULL);
	if (tool_bos_flags != 0)
		add_option(t, tool_bos_flags & TOOL_BOS ? "bos" : "no-bos",
		    NULL);
	if (tool_nfc)
		add_option(t, "nfc", NULL);
}

static void
add_answers(struct qwen_text *t, const struct tool_service *w)
{
	char hex[QBATCH_HASH];

	if (w->grammar.grammar != NULL)
		add_option(t, w->grammar.schema != NULL ? "json-schema" :
		    "grammar", qbatch_hex(w->grammar.hash, hex));
	if (w->service.strict_calls)
		add_option(t, "strict-calls", NULL);
	if (w->ignore_eos)
		add_option(t, "ignore-eos", NULL);
	if (w->mask_unused)
		add_option(t, "mask-unused", NULL);
}

/*
 * Add the default sampling settings of requests, including the model's
 * recommended ones.
 */
static void
add_sampling(struct qwen_text *t, const struct tool_service *w)
{
	struct qwen_sampler *s;
	char *buf;
	size_t i, n;

	cli_must(NULL, qwen_sampler_copy(&s, w->base, &cli_err));
	for (i = 0; i < w->service.n_stop; i++)
		cli_must(NULL, qwen_sampler_set(s, "stop",
		    w->service.stop[i].s, &cli_err));
	if (tool_seed == TOOL_SEED_RANDOM) {
		qwen_sampler_reset(s, "seed");
		add_option(t, "seed", "random");
	}
	n = qwen_sampler_describe(s, NULL, 0) + 1;
	buf = cli_check_alloc(malloc(n));
	qwen_sampler_describe(s, buf, n);
	if (buf[0] != '\0')
		add_option(t, buf, NULL);
	free(buf);
	qwen_sampler_free(s);
}

void
qbatch_self_open(struct qbatch_self *self, const struct tool_service *w,
    const struct qwen_header *h, const char *images)
{
	struct qwen_text t = { 0 };
	size_t i;

	qbatch_hex(hash_model(w->gguf, h), self->hash);
	keep_date(w);
	add_sampling(&t, w);
	add_prompts(&t, w);
	add_answers(&t, w);
	add_arithmetic(&t, h);
	for (i = 0; i < 2; i++) {
		if (i == 1 && images != NULL)
			add_option(&t, images, NULL);
		self->options[i] = cli_format("%s", (char *)cli_check_alloc(
		    t.failed ? NULL : t.s));
		self->limited[i] = w->service.max == SIZE_MAX ?
		    cli_format("n=context %s", t.s) :
		    cli_format("n=%zu %s", w->service.max, t.s);
	}
	qwen_text_fini(&t);
	self->model = w->service.model;
	qbatch_origin_set(&self->origin, self->model, self->hash,
	    self->limited[1]);
}
