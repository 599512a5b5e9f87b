/* SPDX-License-Identifier: ISC */
/*
 * ptx.c - the PTX of all kernels.  The Makefile lists the files of kernel/ in
 * ptx.inc, and defines QWEN_CUDA_PTX if clang has compiled them.
 */
#include <string.h>

#include "engine/cuda/ptx.h"

#ifdef QWEN_CUDA_PTX
#define PTX(name)							\
__asm__(".section .rodata\n"						\
    "qwen_ptx_" #name ": .incbin \"" #name ".ptx\"\n"			\
    ".byte 0\n"								\
    ".previous\n");							\
extern const char qwen_ptx_##name[] __asm__("qwen_ptx_" #name)		\
    __attribute__((visibility("hidden")));
#include "ptx.inc"
#undef PTX
#define TEXT(name) qwen_ptx_##name
#else
#define TEXT(name) ""
#endif

const char *
qwen_cuda_ptx(const char *module)
{
	static const struct {
		const char	*name, *text;
	} all[] = {
#define PTX(name) { #name, TEXT(name) },
#include "ptx.inc"
#undef PTX
	};
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (strcmp(all[i].name, module) == 0)
			return all[i].text;
	}
	return "";
}
