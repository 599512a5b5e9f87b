/* SPDX-License-Identifier: ISC */
/*
 * type.h - the number formats of tensors: ggml's list, the only one.  Each row
 * has a name, ggml's number, and the length and bytes of a block.
 */
#ifndef QWEN_GGUF_TYPE_H
#define QWEN_GGUF_TYPE_H

#define QWEN_GGML_TYPES(DO)						\
	DO(F32, 0, 1, 4)						\
	DO(F16, 1, 1, 2)						\
	DO(Q4_0, 2, 32, 18)						\
	DO(Q4_1, 3, 32, 20)						\
	DO(Q5_0, 6, 32, 22)						\
	DO(Q5_1, 7, 32, 24)						\
	DO(Q8_0, 8, 32, 34)						\
	DO(Q8_1, 9, 32, 36)						\
	DO(Q2_K, 10, 256, 84)						\
	DO(Q3_K, 11, 256, 110)						\
	DO(Q4_K, 12, 256, 144)						\
	DO(Q5_K, 13, 256, 176)						\
	DO(Q6_K, 14, 256, 210)						\
	DO(Q8_K, 15, 256, 292)						\
	DO(IQ2_XXS, 16, 256, 66)					\
	DO(IQ2_XS, 17, 256, 74)						\
	DO(IQ3_XXS, 18, 256, 98)					\
	DO(IQ1_S, 19, 256, 50)						\
	DO(IQ4_NL, 20, 32, 18)						\
	DO(IQ3_S, 21, 256, 110)						\
	DO(IQ2_S, 22, 256, 82)						\
	DO(IQ4_XS, 23, 256, 136)					\
	DO(I8, 24, 1, 1)						\
	DO(I16, 25, 1, 2)						\
	DO(I32, 26, 1, 4)						\
	DO(I64, 27, 1, 8)						\
	DO(F64, 28, 1, 8)						\
	DO(IQ1_M, 29, 256, 56)						\
	DO(BF16, 30, 1, 2)						\
	DO(TQ1_0, 34, 256, 54)						\
	DO(TQ2_0, 35, 256, 66)						\
	DO(MXFP4, 39, 32, 17)						\
	DO(NVFP4, 40, 64, 36)						\
	DO(Q1_0, 41, 128, 18)						\
	DO(Q2_0, 42, 64, 18)

/* QT_Q4_K, and of its blocks QT_LEN_Q4_K and QT_BYTES_Q4_K. */
enum {
#define QWEN_TYPE(name, number, len, bytes)				\
	QT_##name = number, QT_LEN_##name = len, QT_BYTES_##name = bytes,
	QWEN_GGML_TYPES(QWEN_TYPE)
#undef QWEN_TYPE
	QT_N = 64	/* above all numbers */
};

#endif
