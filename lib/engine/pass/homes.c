/* SPDX-License-Identifier: ISC */
/* homes.c - what each device has of a model, as texts and in bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/mpi/mpi.h"
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
	if (m->net.mtp.on && home[QWEN_MIXER(n)] == at) {
		put(t, any ? ", MTP block" : "MTP block");
		any = 1;
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
	struct qwen_plan p = { .n_tokens = n_tokens }, mtp = { 0 };
	struct qwen_kv_shape s = qwen_kv_shape_of(h);
	uint64_t blocks = (n_tokens + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	uint64_t state = (h->n_head_v * h->dk * h->dv + (h->conv_kernel - 1) *
	    (2 * h->n_head_k * h->dk + h->n_head_v * h->dv)) * sizeof(float);
	size_t half;
	int i;

	for (half = 0; half < QWEN_HOMES(h->n_layer); half++) {
		int is_mtp = half == QWEN_MIXER(h->n_layer) ||
		    half == QWEN_FFN(h->n_layer);

		if (home[half] != at || (is_mtp && !m->net.mtp.on))
			continue;
		qwen_plan_half(is_mtp ? &mtp : &p, m, half);
		if (half % 2 != 0 || half == QWEN_HEAD(h->n_layer))
			continue;
		if (qwen_net_layer(&m->net, half / 2)->mixer == QWEN_ATTENTION)
			out->kv += blocks * qwen_kv_block_bytes(&s) *
			    n_sequences;
		else
			out->state += state * n_sequences;
	}
	out->read = p.kv_read + p.state_moved;
	out->macs = p.kv_macs + p.state_macs;
	out->float_macs = p.float_macs + out->macs;
	for (i = 0; i < QWEN_PLAN_N; i++) {
		out->weights += p.part[i].bytes + mtp.part[i].bytes;
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
qwen_homes_spread(unsigned char *home, size_t n_layer,
    const unsigned char *rank, size_t n_ranks, struct qwen_planned *plan,
    size_t *n, struct qwen_err *err)
{
	size_t i;

	if (*n + n_ranks > QWEN_PLAN_HOMES)
		return qwen_fail(err, QWEN_ERANGE, "more than %d ranks and "
		    "devices", QWEN_PLAN_HOMES);
	for (i = 0; i < QWEN_HOMES(n_layer); i++) {
		if (home[i] == 1)
			home[i] = rank[i / 2];
		else if (home[i] > 1)
			home[i] = (unsigned char)(home[i] + n_ranks - 2);
	}
	memmove(plan + n_ranks, plan + 2, (*n - 2) * sizeof *plan);
	plan[0] = (struct qwen_planned){ .name = "mpi:0" };
	for (i = 1; i < n_ranks; i++) {
		plan[i] = (struct qwen_planned){ .name = "" };
		snprintf(plan[i].name, sizeof plan[i].name, "mpi:%zu", i);
	}
	*n += n_ranks - 2;
	return 0;
}

/* The ranks that the model is on, if any: as above, with their hosts. */
static int
spread_ranks(const struct qwen_model *m, unsigned char *home,
    struct qwen_planned *plan, size_t *n, struct qwen_err *err)
{
	const struct qwen_mpi *d = m->place.n > 1 &&
	    m->place.on[1]->dev->ranks ? qwen_mpi_of(m->place.on[1]) : NULL;
	const char *host;
	int i;

	if (d == NULL)
		return 0;
	if (qwen_homes_spread(home, m->net.hp.n_layer, d->rank,
	    (size_t)d->link->n, plan, n, err) < 0)
		return -1;
	for (i = 1; i < d->link->n; i++) {
		host = d->link->peer[i].name;
		snprintf(plan[i].name, sizeof plan[i].name, "mpi:%d on %.*s", i,
		    (int)strcspn(host, ","), host);
	}
	return 0;
}

int
qwen_plan_homes(struct qwen_plan_home *out, size_t max, size_t *n,
    const struct qwen_model *m, const char *device, size_t n_tokens,
    size_t n_sequences, size_t batch, struct qwen_err *err)
{
	struct qwen_wish pass = { .end = n_tokens, .n_share = n_sequences > 0 ?
	    n_sequences : 1 };
	struct qwen_planned plan[QWEN_PLAN_HOMES] = { { .name = "cpu" } };
	size_t size = QWEN_HOMES(m->net.hp.n_layer), k;
	unsigned char *home = qwen_alloc(size, 1);
	int rc;

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
	rc = device != NULL ? qwen_place_plan(m, device, &pass, home, plan, n,
	    err) : spread_ranks(m, home, plan, n, err);
	if (rc < 0) {
		*n = 0;
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
	struct qwen_plan_home home[QWEN_PLAN_HOMES];
	struct text t = { buf, size, at };
	char bytes[48];
	size_t k, n;

	if (qwen_plan_homes(home, QWEN_PLAN_HOMES, &n, m, NULL, 0, 1, 0,
	    NULL) < 0)
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
