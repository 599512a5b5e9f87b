/* SPDX-License-Identifier: ISC */
/* pre.c - the list of known pre-tokenizers. */
#include <string.h>

#include "base/err.h"
#include "gguf/arch.h"
#include "text/token/pre.h"

/* Converters name each vocabulary; most of them are cut like qwen2. */
static const struct {
	const char		*name;
	const struct qwen_pre	*pre;
} known[] = {
	{ "qwen2", &qwen_pre_qwen2 },	/* Qwen2 to Qwen3, 3-Next, 3-VL */
	{ "qwen35", &qwen_pre_qwen35 },	/* Qwen3.5 to 3.8 */
	{ "deepseek-r1-qwen", &qwen_pre_qwen2 },
	{ "f2llmv2", &qwen_pre_qwen2 },
	{ "kormo", &qwen_pre_qwen2 },
	{ "megrez", &qwen_pre_qwen2 },
};

static int
is(const char *name, const struct qwen_str *s)
{
	return strlen(name) == s->len && memcmp(name, s->s, s->len) == 0;
}

/* Files of Qwen3.5 and later ones name theirs. */
const struct qwen_pre *
qwen_pre_guess(const struct qwen_str *arch)
{
	const struct qwen_arch *a = qwen_arch_find(*arch);

	return a != NULL && strcmp(a->pre, qwen_pre_qwen2.name) == 0 ?
	    &qwen_pre_qwen2 : NULL;
}

int
qwen_pre_find(const struct qwen_pre **out, const struct qwen_str *name,
    struct qwen_err *err)
{
	size_t i;

	*out = NULL;
	for (i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (is(known[i].name, name)) {
			*out = known[i].pre;
			return 0;
		}
	}
	return qwen_fail(err, QWEN_EUNSUP,
	    "unknown pre-tokenizer '%.*s'; known are %s and %s, and equivalent "
	    "ones",
	    name->len > 60 ? 60 : (int)name->len, name->s,
	    qwen_pre_qwen2.name, qwen_pre_qwen35.name);
}
