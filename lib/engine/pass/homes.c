/* SPDX-License-Identifier: ISC */
/* homes.c - what each device has of a model, as texts and in bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pass/open.h"
#include "engine/pass/pass.h"

/* A text that is cut where its memory ends, as by snprintf. */
struct text {
	char	*buf;
	size_t	 size, n;
};

static void
put(struct text *t, const char *s)
{
	int n = snprintf(t->buf + (t->n < t->size ? t->n : t->size),
	    t->n < t->size ? t->size - t->n : 0, "%s", s);

	t->n += n > 0 ? (size_t)n : 0;
}

/*
 * Appends "SEPARATOR WHAT 0-3, 8" for the layers whose half is at home in device
 * `at'; half is 0 for mixers, 1 for feed-forward parts.  Returns 1 if there are
 * any.
 */
static int
put_layers(struct text *t, const char *before, const char *what,
    const struct qwen_model *m, const unsigned char *home, size_t half,
    size_t at)
{
	size_t i, end, n = m->net.hp.n_layer;
	char range[48];
	int any = 0;

	for (i = 0; i < n; i = end + 1) {
		for (end = i; end < n && home[2 * end + half] == at; end++)
			;
		if (end == i)	/* not at home there: the loop adds 1 */
			continue;
		put(t, any ? " and " : before);
		put(t, any ? "" : what);
		if (end == i + 1)
			snprintf(range, sizeof range, "%zu", i);
		else
			snprintf(range, sizeof range, "%zu-%zu", i, end - 1);
		put(t, range);
		any = 1;
	}
	return any;
}

/* Appends which halves of layers are at home in device `at'. */
static void
put_home(struct text *t, const struct qwen_model *m,
    const unsigned char *home, size_t at)
{
	const char *ffn = m->net.hp.n_expert > 0 ? "experts of layers " :
	    "MLPs of layers ";
	size_t i, n = m->net.hp.n_layer;
	int any;

	for (i = 0; i < n && (home[QWEN_MIXER(i)] == at) ==
	    (home[QWEN_FFN(i)] == at); i++)
		;
	if (i == n)
		any = put_layers(t, "", "layers ", m, home, 0, at);
	else {
		any = put_layers(t, "", "mixers of layers ", m, home, 0, at);
		any |= put_layers(t, any ? ", " : "", ffn, m, home, 1, at);
	}
	if (home[QWEN_HEAD(n)] == at)
		put(t, any ? ", head" : "head");
	else if (!any)
		put(t, "nothing");
}

/* Sets the bytes of *out, a device that is home `at'. */
static void
count_home(struct qwen_plan_home *out, const struct qwen_model *m,
    const unsigned char *home, size_t at, size_t n_tokens, size_t n_sequences)
{
	const struct qwen_hparams *h = &m->net.hp;
	struct qwen_plan p = { .n_tokens = n_tokens };
	struct qwen_kv_shape s = qwen_kv_shape_of(h);
	uint64_t blocks = (n_tokens + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	uint64_t state = (h->n_head_v * h->dk * h->dv + (h->conv_kernel - 1) *
	    (2 * h->n_head_k * h->dk + h->n_head_v * h->dv)) * sizeof(float);
	size_t half;
	int i;

	for (half = 0; half < QWEN_HOMES(h->n_layer); half++) {
		if (home[half] != at)
			continue;
		qwen_plan_half(&p, m, half);
		if (half % 2 != 0 || half / 2 >= h->n_layer)
			continue;
		if (m->net.layer[half / 2].mixer == QWEN_ATTENTION)
			out->kv += blocks * qwen_kv_block_bytes(&s) *
			    n_sequences;
		else
			out->state += state * n_sequences;
	}
	out->read = p.kv_read + p.state_moved;
	out->macs = p.kv_macs + p.state_macs;
	out->float_macs = p.float_macs + out->macs;
	for (i = 0; i < QWEN_PLAN_N; i++) {
		out->weights += p.part[i].bytes;
		out->read += p.part[i].read;
		out->macs += p.part[i].macs;
	}
}

static void
fill_home(struct qwen_plan_home *out, const struct qwen_model *m,
    const unsigned char *home, size_t at, size_t n_tokens, size_t n_sequences)
{
	struct text t = { out->what, sizeof out->what, 0 };

	put_home(&t, m, home, at);
	count_home(out, m, home, at, n_tokens, n_sequences);
}

int
qwen_plan_homes(struct qwen_plan_home *out, size_t max, size_t *n,
    const struct qwen_model *m, const char *device, size_t n_tokens,
    size_t n_sequences, size_t batch, struct qwen_err *err)
{
	struct qwen_wish pass = { .end = n_tokens, .n_share = n_sequences > 0 ?
	    n_sequences : 1 };
	struct qwen_planned plan[1 + QWEN_REMOTE_MAX] = { { .name = "cpu" } };
	size_t size = QWEN_HOMES(m->net.hp.n_layer), k;
	unsigned char *home = qwen_alloc(size, 1);

	*n = 0;
	if (home == NULL)
		return qwen_oom(err);
	/* with drafts */
	pass.n = qwen_batch_size(m, batch, n_tokens > 0 ? n_tokens *
	    pass.n_share : 1, NULL) + QWEN_GUESS_MAX * pass.n_share;
	memcpy(home, m->place.home, size);
	for (k = 1; device == NULL && k < m->place.n; k++) {
		const struct qwen_resident *r = m->place.on[k];

		plan[k] = (struct qwen_planned){ .name = "" };
		if (r->dev->describe != NULL)
			r->dev->describe(r, plan[k].name, sizeof plan[k].name);
		else
			snprintf(plan[k].name, sizeof plan[k].name, "%s",
			    r->dev->name);
	}
	*n = m->place.n;
	if (device != NULL && qwen_place_plan(m, device, &pass, home, plan,
	    n, err) < 0) {
		free(home);
		return -1;
	}
	*n = *n < max ? *n : max;
	for (k = 0; k < *n; k++) {
		memset(&out[k], 0, sizeof out[k]);
		memcpy(out[k].device, plan[k].name, sizeof plan[k].name);
		memcpy(out[k].card, plan[k].card.name,
		    sizeof plan[k].card.name);
		out[k].left = plan[k].card.left;
		out[k].scratch = plan[k].card.scratch;
		out[k].speed = plan[k].card.read;
		fill_home(&out[k], m, home, k, n_tokens,
		    n_sequences > 0 ? n_sequences : 1);
	}
	free(home);
	return 0;
}

size_t
qwen_home_lines(const struct qwen_model *m, char *buf, size_t size, size_t at)
{
	struct qwen_plan_home home[1 + QWEN_REMOTE_MAX];
	struct text t = { buf, size, at };
	char bytes[48];
	size_t k, n;

	if (qwen_plan_homes(home, 1 + QWEN_REMOTE_MAX, &n, m, NULL, 0, 1,
	    0, NULL) < 0)
		return at;
	for (k = 1; k < n; k++) {
		put(&t, home[k].device);
		put(&t, ": ");
		put(&t, home[k].what);
		snprintf(bytes, sizeof bytes, ", %.3g GB\n",
		    (double)home[k].weights / 1e9);
		put(&t, bytes);
	}
	if (m->place.why[0] != '\0') {
		put(&t, "device auto: ");
		put(&t, m->place.why);
		put(&t, "\n");
	}
	return t.n;
}
