/* SPDX-License-Identifier: ISC */
/* encode_avx2.c - encoders for AVX2. */
#include "quantize/formats.h"

const struct qwen_encoder qwen_encoders_avx2[] = ENCODERS;
