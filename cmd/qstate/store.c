/* SPDX-License-Identifier: ISC */
/* store.c - list, measure and clean the prefix store. */
#include <sys/stat.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qstate.h"

static void
warn_store(void *arg, const char *msg)
{
	(void)arg;
	warn("%s: %s", qstate_opt.store, msg);
}

struct qwen_store *
qstate_open_store(void)
{
	struct qwen_store_opts o = { .warn = warn_store };
	struct qwen_store *st;
	struct stat sb;

	if (qstate_opt.store == NULL)
		qstate_opt.store = getenv("QWEN_STORE");
	if (qstate_opt.store == NULL || qstate_opt.store[0] == '\0')
		cli_usage("no store given: use --store, or set QWEN_STORE");
	if (stat(qstate_opt.store, &sb) == -1)
		die("%s: %s", qstate_opt.store, strerror(errno));
	o.dir = qstate_opt.store;
	cli_must(qstate_opt.store, qwen_store_open(&st, &o, &cli_err));
	return st;
}

/* Open the store and list its entries; the caller closes both. */
static struct qwen_store_list *
list_store(struct qwen_store **st)
{
	struct qwen_store_list *l;

	*st = qstate_open_store();
	cli_must(qstate_opt.store, qwen_store_list(&l, *st, &cli_err));
	return l;
}

/*
 * Return 1 if this is the first entry of its model, numerics, KV cache types
 * and RoPE scaling.
 */
static int
begins_model(const struct qwen_store_list *l, size_t i)
{
	const struct qwen_store_entry *e = qwen_store_list_at(l, i), *before;

	if (i == 0)
		return 1;
	before = qwen_store_list_at(l, i - 1);
	return memcmp(&e->model, &before->model, sizeof e->model) != 0 ||
	    e->numerics != before->numerics || e->k != before->k ||
	    e->v != before->v || !qwen_rope_same(&e->rope, &before->rope);
}

/* ------------------------------------------------ the first words of a run */

enum { WORDS_TOKENS = 24, WORDS_BYTES = 48 };

static struct {
	struct qwen_gguf	*gguf;
	struct qwen_tok		*tok;
	struct qwen_header	 header;	/* for the vocabulary
						   fingerprint */
} words;

static void
words_open(const char *model)
{
	words.gguf = tool_gguf_open(tool_model_path(model));
	words.tok = tool_tok_open(words.gguf, QWEN_TOK_DECODE);
	cli_must(qwen_gguf_path(words.gguf, 0), qwen_header_init(&words.header,
	    QWEN_STREAM_TOKENS, words.gguf, &cli_err));
}

static void
words_close(void)
{
	qwen_tok_close(words.tok);
	qwen_gguf_close(words.gguf);
	memset(&words, 0, sizeof words);
}

/*
 * Add the text of the tokens, at most about WORDS_BYTES; line feeds and tabs
 * become blanks.
 */
static void
spell(struct qwen_text *out, const int32_t *ids, size_t n)
{
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	size_t i, k;

	cli_must(NULL, qwen_tok_decoder_new(&d, words.tok,
	    QWEN_TOK_SHOW_SPECIAL, &cli_err));
	for (i = 0; i < n && out->n < WORDS_BYTES; i++) {
		if (qwen_tok_decoder_put(d, ids[i], &s, NULL) < 0)
			break;
		qwen_text_add(out, s.s, s.len);
	}
	qwen_tok_decoder_free(d);
	for (k = 0; k < out->n; k++) {
		if (strchr("\n\r\t", out->s[k]) != NULL)
			out->s[k] = ' ';
	}
}

/*
 * Add the first words of a run to out and return 1.  Return 0 if no model is
 * open, or if the run has another vocabulary.
 */
static int
add_words(struct qwen_text *out, const struct qwen_store_entry *e)
{
	struct qwen_state_file *f;
	const struct qwen_state_info *info;
	struct stat st;
	size_t n;
	char *path;

	if (words.tok == NULL || e->kind != QWEN_STORE_KV ||
	    memcmp(&e->vocab, &words.header.vocab, sizeof e->vocab) != 0)
		return 0;
	path = cli_format("%s/%s", qstate_opt.store, e->path);
	/* in a shared store, another user may have put a link there */
	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	    qwen_state_open(&f, path, NULL) == 0) {
		info = qwen_state_info(f);
		n = (size_t)(info->n_tokens - info->from);
		spell(out, info->tokens, n < WORDS_TOKENS ? n : WORDS_TOKENS);
		qwen_state_close(f);
	}
	free(path);
	return out->n > 0 && !out->failed;
}

/* ---------------------------------------------------------------------- ls */

static const char *
kind_name(const struct qwen_store_entry *e)
{
	return e->kind == QWEN_STORE_KV ? "kv" : "checkpoint";
}

static void
ls_text(const struct qwen_store_entry *e)
{
	time_t used = (time_t)e->used;
	struct qwen_text text = { 0 };
	struct tm tm;
	char when[32], hex[33];

	if (gmtime_r(&used, &tm) == NULL ||
	    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		strcpy(when, "-");
	printf("%-10s %8" PRIu64 " %8" PRIu64 " %12" PRIu64 " %s %s%s",
	    kind_name(e), e->from, e->end, e->bytes, when,
	    qwen_fp_hex(&e->prefix, hex), e->orphan ? " orphan" : "");
	if (cli_verbose) {
		putchar(' ');
		cli_show(e->path, strlen(e->path));
	}
	if (add_words(&text, e)) {
		printf(" text ");
		cli_show(text.s, text.n);
	}
	qwen_text_fini(&text);
	putchar('\n');
}

static void
ls_json(const struct qwen_store_entry *e)
{
	struct qwen_text text = { 0 };

	qstate_open_json(NULL, '{');
	qstate_word("kind", kind_name(e));
	qstate_fp("prefix", &e->prefix);
	qstate_fp("model", &e->model);
	qstate_fp("vocabulary", &e->vocab);
	qstate_formats(e->numerics, e->k, e->v, &e->rope);
	qstate_uint("from", e->from);
	qstate_uint("end", e->end);
	qstate_uint("depth", e->depth);
	qstate_flag("orphan", e->orphan);
	qstate_uint("bytes", e->bytes);
	qstate_int("used", e->used);
	qstate_word("path", e->path);
	if (add_words(&text, e)) {
		qwen_text_add(&text, "", 1);
		qstate_word("text", text.s);
	}
	qwen_text_fini(&text);
	qstate_close_json(0);
}

void
qstate_ls(char *none[])
{
	struct qwen_store *st;
	struct qwen_store_list *l = list_store(&st);
	const struct qwen_store_entry *e;
	size_t i;

	(void)none;
	if (cli_given(&qstate_opt.model))
		words_open(qstate_opt.model);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		e = qwen_store_list_at(l, i);
		if (!qstate_opt.json && begins_model(l, i)) {
			qstate_begin(NULL, "model");
			qstate_fp(NULL, &e->model);
			qstate_formats(e->numerics, e->k, e->v, &e->rope);
			qstate_end();
		}
		if (qstate_opt.json)
			ls_json(e);
		else
			ls_text(e);
	}
	words_close();
	qwen_store_list_free(l);
	qwen_store_close(st);
}

/* ---------------------------------------------------------------------- du */

/* Totals of the entries of a model, or of all entries. */
struct usage {
	uint64_t	files, bytes, tokens;
};

static void
print_usage(const char *what, const struct qwen_store_entry *e,
    const struct usage *u)
{
	char hex[33] = "all";

	if (e != NULL)
		qwen_fp_hex(&e->model, hex);
	if (qstate_opt.json) {
		qstate_open_json(NULL, '{');
		qstate_word(what, hex);
		if (e != NULL)
			qstate_formats(e->numerics, e->k, e->v, &e->rope);
		qstate_uint("files", u->files);
		qstate_uint("bytes", u->bytes);
		qstate_uint("tokens", u->tokens);
		qstate_close_json(0);
		return;
	}
	qstate_begin(NULL, what);
	printf("%*s %-32s %8" PRIu64 " %14" PRIu64 " %10" PRIu64,
	    5 - (int)strlen(what), "", hex, u->files, u->bytes, u->tokens);
	if (e != NULL)
		qstate_formats(e->numerics, e->k, e->v, &e->rope);
	qstate_end();
}

void
qstate_du(char *none[])
{
	struct qwen_store *st;
	struct qwen_store_list *l = list_store(&st);
	struct usage one = { 0 }, all = { 0 };
	const struct qwen_store_entry *e;
	size_t i, n = qwen_store_list_n(l);

	(void)none;
	for (i = 0; i < n; i++) {
		e = qwen_store_list_at(l, i);
		if (begins_model(l, i))
			memset(&one, 0, sizeof one);
		one.files++;
		one.bytes += e->bytes;
		one.tokens += e->end - e->from;
		if (i + 1 < n && !begins_model(l, i + 1))
			continue;
		print_usage("model", e, &one);
		all.files += one.files;
		all.bytes += one.bytes;
		all.tokens += one.tokens;
	}
	print_usage("total", NULL, &all);
	qwen_store_list_free(l);
	qwen_store_close(st);
}

/* ------------------------------------------------------------ gc and rm */

static void
print_removed(const struct qwen_store_gc_result *r)
{
	if (qstate_opt.json)
		printf("{\"removed\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    "},\"left\":{\"files\":%" PRIu64 ",\"bytes\":%" PRIu64
		    "}}\n", r->files, r->bytes, r->left_files, r->left_bytes);
	else if (!cli_quiet)
		printf("removed %" PRIu64 " %" PRIu64 "\nleft %" PRIu64 " %"
		    PRIu64 "\n", r->files, r->bytes, r->left_files,
		    r->left_bytes);
	if (r->files == 0)
		return;
	cli_note("freed %.1f MB in %s; %.1f MB in %s are left",
	    (double)r->bytes * 1e-6, cli_count(r->files, "file"),
	    (double)r->left_bytes * 1e-6, cli_count(r->left_files, "file"));
}

void
qstate_gc(char *none[])
{
	struct qwen_store *st = qstate_open_store();
	struct qwen_store_gc_result r = { 0 };
	uint64_t max = qstate_opt.store_max;

	(void)none;
	cli_must(qstate_opt.store, qwen_store_gc(st,
	    max == TOOL_STORE_UNLIMITED ? 0 : max, &r, &cli_err));
	print_removed(&r);
	qwen_store_close(st);
}

/* Try all prefixes; warn of those that are not found. */
void
qstate_rm(char *digits[])
{
	struct qwen_store *st;
	struct qwen_store_gc_result r, all = { 0 };
	struct qwen_err err;

	if (qstate_opt.all == (digits[0] != NULL))
		cli_usage("rm needs a prefix, or --all");
	st = qstate_open_store();
	do {
		memset(&r, 0, sizeof r);
		if (qwen_store_remove(st, digits[0], &r, &err) < 0) {
			if (err.code != QWEN_ERANGE || digits[0] == NULL)
				cli_die_err(qstate_opt.store, &err);
			warn("%s: %s", qstate_opt.store, err.msg);
			continue;
		}
		all.files += r.files;
		all.bytes += r.bytes;
		all.left_files = r.left_files;
		all.left_bytes = r.left_bytes;
	} while (*digits != NULL && *++digits != NULL);
	print_removed(&all);
	qwen_store_close(st);
}
