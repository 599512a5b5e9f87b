/* SPDX-License-Identifier: ISC */
/*
 * deltanet.c - gated DeltaNet on a card: results, states and journals of several
 * sessions with tokens and drafts, beside the plain device.
 */
#include "layer.h"

struct shape {
	size_t	dk, dv, n_head_k, n_head_v, taps;
	int	grouped, by_key;
};

/* Rows of a session, and what its state lacks. */
struct rows { size_t n, n_sure, owed; };

enum { LAYERS = 2, SHARES_MAX = 4, LAYER = 1 };

/* Numbers of which one in `odd' shows what rounds or overflows; 0: none. */
static float
draw_odd(unsigned odd)
{
	static const float special[] = { INFINITY, -INFINITY, NAN, 0.0f, -0.0f,
	    1e-38f, -3e-42f, 3e38f, 100.0f, -90.0f, -18.5f, 17.0f, -300.0f,
	    -800.0f };

	return odd == 0 || draw() % odd != 0 ? 8.0f * draw_number() :
	    special[draw() % (sizeof special / sizeof special[0])];
}

static void
set_shape(struct both *b, const struct shape *s, struct qwen_layer *l)
{
	struct qwen_hparams *h = &b->net.hp;
	size_t nc = 2 * s->n_head_k * s->dk + s->n_head_v * s->dv, i;

	*h = (struct qwen_hparams){ .n_layer = LAYERS, .n_embd = 16,
	    .eps = 1e-6f, .dk = s->dk, .dv = s->dv, .conv_kernel = s->taps,
	    .n_head_k = s->n_head_k, .n_head_v = s->n_head_v,
	    .grouped = s->grouped };
	/* IN is filled in by hand */
	*l = (struct qwen_layer){ .index = LAYER, .mixer = QWEN_DELTANET };
	l->delta.by_key = s->by_key;
	l->delta.out = draw_weight(s->n_head_v * s->dv, 16, 1);
	l->delta.conv = draw_numbers(nc * s->taps);
	l->delta.a = draw_numbers(s->n_head_v);
	for (i = 0; i < s->n_head_v; i += 3)
		((float *)(uintptr_t)l->delta.a)[i] *= 4.0f;
	l->delta.dt = draw_numbers(s->n_head_v);
	l->delta.norm = draw_numbers(s->dv);
}

static void
free_layer(struct qwen_layer *l)
{
	free_weight(&l->delta.out);
	free((void *)(uintptr_t)l->delta.conv);
	free((void *)(uintptr_t)l->delta.a);
	free((void *)(uintptr_t)l->delta.dt);
	free((void *)(uintptr_t)l->delta.norm);
}

static int
load_layer(struct both *b, const struct qwen_layer *l,
    struct qwen_cuda_layer *out)
{
	const struct qwen_hparams *h = &b->net.hp;
	const struct qwen_deltanet *d = &l->delta;
	struct qwen_cuda *c = &b->cuda;
	size_t nc = qwen_delta_row_of(h).z;

	*out = (struct qwen_cuda_layer){ .of = l };
	return qwen_cuda_vector(c, &out->conv, d->conv, nc * h->conv_kernel,
	    &b->err) < 0 ||
	    qwen_cuda_vector(c, &out->a, d->a, h->n_head_v, &b->err) < 0 ||
	    qwen_cuda_vector(c, &out->dt, d->dt, h->n_head_v, &b->err) < 0 ||
	    qwen_cuda_vector(c, &out->norm, d->norm, h->dv, &b->err) < 0 ||
	    qwen_cuda_weight_put(c, &out->out, &d->out, 1, &b->err) < 0 ?
	    -1 : 0;
}

/* ---- memory of a session: the host's, a copy of the plain device, the card's */

static int
make_memory(struct both *b, struct qwen_memory *m)
{
	const struct qwen_hparams *h = &b->net.hp;
	size_t n_s = h->n_head_v * h->dk * h->dv, i, all;
	size_t n_conv = (h->conv_kernel - 1) * qwen_delta_row_of(h).z;
	struct qwen_journal *j = calloc(1, sizeof *j);

	*m = (struct qwen_memory){ .n_layer = LAYERS + 1, .journal = j,
	    .recurrent_bytes = LAYERS * (n_s + n_conv) * sizeof(float) };
	j->by_layer = qwen_journal_row_of(h).width;
	j->by_row = m->n_layer * j->by_layer;
	j->row_bytes = QWEN_GUESS_MAX * j->by_row * sizeof(float);
	j->row = draw_numbers(QWEN_GUESS_MAX * j->by_row);
	m->recurrent = draw_numbers(LAYERS * (n_s + n_conv));
	m->layer = calloc(m->n_layer, sizeof *m->layer);
	for (i = 0; i < LAYERS; i++) {
		m->layer[i].s = (float *)m->recurrent + i * (n_s + n_conv);
		m->layer[i].conv = m->layer[i].s + n_s;
		m->layer[i].n_s = n_s;
		m->layer[i].n_conv = n_conv;
	}
	all = m->recurrent_bytes + j->row_bytes;
	m->own[0] = malloc(all);
	memcpy(m->own[0], m->recurrent, m->recurrent_bytes);
	memcpy((char *)m->own[0] + m->recurrent_bytes, j->row, j->row_bytes);
	if (qwen_cuda_state_new(&b->cuda.r, m, &m->own[1]) < 0)
		return -1;
	qwen_cuda_state_put(&b->cuda.r, m);
	return 0;
}

/* Is the memory of both devices the same?  That of another layer, too. */
static int
same_memory(struct both *b, const struct qwen_memory *m)
{
	size_t n = m->recurrent_bytes + m->journal->row_bytes;
	float *x = malloc(n);
	int is_same;

	qwen_cuda_get(b->cuda.card, x, qwen_cuda_state_at(&b->cuda.r, m), n);
	is_same = same(x, m->own[0], n / sizeof *x);
	free(x);
	return is_same && b->cuda.card->failed == NULL;
}

static void
free_memory(struct both *b, struct qwen_memory *m)
{
	qwen_cuda_state_free(&b->cuda.r, m->own[1]);
	free(m->own[0]);
	free(m->recurrent);
	free(m->layer);
	free(m->journal->row);
	free(m->journal);
}

/* ---- checks */

static float *
draw_rows(const struct both *b, size_t n, unsigned odd)
{
	size_t width = qwen_delta_row_of(&b->net.hp).beta + b->net.hp.n_head_v;
	float *x = malloc(n * width * sizeof *x);
	size_t i;

	for (i = 0; i < n * width; i++)
		x[i] = draw_odd(odd);
	return x;
}

/* Have the results the groups that a product with integers takes? */
static int
has_groups(struct both *b)
{
	size_t n_out = b->net.hp.n_head_v * b->net.hp.dv, is_same;
	size_t n = b->pass.n * qwen_cuda_groups_bytes(&b->net, n_out);
	cu_ptr groups = b->c->array[QWEN_CUDA_GROUPS];
	char *x = malloc(2 * n);

	qwen_cuda_get(b->cuda.card, x, groups, n);
	qwen_cuda_quantize(b->c, b->c->array[QWEN_CUDA_O],
	    b->c->width[QWEN_CUDA_O] / sizeof(float), n_out, b->pass.n);
	qwen_cuda_get(b->cuda.card, x + n, groups, n);
	is_same = memcmp(x, x + n, n) == 0;
	free(x);
	return is_same && b->cuda.card->failed == NULL;
}

/* A pass of all sessions, then a replay for each. */
static void
check_pass(struct both *b, struct qwen_memory *m, const char *name,
    unsigned odd)
{
	size_t width = qwen_delta_row_of(&b->net.hp).beta + b->net.hp.n_head_v;
	float *x = draw_rows(b, b->pass.n, odd);
	int is_same = 1;
	size_t i;

	put_rows(b, x, b->p->in, QWEN_CUDA_IN, width);
	qwen_plain_deltanet(b->p, &b->net.layer[LAYER]);
	qwen_cuda_deltanet(b->c, &b->cuda.layer[LAYER]);
	ok(same_rows(b, b->p->o, QWEN_CUDA_O, b->net.hp.n_head_v *
	    b->net.hp.dv), "%s: results", name);
	ok(same_rows(b, b->p->out, QWEN_CUDA_OUT, 16), "%s: product", name);
	ok(has_groups(b), "%s: integers", name);
	for (i = 0; i < b->pass.n_share; i++)
		is_same &= same_memory(b, &m[i]);
	ok(is_same, "%s: states and journals", name);
	for (i = 0; i < b->pass.n_share; i++) {
		qwen_plain_replay(&b->plain.r, &m[i], 3 + 7 * i, 1 + 4 * i);
		qwen_cuda_replay(&b->cuda.r, &m[i], 3 + 7 * i, 1 + 4 * i);
		is_same &= same_memory(b, &m[i]);
	}
	ok(is_same, "%s: replays", name);
	free(x);
}

static void
check(const char *name, const struct shape *s, const struct rows *rows,
    size_t n_share, unsigned odd, enum qwen_operand operand)
{
	struct both b = { 0 };
	struct qwen_layer l[LAYERS] = { 0 };
	struct qwen_cuda_layer on_card[LAYERS] = { 0 };
	struct qwen_memory m[SHARES_MAX];
	struct qwen_share share[SHARES_MAX] = { 0 };
	size_t i;
	int rc;

	random_state = seed_of(name);
	set_shape(&b, s, &l[LAYER]);
	b.net.layer = l;
	b.cuda.layer = on_card;
	b.net.operands[operand] = 1;
	b.home_plain[QWEN_MIXER(0)] = b.home_cuda[QWEN_MIXER(0)] = 0;
	if ((rc = open_both(&b)) == 0)
		rc = load_layer(&b, &l[LAYER], &on_card[LAYER]);
	for (i = 0; i < n_share && rc == 0; i++) {
		rc = make_memory(&b, &m[i]);
		share[i] = (struct qwen_share){ .mem = &m[i], .n = rows[i].n,
		    .n_sure = rows[i].n_sure, .owed = rows[i].owed,
		    .pos = 21 + 13 * i };
	}
	b.pass = (struct qwen_pass){ .share = share, .n_share = n_share,
	    .last = SIZE_MAX };
	if (rc < 0 || begin_pass(&b) < 0) {
		ok(0, "%s: %s", name, b.err.msg);
		return;
	}
	check_pass(&b, m, name, odd);
	end_pass(&b);
	for (i = 0; i < n_share; i++)
		free_memory(&b, &m[i]);
	close_both(&b);
	free_layer(&l[LAYER]);
}

int
main(void)
{
	static const struct shape real = { 128, 128, 2, 4, 4, 0, 0 };
	static const struct shape grouped = { 128, 128, 2, 6, 4, 1, 1 };
	static const struct shape small = { 16, 16, 2, 4, 4, 0, 0 };
	static const struct shape odd = { 20, 37, 3, 3, 7, 1, 0 };
	static const struct shape three = { 128, 128, 3, 3, 4, 0, 0 };
	static const struct shape taps = { 128, 128, 1, 1, 16, 0, 1 };
	static const struct shape large = { 130, 200, 1, 2, 1, 0, 0 };
	static const struct shape gates = { 1, 1, 1, 2000, 1, 0, 0 };
	static const struct rows one[] = { { 1, 1, 0 } };
	static const struct rows drafts[] = { { 4, 1, 3 } };
	static const struct rows many[] = { { 1, 1, 0 }, { 16, 1, 7 },
	    { 3, 3, 16 }, { 2, 0, 0 } };
	static const struct rows alone[] = { { 1, 1, 0 }, { 1, 1, 2 },
	    { 1, 1, 16 }, { 1, 1, 1 } };
	static const struct rows prompt[] = { { 39, 39, 0 } };
	static const struct rows mixed[] = { { 1, 1, 2 }, { 21, 17, 5 },
	    { 6, 1, 0 } };
	static const struct {
		const char		*name;
		const struct shape	*shape;
		const struct rows	*rows;
		size_t			 n_share;
		unsigned		 odd;
	} checks[] = {
		{ "a token", &real, one, 1, 0 },
		{ "drafts", &real, drafts, 1, 0 },
		{ "four sessions", &grouped, many, 4, 0 },
		{ "a token each", &grouped, alone, 4, 0 },
		{ "a token each, other heads", &real, alone, 4, 1024 },
		{ "a token each, odd heads", &three, alone, 3, 0 },
		{ "a token each, one head", &taps, alone, 4, 0 },
		{ "a prompt", &real, prompt, 1, 0 },
		{ "prompt and drafts", &grouped, mixed, 3, 0 },
		{ "odd numbers", &real, many, 4, 1024 },
		{ "a prompt of odd numbers", &real, prompt, 1, 1024 },
		{ "16 taps", &taps, mixed, 3, 0 },
		{ "16 taps, a token", &taps, many, 4, 0 },
		{ "small heads", &small, many, 4, 0 },
		{ "small heads, odd numbers", &small, mixed, 3, 256 },
		{ "odd sizes", &odd, mixed, 3, 0 },
		{ "odd sizes, a token", &odd, one, 1, 0 },
		{ "one tap", &large, mixed, 3, 0 },
		{ "2000 gates", &gates, drafts, 1, 0 },
		{ "2000 gates, odd numbers", &gates, drafts, 1, 8 },
	};
	size_t i;

	for (i = 0; i < sizeof checks / sizeof checks[0]; i++)
		check(checks[i].name, checks[i].shape, checks[i].rows,
		    checks[i].n_share, checks[i].odd, i % 3 == 2 ?
		    QWEN_AS_TWO_Q8 : i % 3 == 1 ? QWEN_AS_Q8 : QWEN_AS_F32);
	return done_testing();
}
