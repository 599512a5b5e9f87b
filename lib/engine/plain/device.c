/* SPDX-License-Identifier: ISC */
/*
 * device.c - the plain device: its memory for a pass, and rows through layers.
 *
 *	x += mixer(norm(x)); x += ffn(norm(x))
 */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/net/lora.h"
#include "engine/plain/plain.h"

static int
plain_open(struct qwen_resident **out, struct qwen_engine *e,
    const struct qwen_net *net, unsigned char *home, size_t index,
    const struct qwen_wish *wish, struct qwen_err *err)
{
	struct qwen_plain *d = qwen_alloc(1, sizeof *d);

	(void)e;
	(void)wish;
	*out = NULL;
	if (d == NULL)
		return qwen_oom(err);
	d->r = (struct qwen_resident){ .dev = &qwen_plain_device, .net = net,
	    .home = home, .index = index };
	*out = &d->r;
	return 0;
}

static void
plain_close(struct qwen_resident *r)
{
	free(r);
}

/* -------------------------------------------------------- memory of a pass */

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Returns the numbers of the widest row that any array has. */
static size_t
widest(const struct qwen_hparams *h)
{
	size_t n = max_size(2 * h->n_embd, h->n_expert + 1);

	n = max_size(n, (2 * h->n_head + 2 * h->n_head_kv) * h->n_embd_head);
	n = max_size(n, qwen_delta_row_of(h).beta + h->n_head_v);
	return max_size(n, max_size(h->n_ff, max_size(h->n_ff_exp,
	    h->n_ff_shexp)));
}

static int
plain_work_new(struct qwen_work **out, struct qwen_resident *r,
    struct qwen_err *err)
{
	struct qwen_plain_work *w = qwen_alloc(1, sizeof *w);

	*out = NULL;
	if (w == NULL)
		return qwen_oom(err);
	w->w.r = r;
	w->net = r->net;
	w->width = widest(&r->net->hp);
	*out = &w->w;
	return 0;
}

static struct qwen_plain_work *
work_of(struct qwen_work *w)
{
	return (struct qwen_plain_work *)(void *)w;
}

static void
plain_work_free(struct qwen_work *work)
{
	if (work != NULL)
		qwen_plain_unmap(work->r, work_of(work)->memory);
	free(work);
}

enum { ARRAYS = 11 };		/* of rows of numbers */

static uint64_t
plain_bytes(const struct qwen_resident *r, size_t n, size_t n_share,
    size_t end)
{
	const struct qwen_hparams *h = &r->net->hp;
	size_t width = widest(h), groups = qwen_plain_groups(width), all;
	size_t row = 2 * sizeof(float *) + (ARRAYS * width +
	    qwen_loras_width(r->net)) * sizeof(float) +
	    2 * groups * sizeof(struct qwen_plain_group);
	size_t once = groups * sizeof(struct qwen_unpacked) + (width +
	    h->n_head_v * h->dk * h->dv + h->conv_kernel *
	    qwen_delta_row_of(h).z) * sizeof(float);

	(void)n_share;
	(void)end;
	return qwen_mul(n, row, &all) < 0 || qwen_add(all, once, &all) < 0 ?
	    UINT64_MAX : all;
}

/* Shares out the memory for n rows. */
static void
place_arrays(struct qwen_plain_work *w, size_t n)
{
	float **array[ARRAYS] = { &w->x, &w->xn, &w->out, &w->in, &w->o,
	    &w->gate, &w->up, &w->y, &w->router, &w->share, &w->rounded };
	size_t i, groups = qwen_plain_groups(w->width);
	float *p;

	w->from = w->memory;
	w->to = (float **)(w->from + n);
	w->group = (void *)(w->to + n);
	w->unpacked = (void *)(w->group + 2 * groups * n);
	p = (void *)(w->unpacked + groups);
	for (i = 0; i < ARRAYS; i++, p += n * w->width)
		*array[i] = p;
	w->low = p;
	w->row = w->low + n * qwen_loras_width(w->net);
	w->state = w->row + w->width;
}

static int
plain_fit(struct qwen_work *work, size_t n, size_t n_share, size_t end,
    struct qwen_err *err)
{
	struct qwen_plain_work *w = work_of(work);
	uint64_t bytes = plain_bytes(work->r, n, n_share, end);

	if (n <= w->cap)
		return 0;
	qwen_plain_unmap(work->r, w->memory);
	w->cap = 0;
	w->memory = bytes <= SIZE_MAX ? qwen_plain_map(work->r, (size_t)bytes) :
	    NULL;
	if (w->memory == NULL)
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for a batch of %zu tokens", n);
	place_arrays(w, n);
	w->cap = n;
	return 0;
}

/* ------------------------------------------------------------------- a pass */

static struct qwen_plain_work *
enter(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_plain_work *w = work_of(work);

	assert(p->n <= w->cap);
	w->p = p;
	qwen_plain_enter(work->r);
	return w;
}

static void
plain_embed(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_plain_work *w = enter(work, p);
	float *x = w->x;
	size_t t;

	for (t = 0; t < p->n; t++, x += w->width) {
		if (p->row[t].vec != NULL)
			memcpy(x, p->row[t].vec, w->net->hp.n_embd * sizeof *x);
		else
			qwen_plain_embedding(w, &w->net->token_embd,
			    (size_t)p->row[t].id, x);
	}
	qwen_plain_leave(work->r);
}

/* x = proj [norm(embedding); norm(hidden state)] */
static void
plain_join(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_plain_work *w = enter(work, p);
	const struct qwen_mtp *m = &w->net->mtp;
	const struct qwen_hparams *h = &w->net->hp;
	size_t t, n = h->n_embd;
	float *x = w->in;

	for (t = 0; t < p->n; t++, x += w->width) {
		memset(x, 0, 2 * n * sizeof *x);
		if (p->row[t].embd != NULL)
			memcpy(x, p->row[t].embd, n * sizeof *x);
		else if (p->row[t].id >= 0)
			qwen_plain_embedding(w, &m->embd,
			    (size_t)p->row[t].id, x);
		if (p->row[t].embd != NULL || p->row[t].id >= 0)
			qwen_plain_rms_norm(x, x, m->embd_norm, n, h->eps);
		if (p->row[t].vec != NULL)
			qwen_plain_rms_norm(x + n, p->row[t].vec,
			    m->hidden_norm, n, h->eps);
	}
	qwen_plain_multiply(w, &m->proj, w->in, w->x, p->n);
	qwen_plain_leave(work->r);
}

static void
plain_put(struct qwen_work *work, const struct qwen_pass *p, const float *x)
{
	struct qwen_plain_work *w = enter(work, p);
	size_t t, n = w->net->hp.n_embd;

	for (t = 0; t < p->n; t++)
		memcpy(w->x + t * w->width, x + t * n, n * sizeof *x);
	qwen_plain_leave(work->r);
}

/* Copies the rows of an array to x, which has them one after the other. */
static void
copy_rows(const struct qwen_plain_work *w, const float *from, float *x)
{
	size_t t, n = w->net->hp.n_embd;

	for (t = 0; t < w->p->n; t++)
		memcpy(x + t * n, from + t * w->width, n * sizeof *x);
}

static void
plain_get(struct qwen_work *work, const struct qwen_pass *p, float *x)
{
	struct qwen_plain_work *w = enter(work, p);

	copy_rows(w, w->x, x);
	qwen_plain_leave(work->r);
}

/*
 * Norms x to xn, and checks the numbers of x: from the last mixer on, only those
 * of wanted rows.
 */
static void
norm_rows(struct qwen_plain_work *w, const float *weights, size_t place)
{
	const struct qwen_pass *p = w->p;
	const struct qwen_hparams *h = &w->net->hp;
	const struct qwen_share *s;
	float sum;
	size_t t;

	for (t = 0; t < p->n; t++) {
		s = &p->share[p->owner[t]];
		sum = qwen_plain_rms_norm(w->xn + t * w->width, w->x +
		    t * w->width, weights, h->n_embd, h->eps);
		if (!isfinite(sum) && (t - s->first >= s->want ||
		    place < QWEN_PLACE_MIXER(h->n_layer - 1)))
			qwen_note_bad(p, t, place);
	}
}

/* x += out */
static void
add_out(struct qwen_plain_work *w)
{
	size_t t, i;

	for (t = 0; t < w->p->n; t++) {
		for (i = 0; i < w->net->hp.n_embd; i++)
			w->x[t * w->width + i] += w->out[t * w->width + i];
	}
}

/* Adds the deepstack vectors of a layer to out. */
static void
add_deep(struct qwen_plain_work *w, size_t layer)
{
	size_t t, i, n = w->net->hp.n_embd;
	const float *deep;

	for (t = 0; t < w->p->n && layer < w->net->hp.n_deepstack; t++) {
		deep = w->p->row[t].deep;
		for (i = 0; deep != NULL && i < n; i++)
			w->out[t * w->width + i] += deep[layer * n + i];
	}
}

/* Drops the rows that are not wanted. */
static void
drop_rows(struct qwen_plain_work *w, struct qwen_pass *p)
{
	size_t t, n = 0;

	for (t = 0; t < p->n; t++) {
		if (qwen_plain_is_wanted(p, p->last, t))
			memmove(w->x + n++ * w->width, w->x + t * w->width,
			    w->width * sizeof *w->x);
	}
	qwen_pass_drop(p);
}

static void
run_mixer(struct qwen_plain_work *w, struct qwen_pass *p,
    const struct qwen_layer *l)
{
	norm_rows(w, l->mixer_norm, QWEN_PLACE_FFN(l->index) - 2);
	if (l->mixer == QWEN_DELTANET)
		qwen_plain_deltanet(w, l);
	else
		qwen_plain_attention(w, l);
	add_out(w);
	if (l->index == p->last)
		drop_rows(w, p);
}

static void
run_ffn(struct qwen_plain_work *w, const struct qwen_layer *l)
{
	if (l->ffn == QWEN_NO_FFN)
		return;
	norm_rows(w, l->ffn_norm, QWEN_PLACE_MIXER(l->index));
	if (l->ffn == QWEN_MOE)
		qwen_plain_moe(w, l);
	else
		qwen_plain_mlp(w, l);
	add_deep(w, l->index);
	add_out(w);
}

static void
plain_run(struct qwen_work *work, struct qwen_pass *p, size_t first, size_t n)
{
	struct qwen_plain_work *w = enter(work, p);
	const struct qwen_layer *l;
	size_t i;

	for (i = first; i < first + n && qwen_any_good(p); i++) {
		l = qwen_net_layer(w->net, i / 2);
		if (i % 2 == 0) {
			run_mixer(w, p, l);
			continue;
		}
		run_ffn(w, l);
		if (p->layer != NULL)
			p->layer(p->arg, i / 2);
	}
	qwen_plain_leave(work->r);
}

static void
plain_norm(struct qwen_work *work, const struct qwen_pass *p,
    enum qwen_head head, float *hidden)
{
	struct qwen_plain_work *w = enter(work, p);
	const struct qwen_net *net = w->net;
	int output = head == QWEN_HEAD_OUTPUT;

	norm_rows(w, output ? net->output_norm : net->mtp.norm,
	    QWEN_PLACE_FFN(output ? net->hp.n_layer - 1 :
	    net->mtp.layer.index));
	if (hidden != NULL)
		copy_rows(w, w->xn, hidden);
	qwen_plain_leave(work->r);
}

/* Multiplies rows at[i] of xn by n_out rows of the head from r on, to y[i]. */
static void
multiply_head(struct qwen_plain_work *w, const struct qwen_weight *m, size_t r,
    size_t n_out, const uint32_t *at, size_t n, float *const *y, size_t y_at)
{
	struct qwen_weight part = qwen_weight_rows(m, r, n_out);
	size_t i;

	for (i = 0; i < n; i++) {
		w->from[i] = w->xn + (at != NULL ? at[i] : i) * w->width;
		w->to[i] = y[i] + y_at;
	}
	qwen_plain_product(w, &part, 0, n);
}

static void
plain_head(struct qwen_work *work, const struct qwen_pass *p,
    enum qwen_head head, const uint32_t *at, size_t n, float *const *y)
{
	struct qwen_plain_work *w = enter(work, p);
	const struct qwen_net *net = w->net;
	const struct qwen_weight *m = head == QWEN_HEAD_OUTPUT ?
	    &net->output : &net->mtp.head;
	size_t first = m->n_out, last = 0;

	if (head == QWEN_HEAD_DRAFT)
		last = qwen_draft_rows(net, &first) - first;
	multiply_head(w, m, 0, first, at, n, y, 0);
	multiply_head(w, m, m->n_out - last, last, at, n, y, first);
	qwen_plain_leave(work->r);
}

const struct qwen_device qwen_plain_device = {
	.name = "plain", .remote = 1,
	.open = plain_open, .close = plain_close,
	.work_new = plain_work_new, .work_free = plain_work_free,
	.fit = plain_fit, .bytes = plain_bytes,
	.embed = plain_embed, .join = plain_join,
	.put = plain_put, .get = plain_get,
	.run = plain_run, .norm = plain_norm, .head = plain_head,
	.replay = qwen_plain_replay,
	.slot_new = qwen_plain_slot_new, .slot_free = qwen_plain_unmap,
	.slot_put = qwen_plain_slot_put, .slot_get = qwen_plain_slot_get,
	.slot_clear = qwen_plain_slot_clear,
	.state_new = qwen_plain_state_new, .state_free = qwen_plain_unmap,
	.state_put = qwen_plain_state_put, .state_get = qwen_plain_state_get,
};
