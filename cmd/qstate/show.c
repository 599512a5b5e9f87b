/* SPDX-License-Identifier: ISC */
/* show.c - show the contents of a state, as text or as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

/* Totals of the blocks of a kind, or of all blocks. */
struct sum {
	const char	*kind;
	uint64_t	 blocks, raw, stored;
};

enum { MAX_KINDS = 32 };

/*
 * Sum the blocks by kind, in the order of their first blocks; kinds beyond the
 * limit are summed as "other".  Return the number of kinds.
 */
static size_t
sum_kinds(const struct qstate_state *s, struct sum sum[MAX_KINDS])
{
	struct qwen_state_block b;
	size_t i, k, n = 0;

	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		for (k = 0; k < n && strcmp(sum[k].kind, b.kind) != 0; k++)
			;
		if (k == MAX_KINDS)
			k--;
		if (k == n)
			sum[n++] = (struct sum){ .kind = k < MAX_KINDS - 1 ?
			    b.kind : "other" };
		sum[k].blocks++;
		sum[k].raw += b.len;
		sum[k].stored += b.bytes;
	}
	return n;
}

static void
show_layers(const struct qwen_state_info *s)
{
	const struct qwen_state_layer *l;
	size_t i, j;

	qstate_open_json("layers", '[');
	for (i = 0; i < s->n_layers; i++) {
		l = &s->layers[i];
		if (qstate_opt.json)
			qstate_open_json(NULL, '[');
		else {
			qstate_begin(NULL, "layer");
			qstate_uint(NULL, i);
		}
		qstate_word(NULL, l->kv ? "kv" : "delta");
		for (j = 0; j < (l->kv ? 2 : 5); j++)
			qstate_uint(NULL, l->n[j]);
		if (qstate_opt.json)
			qstate_close_json(']');
		else
			qstate_end();
	}
	qstate_close_json(']');
}

static void
show_checkpoints(const struct qwen_state_info *s)
{
	const struct qwen_checkpoint *c;
	size_t i;

	qstate_open_json("checkpoints", '[');
	for (i = 0; i < s->n_checkpoints; i++) {
		c = &s->checkpoints[i];
		qstate_begin(NULL, "checkpoint");
		qstate_uint("at", c->at);
		qstate_uint("bytes", c->bytes);
		qstate_flag("logits", c->logits);
		qstate_flag("named", c->named);
		qstate_end();
	}
	qstate_close_json(']');
}

/*
 * Print what is recorded beside the session.  A value without a group has a
 * line, a list one per row; the values of a group share a line.
 */
static void
print_extra(const struct qwen_state_extra *x)
{
	const char *group = NULL;
	struct qwen_state_value v;
	size_t i = 0, row;

	while (qwen_state_extra_next(x, &i, &v)) {
		for (row = 0; v.there && row < qstate_rows(&v); row++) {
			if (group == NULL)
				printf("%s", v.group != NULL ? v.group :
				    v.name);
			putchar(' ');
			qstate_value(&v, row, 0);
			if (v.group == NULL || v.last)
				putchar('\n');
		}
		group = v.last ? NULL : v.group;
	}
}

static void
json_extra(const struct qwen_state_extra *x)
{
	const char *group = NULL;
	struct qwen_state_value v;
	size_t i = 0;

	while (qwen_state_extra_next(x, &i, &v)) {
		if (!v.there && (v.group != NULL || v.type == QWEN_VALUE_TEXT))
			continue;
		if (group == NULL && v.group != NULL)
			qstate_open_json(v.group, '{');
		qstate_json_value(v.name, &v);
		group = v.last ? NULL : v.group;
		if (v.group != NULL && v.last)
			qstate_close_json('}');
	}
}

static void
show_kinds(const struct qstate_state *s)
{
	struct sum sum[MAX_KINDS + 1];
	size_t i, n = sum_kinds(s, sum);
	int pad;

	qstate_open_json("kinds", '[');
	for (i = 0; i < n && qstate_opt.json; i++) {
		qstate_begin("kind", sum[i].kind);
		qstate_uint("blocks", sum[i].blocks);
		qstate_uint("raw", sum[i].raw);
		qstate_uint("stored", sum[i].stored);
		qstate_end();
	}
	qstate_close_json(']');
	if (qstate_opt.json)
		return;
	sum[n++] = (struct sum){ "all", s->info->n_blocks, s->info->raw,
	    s->info->stored };
	for (i = 0; i < n; i++) {
		printf("%s ", i + 1 < n ? "kind " : "total");
		/* unknown kinds may have any bytes */
		cli_show(sum[i].kind, strlen(sum[i].kind));
		pad = 9 - (int)strlen(sum[i].kind);
		printf("%*s", pad > 0 ? pad : 0, "");
		/* 0 for a kind that stores no bytes */
		printf(" %6" PRIu64 " %12" PRIu64 " %12" PRIu64 " %6.3f\n",
		    sum[i].blocks, sum[i].raw, sum[i].stored,
		    sum[i].stored == 0 ? 0 :
		    (double)sum[i].raw / (double)sum[i].stored);
	}
}

static void
show_blocks(const struct qstate_state *s)
{
	struct qwen_state_block b;
	size_t i;

	qstate_open_json("blocks", '[');
	for (i = 0; i < s->info->n_blocks; i++) {
		cli_check_stdout();
		qwen_state_block(s->f, i, &b);
		qstate_begin(NULL, "block");
		if (!qstate_opt.json)
			qstate_uint(NULL, i);
		qstate_word("kind", b.kind);
		if (!qstate_opt.json || b.layer >= 0)
			qstate_int("layer", b.layer);
		if (!qstate_opt.json || b.at >= 0)
			qstate_int("at", b.at);
		qstate_uint("off", b.off);
		qstate_uint("len", b.len);
		qstate_uint("offset", b.offset);
		qstate_uint("bytes", b.bytes);
		qstate_word("codec", qstate_opt.json || b.codec[0] != '\0' ?
		    b.codec : NULL);
		qstate_end();
	}
	qstate_close_json(']');
}

static void
show_tokens(const struct qstate_state *s)
{
	uint64_t i;

	qstate_open_json("tokens", '[');
	for (i = 0; i < s->info->n_tokens - s->info->from; i++) {
		if (qstate_opt.json)
			qstate_int(NULL, s->info->tokens[i]);
		else
			printf("%" PRId32 "\n", s->info->tokens[i]);
		cli_check_stdout();
	}
	qstate_close_json(']');
}

static void
show(const struct qstate_state *s)
{
	const struct qwen_state_info *info = s->info;
	int json = qstate_opt.json;

	qstate_open_json(NULL, '{');
	qstate_word("state", s->name);
	qstate_fp("fingerprint", &info->fp);
	qstate_header(&info->header);
	if (info->converted && json)
		qstate_flag("converted", 1);
	else if (info->converted)
		qstate_word("converted", "from finer keys and values");
	if (json)
		qstate_flag("mapped", info->mapped);
	else
		qstate_word("form", info->mapped ? "mapped" : "compressed");
	if (info->part)
		qstate_uint("part", info->from);
	if (json || cli_verbose)
		show_layers(info);
	qstate_uint(json ? "n_tokens" : "tokens", info->n_tokens);
	if (json)
		qstate_flag("logits", info->logits);
	else
		qstate_word("logits", info->logits ? "yes" : "no");
	show_checkpoints(info);
	(json ? json_extra : print_extra)(info->extra);
	if (cli_verbose)
		show_blocks(s);
	show_kinds(s);
	if (!json)
		return;
	qstate_uint("n_blocks", info->n_blocks);
	qstate_uint("raw", info->raw);
	qstate_uint("stored", info->stored);
	if (qstate_opt.tokens)
		show_tokens(s);
	qstate_close_json(0);
}

void
qstate_show(char *paths[])
{
	struct qstate_state s;
	struct qstate_trace t;

	for (; *paths != NULL; paths++) {
		if (qstate_trace_open(&t, *paths)) {
			if (qstate_opt.tokens)
				die("%s: this is a trace: --tokens is for "
				    "states",
				    t.name);
			qstate_trace_show(&t);
			qstate_trace_close(&t);
			qstate_file_done();
			continue;
		}
		qstate_open(&s, *paths);
		if (qstate_opt.tokens && !qstate_opt.json)
			show_tokens(&s);
		else
			show(&s);
		qwen_state_close(s.f);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	}
}
