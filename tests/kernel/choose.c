/* SPDX-License-Identifier: ISC */
/*
 * choose.c - which products are chosen, of instruction sets that this CPU need
 * not have.
 */
#include <string.h>

#include "../tap.h"
#include "engine/kernel/kernel.h"

/* The name of the product of many tokens. */
static const char *
gemm(unsigned features, unsigned numerics, uint32_t type)
{
	struct qwen_kernels k;

	qwen_kernels_init(&k, features, numerics);
	return k.gemm[type] != NULL ? k.gemm[type]->name : "none";
}

static void
check_amx(void)
{
	const unsigned all = QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI |
	    QWEN_CPU_AMX;
	static const uint32_t type[] = { QT_Q4_K, QT_Q5_K, QT_Q6_K, QT_Q8_0 };
	size_t i;

	for (i = 0; i < sizeof type / sizeof type[0]; i++) {
		const char *v1 = gemm(qwen_kernels_usual(all, 1), 1, type[i]);
		const char *v2 = gemm(qwen_kernels_usual(all, 2), 2, type[i]);

		ok(strcmp(v1, "avx512vnni") == 0,
		    "format %u, version 1 without a level: %s", type[i], v1);
		ok(strcmp(v2, "amx") == 0,
		    "format %u, version 2 without a level: %s", type[i], v2);
		ok(strcmp(gemm(all, 1, type[i]), "amx") == 0,
		    "format %u, version 1 with AMX asked for", type[i]);
	}
}

int
main(void)
{
	static const unsigned sets[] = { 0, QWEN_CPU_AVX2,
	    QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI, QWEN_CPU_NEON };
	const struct qwen_kernel *k;
	size_t i;
	int amx = 0;

	for (i = 0; (k = qwen_kernel_get(i)) != NULL; i++)
		amx |= (k->need & QWEN_CPU_AMX) != 0;
	if (amx)
		check_amx();
	else
		skip("AMX", "another kind of processor, or an old compiler");
	for (i = 0; i < sizeof sets / sizeof sets[0]; i++)
		ok(qwen_kernels_usual(sets[i], 1) == sets[i] &&
		    qwen_kernels_usual(sets[i], 2) == sets[i],
		    "all else is used where it is there");
	return done_testing();
}
