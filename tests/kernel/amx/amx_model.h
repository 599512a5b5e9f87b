/* SPDX-License-Identifier: ISC */
/*
 * amx_model.h - eight tiles of 16 rows of 64 bytes, in software.
 * lib/engine/cpu/kernel/x86/amx.h calls these functions when compiled with
 * QWEN_AMX_MODEL.
 *
 * Where the hardware raises #GP or #UD, the process prints a line that says
 * what is wrong, and ends.  State is per thread, as in the hardware.
 */
#ifndef AMX_MODEL_H
#define AMX_MODEL_H

#include <stddef.h>

struct amx_config;

void amx_model_config(const struct amx_config *c);
void amx_model_release(void);
void amx_model_zero(int t);
void amx_model_load(int t, const void *p, size_t stride);
void amx_model_store(int t, void *p, size_t stride);
/* c[m][n] += a[m][4k+i] * b[k][4n+i] in 32 bits; bytes of a, b are signed (s)
   or not (u) */
void amx_model_dpbssd(int c, int a, int b);
void amx_model_dpbsud(int c, int a, int b);
void amx_model_dpbusd(int c, int a, int b);
void amx_model_dpbuud(int c, int a, int b);
/* c[m][n] += a[m][2k+i] * b[k][2n+i], bf16 into f32 */
void amx_model_dpbf16(int c, int a, int b);

/* Return 1 between config and release. */
int amx_model_in_use(void);
/* Return the number of tile products so far in this thread. */
size_t amx_model_products(void);

#endif
