/* SPDX-License-Identifier: ISC */
/* json.c - print the whole file as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "gguf-inspect.h"

/*
 * Print a JSON string; bytes that are not UTF-8 become U+FFFD, since JSON
 * cannot contain them.
 */
static void
json_str(const char *s, size_t n)
{
	size_t i;
	uint32_t c;
	int len;

	putchar('"');
	for (i = 0; i < n; i += (size_t)len) {
		len = qwen_utf8_read((const unsigned char *)s + i, n - i, &c);
		if (len <= 0) {
			fputs("\\ufffd", stdout);
			len = 1;
		} else if (c == '"' || c == '\\') {
			printf("\\%c", (int)c);
		} else if (c == '\n') {
			fputs("\\n", stdout);
		} else if (qwen_utf8_steers(c) && c > 0xffff) {
			printf("\\u%04x\\u%04x",
			    (unsigned)(0xd7c0 + (c >> 10)),
			    (unsigned)(0xdc00 + (c & 0x3ff)));
		} else if (qwen_utf8_steers(c)) {
			printf("\\u%04x", (unsigned)c);
		} else {
			fwrite(s + i, 1, (size_t)len, stdout);
		}
	}
	putchar('"');
}

/* Print a number without loss: integers with all digits, f32 as double. */
static void
json_num(const struct qwen_gguf_kv *kv, uint64_t i)
{
	char buf[40];
	double d;
	int single;

	if (!inspect_real(kv, i, &d, &single)) {
		inspect_put_num(kv, i);
	} else if (!isfinite(d)) {
		fputs("null", stdout);
	} else {
		inspect_format_real(buf, sizeof buf, d, 0);
		fputs(buf, stdout);
		if (strpbrk(buf, ".e") == NULL)
			fputs(".0", stdout);	/* keeps it a float */
	}
}

static void
json_value(const struct qwen_gguf_kv *kv)
{
	struct qwen_str s;
	size_t pos = 0;
	uint64_t i;

	if (kv->type == QWEN_GGUF_ARRAY)
		putchar('[');
	for (i = 0; i < kv->n; i++) {
		if (i > 0)
			fputs(", ", stdout);
		if (qwen_gguf_next_str(kv, &pos, &s))
			json_str(s.s, s.len);
		else
			json_num(kv, i);
		cli_check_stdout();
	}
	if (kv->type == QWEN_GGUF_ARRAY)
		putchar(']');
}

static void
json_tensor(const struct qwen_gguf_tensor *t)
{
	unsigned d;

	fputs("{\"name\": ", stdout);
	json_str(t->name, strlen(t->name));
	printf(", \"type\": \"%s\", \"shape\": [", qwen_ggml_name(t->type));
	for (d = 0; d < t->n_dims; d++)
		printf("%s%" PRIu64, d > 0 ? ", " : "", t->ne[d]);
	printf("], \"bytes\": %" PRIu64 ", \"offset\": %" PRIu64 "}",
	    t->bytes, t->offset);
}

void
inspect_json(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *kv;
	struct inspect_usable u = { 0 };
	struct inspect_image im;
	size_t i;

	fputs("{\"metadata\": {", stdout);
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		fputs(i > 0 ? ",\n  " : "\n  ", stdout);
		json_str(kv->key.s, kv->key.len);
		fputs(": ", stdout);
		json_value(kv);
	}
	fputs("\n},\n\"tensors\": [", stdout);
	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		fputs(i > 0 ? ",\n  " : "\n  ", stdout);
		json_tensor(t);
		cli_check_stdout();
	}
	fputs("\n],\n", stdout);
	inspect_check_usable(&u, g);
	inspect_json_usable(&u);
	inspect_usable_fini(&u);
	inspect_image_open(&im, g);
	inspect_json_image(&im);
	inspect_image_fini(&im);
	fputs("}\n", stdout);
}
