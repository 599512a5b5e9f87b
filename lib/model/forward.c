/* SPDX-License-Identifier: ISC */
/*
 * forward.c - a batch of tokens through the layers, and what follows from it.
 *
 *	x = embedding; for each layer: x += mixer(norm(x)); x += ffn(norm(x));
 *	logits = output norm(x)
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/forward.h"

/*
 * Tokens computed together: the more, the more share an expert's weights.
 * Matrices that every token uses are busy with fewer.
 */
#define DEFAULT_BATCH 512
#define DEFAULT_BATCH_MOE 1024

/* Note the first place, in the order of computing, that went wrong. */
static void
note_bad(struct qwen_batch *b, size_t place)
{
	size_t old = atomic_load(&b->bad);

	while (place < old &&
	    !atomic_compare_exchange_weak(&b->bad, &old, place))
		;
}

struct norm {
	const float	*add;	/* added to x first, or NULL */
	const float	*w;
	size_t		 place;	/* 2 * layer for a mixer's input, + 1 ffn's */
};

/* x += add; xn = norm(x), also as operand. */
static void
add_norm(struct qwen_batch *b, void *arg, size_t t)
{
	const struct norm *p = arg;
	size_t i, n = b->hp->n_embd;
	float *x = b->b->x + t * n, sum;

	if (p->add != NULL) {
		const float *y = p->add + t * n;

		for (i = 0; i < n; i++)
			x[i] += y[i];
	}
	sum = b->vec->rmsnorm(b->b->xn + t * n, x, p->w, n, b->hp->eps);
	if (!isfinite(sum))
		note_bad(b, p->place);
	qwen_make_operand(b, b->b->xq, n, t, b->b->xn + t * n, n);
}

static void
embed(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_weight *w = &b->m->token_embd;
	const int32_t *tokens = arg;

	qwen_quant_dequantize(w->quant->type, w->data + (size_t)tokens[t] *
	    w->row_bytes, b->b->x + t * b->hp->n_embd, b->hp->n_embd, NULL);
}

static int
fail_bad(size_t place, size_t n_layer, struct qwen_err *err)
{
	if (place == 0)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "the embedding has a number that is not finite");
	if (place > 2 * n_layer)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "a logit is not finite (output.weight)");
	return qwen_fail(err, QWEN_ENUMERIC,
	    "layer %zu: the hidden state after its %s is not finite",
	    (place - 1) / 2, place % 2 == 1 ? "mixer" : "feed-forward block");
}

/* x += what the mixer made; normed for the feed-forward block. */
static void
run_ffn(struct qwen_batch *b, const struct qwen_layer *l)
{
	struct norm p = { .add = b->b->out, .w = l->ffn_norm,
	    .place = 2 * l->index + 1 };

	qwen_each_token(b, QWEN_STAGE_NORM, add_norm, &p);
	l->ffn(b, l);
}

/* Go on with the tokens whose results are wanted as the whole batch. */
static void
drop_rest(struct qwen_batch *b)
{
	struct qwen_scratch *s = b->b;
	size_t row = b->hp->n_embd;

	b->n -= b->from;
	b->pos += b->from;
	if (b->from > 0) {
		memmove(s->x, s->x + b->from * row, b->n * row * sizeof *s->x);
		memmove(s->out, s->out + b->from * row,
		    b->n * row * sizeof *s->out);
	}
	b->from = 0;
}

/*
 * All layers; what is left of the batch then is its last `want` tokens, with
 * the normed hidden states in xn and xq.  After the mixer of the last layer
 * nothing of the others is read any more.
 */
static int
run_layers(struct qwen_batch *b, const int32_t *tokens, size_t want,
    struct qwen_err *err)
{
	struct norm p = { .add = NULL };
	size_t i, bad, n_layer = b->hp->n_layer;

	qwen_each_token(b, QWEN_STAGE_EMBED, embed, (void *)(uintptr_t)tokens);
	qwen_rope_angles(b);
	for (i = 0; i < n_layer; i++) {
		const struct qwen_layer *l = &b->m->layer[i];

		p.w = l->mixer_norm;
		p.place = 2 * i;
		qwen_each_token(b, QWEN_STAGE_NORM, add_norm, &p);
		p.add = b->b->out;
		b->from = i + 1 < n_layer ? 0 : b->n - want;
		l->mixer(b, l);
		drop_rest(b);
		if (b->n > 0)
			run_ffn(b, l);
		bad = atomic_load(&b->bad);
		if (bad != SIZE_MAX)
			return fail_bad(bad, n_layer, err);
	}
	p.w = b->m->output_norm;
	p.place = 2 * n_layer;
	qwen_each_token(b, QWEN_STAGE_NORM, add_norm, &p);
	bad = atomic_load(&b->bad);
	return bad == SIZE_MAX ? 0 : fail_bad(bad, n_layer, err);
}

/* Logits of n tokens from t, to rows of out. */
static int
run_head(struct qwen_batch *b, size_t t, size_t n, float *out,
    struct qwen_err *err)
{
	size_t i, n_vocab = b->hp->n_vocab, n_embd = b->hp->n_embd;
	struct qwen_linear lin = { &b->m->output, out, n_vocab };

	qwen_linears(b, &lin, 1, b->b->xn + t * n_embd, n_embd,
	    qwen_operand(b, b->b->xq, n_embd, t), n);
	for (i = 0; i < n * n_vocab; i++) {
		if (!isfinite(out[i]))
			return fail_bad(SIZE_MAX, b->hp->n_layer, err);
	}
	return 0;
}

/*
 * Of how many of the batch's n tokens, its last ones, logits are wanted; stop:
 * the last one is the last of all, or a checkpoint.
 */
static size_t
wanted(const struct qwen_eval *how, size_t n, int stop)
{
	if (how->logits == QWEN_LOGITS_ALL)
		return n;
	return how->logits == QWEN_LOGITS_LAST && stop ? 1 : 0;
}

/*
 * Logits of what is left of the batch; the last row stays in the session.  That
 * of a checkpoint on the way is nobody else's business.
 */
static int
run_heads(struct qwen_batch *b, const struct qwen_eval *how, int last,
    struct qwen_err *err)
{
	struct qwen_session *s = b->s;
	size_t n_vocab = b->hp->n_vocab, t, i, n;
	float *rows;
	int r = 0;

	if (b->n == 0)
		return 0;
	if (how->logits == QWEN_LOGITS_LAST) {
		if (run_head(b, b->n - 1, 1, s->logits, err) < 0)
			return -1;
		s->have_logits = 1;
		return how->row == NULL || !last ? 0 :
		    how->row(how->arg, b->pos + b->n - 1, s->logits, err) ?
		    -1 : 0;
	}
	rows = malloc(QWEN_HEAD_ROWS * n_vocab * sizeof *rows);
	if (rows == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	for (t = 0; r == 0 && t < b->n; t += n) {
		n = b->n - t < QWEN_HEAD_ROWS ? b->n - t : QWEN_HEAD_ROWS;
		r = run_head(b, t, n, rows, err);
		for (i = 0; r == 0 && how->row != NULL && i < n; i++)
			r = how->row(how->arg, b->pos + t + i,
			    rows + i * n_vocab, err) ? -1 : 0;
		if (r == 0)
			memcpy(s->logits, rows + (n - 1) * n_vocab,
			    n_vocab * sizeof *rows);
	}
	s->have_logits = r == 0;
	free(rows);
	return r;
}

static int
check_tokens(const struct qwen_session *s, const int32_t *tokens, size_t n,
    struct qwen_err *err)
{
	size_t i, n_vocab = s->model->hp.n_vocab;

	for (i = 0; i < n; i++) {
		if (tokens[i] < 0 || (size_t)tokens[i] >= n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %d (number %zu): ids go from 0 to %zu",
			    (int)tokens[i], i, n_vocab - 1);
	}
	return 0;
}

/*
 * Tokens of one batch, which ends at the session's end from then on; stop and
 * last as above.
 */
static int
run_batch(struct qwen_batch *b, const int32_t *tokens, size_t n,
    const struct qwen_eval *how, int stop, int last, struct qwen_err *err)
{
	struct qwen_session *s = b->s;

	b->n = n;
	b->pos = s->n_tokens;
	atomic_store(&b->bad, SIZE_MAX);
	s->have_logits = 0;
	if (run_layers(b, tokens, wanted(how, n, stop), err) < 0 ||
	    run_heads(b, how, last, err) < 0)
		return -1;
	memcpy(s->tokens + s->n_tokens, tokens, n * sizeof *tokens);
	s->n_tokens += n;
	return 0;
}

int
qwen_session_eval(struct qwen_session *s, const int32_t *tokens, size_t n,
    const struct qwen_eval *how, struct qwen_err *err)
{
	static const struct qwen_eval plain = { .logits = QWEN_LOGITS_LAST };
	struct qwen_batch b = { .s = s, .m = s->model, .hp = &s->model->hp,
	    .vec = s->model->kernels.vec->run.vec, .b = s->scratch };
	size_t done, batch, end, m;
	int cp;

	how = how != NULL ? how : &plain;
	batch = how->batch > 0 ? how->batch : s->model->hp.n_expert > 0 ?
	    DEFAULT_BATCH_MOE : DEFAULT_BATCH;
	batch = batch < n ? batch : n;
	if (n == 0)
		return 0;
	if (check_tokens(s, tokens, n, err) < 0 ||
	    qwen_add(s->n_tokens, n, &end) < 0 ||
	    qwen_session_reserve(s, end, err) < 0 ||
	    qwen_scratch_fit(s, batch, end, err) < 0)
		return -1;
	if (how->keep != NULL && how->keep->every > 0)
		s->every = how->keep->every;
	for (done = 0; done < n; done += m) {
		if (qwen_session_leave_end(s, err) < 0)
			return -1;
		m = n - done < batch ? n - done : batch;
		m = qwen_checkpoints_next(how->keep, s->n_tokens, m, &cp);
		if (run_batch(&b, tokens + done, m, how,
		    cp > 0 || done + m == n, done + m == n, err) < 0)
			return -1;
		if (cp > 0)
			qwen_session_keep(s, cp > 1, NULL);
		if (how->progress != NULL)
			how->progress(how->arg, done + m, n);
	}
	return 0;
}
