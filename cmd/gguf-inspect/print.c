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

/* Loads element i as raw bits. */
static uint64_t
load(const struct qwen_gguf_kv *kv, uint64_t i)
{
	size_t n = qwen_gguf_type_bytes(kv->elem);
	const unsigned char *p = kv->data + i * n;
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

int
inspect_real(const struct qwen_gguf_kv *kv, uint64_t i, double *d, int *single)
{
	uint64_t v;

	*single = kv->elem == QWEN_GGUF_FLOAT32;
	if (!*single && kv->elem != QWEN_GGUF_FLOAT64)
		return 0;
	v = load(kv, i);
	if (*single)
		*d = (double)qwen_bits_f32((uint32_t)v);
	else
		memcpy(d, &v, sizeof *d);
	return 1;
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
inspect_put_real(double d, int single)
{
	char buf[40];

	inspect_format_real(buf, sizeof buf, d, single);
	fputs(isfinite(d) ? buf : isnan(d) ? "nan" : d < 0 ? "-inf" : "inf",
	    stdout);
}

void
inspect_put_num(const struct qwen_gguf_kv *kv, uint64_t i)
{
	unsigned unused = 64 - 8 * (unsigned)qwen_gguf_type_bytes(kv->elem);
	uint64_t v = load(kv, i);
	double d;
	int single;

	if (inspect_real(kv, i, &d, &single))
		inspect_put_real(d, single);
	else if (kv->elem == QWEN_GGUF_BOOL)
		fputs(v ? "true" : "false", stdout);
	else if (kv->elem == QWEN_GGUF_INT8 || kv->elem == QWEN_GGUF_INT16 ||
	    kv->elem == QWEN_GGUF_INT32 || kv->elem == QWEN_GGUF_INT64)
		printf("%" PRId64, (int64_t)(v << unused) >> unused);
	else
		printf("%" PRIu64, v);
}
