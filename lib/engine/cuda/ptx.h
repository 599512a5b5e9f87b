/* SPDX-License-Identifier: ISC */
/* ptx.h - the kernels, as text for the driver. */
#ifndef QWEN_CUDA_PTX_H
#define QWEN_CUDA_PTX_H

/*
 * Returns the PTX of a file of kernel/, by its name without suffix; an empty
 * text if the library was built without clang.
 */
const char *qwen_cuda_ptx(const char *module);

#endif
