/* SPDX-License-Identifier: ISC */
/*
 * attention.c - attention on a card gives the bits of the plain device's, for
 * all types of keys and values, sizes and batches.
 *
 * The definition is plain/attention.c itself, without its products: projections
 * are made up.
 */
#include <stdint.h>
#include <stdlib.h>

#include "engine/plain/plain.h"

static uint8_t *block_of(const struct qwen_share *share, size_t slot);

#define qwen_plain_multiply(w, m, x, y, n) ((void)0)
#define qwen_plain_attention reference
qwen_plain_block_fn reference;
#define qwen_plain_block(r, share, layer, slot) block_of(share, slot)
#include "engine/plain/attention.c"

#include "engine/cuda/attention.h"
#include "../seed.h"
#include "../tap.h"

enum { SESSIONS = 3, ROWS = 80, BLOCKS = 540, SLOT_HEAD = 192 };

struct shape {
	const char	*name;
	size_t		 n_head, n_head_kv, d, n_rot;
	int		 gated, normed;
};

/* Tokens before the pass, its rows, how many of them are sure, and wanted from. */
struct session {
	size_t	before, n, n_sure, want;
};

static struct qwen_cuda_card *card;
static uint64_t state;

static struct {
	struct qwen_net		 net;
	struct qwen_layer	 layer;
	double			 freq[256];
	float			 norm[2][512];
	struct qwen_share	 share[SESSIONS];
	struct qwen_input	 row[ROWS];
	uint32_t		 owner[ROWS];
	struct qwen_pass	 pass;
	size_t			 slot_bytes, in_width, out_width;
	size_t			 blocks;	/* of a session, not divisible by 7 */
	uint8_t			*block[SESSIONS * BLOCKS];	/* of the host */
	cu_ptr			 there;		/* the same on the card */
	float			*in, *o;	/* of the reference */
	float			*o_card;
	int			 groups;	/* are right */
	int			 zero;		/* are all counters */
} t;

static uint64_t
draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* A number of about normal distribution. */
static float
number(void)
{
	float sum = -2.0f;
	int i;

	for (i = 0; i < 4; i++)
		sum += (float)(draw() >> 40) * 0x1p-24f;
	return sum * 1.7f;
}

static size_t
share_index(const struct qwen_share *share)
{
	return (size_t)(share - t.share);
}

static uint8_t *
block_of(const struct qwen_share *share, size_t slot)
{
	return t.block[share_index(share) * t.blocks + slot / QWEN_KV_BLOCK] +
	    SLOT_HEAD;
}

/* ---- what is computed with */

static void
set_model(const struct shape *s, enum qwen_kv k, enum qwen_kv v)
{
	struct qwen_hparams *h = &t.net.hp;
	size_t i;

	memset(&t.net, 0, sizeof t.net);
	memset(&t.layer, 0, sizeof t.layer);
	t.net.operands[s->d >= 128 ? QWEN_AS_TWO_Q8 : QWEN_AS_Q8] = 1;
	h->n_head = s->n_head;
	h->n_head_kv = s->n_head_kv;
	h->n_embd_head = s->d;
	h->n_rot = s->n_rot;
	h->k = k;
	h->v = v;
	h->attn_scale = (float)(1.0 / sqrt((double)s->d));
	h->eps = 1e-6f;
	h->rope_freq = t.freq;
	h->rope_mscale = 1.0;
	for (i = 0; i < s->n_rot / 2; i++)
		t.freq[i] = 1.0 / (double)(1 + 3 * i);
	for (i = 0; i < s->d; i++) {
		t.norm[0][i] = 1.0f + number() / 4.0f;
		t.norm[1][i] = 1.0f + number() / 4.0f;
	}
	t.layer.index = 1;
	t.layer.attn.gated = s->gated;
	t.layer.attn.q.n_out = s->n_head * s->d * (size_t)(1 + s->gated);
	t.layer.attn.k.n_out = t.layer.attn.v.n_out = s->n_head_kv * s->d;
	t.layer.attn.q_norm = s->normed ? t.norm[0] : NULL;
	t.layer.attn.k_norm = s->normed ? t.norm[1] : NULL;
	t.in_width = t.layer.attn.q.n_out + 2 * t.layer.attn.k.n_out + 8;
	t.out_width = s->n_head * s->d + 4;
}

/* Fills the blocks: keys and values before the pass, and nonsense after them. */
static void
set_blocks(const struct session *s)
{
	const struct qwen_hparams *h = &t.net.hp;
	struct qwen_kv_shape shape = qwen_kv_shape_of(h);
	struct qwen_plain_place p = { .s = &shape };
	float x[QWEN_HEAD_MAX];
	size_t i, at, n;

	for (i = 0, t.blocks = 2; i < t.pass.n_share; i++) {
		n = (s[i].before + s[i].n) / QWEN_KV_BLOCK + 2;
		t.blocks = n > t.blocks ? n : t.blocks;
	}
	t.blocks += t.blocks % 7 == 0;
	t.slot_bytes = SLOT_HEAD + qwen_kv_block_bytes(&shape);
	for (i = 0; i < SESSIONS * t.blocks; i++) {
		t.block[i] = malloc(t.slot_bytes);
		memset(t.block[i], 0xff, t.slot_bytes);
	}
	for (i = 0; i < t.pass.n_share; i++) {
		for (at = 0; at < s[i].before; at++) {
			p.block = block_of(&t.share[i], at);
			p.at = at % QWEN_KV_BLOCK;
			for (p.head = 0; p.head < h->n_head_kv; p.head++) {
				for (p.is_v = 0; p.is_v < 2; p.is_v++) {
					for (n = 0; n < shape.d; n++)
						x[n] = number();
					qwen_plain_put(&p, x);
				}
			}
		}
	}
}

static void
set_pass(const struct session *s, size_t n_session, int last)
{
	size_t i, n = 0, j;

	t.pass = (struct qwen_pass){ .row = t.row, .owner = t.owner,
	    .share = t.share, .n_share = n_session,
	    .last = last ? t.layer.index : SIZE_MAX };
	for (i = 0; i < n_session; i++) {
		t.share[i] = (struct qwen_share){ .first = n, .n = s[i].n,
		    .n_sure = s[i].n_sure, .pos = s[i].before,
		    .want = s[i].want, .bad = SIZE_MAX, .good = SIZE_MAX };
		for (j = 0; j < s[i].n; j++, n++) {
			size_t at = s[i].before + j;

			t.row[n] = (struct qwen_input){ .slot = at,
			    .pos = { (uint32_t)at, (uint32_t)at, (uint32_t)at } };
			t.owner[n] = (uint32_t)i;
		}
	}
	t.pass.n = n;
	t.in = malloc(n * t.in_width * sizeof *t.in);
	t.o = malloc(n * t.out_width * sizeof *t.o);
	t.o_card = malloc(n * t.out_width * sizeof *t.o);
	for (i = 0; i < n * t.in_width; i++)
		t.in[i] = number();
}

static void
free_all(void)
{
	size_t i;

	for (i = 0; i < SESSIONS * t.blocks; i++)
		free(t.block[i]);
	free(t.in);
	free(t.o);
	free(t.o_card);
}

static void
run_reference(void)
{
	static struct qwen_plain_work w;
	float *o = malloc(t.pass.n * t.in_width * sizeof *o);
	float *in = malloc(t.pass.n * t.in_width * sizeof *in);
	size_t i;

	memcpy(in, t.in, t.pass.n * t.in_width * sizeof *in);
	w.net = &t.net;
	w.p = &t.pass;
	w.width = t.in_width;
	w.in = in;
	w.o = o;
	reference(&w, &t.layer);
	for (i = 0; i < t.pass.n; i++)
		memcpy(t.o + i * t.out_width, o + i * t.in_width,
		    t.net.hp.n_head * t.net.hp.n_embd_head * sizeof *o);
	free(o);
	free(in);
}

/* ---- the card */

static cu_ptr
put_new(const void *p, size_t bytes)
{
	cu_ptr to = qwen_cuda_alloc(card, bytes);

	qwen_cuda_put(card, to, p, bytes);
	return to;
}

/* Copies blocks in another order, and what kernels know of the pass. */
static void
put_pass(struct qwen_cuda_work *w)
{
	static u64 table[SESSIONS * BLOCKS];
	struct dev_share share[SESSIONS];
	struct dev_flag flag[SESSIONS];
	struct dev_row row[ROWS];
	const struct qwen_pass *p = &t.pass;
	size_t i;
	cu_ptr at;

	t.there = qwen_cuda_alloc(card, SESSIONS * t.blocks * t.slot_bytes);
	for (i = 0; i < SESSIONS * t.blocks; i++) {
		table[i] = t.there + i * 7 % (SESSIONS * t.blocks) *
		    t.slot_bytes;
		qwen_cuda_put(card, table[i], t.block[i], t.slot_bytes);
	}
	at = put_new(table, sizeof table);
	for (i = 0; i < p->n_share; i++) {
		share[i] = (struct dev_share){ .table = at + i * t.blocks *
		    sizeof table[0], .first = (u32)p->share[i].first,
		    .n = (u32)p->share[i].n, .n_sure = (u32)p->share[i].n_sure };
		flag[i] = (struct dev_flag){ ~0u, ~0u };
	}
	for (i = 0; i < p->n; i++)
		row[i] = (struct dev_row){ .share = p->owner[i],
		    .slot = (u32)p->row[i].slot,
		    .wanted = (u32)qwen_plain_is_wanted(p, t.layer.index, i) };
	w->pass = (struct dev_pass){ .n = (u32)p->n,
	    .row = QWEN_CUDA_P(put_new(row, p->n * sizeof row[0])),
	    .share = QWEN_CUDA_P(put_new(share, p->n_share * sizeof share[0])),
	    .flag = QWEN_CUDA_P(put_new(flag, p->n_share * sizeof flag[0])) };
	w->sent = at;
}

static cu_ptr
put_turns(void)
{
	const struct qwen_hparams *h = &t.net.hp;
	float *turn = malloc((t.pass.n * h->n_rot + 1) * sizeof *turn);
	double s, c;
	size_t i, j;
	cu_ptr p;

	for (i = 0; i < t.pass.n; i++) {
		for (j = 0; j < h->n_rot / 2; j++) {
			qwen_sincos((double)t.row[i].pos[0] * t.freq[j], &s,
			    &c);
			turn[i * h->n_rot + 2 * j] = (float)c;
			turn[i * h->n_rot + 2 * j + 1] = (float)s;
		}
	}
	p = put_new(turn, t.pass.n * h->n_rot * sizeof *turn);
	free(turn);
	return p;
}

/* Fetches results; blocks to the host's in *back. */
static void
get_results(const struct qwen_cuda_work *w, struct dev_flag *flag,
    uint8_t *back)
{
	size_t i;

	qwen_cuda_get(card, t.o_card, w->array[QWEN_CUDA_O],
	    t.pass.n * t.out_width * sizeof(float));
	qwen_cuda_get(card, flag, (cu_ptr)(uintptr_t)w->pass.flag,
	    t.pass.n_share * sizeof *flag);
	for (i = 0; i < SESSIONS * t.blocks; i++)
		qwen_cuda_get(card, back + i * t.slot_bytes, t.there + i * 7 %
		    (SESSIONS * t.blocks) * t.slot_bytes, t.slot_bytes);
}

/* Are the groups those that the product's own kernel makes of O? */
static int
same_groups(struct qwen_cuda_work *w)
{
	const size_t row = w->width[QWEN_CUDA_GROUPS];
	unsigned char *a = malloc(t.pass.n * row), *b = malloc(row);
	size_t i, n = t.net.hp.n_head * t.net.hp.n_embd_head;
	int same = 1;

	qwen_cuda_get(card, a, w->array[QWEN_CUDA_GROUPS], t.pass.n * row);
	for (i = 0; i < t.pass.n; i++) {
		qwen_cuda_quantize(w, w->array[QWEN_CUDA_O] + i * t.out_width *
		    sizeof(float), t.out_width, n, 1);
		qwen_cuda_get(card, b, w->array[QWEN_CUDA_GROUPS], row);
		if (qwen_plain_is_wanted(&t.pass, t.layer.index, i))
			same &= memcmp(a + i * row, b, row) == 0;
	}
	free(a);
	free(b);
	return same;
}

static int
are_zero(cu_ptr counter)
{
	static u32 n[QWEN_CUDA_COUNTERS];
	size_t i;

	qwen_cuda_get(card, n, counter, sizeof n);
	for (i = 0; i < QWEN_CUDA_COUNTERS && n[i] == 0; i++)
		;
	return i == QWEN_CUDA_COUNTERS;
}

/* scratch: bytes; 0: as attention asks for */
static void
run_card(size_t scratch, struct dev_flag *flag, uint8_t *back)
{
	struct qwen_cuda c = { .card = card };
	struct qwen_cuda_layer l = { .of = &t.layer };
	struct qwen_cuda_work w = { .c = &c, .net = &t.net, .p = &t.pass };
	size_t i, end = 1;

	for (i = 0; i < t.pass.n; i++)
		end = t.row[i].slot + 1 > end ? t.row[i].slot + 1 : end;
	w.scratch_bytes = scratch > 0 ? scratch :
	    (size_t)qwen_cuda_attention_scratch(&t.net, t.pass.n, end);
	w.scratch = qwen_cuda_alloc(card, w.scratch_bytes);
	w.counter = qwen_cuda_alloc(card, QWEN_CUDA_COUNTERS * sizeof(u32));
	qwen_cuda_zero(card, w.counter, QWEN_CUDA_COUNTERS * sizeof(u32));
	put_pass(&w);
	w.width[QWEN_CUDA_IN] = t.in_width * sizeof(float);
	w.width[QWEN_CUDA_O] = t.out_width * sizeof(float);
	w.width[QWEN_CUDA_TURN] = t.net.hp.n_rot * sizeof(float);
	w.array[QWEN_CUDA_IN] = put_new(t.in, t.pass.n * t.in_width *
	    sizeof(float));
	w.array[QWEN_CUDA_O] = qwen_cuda_alloc(card, t.pass.n * t.out_width *
	    sizeof(float));
	w.array[QWEN_CUDA_TURN] = put_turns();
	if (t.layer.attn.q_norm != NULL) {
		l.q_norm = put_new(t.norm[0], sizeof t.norm[0]);
		l.k_norm = put_new(t.norm[1], sizeof t.norm[1]);
	}
	w.width[QWEN_CUDA_GROUPS] = qwen_cuda_groups_bytes(&t.net,
	    t.net.hp.n_head * t.net.hp.n_embd_head);
	w.array[QWEN_CUDA_GROUPS] = qwen_cuda_alloc(card, t.pass.n *
	    w.width[QWEN_CUDA_GROUPS]);
	qwen_cuda_attend(&w, &l, SLOT_HEAD);
	get_results(&w, flag, back);
	t.groups = same_groups(&w);
	t.zero = are_zero(w.counter);
	qwen_cuda_free(card, w.scratch);
	qwen_cuda_free(card, w.counter);
	qwen_cuda_free(card, t.there);
	qwen_cuda_free(card, w.sent);
	for (i = 0; i < QWEN_CUDA_ARRAYS; i++)
		qwen_cuda_free(card, w.array[i]);
	qwen_cuda_free(card, l.q_norm);
	qwen_cuda_free(card, l.k_norm);
	qwen_cuda_free(card, (cu_ptr)(uintptr_t)w.pass.row);
	qwen_cuda_free(card, (cu_ptr)(uintptr_t)w.pass.share);
	qwen_cuda_free(card, (cu_ptr)(uintptr_t)w.pass.flag);
}

/* ---- comparisons */

static int
same_number(float a, float b)
{
	return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Returns the first wanted row that differs, or the number of rows. */
static size_t
row_that_differs(void)
{
	size_t i, j, n = t.net.hp.n_head * t.net.hp.n_embd_head;

	for (i = 0; i < t.pass.n; i++) {
		for (j = 0; j < n && qwen_plain_is_wanted(&t.pass,
		    t.layer.index, i); j++) {
			if (!same_number(t.o[i * t.out_width + j],
			    t.o_card[i * t.out_width + j])) {
				printf("# row %zu, number %zu: %a, not %a\n", i,
				    j, (double)t.o_card[i * t.out_width + j],
				    (double)t.o[i * t.out_width + j]);
				return i;
			}
		}
	}
	return t.pass.n;
}

static int
same_flags(const struct dev_flag *flag)
{
	size_t i;

	for (i = 0; i < t.pass.n_share; i++) {
		size_t bad = flag[i].bad == ~0u ? SIZE_MAX : flag[i].bad;
		size_t good = flag[i].good == ~0u ? SIZE_MAX : flag[i].good;

		if (bad != t.share[i].bad || good != t.share[i].good)
			return 0;
	}
	return 1;
}

/* Is row i of the pass bad?  The next norm notes what attention does not. */
static int
is_bad(size_t i)
{
	const struct qwen_share *s = &t.share[t.owner[i]];
	size_t j = i - s->first, k, n = t.net.hp.n_head * t.net.hp.n_embd_head;
	int noted = j < s->n_sure ? s->bad != SIZE_MAX :
	    j - s->n_sure >= s->good;

	for (k = 0; k < n && !noted && qwen_plain_is_wanted(&t.pass,
	    t.layer.index, i); k++)
		noted = !isfinite(t.o[i * t.out_width + k]);
	return noted;
}

static int
is_nan(const uint8_t *p, enum qwen_kv kv)
{
	float x;
	uint16_t half;

	memcpy(&x, p, qwen_kv_width(kv) == sizeof x ? sizeof x : 0);
	memcpy(&half, p, sizeof half);
	return isnan(kv == QWEN_KV_F32 ? x : qwen_f16_f32(half));
}

/*
 * Calls fn for each NaN that the card wrote as key or value of a bad row, and
 * where the CPU has the same number.
 */
static void
each_nan(uint8_t *back, void (*fn)(uint8_t *got, const uint8_t *want, size_t n))
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&t.net.hp);
	size_t row, i, k, at, slot, block;
	int is_v, bad;

	for (row = 0; row < t.pass.n; row++) {
		slot = t.row[row].slot;
		bad = is_bad(row);
		block = t.owner[row] * t.blocks + slot / QWEN_KV_BLOCK;
		for (i = 0; bad && i < 2 * s.n_head * s.d; i++) {
			is_v = i >= s.n_head * s.d;
			k = i % (s.n_head * s.d);
			at = SLOT_HEAD + qwen_kv_head_at(&s, k / s.d, is_v) +
			    qwen_kv_number_at(is_v ? s.v : s.k, s.d, is_v,
			    slot % QWEN_KV_BLOCK, k % s.d);
			if (qwen_kv_width(is_v ? s.v : s.k) > 0 &&
			    is_nan(back + block * t.slot_bytes + at,
			    is_v ? s.v : s.k))
				fn(back + block * t.slot_bytes + at,
				    t.block[block] + at,
				    qwen_kv_width(is_v ? s.v : s.k));
		}
	}
}

/* Makes a NaN that of a card, whose payload is not a CPU's. */
static void
make_card_nan(uint8_t *got, const uint8_t *want, size_t n)
{
	(void)want;
	memset(got, 0xff, n);
	got[n - 1] = 0x7f;
}

/* Takes the CPU's NaN if it has one. */
static void
take_nan(uint8_t *got, const uint8_t *want, size_t n)
{
	if (is_nan(want, n == sizeof(float) ? QWEN_KV_F32 : QWEN_KV_F16))
		memcpy(got, want, n);
}

/* spoil changes the projections, or is NULL. */
static void
check(const struct shape *s, enum qwen_kv k, enum qwen_kv v,
    const struct session *sessions, size_t n, int last, size_t scratch,
    void (*spoil)(void), const char *what)
{
	struct dev_flag flag[SESSIONS];
	uint8_t *back;
	size_t i, same = 0;

	state = seed_of(what);
	set_model(s, k, v);
	set_pass(sessions, n, last);
	set_blocks(sessions);
	if (spoil != NULL)
		spoil();
	back = malloc(SESSIONS * t.blocks * t.slot_bytes);
	run_card(scratch, flag, back);
	run_reference();
	each_nan(back, make_card_nan);
	each_nan(back, take_nan);
	for (i = 0; i < SESSIONS * t.blocks; i++)
		same += memcmp(back + i * t.slot_bytes, t.block[i],
		    t.slot_bytes) == 0;
	ok(row_that_differs() == t.pass.n && same == SESSIONS * t.blocks &&
	    same_flags(flag) && t.groups && t.zero, "%s, %s keys, %s values: %s", s->name,
	    qwen_kv_name(k), qwen_kv_name(v), what);
	if (same < SESSIONS * t.blocks)
		printf("# %zu blocks differ\n", SESSIONS * t.blocks - same);
	if (!same_flags(flag))
		printf("# bad numbers are noted otherwise\n");
	if (!t.groups)
		printf("# groups differ\n");
	free(back);
	free_all();
}

/* ---- cases */

static const struct shape tiny = { "d 16", 4, 2, 16, 8, 0, 0 },
    small = { "d 32, gate", 4, 2, 32, 32, 1, 1 },
    plain = { "d 64", 7, 1, 64, 64, 0, 0 },
    usual = { "d 128, norms", 8, 2, 128, 128, 0, 1 },
    wide = { "d 256, gate, norms", 4, 1, 256, 64, 1, 1 },
    odd = { "d 96", 6, 2, 96, 48, 0, 0 };

static const struct session one[] = { { 0, 1, 1, 0 } },
    next[] = { { 300, 1, 1, 0 } }, prompt[] = { { 250, 37, 37, 0 } },
    batch[] = { { 511, 1, 1, 0 }, { 3, 4, 1, 0 }, { 100, 29, 29, 28 } },
    drafts[] = { { 20, 4, 2, 0 }, { 7, 9, 4, 0 } },
    many[] = { { 245, 20, 12, 0 }, { 7, 12, 4, 0 } },
    far[] = { { 8500, 1, 1, 0 } },
    rows[] = { { 15, 1, 1, 0 }, { 256, 1, 1, 0 }, { 800, 1, 1, 0 } },
    mixed[] = { { 255, 1, 1, 0 }, { 512, 1, 1, 1 }, { 600, 1, 0, 0 } };

/* Head sizes of kernels of their own, by queries of a key head. */
static void
queries(void)
{
	static const size_t d[] = { 64, 128, 256 }, each[] = { 2, 3, 8, 11 };
	struct shape s = { .name = "heads", .n_head_kv = 2 };
	char what[64];
	size_t i, j;

	for (i = 0; i < 3; i++) {
		for (j = 0; j < 4; j++) {
			s.d = s.n_rot = d[i];
			s.n_head = each[j] * s.n_head_kv;
			snprintf(what, sizeof what, "%zu queries of a key, d "
			    "%zu", each[j], d[i]);
			check(&s, QWEN_KV_F16, QWEN_KV_F16, next, 1, 0, 0,
			    NULL, what);
		}
	}
	check(&s, QWEN_KV_Q8_0, QWEN_KV_Q4_0, next, 1, 0, 0, NULL, what);
}

static void
types(void)
{
	static const enum qwen_kv all[] = { QWEN_KV_F16, QWEN_KV_F32,
	    QWEN_KV_Q8_0, QWEN_KV_Q4_0 };
	size_t i, j;

	for (i = 0; i < 4; i++) {
		for (j = 0; j < 4; j++)
			check(&small, all[i], all[j], batch, 3, 0, 0, NULL,
			    "three sessions");
	}
}

static void
sizes(void)
{
	static const struct shape *const all[] = { &tiny, &plain, &usual, &wide,
	    &odd };
	static const enum qwen_kv kv[] = { QWEN_KV_F16, QWEN_KV_Q8_0,
	    QWEN_KV_Q4_0 };
	size_t i, j;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < (all[i]->d % 32 == 0 ? 3 : 1); j++) {
			check(all[i], kv[j], kv[j], one, 1, 0, 0, NULL,
			    "the first token");
			check(all[i], kv[j], kv[j], next, 1, 0, 0, NULL,
			    "another token");
			check(all[i], kv[j], kv[j], prompt, 1, 0, 0, NULL,
			    "a prompt");
			check(all[i], kv[j], kv[j], rows, 3, 1, 0, NULL,
			    "a token each");
			check(all[i], kv[j], kv[j], mixed, 3, 1, 0, NULL,
			    "a token each, one not wanted");
		}
	}
}

/* ---- numbers that are hard */

static float *
in_at(size_t row, size_t i)
{
	return t.in + row * t.in_width + i;
}

static void
fill(size_t row, size_t from, size_t n, float x)
{
	size_t i;

	for (i = 0; i < n; i++)
		*in_at(row, from + i) = i % 3 == 1 ? -x : x;
}

/* An infinite value of the last token, a draft: rows before it are well. */
static void
infinite_value(void)
{
	size_t v = t.layer.attn.q.n_out + t.layer.attn.k.n_out;

	*in_at(t.pass.n - 1, v + 3) = INFINITY;
	*in_at(t.pass.n - 2, v + t.net.hp.n_embd_head) = -INFINITY;
}

static void
infinite_query(void)
{
	*in_at(0, 5) = INFINITY;
	*in_at(1, t.layer.attn.q.n_out + 7) = -INFINITY;
}

static void
infinite_gate(void)
{
	*in_at(0, t.net.hp.n_embd_head) = INFINITY;
	*in_at(2, t.net.hp.n_embd_head + 1) = -INFINITY;
}

static void
zeros(void)
{
	fill(0, 0, t.in_width, 0.0f);
	fill(1, 0, t.in_width, 1e-40f);
	fill(2, 0, t.in_width, 1e-31f);
}

/* Scores that only one key has a chance with; values of equal magnitude. */
static void
large(void)
{
	fill(0, 0, t.in_width, 300.0f);
	fill(2, 0, t.in_width, 60000.0f);
	fill(3, t.layer.attn.q.n_out, t.net.hp.n_embd_head, 1e30f);
}

static void
numbers(void)
{
	static const enum qwen_kv kv[] = { QWEN_KV_F16, QWEN_KV_F32,
	    QWEN_KV_Q8_0, QWEN_KV_Q4_0 };
	static const struct {
		const char	*what;
		void		(*spoil)(void);
	} all[] = {
		{ "an infinite value", infinite_value },
		{ "an infinite query, and key", infinite_query },
		{ "an infinite gate", infinite_gate },
		{ "tiny numbers", zeros },
		{ "large numbers", large },
	};
	size_t i, j;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < 4; j++)
			check(&small, kv[j], kv[j], drafts, 2, 0, 0,
			    all[i].spoil, all[i].what);
		for (j = 0; i != 2 && j < 4; j += 2)
			check(&usual, kv[j], kv[j], many, 2, 0, 0,
			    all[i].spoil, all[i].what);
	}
	check(&small, QWEN_KV_F16, QWEN_KV_F16, batch, 3, 0,
	    3 * 4 * 4 * 36 * sizeof(float), NULL, "scratch for three rows");
}

int
main(void)
{
	struct qwen_err err;

	if (qwen_cuda_card_open(&card, 0, &err) < 0) {
		printf("1..0 # SKIP %s\n", err.msg);
		return 0;
	}
	qwen_cuda_enter(card);
	types();
	queries();
	sizes();
	numbers();
	check(&small, QWEN_KV_F16, QWEN_KV_F16, batch, 3, 1, 0, NULL,
	    "the last layer");
	check(&tiny, QWEN_KV_F16, QWEN_KV_F16, far, 1, 0, 0, NULL,
	    "more than 32 chunks");
	check(&odd, QWEN_KV_F16, QWEN_KV_F16, far, 1, 0, 0, NULL,
	    "more than 32 chunks");
	ok(qwen_cuda_check(card, &err) == 0, "the card is well");
	qwen_cuda_card_close(card);
	return done_testing();
}
