/* SPDX-License-Identifier: ISC */
/* arch.c - the list of architectures. */
#include <stdio.h>
#include <string.h>

#include "engine/model/model.h"

#define ARCH(a) extern const struct qwen_arch a;
#include "archs.inc"
#undef ARCH

static const struct qwen_arch *const archs[] = {
#define ARCH(a) &a,
#include "archs.inc"
#undef ARCH
};

#define N_ARCHS (sizeof archs / sizeof archs[0])

const struct qwen_arch *
qwen_arch_find(struct qwen_str name)
{
	size_t i;

	for (i = 0; i < N_ARCHS; i++) {
		if (strlen(archs[i]->name) == name.len &&
		    memcmp(archs[i]->name, name.s, name.len) == 0)
			return archs[i];
	}
	return NULL;
}

void
qwen_arch_names(char *buf, size_t size)
{
	size_t i, n = 0;

	if (size > 0)
		buf[0] = '\0';
	for (i = 0; i < N_ARCHS && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s",
		    i > 0 ? ", " : "", archs[i]->name);
}
