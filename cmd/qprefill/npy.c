/* SPDX-License-Identifier: ISC */
/* npy.c - write arrays in the .npy format of NumPy. */
#include <string.h>

#include "base/cursor.h"
#include "qprefill.h"

/*
 * Format version 1.0: a magic number, a length, and one line of text; padded to
 * a multiple of 64 bytes.
 */
void
qprefill_npy_header(struct qwen_text *t, const struct qprefill_array *a)
{
	size_t begin = t->n, len;

	qwen_text_add(t, "\x93NUMPY\x01\x00..", 10);
	qwen_text_fmt(t, "{'descr': '<%s', 'fortran_order': False, 'shape': "
	    "(%llu, %zu), }", a->integers ? "i4" : "f4",
	    cli_llu(a->n_rows), a->width);
	while ((t->n - begin) % 64 != 63 && !t->failed)
		qwen_text_str(t, " ");
	qwen_text_str(t, "\n");
	if (t->failed)
		return;
	len = t->n - begin - 10;
	qwen_put_le16((unsigned char *)t->s + begin + 8, (uint16_t)len);
}

/* Shorter rows are padded with zeros. */
void
qprefill_npy_row(struct qwen_text *t, const struct qprefill_array *a,
    const void *row, size_t n)
{
	unsigned char b[1024];
	uint32_t bits;
	size_t i, k = 0;

	for (i = 0; i < a->width; i++) {
		bits = 0;
		if (i < n)
			memcpy(&bits, (const char *)row + i * sizeof bits,
			    sizeof bits);
		qwen_put_le32(b + k, bits);
		k += sizeof bits;
		if (k == sizeof b || i == a->width - 1) {
			qwen_text_add(t, b, k);
			k = 0;
		}
	}
}
