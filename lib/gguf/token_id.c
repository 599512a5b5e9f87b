/* SPDX-License-Identifier: ISC */
/* token_id.c - token ids under keys of a file, such as that of EOS. */
#include "base/err.h"
#include "gguf/vocab.h"

/* Is the value -1, or -1 converted to an unsigned type? */
static int
is_minus_one(const struct qwen_gguf_kv *kv)
{
	size_t i, n = kv->type == QWEN_GGUF_FLOAT32 || kv->type ==
	    QWEN_GGUF_FLOAT64 ? 0 : qwen_gguf_type_bytes(kv->type);

	for (i = 0; i < n && kv->data[i] == 0xff; i++)
		;
	return n >= 4 && i == n;
}

int
qwen_vocab_id(const struct qwen_gguf *g, const char *key, size_t n,
    int32_t *id, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);
	uint64_t v;

	*id = -1;
	if (kv == NULL || is_minus_one(kv))
		return 0;
	if (qwen_gguf_get_u64(g, key, 0, &v, err) < 0)
		return -1;
	if (v >= n)
		return qwen_fail(err, QWEN_ERANGE,
		    "%s is %llu, but there are %zu tokens", key,
		    (unsigned long long)v, n);
	*id = (int32_t)v;
	return 1;
}
