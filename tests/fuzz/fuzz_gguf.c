/* SPDX-License-Identifier: ISC */
/*
 * fuzz_gguf.c - opens any bytes as a GGUF file, and uses all of its contents.
 */
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "qwen/quant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void
ignore(void *arg, const char *msg)
{
	(void)arg;
	sink += strlen(msg);
}

static void
use_kv(const struct qwen_gguf *g, const struct qwen_gguf_kv *kv)
{
	struct qwen_err err;
	struct qwen_str s;
	char key[256];
	size_t pos = 0, i;
	uint64_t u;
	double d;
	int b;

	for (i = 0; i < kv->bytes; i++)
		sink += kv->data[i];
	while (qwen_gguf_next_str(kv, &pos, &s)) {
		for (i = 0; i < s.len; i++)
			sink += (unsigned char)s.s[i];
	}
	if (kv->key.len >= sizeof key)
		return;
	memcpy(key, kv->key.s, kv->key.len);
	key[kv->key.len] = '\0';
	if (memchr(key, '\0', kv->key.len) == NULL &&
	    qwen_gguf_find(g, key) != kv)
		abort();
	for (i = 0; i < 3; i++) {
		if (qwen_gguf_get_u64(g, key, i, &u, &err) == 1)
			sink += u;
		if (qwen_gguf_get_f64(g, key, i, &d, &err) == 1)
			sink += d > 0;
		if (qwen_gguf_get_bool(g, key, i, &b, &err) == 1)
			sink += (unsigned)b;
	}
	if (qwen_gguf_get_str(g, key, &s, &err) == 1)
		sink += s.len;
}

static void
use_tensor(const struct qwen_gguf *g, const struct qwen_gguf_tensor *t)
{
	uint64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3], i;
	float *v;

	if (qwen_gguf_find_tensor(g, t->name) != t ||
	    t->bytes != n / qwen_ggml_block_len(t->type) *
	    qwen_ggml_block_bytes(t->type))
		abort();
	for (i = 0; i < t->bytes; i++)
		sink += ((const unsigned char *)t->data)[i];
	if (n > 1 << 20 || (v = malloc((size_t)n * sizeof *v)) == NULL)
		return;
	sink += (unsigned)qwen_quant_dequantize(t->type, t->data, v,
	    (size_t)n, NULL);
	free(v);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct qwen_gguf_checker c = { ignore, NULL, NULL };
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *kv;
	struct qwen_gguf *g;
	struct qwen_err err;
	size_t i;

	if (qwen_gguf_open_memory(&g, data, size, &err) < 0) {
		if (g != NULL || err.code == 0 || err.msg[0] == '\0')
			abort();
		return 0;
	}
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++)
		use_kv(g, kv);
	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++)
		use_tensor(g, t);
	sink += qwen_gguf_check(g, &c, NULL);
	qwen_gguf_close(g);
	return 0;
}
