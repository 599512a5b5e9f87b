/* SPDX-License-Identifier: ISC */
/*
 * variants.h - the kernels to test: all compiled ones, and AMX kernels compiled
 * for a software model of tiles.  On a CPU without AMX the shipped AMX kernels
 * run too: their instructions are trapped.
 */
#ifndef VARIANTS_H
#define VARIANTS_H

#include <stdio.h>
#include <stdlib.h>

#include "engine/cpu/kernel/kernel.h"
#include "amx/amx_trap.h"

#if defined(__x86_64__)
#define MODELLED(k) extern const struct qwen_kernel k[];
#include "modelled.inc"
#undef MODELLED
#endif

/* The arrays of kernels compiled for the software model. */
static const struct qwen_kernel *const modelled[] = {
#if defined(__x86_64__)
#define MODELLED(k) k,
#include "modelled.inc"
#undef MODELLED
#endif
	NULL
};

/* Return modelled variant i, or NULL after the last. */
static inline const struct qwen_kernel *
modelled_get(size_t i)
{
	const struct qwen_kernel *const *a, *k;

	for (a = modelled; *a != NULL; a++) {
		for (k = *a; k->name != NULL; k++) {
			if (i-- == 0)
				return k;
		}
	}
	return NULL;
}

static inline size_t
modelled_count(void)
{
	size_t n = 0;

	while (modelled_get(n) != NULL)
		n++;
	return n;
}

static inline size_t
variant_count(void)
{
	return qwen_kernel_count() + modelled_count();
}

static inline const struct qwen_kernel *
variant_get(size_t i)
{
	return i < qwen_kernel_count() ? qwen_kernel_get(i) :
	    modelled_get(i - qwen_kernel_count());
}

/* Return 1 for a GEMM, including bf16. */
static inline int
variant_is_gemm(const struct qwen_kernel *k)
{
	return k->op == QWEN_OP_GEMM || k->op == QWEN_OP_GEMM_BF16;
}

static inline int
variant_is_product(const struct qwen_kernel *k)
{
	return variant_is_gemm(k) || k->op == QWEN_OP_MATMUL ||
	    k->op == QWEN_OP_MATMUL_BF16;
}

static inline int
variant_is_bf16(const struct qwen_kernel *k)
{
	return k->op == QWEN_OP_MATMUL_BF16 || k->op == QWEN_OP_GEMM_BF16;
}

/* Return a numerics version that uses the kernel. */
static inline unsigned
variant_numerics(const struct qwen_kernel *k)
{
	return variant_is_bf16(k) ? 3 : 1;
}

/* Return the name, such as "matmul" or "gemm bf16". */
static inline const char *
variant_op(const struct qwen_kernel *k)
{
	static const char *const names[2][2] = { { "matmul", "gemm" },
	    { "matmul bf16", "gemm bf16" } };

	return names[variant_is_bf16(k)][variant_is_gemm(k)];
}

/*
 * Pack the tokens of m for kernels that need that, and set m->packed, for
 * free(); else return NULL.
 */
static inline void *
variant_pack(const struct qwen_kernel *k, struct qwen_matmul *m)
{
	size_t bytes;
	void *p;

	if (k->packing == NULL || m->n_in % QWEN_GROUP != 0)
		return NULL;
	bytes = qwen_packed_bytes(k->packing, m->n_tok, m->n_in);
	if ((p = aligned_alloc(64, bytes)) == NULL)
		abort();
	qwen_pack(k->packing, p, m->x, m->n_tok, m->n_in);
	m->packing = k->packing;
	m->packed = p;
	return p;
}

/*
 * Multiply with the variant where it accepts the sizes, else with a plain
 * kernel.
 */
static inline void
variant_multiply(const struct qwen_kernel *k, struct qwen_matmul m)
{
	struct qwen_gemms all = { 0 };
	struct qwen_kernels plain;
	size_t i;
	void *p;

	if (!variant_is_gemm(k)) {
		qwen_multiply(k, NULL, &m);
		return;
	}
	qwen_kernels_init(&plain, 0, variant_numerics(k));
	for (i = 0; i < QWEN_TOKEN_CLASSES; i++)
		all.by[i] = k;
	p = variant_pack(k, &m);
	qwen_multiply(plain.matmul[m.quant->type], &all, &m);
	free(p);
}

/* Return the QWEN_CPU_ bits of the kernels that can run. */
static inline unsigned
variant_cpu(void)
{
	unsigned have = qwen_cpu_detect();

#if defined(__x86_64__)
	if ((have & QWEN_CPU_AVX512VNNI) != 0 && (have & QWEN_CPU_AMX) == 0 &&
	    amx_trap_install() == 0) {
		printf("# no AMX in this CPU: its instructions are emulated\n");
		have |= QWEN_CPU_AMX;
	}
#endif
	return have;
}

#endif
