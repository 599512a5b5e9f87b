/* SPDX-License-Identifier: ISC */
/* pre.c - the pre-tokenizers there are. */
#include <string.h>

#include "base/err.h"
#include "text/token/pre.h"

static const struct qwen_pre *const known[] = {
	&qwen_pre_qwen2, &qwen_pre_qwen35,
};

int
qwen_pre_find(const struct qwen_pre **out, const struct qwen_str *name,
    struct qwen_err *err)
{
	size_t i;

	*out = NULL;
	for (i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (strlen(known[i]->name) == name->len &&
		    memcmp(known[i]->name, name->s, name->len) == 0) {
			*out = known[i];
			return 0;
		}
	}
	return qwen_fail(err, QWEN_EUNSUP,
	    "pre-tokenizer '%.*s' is not known; known are %s and %s",
	    name->len > 60 ? 60 : (int)name->len, name->s,
	    qwen_pre_qwen2.name, qwen_pre_qwen35.name);
}
