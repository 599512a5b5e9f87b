/* SPDX-License-Identifier: ISC */
/* prompt.c - messages of the conversation, and their prompt. */
#include <stdlib.h>
#include <string.h>

#include "qchat.h"

struct qchat_opts qchat_opt = { .n = INT64_MAX, .think = -1 };
volatile sig_atomic_t qchat_interrupted;
const char *qchat_dim = "", *qchat_plain = "";

void
qchat_say(struct qchat *c, const char *role, const char *text, size_t n,
    int join)
{
	cli_must(NULL, qwen_messages_add_text(c->messages, role, text, n, join,
	    &cli_err));
}

void
qchat_think(struct qchat *c)
{
	const char *value = qchat_opt.think == 0 ? "true" : "false";

	if (qchat_opt.think >= 0)
		cli_must(NULL, qwen_messages_set(c->messages, "enable_thinking",
		    value, strlen(value), &cli_err));
}

int
qchat_render(struct qchat *c, struct qwen_prompt **p)
{
	char *json;
	size_t n;
	int rc;

	cli_must(NULL, qwen_messages_json(c->messages, 0, &json, &n, &cli_err));
	rc = qwen_template_render(c->template, json, n, p, &cli_err);
	free(json);
	return rc;
}

/* Return the ids of the first `end' bytes of the prompt; NULL and cli_err. */
static int32_t *
encode_part(struct qchat *c, const struct qwen_prompt *p, size_t end, size_t *n)
{
	struct qwen_ids ids = { 0 };

	cli_must(NULL, qwen_prompt_encode(p, c->tok, 0, end, &ids.id, &ids.n,
	    &cli_err));
	if (qchat_place_images(c, &ids) < 0) {
		free(ids.id);
		return NULL;
	}
	*n = ids.n;
	return ids.id;
}

int32_t *
qchat_encode(struct qchat *c, const struct qwen_prompt *p, size_t *n,
    size_t *turn)
{
	size_t len = qwen_prompt_text(p).len, last = 0, next;
	int32_t *head;

	while ((next = qwen_prompt_turn(p, last + 1)) < len)
		last = next;
	if (turn != NULL) {
		if ((head = encode_part(c, p, last, turn)) == NULL)
			return NULL;
		free(head);
	}
	return encode_part(c, p, len, n);
}

int
qchat_prompt(struct qchat *c, size_t *n_tokens, int *thinks)
{
	struct qwen_prompt *p;
	int32_t *ids = NULL;

	if (qchat_render(c, &p) < 0)
		return -1;
	if (n_tokens != NULL && (ids = qchat_encode(c, p, n_tokens, NULL)) ==
	    NULL) {
		qwen_prompt_free(p);
		return -1;
	}
	free(ids);
	if (thinks != NULL)
		*thinks = qwen_template_thinks(c->template,
		    qwen_prompt_thinking(p));
	qwen_prompt_free(p);
	return 0;
}
