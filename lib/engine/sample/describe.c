/* SPDX-License-Identifier: ISC */
/* describe.c - writes a sampler's options as one line of text, and reads it. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/sample/sampler.h"

/* A text buffer that behaves like snprintf. */
struct out {
	char	*buf;
	size_t	 size, n;
};

static void
put_char(struct out *o, char c)
{
	if (o->n + 1 < o->size) {
		o->buf[o->n] = c;
		o->buf[o->n + 1] = '\0';
	}
	o->n++;
}

static void
put_word(struct out *o, const char *name, const char *value)
{
	const char *hex = "0123456789abcdef";

	if (o->n > 0)
		put_char(o, ' ');
	for (; *name != '\0'; name++)
		put_char(o, *name);
	put_char(o, '=');
	for (; *value != '\0'; value++) {
		unsigned char c = (unsigned char)*value;

		if (c > ' ' && c < 0x7f && c != '%') {
			put_char(o, *value);
			continue;
		}
		put_char(o, '%');
		put_char(o, hex[c >> 4]);
		put_char(o, hex[c & 15]);
	}
}

size_t
qwen_sampler_describe(const struct qwen_sampler *s, char *buf, size_t size)
{
	struct out out = { buf, size, 0 };
	size_t i, k;
	char number[40];

	if (size > 0)
		buf[0] = '\0';
	for (i = 0; i < s->n_opts; i++) {
		const struct qwen_sample_opt *o = s->opt[i];

		if (qwen_sample_is_text(o)) {
			for (k = 0; k < s->v[i].list.n; k++)
				put_word(&out, o->name, s->v[i].list.v[k]);
		} else if (qwen_sample_differs(o, &s->v[i])) {
			qwen_sample_print(o, &s->v[i], number, sizeof number);
			put_word(&out, o->name, number);
		}
	}
	return out.n;
}

int
qwen_sampler_read(struct qwen_sampler *s, const char *text,
    struct qwen_err *err)
{
	char *copy = qwen_alloc(strlen(text) + 1, 1), *word, *value, *save = NULL;
	struct qwen_err why;
	int rc = 0;

	if (copy == NULL)
		return qwen_oom(err);
	memcpy(copy, text, strlen(text));
	for (word = strtok_r(copy, " ", &save); word != NULL && rc == 0;
	    word = strtok_r(NULL, " ", &save)) {
		if ((value = strchr(word, '=')) != NULL)
			*value++ = '\0';
		if (value != NULL && qwen_percent_decode(value) < 0)
			rc = qwen_fail(err, QWEN_EFORMAT, "sampling option "
			    "%.40s: %% must be followed by a byte, 01 to ff",
			    word);
		else if (qwen_sampler_set(s, word, value, &why) < 0)
			rc = qwen_fail(err, why.code, "sampling option %.40s: "
			    "%.150s", word, why.msg);
	}
	free(copy);
	return rc;
}
