/* SPDX-License-Identifier: ISC */
/*
 * amx.h - the AMX instructions as kernels use them.
 *
 * With QWEN_AMX_MODEL they are functions of a software model in the tests, so
 * that the same source runs on CPUs without AMX.  Tiles are named by literal
 * numbers, as in the instructions.
 */
#ifndef QWEN_KERNEL_AMX_H
#define QWEN_KERNEL_AMX_H

#include <stdint.h>

#include "engine/cpu/kernel/kernel.h"

/* The operand of LDTILECFG. */
struct amx_config {
	uint8_t		palette;	/* 1 */
	uint8_t		start_row;
	uint8_t		reserved[14];
	uint16_t	colsb[16];	/* bytes per row of each tile, up to
					   64 */
	uint8_t		rows[16];	/* rows of each tile, up to 16 */
} __attribute__((aligned(64)));

#ifdef QWEN_AMX_MODEL

#include "amx_model.h"

#define amx_config(c)		amx_model_config(c)
#define amx_release()		amx_model_release()
#define amx_zero(t)		amx_model_zero(t)
#define amx_load(t, p, stride)	amx_model_load(t, p, stride)
#define amx_store(t, p, stride)	amx_model_store(t, p, stride)
#define amx_dpbssd(c, a, b)	amx_model_dpbssd(c, a, b)
#define amx_dpbsud(c, a, b)	amx_model_dpbsud(c, a, b)
#define amx_dpbusd(c, a, b)	amx_model_dpbusd(c, a, b)
#define amx_dpbuud(c, a, b)	amx_model_dpbuud(c, a, b)
#define amx_dpbf16(c, a, b)	amx_model_dpbf16(c, a, b)

/* Modelled variants are registered only in the tests. */
#define AMX_KERNELS(file)	qwen_##file##_model_kernels
#define AMX_SET .name = "amx model", .rank = QWEN_BY_AMX,		\
	.need = QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI
#define AMX_MIN_TOK(n)		1

#else

#include <immintrin.h>

/*
 * gcc's intrinsics do not declare that they read memory, so earlier stores must
 * be completed.
 */
#define AMX_FENCE()	__asm__ volatile("" : : : "memory")

#define amx_config(c) do { AMX_FENCE(); _tile_loadconfig(c); } while (0)
#define amx_release()		_tile_release()
#define amx_zero(t)		_tile_zero(t)
#define amx_load(t, p, stride) do {					\
	AMX_FENCE();							\
	_tile_loadd(t, p, stride);					\
} while (0)
#define amx_store(t, p, stride) do {					\
	_tile_stored(t, p, stride);					\
	AMX_FENCE();							\
} while (0)
/*
 * c[m][n] += a[m][4k+i] * b[k][4n+i]; letters: a, b signed (s) or unsigned (u)
 */
#define amx_dpbssd(c, a, b)	_tile_dpbssd(c, a, b)
#define amx_dpbsud(c, a, b)	_tile_dpbsud(c, a, b)
#define amx_dpbusd(c, a, b)	_tile_dpbusd(c, a, b)
#define amx_dpbuud(c, a, b)	_tile_dpbuud(c, a, b)
/*
 * c[m][n] += a[m][2k+i] * b[k][2n+i], bf16 into f32, in the instruction's own
 * order
 */
#define amx_dpbf16(c, a, b)	_tile_dpbf16ps(c, a, b)

#define AMX_KERNELS(file)	qwen_##file##_kernels
#define AMX_SET .name = "amx", .rank = QWEN_BY_AMX,			\
	.need = QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI | QWEN_CPU_AMX
#define AMX_MIN_TOK(n)		(n)

#endif

/* Members of table entries of products in versions 1 and 4. */
#define AMX_GEMM .op = QWEN_OP_GEMM, AMX_SET, .packing = &packing,	\
	.min_tok = AMX_MIN_TOK(8)

#endif
