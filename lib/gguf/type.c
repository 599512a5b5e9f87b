/* SPDX-License-Identifier: ISC */
/*
 * type.c - number formats of tensors and their sizes: ggml's table.
 * lib/engine/quant has their meaning.
 */
#include "gguf/gguf.h"

static const struct {
	const char	*name;
	unsigned	 block_len, block_bytes;
} types[] = {
	[0] = { "F32", 1, 4 },
	[1] = { "F16", 1, 2 },
	[2] = { "Q4_0", 32, 18 },
	[3] = { "Q4_1", 32, 20 },
	[6] = { "Q5_0", 32, 22 },
	[7] = { "Q5_1", 32, 24 },
	[8] = { "Q8_0", 32, 34 },
	[9] = { "Q8_1", 32, 36 },
	[10] = { "Q2_K", 256, 84 },
	[11] = { "Q3_K", 256, 110 },
	[12] = { "Q4_K", 256, 144 },
	[13] = { "Q5_K", 256, 176 },
	[14] = { "Q6_K", 256, 210 },
	[15] = { "Q8_K", 256, 292 },
	[16] = { "IQ2_XXS", 256, 66 },
	[17] = { "IQ2_XS", 256, 74 },
	[18] = { "IQ3_XXS", 256, 98 },
	[19] = { "IQ1_S", 256, 50 },
	[20] = { "IQ4_NL", 32, 18 },
	[21] = { "IQ3_S", 256, 110 },
	[22] = { "IQ2_S", 256, 82 },
	[23] = { "IQ4_XS", 256, 136 },
	[24] = { "I8", 1, 1 },
	[25] = { "I16", 1, 2 },
	[26] = { "I32", 1, 4 },
	[27] = { "I64", 1, 8 },
	[28] = { "F64", 1, 8 },
	[29] = { "IQ1_M", 256, 56 },
	[30] = { "BF16", 1, 2 },
	[34] = { "TQ1_0", 256, 54 },
	[35] = { "TQ2_0", 256, 66 },
	[39] = { "MXFP4", 32, 17 },
	[40] = { "NVFP4", 64, 36 },
	[41] = { "Q1_0", 128, 18 },
	[42] = { "Q2_0", 64, 18 },
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
