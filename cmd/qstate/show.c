/* SPDX-License-Identifier: ISC */
/* show.c - what a state holds, as text. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

static void
add_block(struct sum *sum, const struct qwen_state_block *b)
{
	sum->blocks++;
	sum->raw += b->len;
	sum->stored += b->bytes;
}

size_t
qstate_sum_kinds(const struct state *s, struct sum sum[MAX_KINDS])
{
	struct qwen_state_block b;
	size_t i, k, n = 0;

	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		for (k = 0; k < n && strcmp(sum[k].kind, b.kind) != 0; k++)
			;
		if (k == MAX_KINDS)
			k--;
		if (k == n) {
			memset(&sum[n], 0, sizeof sum[n]);
			sum[n++].kind = k < MAX_KINDS - 1 ? b.kind : "other";
		}
		add_block(&sum[k], &b);
	}
	return n;
}

/* What each byte of the file stands for; framing alone stands for nothing. */
static double
ratio(uint64_t raw, uint64_t stored)
{
	return stored > 0 ? (double)raw / (double)stored : 0;
}

static void
print_fp(const char *what, const struct qwen_fp *fp)
{
	char hex[33];

	printf("%s %s\n", what, qwen_fp_hex(fp, hex));
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
	if (x->sampler != NULL) {
		printf("sampler ");
		qstate_print_masked(x->sampler);
		putchar('\n');
	}
	if (x->memory[0] != '\0') {
		printf("memory ");
		qstate_print_masked(x->memory);
		putchar('\n');
	}
	if (x->n_pending > 0) {
		printf("pending ");
		for (i = 0; i < x->n_pending; i++)
			printf("%02x", x->pending[i]);
		putchar('\n');
	}
	if (x->run.options != NULL) {
		printf("run %" PRIu64 " %" PRIu64 " %s ", x->run.from,
		    x->run.count, x->run.finished ? "finished" : "unfinished");
		qstate_print_masked(x->run.options);
		putchar('\n');
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
	printf("%s %-9s %6" PRIu64 " %12" PRIu64 " %12" PRIu64 " %6.3f\n",
	    what, sum->kind, sum->blocks, sum->raw, sum->stored,
	    ratio(sum->raw, sum->stored));
}

static void
show_text(const struct state *s)
{
	const struct qwen_state_info *info = s->info;
	struct sum sum[MAX_KINDS], all = { .kind = "all" };
	size_t i, n = qstate_sum_kinds(s, sum);

	printf("state ");
	qstate_print_masked(s->name);
	putchar('\n');
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
	all.blocks = info->n_blocks;
	all.raw = info->raw;
	all.stored = info->stored;
	print_sum("total", &all);
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
			qstate_show_json(&s);
		else if (qstate_opt.tokens)
			show_tokens(&s);
		else
			show_text(&s);
		qstate_close(&s);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	}
}
