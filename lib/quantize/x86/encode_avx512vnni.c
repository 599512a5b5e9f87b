/* SPDX-License-Identifier: ISC */
/* encode_avx512vnni.c - encoders for AVX-512. */
#include "quantize/formats.h"

const struct qwen_encoder qwen_encoders_avx512vnni[] = ENCODERS;
