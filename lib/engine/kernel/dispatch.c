/* SPDX-License-Identifier: ISC */
/* dispatch.c - the table of kernel variants and the choice among them. */
#include <assert.h>
#include <string.h>

#include "engine/kernel/kernel.h"

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

size_t
qwen_kernel_count(void)
{
	const struct qwen_kernel *k;
	size_t a, n = 0;

	for (a = 0; a < N_ARRAYS; a++) {
		for (k = arrays[a]; k->name != NULL; k++)
			n++;
	}
	return n;
}

const struct qwen_kernel *
qwen_kernel_get(size_t i)
{
	const struct qwen_kernel *k;
	size_t a;

	for (a = 0; a < N_ARRAYS; a++) {
		for (k = arrays[a]; k->name != NULL; k++) {
			if (i-- == 0)
				return k;
		}
	}
	return NULL;
}

int
qwen_kernel_fits(const struct qwen_kernel *k, const struct qwen_quant *q)
{
	if (q == NULL)
		return k->type == QWEN_ANY_TYPE;
	if (k->flushes && q->grain < QWEN_FLUSH_GRAIN)
		return 0;
	return k->type == q->type ||
	    (k->type == QWEN_ANY_TYPE && q->kind != QWEN_QUANT_FLOAT);
}

/* Of the same rank, one for the very format goes before one for any. */
const struct qwen_kernel *
qwen_kernel_choose(enum qwen_op op, const struct qwen_quant *q,
    unsigned features)
{
	const struct qwen_kernel *best = NULL, *k;
	size_t a;

	for (a = 0; a < N_ARRAYS; a++) {
		for (k = arrays[a]; k->name != NULL; k++) {
			if (k->op != op || (k->need & ~features) != 0 ||
			    !qwen_kernel_fits(k, q))
				continue;
			if (best == NULL || k->rank > best->rank ||
			    (k->rank == best->rank &&
			    best->type == QWEN_ANY_TYPE))
				best = k;
		}
	}
	return best;
}

const struct qwen_sift *
qwen_sift_choose(unsigned features)
{
	return qwen_kernel_choose(QWEN_OP_SIFT, NULL, features)->run.sift;
}

unsigned
qwen_kernels_usual(unsigned features, unsigned numerics)
{
	return numerics == 1 ? features & ~(unsigned)QWEN_CPU_AMX : features;
}

void
qwen_kernels_init(struct qwen_kernels *k, unsigned features, unsigned numerics)
{
	const struct qwen_quant *q;
	uint32_t type;
	int v2;

	assert(numerics >= 1 && numerics <= QWEN_NUMERICS_MAX);
	memset(k, 0, sizeof *k);
	k->numerics = numerics;
	for (type = 0; type < QT_N; type++) {
		if ((q = qwen_quant_find(type)) == NULL)
			continue;
		v2 = numerics == 2 && q->kind != QWEN_QUANT_FLOAT;
		k->matmul[type] = qwen_kernel_choose(v2 ? QWEN_OP_MATMUL_V2 :
		    QWEN_OP_MATMUL, q, features);
		k->gemm[type] = qwen_kernel_choose(v2 ? QWEN_OP_GEMM_V2 :
		    QWEN_OP_GEMM, q, features);
	}
	k->delta = qwen_kernel_choose(QWEN_OP_DELTA, NULL, features);
	k->attn = qwen_kernel_choose(QWEN_OP_ATTN, NULL, features);
	k->vec = qwen_kernel_choose(QWEN_OP_VEC, NULL, features);
	k->probe = qwen_kernel_choose(QWEN_OP_PROBE, NULL, features);
}

int
qwen_multiply(const struct qwen_kernel *matmul, const struct qwen_kernel *gemm,
    const struct qwen_matmul *m)
{
	struct qwen_matmul part = *m;

	assert(qwen_kernel_fits(matmul, m->quant));
	assert(gemm == NULL || qwen_kernel_fits(gemm, m->quant));
	assert(m->n_tok > 0 && m->r0 <= m->r1);
	assert(m->n_in % m->quant->block_len == 0);
	while (gemm != NULL && (m->n_tok < gemm->min_tok ||
	    m->n_tok < matmul->min_tok))
		gemm = gemm->below;
	if (gemm == NULL ||
	    m->n_in % QWEN_GROUP != 0 || m->r1 - m->r0 < 32) {
		matmul->run.matmul(m);
		return 0;
	}
	part.r1 = m->r1 - (m->r1 - m->r0) % 32;
	gemm->run.matmul(&part);
	part.r0 = part.r1;
	part.r1 = m->r1;
	if (part.r0 < part.r1)
		matmul->run.matmul(&part);
	return 1;
}
