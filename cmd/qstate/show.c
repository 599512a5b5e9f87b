/* SPDX-License-Identifier: ISC */
/* show.c - show the contents of a state, as text or as JSON. */
#include <inttypes.h>
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

/* Print a kind, padded to width; unknown kinds may have any bytes. */
static void
print_kind(const char *kind, size_t width)
{
	size_t n = strlen(kind);

	cli_show(kind, n);
	printf("%*s", n < width ? (int)(width - n) : 0, "");
}

/* ------------------------------------------ fields, as text and as JSON */

static void
put_text(const char *key, const char *value)
{
	printf(qstate_opt.json ? ",\"%s\":" : "%s ", key);
	if (qstate_opt.json) {
		cli_json_string(value);
		return;
	}
	cli_show(value, strlen(value));
	putchar('\n');
}

static void
put_number(const char *key, uint64_t v)
{
	printf(qstate_opt.json ? ",\"%s\":%" PRIu64 : "%s %" PRIu64 "\n", key,
	    v);
}

static void
put_fp(const char *key, const struct qwen_fp *v)
{
	char hex[33];

	put_text(key, qwen_fp_hex(v, hex));
}

void
qstate_print_formats(enum qwen_kv k, enum qwen_kv v,
    const struct qwen_rope *rope, int in_line)
{
	int kv = k != QWEN_KV_F16 || v != QWEN_KV_F16;
	char buf[QWEN_ROPE_TEXT];
	const struct {
		const char	*key, *value;
	} fact[] = {
		{ "keys", kv ? qwen_kv_name(k) : "" },
		{ "values", kv ? qwen_kv_name(v) : "" },
		{ "rope", qwen_rope_text(rope, buf) },
	};
	size_t i;

	for (i = 0; i < sizeof fact / sizeof fact[0]; i++) {
		if (*fact[i].value != '\0')
			printf(qstate_opt.json ? ",\"%s\":\"%s\"" : in_line ?
			    " %s %s" : "%s %s\n", fact[i].key, fact[i].value);
	}
}

/* Begin a list: in JSON an array of this name. */
static void
put_list_begin(const char *name)
{
	if (qstate_opt.json)
		printf(",\"%s\":[", name);
}

static void
put_list_end(void)
{
	if (qstate_opt.json)
		putchar(']');
}

static void
show_layers(const struct qwen_state_info *s)
{
	const struct qwen_state_layer *l;
	size_t i, j;

	put_list_begin("layers");
	for (i = 0; i < s->n_layers; i++) {
		l = &s->layers[i];
		if (qstate_opt.json)
			printf("%s[\"%s\"", i > 0 ? "," : "",
			    l->kv ? "kv" : "delta");
		else
			printf("layer %zu %s", i, l->kv ? "kv" : "delta");
		for (j = 0; j < (l->kv ? 2 : 5); j++)
			printf("%c%" PRIu64, qstate_opt.json ? ',' : ' ',
			    l->n[j]);
		putchar(qstate_opt.json ? ']' : '\n');
	}
	put_list_end();
}

static void
show_checkpoints(const struct qwen_state_info *s)
{
	const struct qwen_checkpoint *c;
	size_t i;

	put_list_begin("checkpoints");
	for (i = 0; i < s->n_checkpoints; i++) {
		c = &s->checkpoints[i];
		if (qstate_opt.json)
			printf("%s{\"at\":%" PRIu64 ",\"bytes\":%" PRIu64
			    ",\"logits\":%s,\"named\":%s}", i > 0 ? "," : "",
			    c->at, c->bytes, qstate_bool(c->logits),
			    qstate_bool(c->named));
		else
			printf("checkpoint %" PRIu64 " %" PRIu64 "%s%s\n",
			    c->at, c->bytes, c->logits ? " logits" : "",
			    c->named ? " named" : "");
	}
	put_list_end();
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
			printf(",\"%s\":{\"%s\":", v.group, v.name);
		else
			printf(",\"%s\":", v.name);
		qstate_json_value(&v);
		group = v.last ? NULL : v.group;
		if (v.group != NULL && v.last)
			putchar('}');
	}
}

static void
show_kinds(const struct qstate_state *s)
{
	struct sum sum[MAX_KINDS + 1];
	size_t i, n = sum_kinds(s, sum);
	double ratio;

	if (!qstate_opt.json)
		sum[n++] = (struct sum){ "all", s->info->n_blocks,
		    s->info->raw, s->info->stored };
	put_list_begin("kinds");
	for (i = 0; i < n; i++) {
		/* 0 for a kind that stores no bytes */
		ratio = sum[i].stored > 0 ?
		    (double)sum[i].raw / (double)sum[i].stored : 0;
		if (qstate_opt.json) {
			qstate_json_text(i > 0 ? ",{\"kind\":" : "{\"kind\":",
			    sum[i].kind);
			printf(",\"blocks\":%" PRIu64 ",\"raw\":%" PRIu64
			    ",\"stored\":%" PRIu64 "}", sum[i].blocks,
			    sum[i].raw, sum[i].stored);
			continue;
		}
		printf("%s ", i + 1 < n ? "kind " : "total");
		print_kind(sum[i].kind, 9);
		printf(" %6" PRIu64 " %12" PRIu64 " %12" PRIu64 " %6.3f\n",
		    sum[i].blocks, sum[i].raw, sum[i].stored, ratio);
	}
	put_list_end();
}

static void
show_blocks(const struct qstate_state *s)
{
	struct qwen_state_block b;
	size_t i;

	put_list_begin("blocks");
	for (i = 0; i < s->info->n_blocks; i++) {
		cli_check_stdout();
		qwen_state_block(s->f, i, &b);
		if (!qstate_opt.json) {
			printf("block %zu ", i);
			print_kind(b.kind, 0);
			printf(" %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64
			    " %" PRIu64 " %" PRIu64 " %s\n", b.layer, b.at,
			    b.off, b.len, b.offset, b.bytes,
			    b.codec[0] != '\0' ? b.codec : "-");
			continue;
		}
		qstate_json_text(i > 0 ? ",{\"kind\":" : "{\"kind\":", b.kind);
		if (b.layer >= 0)
			printf(",\"layer\":%" PRId64, b.layer);
		if (b.at >= 0)
			printf(",\"at\":%" PRId64, b.at);
		printf(",\"off\":%" PRIu64 ",\"len\":%" PRIu64 ",\"offset\":%"
		    PRIu64 ",\"bytes\":%" PRIu64 ",\"codec\":\"%s\"}", b.off,
		    b.len, b.offset, b.bytes, b.codec);
	}
	put_list_end();
}

static void
show_tokens(const struct qstate_state *s)
{
	uint64_t i;

	put_list_begin("tokens");
	for (i = 0; i < s->info->n_tokens - s->info->from; i++) {
		printf(!qstate_opt.json ? "%" PRId32 "\n" : i > 0 ?
		    ",%" PRId32 : "%" PRId32, s->info->tokens[i]);
		cli_check_stdout();
	}
	put_list_end();
}

static void
show(const struct qstate_state *s)
{
	static const struct qwen_fp none;
	const struct qwen_state_info *info = s->info;
	int json = qstate_opt.json;

	if (json)
		qstate_json_text("{\"state\":", s->name);
	else
		put_text("state", s->name);
	put_fp("fingerprint", &info->fp);
	put_fp("model", &info->header.model);
	if (memcmp(&info->header.base, &none, sizeof none) != 0)
		put_fp("base", &info->header.base);
	put_fp("vocabulary", &info->header.vocab);
	put_number("numerics", info->header.numerics);
	qstate_print_formats(info->header.k, info->header.v, &info->header.rope,
	    0);
	if (info->converted && json)
		printf(",\"converted\":true");
	else if (info->converted)
		put_text("converted", "from finer keys and values");
	if (json)
		printf(",\"mapped\":%s", qstate_bool(info->mapped));
	else
		put_text("form", info->mapped ? "mapped" : "compressed");
	if (info->part)
		put_number("part", info->from);
	if (json || cli_verbose)
		show_layers(info);
	put_number(json ? "n_tokens" : "tokens", info->n_tokens);
	if (json)
		printf(",\"logits\":%s", qstate_bool(info->logits));
	else
		put_text("logits", info->logits ? "yes" : "no");
	show_checkpoints(info);
	(json ? json_extra : print_extra)(info->extra);
	if (cli_verbose)
		show_blocks(s);
	show_kinds(s);
	if (!json)
		return;
	put_number("n_blocks", info->n_blocks);
	put_number("raw", info->raw);
	put_number("stored", info->stored);
	if (qstate_opt.tokens)
		show_tokens(s);
	printf("}\n");
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
