/* SPDX-License-Identifier: ISC */
/* show_json.c - what a state holds, as JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "qstate.h"

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
		    c->bytes, qstate_json_bool(c->logits),
		    qstate_json_bool(c->named));
	}
	putchar(']');
}

static void
json_run(const struct qwen_run *r)
{
	if (r->options == NULL)
		return;
	printf(",\"run\":{\"from\":%" PRIu64 ",\"count\":%" PRIu64
	    ",\"finished\":%s,\"options\":", r->from, r->count,
	    qstate_json_bool(r->finished));
	cli_json_string(r->options);
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
	if (x->sampler != NULL) {
		printf(",\"sampler\":");
		cli_json_string(x->sampler);
	}
	if (x->memory[0] != '\0') {
		printf(",\"memory\":");
		cli_json_string(x->memory);
	}
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
	size_t i, n = qstate_sum_kinds(s, sum);

	printf(",\"kinds\":[");
	for (i = 0; i < n; i++) {
		printf("%s{\"kind\":", i > 0 ? "," : "");
		cli_json_string(sum[i].kind);
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
		printf("%s{\"kind\":", i > 0 ? "," : "");
		cli_json_string(b.kind);
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

void
qstate_show_json(const struct state *s)
{
	const struct qwen_state_info *info = s->info;

	printf("{\"state\":");
	cli_json_string(s->name);
	qstate_json_fp("fingerprint", &info->fp);
	qstate_json_fp("model", &info->header.model);
	qstate_json_fp("vocabulary", &info->header.vocab);
	printf(",\"numerics\":%lu,\"mapped\":%s",
	    (unsigned long)info->header.numerics,
	    qstate_json_bool(info->mapped));
	if (info->part)
		printf(",\"part\":%" PRIu64, info->from);
	printf(",\"n_tokens\":%" PRIu64 ",\"logits\":%s", info->n_tokens,
	    qstate_json_bool(info->logits));
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
