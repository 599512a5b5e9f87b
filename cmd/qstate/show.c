/* SPDX-License-Identifier: ISC */
/* show.c - what a state holds, as text and as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

/* Blocks of a kind, or all. */
struct sum {
	const char	*kind;
	uint64_t	 blocks, raw, stored;
};

enum { MAX_KINDS = 32 };

/* By kind, in the order of their first blocks; what is too much is "other". */
static size_t
sum_kinds(const struct state *s, struct sum sum[MAX_KINDS])
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
print_fp(const char *what, const struct qwen_fp *fp)
{
	char hex[33];

	printf("%s %s\n", what, qwen_fp_hex(fp, hex));
}

static void
print_text(const char *what, const char *text)
{
	printf("%s", what);
	cli_show(text, strlen(text));
	putchar('\n');
}

static void
print_layers(const struct qwen_state_info *s)
{
	const struct qwen_state_layer *l;
	size_t i, j, n;

	for (i = 0; i < s->n_layers; i++) {
		l = &s->layers[i];
		n = l->kv ? 2 : 5;
		printf("layer %zu %s", i, l->kv ? "kv" : "delta");
		for (j = 0; j < n; j++)
			printf(" %" PRIu64, l->n[j]);
		putchar('\n');
	}
}

static void
print_extra(const struct qwen_state_extra *x)
{
	size_t i;

	for (i = 0; i < x->n_generated; i++)
		printf("generated %" PRIu64 " %" PRIu64 "\n",
		    x->generated[i].pos, x->generated[i].n);
	if (x->sampler != NULL)
		print_text("sampler ", x->sampler);
	if (x->memory[0] != '\0')
		print_text("memory ", x->memory);
	if (x->n_pending > 0) {
		printf("pending ");
		for (i = 0; i < x->n_pending; i++)
			printf("%02x", x->pending[i]);
		putchar('\n');
	}
	if (x->run.options != NULL) {
		printf("run %" PRIu64 " %" PRIu64 " %s", x->run.from,
		    x->run.count, x->run.finished ? "finished" : "unfinished");
		print_text(" ", x->run.options);
	}
}

static void
print_checkpoints(const struct qwen_state_info *s)
{
	const struct qwen_checkpoint *c;
	size_t i;

	for (i = 0; i < s->n_checkpoints; i++) {
		c = &s->checkpoints[i];
		printf("checkpoint %" PRIu64 " %" PRIu64 "%s%s\n", c->at,
		    c->bytes, c->logits ? " logits" : "",
		    c->named ? " named" : "");
	}
}

static void
print_blocks(const struct state *s)
{
	struct qwen_state_block b;
	size_t i;

	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		printf("block %zu %s %" PRId64 " %" PRId64 " %" PRIu64
		    " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", i, b.kind,
		    b.layer, b.at, b.off, b.len, b.offset, b.bytes,
		    b.codec[0] != '\0' ? b.codec : "-");
	}
}

static void
print_sum(const char *what, const struct sum *sum)
{
	/* what each byte stands for; framing alone stands for nothing */
	double ratio = sum->stored > 0 ?
	    (double)sum->raw / (double)sum->stored : 0;

	printf("%s %-9s %6" PRIu64 " %12" PRIu64 " %12" PRIu64 " %6.3f\n",
	    what, sum->kind, sum->blocks, sum->raw, sum->stored, ratio);
}

static void
show_text(const struct state *s)
{
	const struct qwen_state_info *info = s->info;
	struct sum sum[MAX_KINDS], all = { "all", info->n_blocks, info->raw,
	    info->stored };
	size_t i, n = sum_kinds(s, sum);

	print_text("state ", s->name);
	print_fp("fingerprint", &info->fp);
	print_fp("model", &info->header.model);
	print_fp("vocabulary", &info->header.vocab);
	printf("numerics %lu\n", (unsigned long)info->header.numerics);
	printf("form %s\n", info->mapped ? "mapped" : "compressed");
	if (info->part)
		printf("part %" PRIu64 "\n", info->from);
	if (cli_verbose)
		print_layers(info);
	printf("tokens %" PRIu64 "\n", info->n_tokens);
	printf("logits %s\n", info->logits ? "yes" : "no");
	print_checkpoints(info);
	print_extra(info->extra);
	if (cli_verbose)
		print_blocks(s);
	for (i = 0; i < n; i++)
		print_sum("kind ", &sum[i]);
	print_sum("total", &all);
}

/* -------------------------------------------------------------------- JSON */

static void
json_tokens(const struct qwen_state_info *s)
{
	uint64_t i;

	printf(",\"tokens\":[");
	for (i = 0; i < s->n_tokens - s->from; i++)
		printf("%s%" PRId32, i > 0 ? "," : "", s->tokens[i]);
	putchar(']');
}

static void
json_layers(const struct qwen_state_info *s)
{
	const struct qwen_state_layer *l;
	size_t i, j, n;

	printf(",\"layers\":[");
	for (i = 0; i < s->n_layers; i++) {
		l = &s->layers[i];
		n = l->kv ? 2 : 5;
		printf("%s[\"%s\"", i > 0 ? "," : "", l->kv ? "kv" : "delta");
		for (j = 0; j < n; j++)
			printf(",%" PRIu64, l->n[j]);
		putchar(']');
	}
	putchar(']');
}

static void
json_checkpoints(const struct qwen_state_info *s)
{
	const struct qwen_checkpoint *c;
	size_t i;

	printf(",\"checkpoints\":[");
	for (i = 0; i < s->n_checkpoints; i++) {
		c = &s->checkpoints[i];
		printf("%s{\"at\":%" PRIu64 ",\"bytes\":%" PRIu64
		    ",\"logits\":%s,\"named\":%s}", i > 0 ? "," : "", c->at,
		    c->bytes, qstate_bool(c->logits),
		    qstate_bool(c->named));
	}
	putchar(']');
}

static void
json_run(const struct qwen_run *r)
{
	if (r->options == NULL)
		return;
	printf(",\"run\":{\"from\":%" PRIu64 ",\"count\":%" PRIu64
	    ",\"finished\":%s", r->from, r->count,
	    qstate_bool(r->finished));
	qstate_json_text(",\"options\":", r->options);
	putchar('}');
}

static void
json_extra(const struct qwen_state_extra *x)
{
	size_t i;

	printf(",\"generated\":[");
	for (i = 0; i < x->n_generated; i++)
		printf("%s[%" PRIu64 ",%" PRIu64 "]", i > 0 ? "," : "",
		    x->generated[i].pos, x->generated[i].n);
	putchar(']');
	if (x->sampler != NULL)
		qstate_json_text(",\"sampler\":", x->sampler);
	if (x->memory[0] != '\0')
		qstate_json_text(",\"memory\":", x->memory);
	printf(",\"pending\":\"");
	for (i = 0; i < x->n_pending; i++)
		printf("%02x", x->pending[i]);
	putchar('"');
	json_run(&x->run);
}

static void
json_kinds(const struct state *s)
{
	struct sum sum[MAX_KINDS];
	size_t i, n = sum_kinds(s, sum);

	printf(",\"kinds\":[");
	for (i = 0; i < n; i++) {
		qstate_json_text(i > 0 ? ",{\"kind\":" : "{\"kind\":",
		    sum[i].kind);
		printf(",\"blocks\":%" PRIu64 ",\"raw\":%" PRIu64
		    ",\"stored\":%" PRIu64 "}", sum[i].blocks, sum[i].raw,
		    sum[i].stored);
	}
	putchar(']');
}

static void
json_blocks(const struct state *s)
{
	struct qwen_state_block b;
	size_t i;

	printf(",\"blocks\":[");
	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		qstate_json_text(i > 0 ? ",{\"kind\":" : "{\"kind\":",
		    b.kind);
		if (b.layer >= 0)
			printf(",\"layer\":%" PRId64, b.layer);
		if (b.at >= 0)
			printf(",\"at\":%" PRId64, b.at);
		printf(",\"off\":%" PRIu64 ",\"len\":%" PRIu64 ",\"offset\":%"
		    PRIu64 ",\"bytes\":%" PRIu64 ",\"codec\":\"%s\"}", b.off,
		    b.len, b.offset, b.bytes, b.codec);
	}
	putchar(']');
}

static void
show_json(const struct state *s)
{
	const struct qwen_state_info *info = s->info;

	qstate_json_text("{\"state\":", s->name);
	qstate_json_fp("fingerprint", &info->fp);
	qstate_json_fp("model", &info->header.model);
	qstate_json_fp("vocabulary", &info->header.vocab);
	printf(",\"numerics\":%lu,\"mapped\":%s",
	    (unsigned long)info->header.numerics,
	    qstate_bool(info->mapped));
	if (info->part)
		printf(",\"part\":%" PRIu64, info->from);
	printf(",\"n_tokens\":%" PRIu64 ",\"logits\":%s", info->n_tokens,
	    qstate_bool(info->logits));
	json_layers(info);
	json_checkpoints(info);
	json_extra(info->extra);
	json_kinds(s);
	printf(",\"n_blocks\":%zu,\"raw\":%" PRIu64 ",\"stored\":%" PRIu64,
	    info->n_blocks, info->raw, info->stored);
	if (cli_verbose)
		json_blocks(s);
	if (qstate_opt.tokens)
		json_tokens(info);
	printf("}\n");
}

static void
show_tokens(const struct state *s)
{
	uint64_t i;

	for (i = 0; i < s->info->n_tokens - s->info->from; i++)
		printf("%" PRId32 "\n", s->info->tokens[i]);
}

void
qstate_show(char *paths[])
{
	struct state s;

	for (; *paths != NULL; paths++) {
		qstate_open(&s, *paths);
		if (qstate_opt.json)
			show_json(&s);
		else if (qstate_opt.tokens)
			show_tokens(&s);
		else
			show_text(&s);
		qwen_state_close(s.f);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	}
}
