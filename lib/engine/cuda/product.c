/* SPDX-License-Identifier: ISC */
/*
 * product.c - weights to the card, rows before products, and products.
 */
#include <string.h>

#include "base/err.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/kernel/norm.h"
#include "engine/cuda/kernel/multiply.h"
#include "engine/cuda/layout.h"
#include "engine/cuda/load.h"
#include "engine/cuda/lora.h"

/* ------------------------------------------------------------------ weights */

enum { IN_MAX = 1 << 20, OUT_MAX = FLOAT_ROWS * 65535 };

int
qwen_cuda_can_multiply(const struct qwen_weight *w)
{
	const struct qwen_quant *q = w->quant;

	return w->data == NULL || (qwen_cuda_can_lora(w) &&
	    w->operand != QWEN_AS_BF16 && w->n_in <= IN_MAX &&
	    w->n_out <= OUT_MAX && !(q->kind == QWEN_QUANT_BLOCK &&
	    q->has_min && q->span != 32));
}

static uint64_t
aligned(uint64_t bytes)
{
	return (bytes + 255) / 256 * 256;
}

uint64_t
qwen_cuda_weight_bytes(const struct qwen_weight *w, size_t n_matrix)
{
	uint64_t bytes;

	if (w->data == NULL)
		return 0;
	bytes = aligned(qwen_cuda_row_bytes(w) * w->n_out * n_matrix);
	if (w->scale != NULL)
		bytes += aligned(n_matrix * sizeof(float));
	if (w->bias != NULL)
		bytes += aligned(w->n_out * sizeof(float));
	return bytes + aligned(qwen_cuda_lora_bytes(w, n_matrix));
}

int
qwen_cuda_weight_put(struct qwen_cuda *c, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix, struct qwen_err *err)
{
	*out = (struct qwen_cuda_weight){ .of = w };
	if (w->data == NULL)
		return 0;
	out->n_in = (uint32_t)w->n_in;
	out->n_out = (uint32_t)w->n_out;
	out->n_matrix = (uint32_t)n_matrix;
	out->row_bytes = qwen_cuda_row_bytes(w);
	out->matrix_bytes = out->row_bytes * w->n_out;
	out->data = qwen_cuda_own(c, (size_t)(out->matrix_bytes * n_matrix));
	if (out->data == 0)
		return qwen_fail(err, QWEN_ENOMEM,
		    "the card's memory is too small for the weights");
	if (qwen_cuda_vector(c, &out->scale, w->scale, w->expert_bytes > 0 ?
	    n_matrix : 1, err) < 0 ||
	    qwen_cuda_vector(c, &out->bias, w->bias, w->n_out, err) < 0 ||
	    qwen_cuda_lora_put(c, out, w, n_matrix, err) < 0)
		return -1;
	return qwen_cuda_weight_fill(c, out, err);
}

/* ------------------------------------------------------- rows before products */

static int
has_two_terms(const struct qwen_net *net)
{
	return net->operands[QWEN_AS_TWO_Q8];
}

/* Returns 1 if a product of the model takes integers. */
static int
has_groups(const struct qwen_net *net)
{
	return net->operands[QWEN_AS_Q8] || has_two_terms(net);
}

size_t
qwen_cuda_groups_bytes(const struct qwen_net *net, size_t n)
{
	return (n + QWEN_GROUP - 1) / QWEN_GROUP * sizeof(struct dev_group) *
	    (has_two_terms(net) ? 2 : 1);
}

/* Are rows aligned to 16 bytes, and short enough for 8 numbers a thread? */
static int
is_16_byte(const struct dev_norm *a)
{
	return a->n <= 8192 && (a->n | a->x_stride | a->out_stride |
	    a->xn_stride) % 4 == 0 && ((uintptr_t)a->x | (uintptr_t)a->out |
	    (uintptr_t)a->weights | (uintptr_t)a->xn) % 16 == 0;
}

void
qwen_cuda_norm(struct qwen_cuda_work *w, cu_ptr weights, int add,
    size_t place)
{
	const struct qwen_hparams *h = &w->net->hp;
	struct dev_norm a = {
		.pass = w->pass,
		.x = QWEN_CUDA_P(w->array[QWEN_CUDA_X]),
		.x_stride = w->width[QWEN_CUDA_X] / sizeof(float),
		.out = add ? QWEN_CUDA_P(w->array[QWEN_CUDA_OUT]) : NULL,
		.out_stride = w->width[QWEN_CUDA_OUT] / sizeof(float),
		.weights = QWEN_CUDA_P(weights),
		.xn = QWEN_CUDA_P(w->array[QWEN_CUDA_XN]),
		.xn_stride = w->width[QWEN_CUDA_XN] / sizeof(float),
		.groups = has_groups(w->net) ?
		    QWEN_CUDA_P(w->array[QWEN_CUDA_GROUPS_X]) : NULL,
		.group_bytes = qwen_cuda_groups_bytes(w->net, h->n_embd),
		.n = (u32)h->n_embd,
		.eps = h->eps,
		.two = (u32)has_two_terms(w->net),
		.place = (u32)place,
		.check_all = place < QWEN_PLACE_MIXER(h->n_layer - 1),
	};

	struct qwen_cuda_launch l = { .module = "norm", .name = "norm_rows",
	    .x = w->pass.n, .threads = 256,
	    .shared = (h->n_embd + 1) * sizeof(float) };

	if (is_16_byte(&a)) {
		l.name = "norm_rows_16";
		l.threads = h->n_embd > 4096 ? 1024 :
		    (unsigned)(h->n_embd + 127) / 128 * 32;
	}
	if (w->pass.n > 0 && !qwen_cuda_ones_norm(w, &a))
		qwen_cuda_run(w->c->card, &l, &a, sizeof a);
}

enum { GROUP_WARPS = 4 };	/* of a block of group_rows */

static void
group_rows(struct qwen_cuda_work *w, cu_ptr x, cu_ptr up, size_t stride,
    size_t n_in, size_t n)
{
	struct dev_rows a = {
		.x = QWEN_CUDA_P(x),
		.up = QWEN_CUDA_P(up),
		.groups = has_groups(w->net) ?
		    QWEN_CUDA_P(w->array[QWEN_CUDA_GROUPS]) : NULL,
		.stride = stride,
		.group_bytes = qwen_cuda_groups_bytes(w->net, n_in),
		.n = (u32)n_in,
		.n_row = (u32)n,
		.two = (u32)has_two_terms(w->net),
	};
	size_t items = (n_in + QWEN_GROUP - 1) / QWEN_GROUP * n;

	if (items > 0 && !(up != 0 && qwen_cuda_ones_silu(w, &a)))
		qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
		    .module = "norm", .name = "group_rows",
		    .x = (unsigned)((items + GROUP_WARPS - 1) / GROUP_WARPS),
		    .threads = 32 * GROUP_WARPS }, &a, sizeof a);
}

void
qwen_cuda_quantize(struct qwen_cuda_work *w, cu_ptr x, size_t stride,
    size_t n_in, size_t n)
{
	if (has_groups(w->net))
		group_rows(w, x, 0, stride, n_in, n);
}

void
qwen_cuda_silu_multiply(struct qwen_cuda_work *w, cu_ptr gate, cu_ptr up,
    size_t stride, size_t n_ff, size_t n)
{
	group_rows(w, gate, up, stride, n_ff, n);
}

/* ----------------------------------------------------------------- products */

/* The format of floats, or of a d of 16 bits. */
static u32
kind_of(const struct qwen_weight *w)
{
	uint32_t type = w->quant->type;

	return type == QT_F32 ? DEV_F32 : type == QT_BF16 || type == QT_MXFP4 ?
	    DEV_BF16 : DEV_F16;
}

static struct dev_product
product_of(const struct qwen_cuda_work *w, const struct qwen_cuda_weight *m,
    const struct qwen_cuda_rows *x, cu_ptr y, size_t stride)
{
	const int8_t *values = qwen_cuda_values(m->of);
	struct dev_product a = {
		.w = QWEN_CUDA_P(m->data),
		.scale = QWEN_CUDA_P(m->scale),
		.bias = QWEN_CUDA_P(m->bias),
		.x = QWEN_CUDA_P(x->x),
		.x_stride = x->stride,
		.groups = QWEN_CUDA_P(x->groups),
		.group_bytes = qwen_cuda_groups_bytes(w->net, m->n_in),
		.y = QWEN_CUDA_P(y),
		.y_stride = stride,
		.row_bytes = m->row_bytes,
		.matrix_bytes = m->matrix_bytes,
		.n_in = m->n_in, .n_out = m->n_out,
		.n_matrix = m->n_matrix,
		.n = (u32)x->n,
		.two = m->of->operand == QWEN_AS_TWO_Q8,
		.span = m->of->quant->span,
		.has_min = (u32)m->of->quant->has_min,
		.kind = kind_of(m->of),
	};

	if (values != NULL)
		memcpy(a.values, values, sizeof a.values);
	return a;
}

/* A kernel for tiles of up to `columns' columns. */
struct kernel {
	const char	*module, *name;
	unsigned	 columns;
	size_t		 shared;
};

enum { WIDTHS = 4 };		/* of tiles, the narrowest first */

/* Kernels of a layout of integers: kernel/multiply.h. */
#define KERNELS(f, name) [QWEN_CUDA_##f] = {				\
	{ "multiply_" name, "few_" name, FEW_COLUMNS, 0 },		\
	{ "multiply_" name, "many16_" name, 16, MANY_BYTES(F_##f, 1) },	\
	{ "multiply_" name, "many32_" name, 32, MANY_BYTES(F_##f, 2) },	\
	{ "multiply_" name, "many64_" name, 64, MANY_BYTES(F_##f, 4) } }

static const struct kernel kernels[][WIDTHS] = {
	KERNELS(Q4_K, "q4_k"), KERNELS(Q5_K, "q5_k"), KERNELS(Q6_K, "q6_k"),
	KERNELS(Q8_0, "q8_0"), KERNELS(Q4, "q4"), KERNELS(IQ4_XS, "iq4_xs"),
	KERNELS(Q3_K, "q3_k"), KERNELS(Q2_K, "q2_k"), KERNELS(SUPER, "super"),
	KERNELS(BLOCK, "block"),
};

/* Bytes of the block's memory for n columns. */
static size_t
few_bytes(enum qwen_cuda_layout l, u32 n, u32 nb)
{
	switch (l) {
	case QWEN_CUDA_Q4_K:
		return FEW_BYTES(F_Q4_K, n, nb);
	case QWEN_CUDA_Q5_K:
		return FEW_BYTES(F_Q5_K, n, nb);
	case QWEN_CUDA_Q6_K:
		return FEW_BYTES(F_Q6_K, n, nb);
	case QWEN_CUDA_Q8_0:
		return FEW_BYTES(F_Q8_0, n, nb);
	case QWEN_CUDA_Q4:
		return FEW_BYTES(F_Q4, n, nb);
	case QWEN_CUDA_IQ4_XS:
		return FEW_BYTES(F_IQ4_XS, n, nb);
	case QWEN_CUDA_Q3_K:
		return FEW_BYTES(F_Q3_K, n, nb);
	case QWEN_CUDA_Q2_K:
		return FEW_BYTES(F_Q2_K, n, nb);
	case QWEN_CUDA_SUPER:
		return FEW_BYTES(F_SUPER, n, nb);
	default:
		return FEW_BYTES(F_BLOCK, n, nb);
	}
}

/* Returns the number of tiles of rows of weights. */
static unsigned
row_tiles(const struct dev_product *a, int few)
{
	u32 rows = few ? FEW_ROWS((a->n_in + 255) / 256) : MANY_ROWS;

	return (a->n_out + rows - 1) / rows;
}

/*
 * Chooses a tile that holds all columns or, for pairs, twice as many as a
 * matrix has on average; a narrower one if the card had too few blocks.
 */
static const struct kernel *
choose(const struct qwen_cuda_work *w, enum qwen_cuda_layout l,
    const struct dev_product *a)
{
	const struct kernel *all = kernels[l];
	u32 n = a->n * (1 + a->two), each = n, k = 0;

	if (a->at != NULL)
		each = (n + a->n_matrix - 1) / a->n_matrix * 2;
	while (k < WIDTHS - 1 && all[k].columns < each)
		k++;
	while (k > 1 && a->at == NULL && (n + all[k].columns - 1) /
	    all[k].columns * row_tiles(a, 0) < 2 * (unsigned)w->c->card->n_sm)
		k--;
	return &all[k];
}

/* Returns the tiles of columns; of pairs, each matrix may need one more. */
static unsigned
tiles_of(const struct dev_product *a, u32 rows)
{
	u32 more = a->n < a->n_matrix ? a->n : a->n_matrix;

	if (a->at == NULL)
		return (a->n + rows - 1) / rows;
	return a->n / rows + more < a->n ? a->n / rows + more : a->n;
}

/* Can 16 bytes of x be read at once? */
static int
is_aligned(const struct dev_product *a)
{
	return a->n_in % 16 == 0 && a->x_stride % 4 == 0 &&
	    (uintptr_t)a->x % 16 == 0;
}

static void
multiply_floats(struct qwen_cuda_work *w, const struct dev_product *a)
{
	static const char *const name[] = { [DEV_F32] = "multiply_f32",
	    [DEV_F16] = "multiply_f16", [DEV_BF16] = "multiply_bf16" };
	struct qwen_cuda_launch l = { .module = "product",
	    .name = name[a->kind], .x = tiles_of(a, FLOAT_COLUMNS),
	    .y = (a->n_out + FLOAT_ROWS - 1) / FLOAT_ROWS,
	    .threads = FLOAT_THREADS,
	    .shared = DEV_COLUMN_BYTES(FLOAT_COLUMNS) +
		FLOAT_STAGES * FLOAT_STAGE };

	if (!is_aligned(a))
		l = (struct qwen_cuda_launch){ .module = "product",
		    .name = "multiply_any", .x = tiles_of(a, 1),
		    .y = (a->n_out + FLOAT_THREADS - 1) / FLOAT_THREADS,
		    .threads = FLOAT_THREADS, .shared = DEV_COLUMN_BYTES(1) };
	qwen_cuda_run(w->c->card, &l, a, sizeof *a);
}

static void
multiply(struct qwen_cuda_work *w, const struct qwen_cuda_weight *m,
    const struct dev_product *a)
{
	enum qwen_cuda_layout l = qwen_cuda_layout_of(m->of);
	u32 terms = 1 + a->two, n = a->n * terms;
	struct qwen_cuda_launch launch;
	const struct kernel *k;
	int few;

	if (a->n == 0)
		return;
	if (qwen_cuda_ones_multiply(w, m, a))
		return;
	if (l == QWEN_CUDA_FLOATS) {
		multiply_floats(w, a);
		return;
	}
	k = choose(w, l, a);
	few = k == kernels[l];
	launch = (struct qwen_cuda_launch){ .module = k->module,
	    .name = k->name, .x = tiles_of(a, k->columns / terms),
	    .y = row_tiles(a, few),
	    .threads = few ? FEW_THREADS : MANY_THREADS,
	    .shared = few ? few_bytes(l, n < FEW_COLUMNS ? n : FEW_COLUMNS,
		(a->n_in + 255) / 256) : k->shared,
	    /* of the last layouts, some kernels need more */
	    .registers = l < QWEN_CUDA_Q2_K ? MANY_REGISTERS : 0 };
	qwen_cuda_run(w->c->card, &launch, a, sizeof *a);
}

void
qwen_cuda_multiply(struct qwen_cuda_work *w, const struct qwen_cuda_weight *m,
    const struct qwen_cuda_rows *x, cu_ptr y, size_t stride)
{
	struct dev_product a = product_of(w, m, x, y, stride);

	multiply(w, m, &a);
	if (m->lora != NULL)
		qwen_cuda_lora_add(w, m, x, NULL, y, stride);
}

void
qwen_cuda_multiply_pairs(struct qwen_cuda_work *w,
    const struct qwen_cuda_weight *m, const struct qwen_cuda_rows *x,
    const struct qwen_cuda_pairs *pairs, cu_ptr y, size_t stride)
{
	struct dev_product a = product_of(w, m, x, y, stride);

	a.at = QWEN_CUDA_P(pairs->at);
	a.first = QWEN_CUDA_P(pairs->first);
	a.matrix = QWEN_CUDA_P(pairs->matrix);
	a.n = (u32)pairs->n_pair;
	a.per = (u32)pairs->per;
	multiply(w, m, &a);
	if (m->lora != NULL)
		qwen_cuda_lora_add(w, m, x, pairs, y, stride);
}
