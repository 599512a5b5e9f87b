/* SPDX-License-Identifier: ISC */
/* set.c - show and change the settings. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qchat.h"

/* Print a line about a setting, with control characters of names escaped. */
static void __attribute__((format(printf, 1, 2)))
print_setting(const char *fmt, ...)
{
	char line[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	cli_show_text(stderr, line, strlen(line));
	putc('\n', stderr);
}

/* Print the model's name from its metadata, or else the name of its file. */
static void
show_model(const struct qchat *c)
{
	const struct qwen_gguf *g = qwen_model_gguf(c->model);
	const char *path = tool_model_name(qwen_gguf_path(g, 0));
	struct qwen_str name, arch = { "", 0 };
	uint64_t bytes = 0;
	unsigned i;

	if (qwen_gguf_get_str(g, "general.name", &name, NULL) <= 0)
		name = (struct qwen_str){ path, strlen(path) };
	qwen_gguf_get_str(g, "general.architecture", &arch, NULL);
	for (i = 0; i < qwen_gguf_n_shards(g); i++)
		bytes += qwen_gguf_file_bytes(g, i);
	print_setting("model: %.*s (%.*s, %.1f %s), context of %zu tokens",
	    name.len < 200 ? (int)name.len : 200, name.s,
	    arch.len < 40 ? (int)arch.len : 40, arch.s,
	    (double)bytes / (bytes >> 30 ? 1 << 30 : 1 << 20),
	    bytes >> 30 ? "GiB" : "MiB", qwen_model_n_ctx(c->model));
}

/* Return 1 if an answer to the next message would begin with a thought. */
static int
thinks(struct qchat *c)
{
	int yes = 0;

	qchat_say(c, "user", "?", 1, 0);
	if (qchat_prompt(c, NULL, &yes) < 0)
		yes = 0;
	qwen_messages_drop_last(c->messages);
	return yes;
}

int
qchat_model_thinks(struct qchat *c)
{
	struct qwen_messages *m = c->messages;
	int yes = thinks(c);

	if (yes)
		return 1;
	cli_must(NULL, qwen_messages_new(&c->messages, &cli_err));
	cli_must(NULL, qwen_messages_set(c->messages, "enable_thinking",
	    "true", 4, &cli_err));
	yes = thinks(c);
	qwen_messages_free(c->messages);
	c->messages = m;
	return yes;
}

static void
show_sampling(struct qchat *c, int thinking)
{
	struct qwen_sampler *s;
	const char *source;
	char set[1024];

	cli_must(NULL, qwen_sampler_copy(&s, c->options, &cli_err));
	source = tool_sampling_advise(s, qwen_model_gguf(c->model), 1,
	    thinking);
	qwen_sampler_describe(s, set, sizeof set);
	if (source != NULL)
		print_setting("sampling: %s, recommended by the %s", set,
		    source);
	else
		print_setting("sampling: %s", set[0] != '\0' ? set :
		    "the best token");
	qwen_sampler_free(s);
}

void
qchat_show(struct qchat *c)
{
	const struct qchat_document *d;
	int thinking = thinks(c);
	size_t i;

	show_model(c);
	print_setting("template: %s%s%s", qchat_opt.template != NULL ?
	    qchat_opt.template : "the model's", thinking ? "; thinking is on" :
	    qchat_model_thinks(c) ? "; thinking is off" : "",
	    thinking && qchat_opt.hide_thinking ? ", and hidden" : "");
	show_sampling(c, thinking);
	if (qchat_opt.n != INT64_MAX)
		print_setting("answers have at most %lld tokens (-n)",
		    (long long)qchat_opt.n);
	for (i = c->n_documents - qchat_n_waiting(c); i < c->n_documents; i++) {
		d = &c->documents[i];
		print_setting("%s: %s, %s, put before your next message",
		    d->is_image ? "image" : "document", d->name, d->is_image ?
		    cli_count(d->span.n, "token") : cli_count(d->n, "byte"));
	}
}

void
qchat_stops(struct qchat *c)
{
	const char *text;
	size_t i;

	qwen_stop_finder_free(c->cut);
	c->cut = NULL;
	for (i = 0; (text = qwen_sampler_text(c->options, "stop", i)) != NULL;
	    i++)
		tool_stop_at(&c->cut, text);
}

static void
set_count(const char *value)
{
	char *end;
	long long n = strtoll(value, &end, 10);

	if (*value == '\0')
		qchat_opt.n = INT64_MAX;
	else if (*end != '\0' || n < 0)
		warn("/set n: '%.40s' is not a number of tokens", value);
	else
		qchat_opt.n = n;
}

/* Set an option; an empty value resets it.  0, or -1 and cli_err. */
static int
change(struct qwen_sampler *s, const char *name, const char *value)
{
	char seed[TOOL_SEED_ROOM];

	if (strcmp(name, "seed") == 0 && strcmp(value, "random") == 0) {
		tool_seed_draw(seed);
		value = seed;
		print_setting("seed %s", seed);
	}
	if (*value == '\0' && qwen_sampler_set(s, name, NULL, &cli_err) < 0 &&
	    cli_err.code == QWEN_EUNSUP)
		return -1;
	if (*value == '\0')
		qwen_sampler_reset(s, name);
	else if (qwen_sampler_set(s, name, value, &cli_err) < 0)
		return -1;
	return qwen_sampler_check(s, &cli_err);
}

/*
 * Return this program's name of an option, to be freed: temp for temperature,
 * top-k for top_k.
 */
static char *
our_name(const char *word, size_t n)
{
	char *name = cli_format("%.*s", (int)n, word), *s;
	const char *ours;

	for (s = name; *s != '\0'; s++)
		*s = *s == '_' ? '-' : *s;
	if ((ours = cli_our_name(name, strlen(name))) != NULL) {
		free(name);
		name = cli_format("%s", ours);
	}
	if (strcmp(name, "count") == 0)
		strcpy(name, "n");
	return name;
}

/* Return -1 after a warning if another command sets this, else 0. */
static int
warn_other_command(const char *name)
{
	static const char *const other[][2] = {
		{ "system", "/system TEXT" }, { "think", "/think on" },
		{ "nothink", "/think off" }, { "mem", "qchat --mem" },
		{ "parameter", "/set NAME VALUE, without that word" },
		{ "num-ctx", "qchat --mem" }, { "context", "qchat --mem" },
	};
	size_t i;

	for (i = 0; i < sizeof other / sizeof *other; i++) {
		if (strcmp(name, other[i][0]) != 0)
			continue;
		warn("/set has no %s; see %s", name, other[i][1]);
		return -1;
	}
	return 0;
}

static const char *
option_name(size_t i)
{
	return i < qwen_sample_n_opts() ? qwen_sample_opt(i)->name : NULL;
}

static void
warn_wrong(const char *name)
{
	const char *near = cli_err.code == QWEN_EUNSUP ?
	    cli_nearest(name, option_name) : NULL;

	warn("/set %.40s: %s%s%s%s", name, cli_err.msg,
	    near != NULL ? " (did you mean " : "", near != NULL ? near : "",
	    near != NULL ? "?)" : "");
}

void
qchat_set(struct qchat *c, const char *arg)
{
	size_t n = strcspn(arg, " ");
	struct qwen_sampler *s;
	char *name;

	if (n == 0) {
		qchat_show(c);
		return;
	}
	name = our_name(arg, n);
	arg += n + strspn(arg + n, " ");
	if (warn_other_command(name) < 0) {
		free(name);
		return;
	}
	if (strcmp(name, "n") == 0) {
		set_count(arg);
		free(name);
		return;
	}
	cli_must(NULL, qwen_sampler_copy(&s, c->options, &cli_err));
	if (change(s, name, arg) < 0) {
		warn_wrong(name);
		qwen_sampler_free(s);
	} else {
		qwen_sampler_free(c->options);
		c->options = s;
		if (c->pieces == NULL)
			c->pieces = tool_sampling_pieces(s,
			    qwen_model_gguf(c->model));
		qchat_stops(c);
	}
	free(name);
}
