/* SPDX-License-Identifier: ISC */
/*
 * moe.c - the gated MLP and experts on a card, beside the plain device; rows
 * whose logits are equal, infinite or not numbers.
 */
#include "engine/cuda/load.h"
#include "layer.h"

struct shape {
	size_t	n_embd, n_ff, n_expert, used, n_ff_shexp;
	int	share_of_all, half;	/* half: the shared expert is f16 */
};

/* What is special about rows or weights. */
enum how { PLAIN, TIES, ODD, BAD_EXPERT, BAD_SHARED };

static struct qwen_mlp
draw_mlp(size_t n_embd, size_t n_ff, size_t n)
{
	return (struct qwen_mlp){ .gate = draw_weight(n_embd, n_ff, n),
	    .up = draw_weight(n_embd, n_ff, n),
	    .down = draw_weight(n_ff, n_embd, n) };
}

static void
make_half(struct qwen_mlp *m)
{
	struct qwen_weight *w[] = { &m->gate, &m->up, &m->down };
	size_t i;

	for (i = 0; i < 3; i++) {
		free_weight(w[i]);
		*w[i] = draw_half(w[i]->n_in, w[i]->n_out);
	}
}

static void
set_shape(struct both *b, const struct shape *s, struct qwen_layer *l)
{
	b->arch.share_of_all = s->share_of_all;
	b->net.hp = (struct qwen_hparams){ .n_layer = 1, .n_embd = s->n_embd,
	    .n_ff = s->n_ff, .n_expert = s->n_expert,
	    .n_expert_used = s->used, .n_ff_exp = s->n_ff,
	    .n_ff_shexp = s->n_ff_shexp, .expert_scale = 1.25f };
	*l = (struct qwen_layer){ .ffn = QWEN_MOE };
	l->mlp = draw_mlp(s->n_embd, s->n_ff, 1);
	l->moe.routed = draw_mlp(s->n_embd, s->n_ff, s->n_expert);
	l->moe.router = draw_weight(s->n_embd, s->n_expert, 1);
	if (s->n_ff_shexp > 0) {
		l->moe.shared = draw_mlp(s->n_embd, s->n_ff_shexp, 1);
		if (s->half)
			make_half(&l->moe.shared);
		l->moe.shared_router = draw_weight(s->n_embd, 1, 1);
	}
}

/* Makes several rows of the router the same, or one logit infinite. */
static void
change_router(struct qwen_moe *m, enum how how)
{
	struct qwen_weight *router = &m->router;
	float *row = (float *)(uintptr_t)router->data;
	float *shared = (float *)(uintptr_t)m->shared_router.data;
	size_t i;

	for (i = 0; i < router->n_out && how == TIES; i++)
		memmove(row + i * router->n_in, row + i % 5 * router->n_in,
		    router->row_bytes);
	if (how == BAD_EXPERT)
		row[3 * router->n_in] = INFINITY;
	if (how == BAD_SHARED)
		shared[5] = INFINITY;
}

/* Copies a weight that is not joined to others. */
static int
put(struct both *b, struct qwen_cuda_weight *out, const struct qwen_weight *w,
    size_t n)
{
	return out->of != NULL ? 0 : qwen_cuda_weight_put(&b->cuda, out, w, n,
	    &b->err);
}

static int
put_mlp(struct both *b, struct qwen_cuda_mlp *out, const struct qwen_mlp *m,
    size_t n)
{
	return put(b, &out->gate, &m->gate, n) < 0 ||
	    put(b, &out->up, &m->up, n) < 0 ||
	    put(b, &out->down, &m->down, n) < 0 ? -1 : 0;
}

static int
load_layer(struct both *b, struct qwen_layer *l, struct qwen_cuda_layer *out,
    int joined)
{
	int rc = 0;

	out->of = l;
	/* it has both kinds */
	l->ffn = QWEN_MLP;
	if (joined)
		rc = qwen_cuda_join_ffn(&b->cuda, out, l, &b->err);
	l->ffn = QWEN_MOE;
	if (joined && rc == 0)
		rc = qwen_cuda_join_ffn(&b->cuda, out, l, &b->err);
	if (rc < 0)
		return -1;
	return put_mlp(b, &out->mlp, &l->mlp, 1) < 0 ||
	    put_mlp(b, &out->routed, &l->moe.routed,
	    b->net.hp.n_expert) < 0 ||
	    put_mlp(b, &out->shared, &l->moe.shared, 1) < 0 ||
	    put(b, &out->router, &l->moe.router, 1) < 0 ||
	    put(b, &out->shared_router, &l->moe.shared_router, 1) < 0 ?
	    -1 : 0;
}

static void
free_mlp(struct qwen_mlp *m)
{
	free_weight(&m->gate);
	free_weight(&m->up);
	free_weight(&m->down);
}

static void
free_layer(struct qwen_layer *l)
{
	free_mlp(&l->mlp);
	free_mlp(&l->moe.routed);
	free_mlp(&l->moe.shared);
	free_weight(&l->moe.router);
	free_weight(&l->moe.shared_router);
}

static float *
draw_rows(const struct both *b, enum how how)
{
	size_t n = b->net.hp.n_embd, t;
	float *x = draw_numbers(b->pass.n * n);

	for (t = 0; t < b->pass.n && how == ODD; t++) {
		if (t % 4 == 1)		/* all logits are the same */
			memset(x + t * n, 0, n * sizeof *x);
		if (t % 4 == 2)
			x[t * n + draw() % n] = t % 8 == 2 ? INFINITY : NAN;
		if (t % 4 == 3)
			x[t * n + draw() % n] = 3e38f;
	}
	return x;
}

static void
check_pass(struct both *b, const struct qwen_cuda_layer *l, const char *name,
    enum how how)
{
	const char *joined = l->mlp.up.data == 0 ? ", joined weights" : "";
	size_t n = b->net.hp.n_embd;
	float *x = draw_rows(b, how);

	put_rows(b, x, b->p->xn, QWEN_CUDA_XN, n);
	make_integers(b);
	qwen_plain_moe(b->p, l->of);
	qwen_cuda_moe(b->c, l);
	ok(same_rows(b, b->p->out, QWEN_CUDA_OUT, n), "%s: experts%s", name, joined);
	qwen_plain_mlp(b->p, l->of);
	qwen_cuda_mlp(b->c, l);
	ok(same_rows(b, b->p->out, QWEN_CUDA_OUT, n), "%s: MLP%s", name, joined);
	free(x);
}

static void
check(const char *name, const struct shape *s, size_t n, enum how how,
    int joined)
{
	struct both b = { 0 };
	struct qwen_layer l;
	struct qwen_cuda_layer on_card = { 0 };
	struct qwen_memory m = { .n_slot = 0 };
	struct qwen_share share = { .mem = &m, .n = n, .n_sure = n };
	int rc;

	random_state = seed_of(name);
	set_shape(&b, s, &l);
	change_router(&l.moe, how);
	b.pass = (struct qwen_pass){ .share = &share, .n_share = 1,
	    .last = SIZE_MAX };
	if ((rc = open_both(&b)) == 0)
		rc = load_layer(&b, &l, &on_card, joined);
	if (rc < 0 || begin_pass(&b) < 0) {
		ok(0, "%s: %s", name, b.err.msg);
		return;
	}
	check_pass(&b, &on_card, name, how);
	end_pass(&b);
	close_both(&b);
	free_layer(&l);
}

int
main(void)
{
	static const struct shape small = { 32, 32, 8, 2, 32, 0, 0 };
	static const struct shape many = { 16, 16, 256, 8, 16, 0, 0 };
	static const struct shape all = { 32, 16, 60, 4, 48, 1, 0 };
	static const struct shape alone = { 48, 32, 37, 5, 0, 0, 0 };
	static const struct shape other = { 32, 32, 16, 3, 32, 0, 1 };
	static const struct shape every = { 16, 16, 40, 40, 16, 1, 0 };
	static const struct shape more = { 16, 16, 300, 10, 16, 0, 0 };
	static const struct {
		const char		*name;
		const struct shape	*shape;
		size_t			 n;
		enum how		 how;
	} checks[] = {
		{ "a row", &small, 1, PLAIN },
		{ "a row, 256 experts", &many, 1, PLAIN },
		{ "a row, equal logits", &many, 1, TIES },
		{ "8 rows", &many, 8, PLAIN },
		{ "33 rows", &many, 33, PLAIN },
		{ "33 rows, equal logits", &small, 33, TIES },
		{ "32 odd rows", &many, 32, ODD },
		{ "43 odd rows", &small, 43, ODD },
		{ "300 experts", &more, 1, PLAIN },
		{ "300 experts, equal logits", &more, 40, TIES },
		{ "300 experts, odd rows", &more, 6, ODD },
		{ "share of all", &all, 7, PLAIN },
		{ "share of all, odd rows", &all, 40, ODD },
		{ "shared expert of another format, a row", &other, 1, PLAIN },
		{ "shared expert of another format", &other, 37, PLAIN },
		{ "no shared expert", &alone, 9, PLAIN },
		{ "no shared expert, odd rows", &alone, 35, ODD },
		{ "one infinite logit", &many, 9, BAD_EXPERT },
		{ "infinite logit of the shared expert", &many, 9,
		    BAD_SHARED },
		{ "all experts", &every, 5, PLAIN },
		{ "all experts, equal logits", &every, 34, TIES },
	};
	size_t i;

	for (i = 0; i < 2 * sizeof checks / sizeof checks[0]; i++)
		check(checks[i / 2].name, checks[i / 2].shape,
		    checks[i / 2].n, checks[i / 2].how, (int)i % 2);
	return done_testing();
}
