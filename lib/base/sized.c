/* SPDX-License-Identifier: ISC */
/* sized.c - structs of callers built for older or newer library versions. */
#include <string.h>

#include "base/err.h"
#include "base/sized.h"

int
qwen_sized(void *own, size_t known, const void *from, size_t size,
    const char *function, struct qwen_err *err)
{
	const unsigned char *p = from;
	size_t i;

	if (size == 0)
		return qwen_fail(err, QWEN_ERANGE, "%s: the size of the struct "
		    "is 0; pass its sizeof", function);
	for (i = known; i < size; i++) {
		if (p[i] != 0)
			return qwen_fail(err, QWEN_EUNSUP, "%s: byte %zu of "
			    "the struct is set, but libqwen " QWEN_VERSION " "
			    "knows only %zu bytes: this program was built for "
			    "a newer libqwen", function, i, known);
	}
	memset(own, 0, known);
	memcpy(own, from, size < known ? size : known);
	return 0;
}
