/* SPDX-License-Identifier: ISC */
/*
 * ptx.c - the PTX of all kernels.  The Makefile compresses it to all.zst, a
 * tenth of its size, and defines QWEN_CUDA_PTX if clang has compiled it.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/ptx.h"

#ifdef QWEN_CUDA_PTX
#include <zstd.h>

__asm__(".section .rodata\n"
    "qwen_cuda_packed: .incbin \"all.zst\"\n"
    "qwen_cuda_packed_end:\n"
    ".previous\n");
extern const char packed[] __asm__("qwen_cuda_packed")
    __attribute__((visibility("hidden")));
extern const char packed_end[] __asm__("qwen_cuda_packed_end")
    __attribute__((visibility("hidden")));

int
qwen_cuda_ptx_unpack(struct qwen_cuda_ptx *p, struct qwen_err *err)
{
	size_t n = (size_t)(packed_end - packed);

	if (p->text != NULL)
		return 0;
	p->bytes = (size_t)ZSTD_getFrameContentSize(packed, n);
	if ((p->text = qwen_alloc(1, p->bytes)) == NULL)
		return qwen_oom(err);
	if (ZSTD_decompress(p->text, p->bytes, packed, n) != p->bytes)
		return qwen_fail(err, QWEN_EIO,
		    "the kernels for cards cannot be unpacked");
	return 0;
}
#else
int
qwen_cuda_ptx_unpack(struct qwen_cuda_ptx *p, struct qwen_err *err)
{
	(void)p;
	return qwen_fail(err, QWEN_EUNSUP, "built without kernels for cards, "
	    "which need clang 19 and zstd");
}
#endif

/* Replaces a text by another one that is as long. */
static void
replace(char *text, const char *from, const char *to)
{
	size_t n = strlen(to);

	while ((text = strstr(text, from)) != NULL) {
		memcpy(text, to, n);
		text += n;
	}
}

void
qwen_cuda_ptx_overlap(struct qwen_cuda_ptx *p)
{
	char *s = p->text, *end = p->text + p->bytes;

	for (; s < end; s += strlen(s) + 1) {
		replace(s, ".version 7.0", ".version 7.8");
		replace(s, ".target sm_80", ".target sm_90");
		replace(s, "//griddepcontrol", "  griddepcontrol");
	}
}

const char *
qwen_cuda_ptx_find(const struct qwen_cuda_ptx *p, const char *module)
{
	const char *name = p->text, *end = p->text + p->bytes, *text;

	for (; name < end; name = text + strlen(text) + 1) {
		text = name + strlen(name) + 1;
		if (strcmp(name, module) == 0)
			return text;
	}
	return NULL;
}
