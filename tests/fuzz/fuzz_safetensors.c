/* SPDX-License-Identifier: ISC */
/*
 * fuzz_safetensors.c - any bytes as a weight file: all tensors are inside the
 * file.
 */
#include <stdlib.h>
#include <string.h>

#include "hub/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_st st = { 0 };
	struct qwen_err err = { 0 };
	const struct qwen_st_tensor *t;
	size_t i, k, all = 0;

	if (qwen_st_add_memory(&st, data, size, &err) < 0) {
		if (err.code == 0 || err.msg[0] == '\0')
			abort();
	} else {
		for (i = 0; i < st.n; i++) {
			t = &st.v[i];
			if (t->bytes != t->n * qwen_st_type_bytes(t->type) ||
			    (i > 0 && strcmp(st.v[i - 1].name, t->name) >= 0))
				abort();
			for (k = 0; k < t->bytes; k++)
				sink += t->data[k];
			all += t->bytes;
		}
		if (all > size)
			abort();
	}
	qwen_st_fini(&st);
	return 0;
}
