/* SPDX-License-Identifier: ISC */
/* diff.c - whether two states are equal, and where they part. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

static void
diff_headers(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	const struct qwen_header *x = &a->header, *y = &b->header;
	char s[33], t[33];

	if (memcmp(&x->model, &y->model, sizeof x->model) != 0)
		qstate_differ_text("model", qwen_fp_hex(&x->model, s),
		    qwen_fp_hex(&y->model, t));
	if (memcmp(&x->vocab, &y->vocab, sizeof x->vocab) != 0)
		qstate_differ_text("vocabulary", qwen_fp_hex(&x->vocab, s),
		    qwen_fp_hex(&y->vocab, t));
	if (x->numerics != y->numerics)
		qstate_differ_number("numerics", x->numerics, y->numerics);
}

static void
token_text(char buf[24], const struct qwen_state_info *s, uint64_t i)
{
	if (i < s->n_tokens)
		snprintf(buf, 24, "%" PRId32, s->tokens[i]);
	else
		snprintf(buf, 24, "-");
}

/* The first token that differs; returns how many are the same. */
static uint64_t
diff_tokens(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	uint64_t i, n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens;
	char x[24], y[24];

	for (i = 0; i < n && a->tokens[i] == b->tokens[i]; i++)
		;
	if (i == a->n_tokens && i == b->n_tokens)
		return i;
	token_text(x, a, i);
	token_text(y, b, i);
	qstate_differ_token(i, x, y);
	return i;
}

/* Does the object belong to the end of its state, not to a checkpoint? */
static int
is_end(const struct state *s, const struct object *o)
{
	return o->at == -1 || (uint64_t)o->at == s->info->n_tokens;
}

static const struct object *
find_object(const struct object *o, size_t n, const struct object *like)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (strcmp(o[i].kind, like->kind) == 0 &&
		    o[i].layer == like->layer && o[i].at == like->at)
			return &o[i];
	}
	return NULL;
}

/* same: so many tokens are the same, and with them what they led to. */
static void
diff_objects(struct state *a, struct state *b, uint64_t same)
{
	size_t na, nb, i;
	struct object *oa = qstate_objects(a, &na);
	struct object *ob = qstate_objects(b, &nb);
	int whole = same == a->info->n_tokens && same == b->info->n_tokens;
	const struct object *o;
	struct part d;

	for (i = 0; i < na; i++) {
		if (oa[i].at >= 0 && (uint64_t)oa[i].at > same)
			continue;
		if ((o = find_object(ob, nb, &oa[i])) == NULL) {
			if (whole && is_end(a, &oa[i]))
				qstate_differ_only("a", oa[i].kind, oa[i].layer,
				    a->info->n_tokens);
			continue;
		}
		qstate_compare(&d, a, b, &oa[i], o, same);
		if (d.count > 0)
			qstate_differ_part(&oa[i], &d);
	}
	for (i = 0; whole && i < nb; i++) {
		if (find_object(oa, na, &ob[i]) == NULL && is_end(b, &ob[i]))
			qstate_differ_only("b", ob[i].kind, ob[i].layer,
			    b->info->n_tokens);
	}
	free(oa);
	free(ob);
}

static const char *
or_none(const char *s)
{
	return s != NULL ? s : "-";
}

static void
diff_run(const struct qwen_run *a, const struct qwen_run *b)
{
	if (strcmp(or_none(a->options), or_none(b->options)) != 0)
		qstate_differ_text("run", or_none(a->options),
		    or_none(b->options));
	else if (a->from != b->from || a->count != b->count)
		qstate_differ_number("run", a->from + a->count,
		    b->from + b->count);
	else if (a->finished != b->finished)
		qstate_differ_number("run", (uint64_t)a->finished,
		    (uint64_t)b->finished);
}

/* Checkpoints at up to same tokens that one has and the other has not. */
static void
diff_checkpoints(const struct qwen_state_info *a,
    const struct qwen_state_info *b, const char *side, uint64_t same)
{
	size_t i, k;

	for (i = k = 0; i < a->n_checkpoints; i++) {
		while (k < b->n_checkpoints &&
		    b->checkpoints[k].at < a->checkpoints[i].at)
			k++;
		if (a->checkpoints[i].at <= same && (k == b->n_checkpoints ||
		    b->checkpoints[k].at != a->checkpoints[i].at))
			qstate_differ_only(side, "checkpoint", -1,
			    a->checkpoints[i].at);
	}
}

/* How the text was made: not part of what follows from it. */
static void
diff_extra(const struct qwen_state_extra *a, const struct qwen_state_extra *b)
{
	size_t i;

	for (i = 0; i < a->n_generated && i < b->n_generated; i++) {
		if (a->generated[i].pos != b->generated[i].pos ||
		    a->generated[i].n != b->generated[i].n)
			break;
	}
	if (i < a->n_generated || i < b->n_generated)
		qstate_differ_number("generated", i < a->n_generated ?
		    a->generated[i].pos : 0, i < b->n_generated ?
		    b->generated[i].pos : 0);
	if (strcmp(or_none(a->sampler), or_none(b->sampler)) != 0)
		qstate_differ_text("sampler", or_none(a->sampler),
		    or_none(b->sampler));
	if (strcmp(a->memory, b->memory) != 0)
		qstate_differ_text("memory", a->memory, b->memory);
	if (a->n_pending != b->n_pending ||
	    memcmp(a->pending, b->pending, a->n_pending) != 0)
		qstate_differ_number("pending", a->n_pending, b->n_pending);
	diff_run(&a->run, &b->run);
}

static int
same_layers(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	size_t i;

	if (a->n_layers != b->n_layers)
		return 0;
	for (i = 0; i < a->n_layers; i++) {
		if (a->layers[i].kv != b->layers[i].kv || memcmp(
		    a->layers[i].n, b->layers[i].n, (a->layers[i].kv ? 2 : 5) *
		    sizeof a->layers[i].n[0]) != 0)
			return 0;
	}
	return 1;
}

int
qstate_diff(char *paths[])
{
	struct state s[2];
	uint64_t same = 0;
	int i, status;

	for (i = 0; i < 2; i++) {
		qstate_open(&s[i], paths[i]);
		if (s[i].info->part)
			die("%s: a part of a state, from position %" PRIu64
			    " on", s[i].name, s[i].info->from);
	}
	if (qstate_opt.json) {
		printf("{\"a\":");
		cli_json_string(s[0].name);
		printf(",\"b\":");
		cli_json_string(s[1].name);
		printf(",\"differences\":");
	}
	diff_headers(s[0].info, s[1].info);
	if (!same_layers(s[0].info, s[1].info))
		qstate_differ_number("layers", s[0].info->n_layers,
		    s[1].info->n_layers);
	else if (qstate_n_differ == 0) {
		same = diff_tokens(s[0].info, s[1].info);
		diff_objects(&s[0], &s[1], same);
	}
	if (qstate_opt.all) {
		diff_checkpoints(s[0].info, s[1].info, "a", same);
		diff_checkpoints(s[1].info, s[0].info, "b", same);
		diff_extra(s[0].info->extra, s[1].info->extra);
	}
	if (qstate_opt.json)
		printf("%s],\"equal\":%s}\n", qstate_n_differ == 0 ? "[" : "",
		    qstate_json_bool(qstate_n_differ == 0));
	qstate_close(&s[0]);
	qstate_close(&s[1]);
	status = cli_finish();
	return qstate_n_differ > 0 ? 1 : status;
}
