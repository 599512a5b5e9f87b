/* SPDX-License-Identifier: ISC */
/*
 * device.c - the plain device: its memory for a pass, and rows through the layers.
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
    const struct qwen_net *net, const unsigned char *home, size_t index,
    struct qwen_err *err)
{
	struct qwen_plain *d = qwen_alloc(1, sizeof *d);

	(void)e;
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
	free(qwen_plain_of(r));
}

/* -------------------------------------------------------- memory of a pass */

/* Memory that is shared out, or only counted if at is NULL. */
struct room {
	unsigned char	*at;
	size_t		 bytes;
	int		 failed;	/* the count overflowed */
};

/* Sets the pointer at pp to room for n numbers of so many bytes. */
static void
take(struct room *m, void *pp, size_t n, size_t size)
{
	unsigned char *p = m->at != NULL ? m->at + m->bytes : NULL;
	size_t bytes;

	memcpy(pp, &p, sizeof p);
	if (qwen_mul(n, size, &bytes) < 0 || qwen_add(bytes, 63, &bytes) < 0 ||
	    qwen_add(m->bytes, bytes / 64 * 64, &m->bytes) < 0)
		m->failed = 1;
}

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

static void
set_widths(struct qwen_plain_work *w)
{
	const struct qwen_hparams *h = &w->net->hp;
	size_t delta = qwen_delta_row_of(h).beta + h->n_head_v;

	/* a query and a gate; the MTP block's inputs */
	w->in_width = max_size(2 * h->n_embd, max_size(delta,
	    (2 * h->n_head + 2 * h->n_head_kv) * h->n_embd_head));
	w->o_width = max_size(h->n_head * h->n_embd_head,
	    h->n_head_v * h->dv);
	w->ff_width = max_size(h->n_ff, max_size(h->n_ff_exp, h->n_ff_shexp));
	w->widest = max_size(2 * h->n_embd, max_size(w->o_width, w->ff_width));
}

/* Places all arrays for n rows. */
static void
take_all(struct room *m, struct qwen_plain_work *w, size_t n)
{
	const struct qwen_hparams *h = &w->net->hp;
	size_t groups = (w->widest + QWEN_GROUP - 1) / QWEN_GROUP;
	size_t state = h->n_head_v * h->dk * h->dv + h->conv_kernel *
	    qwen_delta_row_of(h).z, f = sizeof(float);

	take(m, &w->x, n, h->n_embd * f);
	take(m, &w->xn, n, h->n_embd * f);
	take(m, &w->out, n, h->n_embd * f);
	take(m, &w->in, n, w->in_width * f);
	take(m, &w->o, n, w->o_width * f);
	take(m, &w->gate, n, w->ff_width * f);
	take(m, &w->up, n, w->ff_width * f);
	take(m, &w->y, n, h->n_embd * f);
	take(m, &w->router, n, (h->n_expert + 1) * f);
	take(m, &w->share, n, (h->n_expert + 1) * f);
	take(m, &w->chosen, n, h->n_expert + 1);
	take(m, &w->from, n, sizeof *w->from);
	take(m, &w->to, n, sizeof *w->to);
	take(m, &w->group, n, 2 * groups * sizeof *w->group);
	take(m, &w->rounded, n, w->widest * f);
	take(m, &w->acc, n, 2 * f);
	take(m, &w->low, n, qwen_loras_width(w->net) * f);
	take(m, &w->row, w->widest, f);
	take(m, &w->state, state, f);
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
	w->d = qwen_plain_of(r);
	w->net = r->net;
	set_widths(w);
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
		qwen_plain_unmap(work_of(work)->d, work_of(work)->memory);
	free(work);
}

static uint64_t
plain_bytes(const struct qwen_resident *r, size_t n, size_t n_share,
    size_t end)
{
	struct qwen_plain_work w = { .net = r->net };
	struct room count = { 0 };

	(void)n_share;
	(void)end;
	set_widths(&w);
	take_all(&count, &w, n);
	return count.failed ? UINT64_MAX : count.bytes;
}

static int
plain_fit(struct qwen_work *work, size_t n, size_t n_share, size_t end,
    struct qwen_err *err)
{
	struct qwen_plain_work *w = work_of(work);
	uint64_t bytes = plain_bytes(work->r, n, n_share, end);
	struct room room = { 0 };

	if (n <= w->cap)
		return 0;
	qwen_plain_unmap(w->d, w->memory);
	w->memory = NULL;
	w->cap = 0;
	if (bytes > SIZE_MAX || (w->memory = qwen_plain_map(w->d,
	    (size_t)bytes)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for a batch of %zu tokens", n);
	room.at = w->memory;
	take_all(&room, w, n);
	w->cap = n;
	qwen_plain_leave(w->d);
	return 0;
}

/* ------------------------------------------------------------------- a pass */

static struct qwen_plain_work *
enter(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_plain_work *w = work_of(work);

	assert(p->n <= w->cap);
	qwen_plain_enter(w->d);
	return w;
}

static void
plain_embed(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_plain_work *w = enter(work, p);
	size_t t, n = w->net->hp.n_embd;
	float *x = w->x;

	for (t = 0; t < p->n; t++, x += n) {
		if (p->row[t].vec != NULL)
			memcpy(x, p->row[t].vec, n * sizeof *x);
		else
			qwen_plain_embedding(w, &w->net->token_embd,
			    (size_t)p->row[t].id, x);
	}
	qwen_plain_leave(w->d);
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

	for (t = 0; t < p->n; t++, x += w->in_width) {
		qwen_plain_embedding(w, &m->embd, (size_t)p->row[t].id, x);
		qwen_plain_rms_norm(x, x, m->embd_norm, n, h->eps);
		memset(x + n, 0, n * sizeof *x);
		if (p->row[t].vec != NULL)
			qwen_plain_rms_norm(x + n, p->row[t].vec,
			    m->hidden_norm, n, h->eps);
	}
	qwen_plain_multiply(w, &m->proj, w->in, w->in_width, w->x, n, p->n);
	qwen_plain_leave(w->d);
}

static void
plain_put(struct qwen_work *work, const struct qwen_pass *p, const float *x)
{
	struct qwen_plain_work *w = enter(work, p);

	memcpy(w->x, x, p->n * w->net->hp.n_embd * sizeof *x);
	qwen_plain_leave(w->d);
}

static void
plain_get(struct qwen_work *work, const struct qwen_pass *p, float *x)
{
	struct qwen_plain_work *w = enter(work, p);

	memcpy(x, w->x, p->n * w->net->hp.n_embd * sizeof *x);
	qwen_plain_leave(w->d);
}

/*
 * xn = norm(x), with the numbers of x checked.  From the last mixer on, those of
 * rows that nobody wants do not matter.
 */
static void
norm_rows(struct qwen_plain_work *w, const struct qwen_pass *p,
    const float *weights, size_t place)
{
	const struct qwen_hparams *h = &w->net->hp;
	const struct qwen_share *s;
	size_t t, n = h->n_embd;
	float sum;

	for (t = 0; t < p->n; t++) {
		s = &p->share[p->owner[t]];
		sum = qwen_plain_rms_norm(w->xn + t * n, w->x + t * n, weights,
		    n, h->eps);
		if (!isfinite(sum) && (t - s->first >= s->want ||
		    place < QWEN_PLACE_MIXER(h->n_layer - 1)))
			qwen_note_bad(p, t, place);
	}
}

/* x += out */
static void
add_out(struct qwen_plain_work *w, const struct qwen_pass *p)
{
	size_t i;

	for (i = 0; i < p->n * w->net->hp.n_embd; i++)
		w->x[i] += w->out[i];
}

/* Drops the rows that are not wanted. */
static void
drop_rows(struct qwen_plain_work *w, struct qwen_pass *p)
{
	size_t t, n = 0, n_embd = w->net->hp.n_embd;

	for (t = 0; t < p->n; t++) {
		if (qwen_plain_is_wanted(p, p->last, t))
			memmove(w->x + n++ * n_embd, w->x + t * n_embd,
			    n_embd * sizeof *w->x);
	}
	qwen_pass_drop(p);
}

static void
run_layer(struct qwen_plain_work *w, struct qwen_pass *p,
    const struct qwen_layer *l)
{
	norm_rows(w, p, l->mixer_norm, QWEN_PLACE_FFN(l->index) - 2);
	if (l->mixer == QWEN_DELTANET)
		qwen_plain_deltanet(w, p, l);
	else
		qwen_plain_attention(w, p, l);
	add_out(w, p);
	if (l->index == p->last)
		drop_rows(w, p);
	if (l->ffn == QWEN_NO_FFN)
		return;
	norm_rows(w, p, l->ffn_norm, QWEN_PLACE_MIXER(l->index));
	if (l->ffn == QWEN_MOE)
		qwen_plain_moe(w, p, l);
	else
		qwen_plain_mlp(w, p, l);
	add_out(w, p);
}

static void
plain_run(struct qwen_work *work, struct qwen_pass *p, size_t first, size_t n)
{
	struct qwen_plain_work *w = enter(work, p);
	const struct qwen_net *net = w->net;
	size_t i;

	for (i = first; i < first + n && qwen_any_good(p); i++) {
		run_layer(w, p, i == net->hp.n_layer ? &net->mtp.layer :
		    &net->layer[i]);
		if (p->layer != NULL)
			p->layer(p->arg, i);
	}
	qwen_plain_leave(w->d);
}

static void
plain_norm(struct qwen_work *work, const struct qwen_pass *p,
    enum qwen_head head, float *hidden)
{
	struct qwen_plain_work *w = enter(work, p);
	const struct qwen_net *net = w->net;

	if (head == QWEN_HEAD_OUTPUT)
		norm_rows(w, p, net->output_norm,
		    QWEN_PLACE_FFN(net->hp.n_layer - 1));
	else
		norm_rows(w, p, net->mtp.norm,
		    QWEN_PLACE_FFN(net->mtp.layer.index));
	if (hidden != NULL)
		memcpy(hidden, w->xn, p->n * net->hp.n_embd * sizeof *hidden);
	qwen_plain_leave(w->d);
}

/* Multiplies rows at[i] of xn by n_out rows of the head from r on, to y[i]. */
static void
multiply_head(struct qwen_plain_work *w, const struct qwen_weight *m, size_t r,
    size_t n_out, const uint32_t *at, size_t n, float *const *y, size_t y_at)
{
	struct qwen_weight part = qwen_weight_rows(m, r, n_out);
	size_t i;

	for (i = 0; i < n; i++) {
		w->from[i] = w->xn + (at != NULL ? at[i] : i) * m->n_in;
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
	qwen_plain_leave(w->d);
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
	.slot_new = qwen_plain_slot_new, .slot_free = qwen_plain_own_free,
	.slot_put = qwen_plain_slot_put, .slot_get = qwen_plain_slot_get,
	.slot_clear = qwen_plain_slot_clear,
	.state_new = qwen_plain_state_new, .state_free = qwen_plain_own_free,
	.state_put = qwen_plain_state_put, .state_get = qwen_plain_state_get,
};
