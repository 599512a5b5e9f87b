/* SPDX-License-Identifier: ISC */
/*
 * contents.c - contents that are lists of text parts, or null, for templates
 * that handle only texts.  Some templates fail on a list, others write it as
 * Python prints it.  Rendering a small chat shows for which roles a template
 * accepts a list.
 */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "text/chat/request.h"

enum role { SYSTEM, USER, ASSISTANT, TOOL, N_ROLES };

static const char *const roles[N_ROLES] = {
	"system", "user", "assistant", "tool"
};

/* Returns N_ROLES for any other role. */
static enum role
role_of(struct chat_exec *r, const struct chat_value *message)
{
	struct chat_value *v = qwen_chat_key(r, message->u.d, "role");
	unsigned i = 0;

	if (chat_is_text(v, "developer"))
		return SYSTEM;
	while (i < N_ROLES && !chat_is_text(v, roles[i]))
		i++;
	return (enum role)i;
}

/* Renders a chat with all roles and tools; contents of one role are lists. */
static int
try(const struct qwen_template *t, enum role listed, struct chat_buf *out,
    struct qwen_err *err)
{
	static const enum role chat[] = { SYSTEM, USER, ASSISTANT, TOOL,
	    ASSISTANT, USER };
	static const char function[] = "\"function\":{\"name\":\"f\",";
	struct qwen_text json = { 0 };
	size_t i;
	int rc;

	qwen_text_fmt(&json, "{\"tools\":[{\"type\":\"function\",%s"
	    "\"description\":\"d\",\"parameters\":{\"type\":\"object\","
	    "\"properties\":{}}}}],\"messages\":[", function);
	for (i = 0; i < sizeof chat / sizeof *chat; i++) {
		qwen_text_fmt(&json, "%s{\"role\":\"%s\",\"content\":",
		    i > 0 ? "," : "", roles[chat[i]]);
		qwen_text_fmt(&json, chat[i] == listed ? "[{\"type\":\"text\","
		    "\"text\":\"probe%zu\"}]" : "\"probe%zu\"", i);
		if (i == 2)
			qwen_text_fmt(&json, ",\"tool_calls\":[{\"id\":\"c\","
			    "\"type\":\"function\",%s\"arguments\":{}}}]",
			    function);
		qwen_text_str(&json, i == 3 ? ",\"tool_call_id\":\"c\"}" : "}");
	}
	qwen_text_str(&json, "]}");
	rc = json.failed ? qwen_oom(err) : qwen_chat_probe(t, json.s, json.n,
	    out, err);
	qwen_text_fini(&json);
	return rc;
}

/*
 * Returns 1 if a list with one text renders like the text itself, or if the
 * template does not accept this chat at all.
 */
static int
takes_list(struct chat_exec *r, enum role role)
{
	struct chat_buf b[2] = { { 0 }, { 0 } };
	struct qwen_err err = { 0 };
	int texts, list = -1, same;

	texts = try(r->t, N_ROLES, &b[0], &err);
	if (texts == 0)
		list = try(r->t, role, &b[1], &err);
	same = list == 0 && b[0].n == b[1].n &&
	    memcmp(b[0].s, b[1].s, b[0].n) == 0;
	if ((texts < 0 || list < 0) && err.code == QWEN_ENOMEM)
		qwen_chat_oom(r);
	qwen_chat_buf_fini(&b[0]);
	qwen_chat_buf_fini(&b[1]);
	return texts < 0 || same;
}

int
qwen_chat_contents(struct chat_exec *r, struct chat_value *messages)
{
	enum { UNKNOWN, LIST, TEXT } takes[N_ROLES + 1] = {
		[N_ROLES] = LIST
	};
	struct chat_value *m, *content;
	enum role role;
	size_t i;

	for (i = 0; i < messages->u.l.n && !r->failed; i++) {
		m = &messages->u.l.v[i];
		content = qwen_chat_key(r, m->u.d, "content");
		if (content == NULL || (content->type != CHAT_LIST &&
		    content->type != CHAT_NONE))
			continue;
		role = role_of(r, m);
		if (content->type == CHAT_NONE) {
			/* else templates write None */
			if (role != ASSISTANT && role != N_ROLES)
				*content = chat_cstr("");
			continue;
		}
		if (takes[role] == UNKNOWN)
			takes[role] = takes_list(r, role) ? LIST : TEXT;
		if (takes[role] == TEXT)
			qwen_chat_join_parts(r, content, "\n");
	}
	return r->failed ? -1 : 0;
}
