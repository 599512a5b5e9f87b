/* SPDX-License-Identifier: ISC */
/*
 * print.c - print strings and numbers of a file, with control characters
 * escaped.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/utf8.h"
#include "gguf-inspect.h"

void
inspect_put_text(const char *s, size_t n, size_t max, const char *also)
{
	size_t i, len, used;
	char out[QWEN_SHOWN_CHAR];

	for (i = 0; i < n && i < max; i += used) {
		len = qwen_shown_char(s + i, n - i, &used, out);
		if (s[i] == '\0' || strchr(also, s[i]) == NULL)
			fwrite(out, 1, len, stdout);
		else if (s[i] == '"')
			fputs("\\\"", stdout);
		else
			printf("\\x%02x", (unsigned char)s[i]);
	}
	if (i < n)
		fputs("...", stdout);
}

void
inspect_put_word(const char *s, size_t n)
{
	inspect_put_text(s, n, n, " ");
}

void
inspect_put_name(const char *s)
{
	inspect_put_word(s, strlen(s));
}

void
inspect_progress(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	uint64_t bytes = 0;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++)
		bytes += t->bytes;
	cli_progress_start("MiB", bytes >> 20);
}

static uint64_t
load_le(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

struct inspect_num
inspect_load_num(const struct qwen_gguf_kv *kv, uint64_t i)
{
	size_t size = qwen_gguf_type_bytes(kv->elem);
	uint64_t v = load_le(kv->data + i * size, size);
	struct inspect_num x = { .kind = INSPECT_UNSIGNED, .u = v };

	switch (kv->elem) {
	case QWEN_GGUF_BOOL:
		x.kind = INSPECT_LOGICAL;
		break;
	case QWEN_GGUF_INT8:
	case QWEN_GGUF_INT16:
	case QWEN_GGUF_INT32:
	case QWEN_GGUF_INT64:
		x.kind = INSPECT_SIGNED;
		if (size < 8 && v >> (8 * size - 1) != 0)
			v |= UINT64_MAX << (8 * size);
		x.i = (int64_t)v;
		break;
	case QWEN_GGUF_FLOAT32:
		x.kind = INSPECT_REAL;
		x.single = 1;
		x.d = (double)qwen_bits_f32((uint32_t)v);
		break;
	case QWEN_GGUF_FLOAT64:
		x.kind = INSPECT_REAL;
		memcpy(&x.d, &v, sizeof x.d);
		break;
	default:
		break;
	}
	return x;
}

void
inspect_format_real(char *buf, size_t size, double d, int single)
{
	int digits;

	for (digits = single ? 6 : 15; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, d);
		if (single ? strtof(buf, NULL) == (float)d :
		    strtod(buf, NULL) == d)
			break;
	}
}

void
inspect_put_num(const struct inspect_num *x)
{
	char buf[40];

	if (x->kind == INSPECT_LOGICAL) {
		fputs(x->u ? "true" : "false", stdout);
	} else if (x->kind == INSPECT_UNSIGNED) {
		printf("%" PRIu64, x->u);
	} else if (x->kind == INSPECT_SIGNED) {
		printf("%" PRId64, x->i);
	} else if (!isfinite(x->d)) {
		fputs(isnan(x->d) ? "nan" : x->d < 0 ? "-inf" : "inf", stdout);
	} else {
		inspect_format_real(buf, sizeof buf, x->d, x->single);
		fputs(buf, stdout);
	}
}
