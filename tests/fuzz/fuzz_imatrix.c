/* SPDX-License-Identifier: ISC */
/*
 * fuzz_imatrix.c - any bytes as an imatrix.dat: all values are inside the file.
 */
#include <stdlib.h>
#include <string.h>

#include "quantize/imatrix_dat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct imatrix_dat d;
	struct qwen_err err = { 0 };
	const struct imatrix_dat_entry *e;
	char name[64];
	size_t i, k, all = 0;

	if (qwen_imatrix_dat_read(&d, data, size, &err) < 0) {
		if (err.code == 0 || err.msg[0] == '\0')
			abort();
		return 0;
	}
	for (i = 0; i < d.n; i++) {
		e = &d.v[i];
		all += e->name.len + (size_t)e->n * 4;
		for (k = 0; k < (size_t)e->n * 4; k++)
			sink += e->v[k];
		if (e->name.len >= sizeof name)
			continue;
		memcpy(name, e->name.s, e->name.len);
		name[e->name.len] = '\0';
		if (strlen(name) == e->name.len &&
		    qwen_imatrix_dat_find(&d, name) != e)
			abort();
	}
	for (k = 0; k < d.dataset.len; k++)
		sink += (unsigned char)d.dataset.s[k];
	if (d.n == 0 || all + d.dataset.len > size)
		abort();
	qwen_imatrix_dat_fini(&d);
	return 0;
}
