/* SPDX-License-Identifier: ISC */
/*
 * type.c - names and sizes of the number formats of tensors.  lib/engine/quant
 * has their meaning.
 */
#include "gguf/gguf.h"
#include "gguf/type.h"

static const struct {
	const char	*name;
	unsigned	 block_len, block_bytes;
} types[] = {
#define ROW(name, number, len, bytes) [number] = { #name, len, bytes },
	QWEN_GGML_TYPES(ROW)
#undef ROW
};

/* Numbers that ggml removed, and those that only ik_llama.cpp uses. */
static const struct {
	uint32_t	 type;
	const char	*name;
} others[] = {
	{ 4, "Q4_2" }, { 5, "Q4_3" }, { 31, "Q4_0_4_4" }, { 32, "Q4_0_4_8" },
	{ 33, "Q4_0_8_8" }, { 36, "IQ4_NL_4_4" }, { 37, "IQ4_NL_4_8" },
	{ 38, "IQ4_NL_8_8" },
	{ 133, "Q6_0" }, { 137, "IQ2_K" }, { 138, "IQ3_K" }, { 139, "IQ4_K" },
	{ 140, "IQ5_K" }, { 141, "IQ6_K" }, { 144, "IQ4_KS" },
	{ 145, "IQ2_KS" }, { 146, "IQ4_KSS" }, { 152, "IQ5_KS" },
	{ 153, "IQ2_KT" }, { 154, "IQ3_KT" }, { 155, "IQ4_KT" },
	{ 156, "IQ3_KS" }, { 157, "IQ2_KL" }, { 158, "IQ1_KT" },
};

#define N_TYPES (sizeof types / sizeof types[0])

const char *
qwen_ggml_name(uint32_t type)
{
	return type < N_TYPES ? types[type].name : NULL;
}

const char *
qwen_gguf_other_type(uint32_t type)
{
	size_t i;

	for (i = 0; i < sizeof others / sizeof others[0]; i++) {
		if (others[i].type == type)
			return others[i].name;
	}
	return NULL;
}

size_t
qwen_ggml_block_len(uint32_t type)
{
	return type < N_TYPES ? types[type].block_len : 0;
}

size_t
qwen_ggml_block_bytes(uint32_t type)
{
	return type < N_TYPES ? types[type].block_bytes : 0;
}

int
qwen_gguf_tensor_bytes(uint32_t type, const uint64_t ne[4], uint64_t *bytes)
{
	uint64_t n = ne[0];
	int i;

	if (__builtin_mul_overflow(n / qwen_ggml_block_len(type),
	    (uint64_t)qwen_ggml_block_bytes(type), bytes))
		return -1;
	for (i = 1; i < 4; i++) {
		if (__builtin_mul_overflow(*bytes, ne[i], bytes) ||
		    __builtin_mul_overflow(n, ne[i], &n))
			return -1;
	}
	return n > INT64_MAX || *bytes > INT64_MAX ? -1 : 0;
}
