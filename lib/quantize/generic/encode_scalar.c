/* SPDX-License-Identifier: ISC */
/* encode_scalar.c - encoders for any processor. */
#include "quantize/formats.h"

const struct qwen_encoder qwen_encoders_scalar[] = ENCODERS;
