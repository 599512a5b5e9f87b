/* SPDX-License-Identifier: ISC */
/* dispatch.c - the table of kernel variants and the choice among them. */
#include <assert.h>
#include <string.h>

#include "engine/cpu/tune.h"

#define KERNELS(k) extern const struct qwen_kernel k[];
#include "kernels.inc"
#undef KERNELS

/* The arrays of all files. */
static const struct qwen_kernel *const arrays[] = {
#define KERNELS(k) k,
#include "kernels.inc"
#undef KERNELS
};

#define N_ARRAYS (sizeof arrays / sizeof arrays[0])

/* Returns the variant after k, which is in arrays[*a]; of NULL, the first. */
static const struct qwen_kernel *
after(const struct qwen_kernel *k, size_t *a)
{
	if (k == NULL)
		*a = 0;
	for (k = k == NULL ? arrays[0] : k + 1; k->name == NULL;
	    k = arrays[*a]) {
		if (++*a == N_ARRAYS)
			return NULL;
	}
	return k;
}

const struct qwen_kernel *
qwen_kernel_get(size_t i)
{
	const struct qwen_kernel *k = NULL;
	size_t a;

	do
		k = after(k, &a);
	while (k != NULL && i-- > 0);
	return k;
}

size_t
qwen_kernel_count(void)
{
	const struct qwen_kernel *k = NULL;
	size_t a, n = 0;

	while ((k = after(k, &a)) != NULL)
		n++;
	return n;
}

int
qwen_kernel_fits(const struct qwen_kernel *k, const struct qwen_quant *q)
{
	if (q == NULL || k->type != QWEN_ANY_TYPE)
		return k->type == (q == NULL ? QWEN_ANY_TYPE : q->type);
	if (k->op == QWEN_OP_MATMUL_BF16 || k->op == QWEN_OP_GEMM_BF16)
		return q->type == QT_F16 || q->type == QT_BF16;
	return q->kind != QWEN_QUANT_FLOAT;
}

/* Returns 1 if the kernel can compute n_tok tokens with these features. */
static int
serves(const struct qwen_kernel *k, enum qwen_op op,
    const struct qwen_quant *q, unsigned features, size_t n_tok)
{
	return k->op == op && (k->need & ~features) == 0 &&
	    k->min_tok <= n_tok && qwen_kernel_fits(k, q);
}

const struct qwen_kernel *
qwen_kernel_choose(enum qwen_op op, const struct qwen_quant *q,
    unsigned features, size_t n_tok)
{
	const struct qwen_kernel *best = NULL, *k = NULL;
	size_t a;

	while ((k = after(k, &a)) != NULL) {
		if (serves(k, op, q, features, n_tok) &&
		    (best == NULL || k->rank > best->rank))
			best = k;
	}
	return best;
}

size_t
qwen_kernel_rivals(const struct qwen_quant *q, unsigned features, size_t n_tok,
    const struct qwen_kernel **out, size_t max)
{
	const struct qwen_kernel *k = NULL;
	size_t a, j, n = 0;

	while (n < max && (k = after(k, &a)) != NULL) {
		if (!serves(k, QWEN_OP_GEMM, q, features, n_tok))
			continue;
		for (j = n++; j > 0 && out[j - 1]->rank < k->rank; j--)
			out[j] = out[j - 1];
		out[j] = k;
	}
	return n;
}

const struct qwen_sift *
qwen_sift_choose(unsigned features)
{
	return qwen_kernel_choose(QWEN_OP_SIFT, NULL, features,
	    SIZE_MAX)->run.sift;
}

static void
choose_gemms(struct qwen_kernels *k, enum qwen_op op,
    const struct qwen_quant *q, unsigned features)
{
	size_t c;

	for (c = 0; c < QWEN_TOKEN_CLASSES; c++)
		k->gemm[q->type].by[c] = qwen_kernel_choose(op, q, features,
		    qwen_token_classes[c]);
}

void
qwen_kernels_init(struct qwen_kernels *k, unsigned features, unsigned numerics)
{
	const struct qwen_quant *q;
	uint32_t type;
	int bf16;

	assert(numerics >= 1 && numerics <= QWEN_NUMERICS_MAX);
	memset(k, 0, sizeof *k);
	k->numerics = numerics;
	for (type = 0; type < QT_N; type++) {
		if ((q = qwen_quant_find(type)) == NULL)
			continue;
		bf16 = qwen_operand_of(q, QWEN_GROUP, numerics) == QWEN_AS_BF16;
		k->matmul[type] = qwen_kernel_choose(bf16 ?
		    QWEN_OP_MATMUL_BF16 : QWEN_OP_MATMUL, q, features,
		    SIZE_MAX);
		choose_gemms(k, bf16 ? QWEN_OP_GEMM_BF16 : QWEN_OP_GEMM, q,
		    features);
		if (q->kind == QWEN_QUANT_FLOAT)
			k->matmul_f32[type] = qwen_kernel_choose(
			    QWEN_OP_MATMUL, q, features, SIZE_MAX);
	}
	qwen_kernels_packing(k, NULL);
	k->delta = qwen_kernel_choose(QWEN_OP_DELTA, NULL, features, SIZE_MAX);
	k->attn = qwen_kernel_choose(QWEN_OP_ATTN, NULL, features, SIZE_MAX);
	k->vec = qwen_kernel_choose(QWEN_OP_VEC, NULL, features, SIZE_MAX);
	k->probe = qwen_kernel_choose(QWEN_OP_PROBE, NULL, features, SIZE_MAX);
}

void
qwen_kernels_packing(struct qwen_kernels *k, const unsigned char *used)
{
	size_t bytes[QWEN_PACK_KINDS] = { 0 }, type, c;

	for (type = 0; type < QT_N; type++) {
		for (c = 0; c < QWEN_TOKEN_CLASSES; c++) {
			const struct qwen_kernel *g = k->gemm[type].by[c];

			if (g != NULL && g->packing != NULL &&
			    (used == NULL || used[type]))
				bytes[g->packing->kind] = g->packing->bytes;
		}
	}
	k->pack_bytes = 0;
	for (c = 0; c < QWEN_PACK_KINDS; c++)
		k->pack_bytes += bytes[c];
}

const struct qwen_kernel *
qwen_gemm_for(const struct qwen_kernel *matmul, const struct qwen_gemms *gemm,
    const struct qwen_matmul *m)
{
	const struct qwen_kernel *k;

	if (gemm == NULL || m->n_in % QWEN_GROUP != 0 || m->r1 - m->r0 < 32 ||
	    m->n_tok < matmul->min_tok)
		return NULL;
	k = gemm->by[qwen_token_class(m->n_tok)];
	return k != NULL && m->n_tok >= k->min_tok ? k : NULL;
}

int
qwen_multiply(const struct qwen_kernel *matmul, const struct qwen_gemms *gemm,
    const struct qwen_matmul *m)
{
	const struct qwen_kernel *k = qwen_gemm_for(matmul, gemm, m);
	struct qwen_matmul part = *m;

	assert(qwen_kernel_fits(matmul, m->quant));
	assert(k == NULL || qwen_kernel_fits(k, m->quant));
	assert(k == NULL || k->packing == NULL || (m->packing != NULL &&
	    m->packing->kind == k->packing->kind));
	assert(m->n_tok > 0 && m->r0 <= m->r1);
	assert(m->n_in % m->quant->block_len == 0);
	if (k == NULL) {
		matmul->run.matmul(m);
		return 0;
	}
	part.r1 = m->r1 - (m->r1 - m->r0) % 32;
	k->run.matmul(&part);
	part.r0 = part.r1;
	part.r1 = m->r1;
	if (part.r0 < part.r1)
		matmul->run.matmul(&part);
	return 1;
}

size_t
qwen_packed_bytes(const struct qwen_packing *k, size_t n_tok, size_t n_in)
{
	return (n_tok + QWEN_PACK_TOKENS - 1) / QWEN_PACK_TOKENS *
	    (n_in / QWEN_GROUP) * k->bytes;
}

void
qwen_pack(const struct qwen_packing *k, void *p, const void *const *x,
    size_t n_tok, size_t n_in)
{
	unsigned char *to = p;
	size_t n;

	for (; n_tok > 0; n_tok -= n, x += n) {
		n = n_tok < QWEN_PACK_TOKENS ? n_tok : QWEN_PACK_TOKENS;
		k->pack(to, x, n, n_in / QWEN_GROUP);
		to += qwen_packed_bytes(k, n, n_in);
	}
}
