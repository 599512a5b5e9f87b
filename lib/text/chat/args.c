/* SPDX-License-Identifier: ISC */
/* args.c - how filters, tests, functions and methods read their arguments. */
#include <string.h>

#include "text/chat/chat.h"

const struct chat_value *
qwen_chat_arg(const struct chat_args *a, size_t i, const char *key)
{
	size_t plain = a->n - a->n_key, k;

	if (i < plain)
		return &a->v[i];
	for (k = 0; k < a->n_key; k++) {
		if (strcmp(a->key[k], key) == 0)
			return &a->v[plain + k];
	}
	return NULL;
}

int
qwen_chat_flag(const struct chat_builtin_call *c, size_t i, const char *key)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	return v != NULL && qwen_chat_true(v);
}

int64_t
qwen_chat_whole(const struct chat_builtin_call *c, size_t i, const char *key,
    int64_t usual)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	if (v == NULL)
		return usual;
	if (chat_is_whole(v))
		return v->u.i;
	chat_refuse(c, "an argument that is no integer");
	return usual;
}

struct chat_text
qwen_chat_as_text(const struct chat_builtin_call *c)
{
	struct chat_buf b = { 0 };

	if (c->x->type == CHAT_TEXT)
		return c->x->u.s;
	qwen_chat_print(c->r, &b, c->x);
	return qwen_chat_buf_value(c->r, &b).u.s;
}
