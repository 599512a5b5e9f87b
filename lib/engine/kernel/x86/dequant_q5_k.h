/* SPDX-License-Identifier: ISC */
/* dequant_q5_k.h - 16 rows of Q5_K, for dequant.h. */
#include "engine/kernel/x86/dequant_k4.h"
#include "engine/kernel/x86/unpack_q5_k.h"
