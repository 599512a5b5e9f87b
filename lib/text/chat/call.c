/* SPDX-License-Identifier: ISC */
/* call.c - one call of a tool in a reply, in the two ways that it is written. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/reply.h"
#include "text/chat/request.h"

/* How a step ended, beside 0 (more text must come) and -1. */
enum { GO_ON = 1 };

static const char open_tag[] = "<tool_call>", end_tag[] = "</tool_call>";
static const char end_parameter[] = "</parameter>";

void
qwen_chat_call_reset(struct chat_call *c)
{
	free(c->name);
	free(c->param);
	yyjson_mut_doc_free(c->args);
	memset(c, 0, sizeof *c);
}

int
qwen_chat_begins(const char *s, size_t n, const char *x)
{
	size_t len = strlen(x);

	if (memcmp(s, x, n < len ? n : len) != 0)
		return 0;
	return n < len ? -1 : 1;
}

static int
bad(struct chat_call *c)
{
	c->state = CHAT_CALL_BAD;
	return GO_ON;
}

/* Past white space. */
static void
skip(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;

	while (c->at < r->text.n && strchr(" \t\r\n", r->text.s[c->at]) !=
	    NULL && r->text.s[c->at] != '\0')
		c->at++;
}

static int
at_tag(const struct qwen_reply *r, const char *tag)
{
	return qwen_chat_begins(r->text.s + r->call.at,
	    r->text.n - r->call.at, tag);
}

/*
 * <tag=NAME> at c->at: past it, with the name in *name.  1, 0 if more text must
 * come, -1 if there was no memory; or it is no tag, and the call is bad.
 */
static int
named_tag(struct qwen_reply *r, const char *tag, char **name)
{
	struct chat_call *c = &r->call;
	const char *s = r->text.s + c->at + strlen(tag);
	size_t n = r->text.n - c->at - strlen(tag), i;

	for (i = 0; i < n && s[i] != '>'; i++) {
		if (s[i] == '<' || s[i] == '\n' || s[i] == '\0' ||
		    i == CHAT_NAME_MAX)
			return bad(c);
	}
	if (i == n)
		return 0;
	if (i == 0)
		return bad(c);
	free(*name);
	*name = strndup(s, i);
	if (*name == NULL)
		return qwen_oom(r->err);
	c->at += strlen(tag) + i + 1;
	return GO_ON;
}

/* -------------------------------------------------------------------- JSON */

/*
 * One byte of an object: what can be in none at all makes it bad, so that a
 * string that does not end takes no more than its line.
 */
static int
json_byte(struct chat_call *c, unsigned char b)
{
	if (c->in_string) {
		if (b < 0x20)
			return -1;
		if (c->escaped)
			c->escaped = 0;
		else if (b == '\\')
			c->escaped = 1;
		else if (b == '"')
			c->in_string = 0;
		return 0;
	}
	if (b == '"')
		c->in_string = 1;
	else if (b == '{' || b == '[')
		c->depth++;
	else if (b == '}' || b == ']')
		c->depth--;
	else if (b == '\0' || strchr(" \t\r\n,:0123456789+-.eEtrufalsn", b) ==
	    NULL)
		return -1;
	return 0;
}

/* The object from c->begin to c->at: a call if it has a name and arguments. */
static int
json_whole(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	yyjson_doc *d;
	yyjson_val *root, *name, *args;
	yyjson_mut_val *v;
	struct qwen_err e;

	if (qwen_chat_read(&d, r->text.s + c->begin, c->at - c->begin, "call",
	    &e) < 0 && e.code == QWEN_ENOMEM)
		return qwen_oom(r->err);
	root = yyjson_doc_get_root(d);
	name = yyjson_obj_get(root, "name");
	args = yyjson_obj_get(root, "arguments");
	if (yyjson_get_len(name) == 0 || !yyjson_is_str(name) ||
	    strlen(yyjson_get_str(name)) != yyjson_get_len(name) ||
	    !yyjson_is_obj(args)) {
		yyjson_doc_free(d);
		return bad(c);
	}
	c->name = strdup(yyjson_get_str(name));
	c->args = yyjson_mut_doc_new(NULL);
	v = c->args == NULL ? NULL : yyjson_val_mut_copy(c->args, args);
	yyjson_doc_free(d);
	if (v == NULL || c->name == NULL)
		return qwen_oom(r->err);
	yyjson_mut_doc_set_root(c->args, v);
	c->begin = c->at;
	c->state = CHAT_CALL_WHOLE;
	return GO_ON;
}

static int
json(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;

	while (c->at < r->text.n) {
		if (json_byte(c, (unsigned char)r->text.s[c->at]) < 0)
			return bad(c);
		c->at++;
		if (c->depth == 0)
			return json_whole(r);
	}
	return 0;
}

/* --------------------------------------------------------------------- tags */

/* After <tool_call>: the object, or <function=NAME>. */
static int
opened(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	int is, rc;

	if (c->at == 0 && at_tag(r, open_tag) == 1)
		c->at = sizeof open_tag - 1;
	skip(r);
	if (c->at == r->text.n)
		return 0;
	if (!r->xml) {
		if (r->text.s[c->at] != '{')
			return bad(c);
		c->begin = c->at;
		c->state = CHAT_CALL_JSON;
		return GO_ON;
	}
	is = at_tag(r, "<function=");
	if (is != 1)
		return is == 0 ? bad(c) : 0;
	rc = named_tag(r, "<function=", &c->name);
	if (rc != GO_ON || c->state == CHAT_CALL_BAD)
		return rc;
	c->args = yyjson_mut_doc_new(NULL);
	if (c->args == NULL)
		return qwen_oom(r->err);
	yyjson_mut_doc_set_root(c->args, yyjson_mut_obj(c->args));
	c->state = CHAT_CALL_BETWEEN;
	return GO_ON;
}

/* <parameter=NAME>, or </function>. */
static int
between(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	size_t before;
	int is, rc;

	skip(r);
	is = at_tag(r, "</function>");
	if (is == 1) {
		c->begin = c->at += strlen("</function>");
		c->state = CHAT_CALL_WHOLE;
		return GO_ON;
	}
	if (is < 0 || (is = at_tag(r, "<parameter=")) < 0)
		return 0;
	if (is == 0)
		return bad(c);
	before = c->at;
	rc = named_tag(r, "<parameter=", &c->param);
	if (rc != GO_ON || c->state == CHAT_CALL_BAD)
		return rc;
	if (c->at == r->text.n) {	/* what follows decides */
		c->at = before;
		return 0;
	}
	/* Twice the same: which one is meant? */
	if (yyjson_mut_obj_get(yyjson_mut_doc_get_root(c->args), c->param) !=
	    NULL)
		return bad(c);
	c->state = r->text.s[c->at] == '\n' ? CHAT_CALL_LINES :
	    CHAT_CALL_INLINE;
	c->at += c->state == CHAT_CALL_LINES;
	c->begin = c->seen = c->at;
	return GO_ON;
}

/* The parameter is what stands up to end. */
static int
value(struct qwen_reply *r, size_t end)
{
	struct chat_call *c = &r->call;
	int known;
	yyjson_val *schema = qwen_chat_schema(r, c->name, c->param, &known);
	yyjson_mut_val *v = qwen_chat_argument(c->args, schema,
	    r->text.s + c->begin, end - c->begin);
	yyjson_mut_val *key = yyjson_mut_strcpy(c->args, c->param);

	if (v == NULL || key == NULL || !yyjson_mut_obj_add(
	    yyjson_mut_doc_get_root(c->args), key, v))
		return qwen_oom(r->err);
	c->state = CHAT_CALL_BETWEEN;
	return GO_ON;
}

/* c->at is the beginning of a line. */
static int
lines(struct qwen_reply *r, int final)
{
	struct chat_call *c = &r->call;
	const size_t len = sizeof end_parameter - 1;
	const char *nl;
	size_t line;

	for (;;) {
		line = c->at;
		if (at_tag(r, end_parameter) == 1 &&
		    (line + len < r->text.n ? r->text.s[line + len] == '\n' :
		    final)) {
			c->at += len;
			return value(r, line > c->begin ? line - 1 : line);
		}
		nl = memchr(r->text.s + c->seen, '\n', r->text.n - c->seen);
		if (nl == NULL) {
			c->seen = r->text.n;
			return 0;
		}
		c->at = c->seen = (size_t)(nl - r->text.s) + 1;
	}
}

/* Where x is from c->at on, or NULL; next time, what was seen is left out. */
static const char *
find(struct qwen_reply *r, const char *x)
{
	struct chat_call *c = &r->call;
	const char *s;
	int is;

	while ((s = memchr(r->text.s + c->at, '<', r->text.n - c->at)) !=
	    NULL) {
		c->at = (size_t)(s - r->text.s);
		is = at_tag(r, x);
		if (is != 0)
			return is == 1 ? s : NULL;
		c->at++;
	}
	c->at = r->text.n;
	return NULL;
}

static int
in_line(struct qwen_reply *r)
{
	const char *s = find(r, end_parameter);
	size_t end;

	if (s == NULL)
		return 0;
	end = (size_t)(s - r->text.s);
	r->call.at = end + sizeof end_parameter - 1;
	return value(r, end);
}

/* ----------------------------------------------------------------- the call */

static int
give_call(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	yyjson_mut_val *v = yyjson_mut_arr_add_obj(r->doc, r->calls);
	char *json_text;
	size_t n;
	int rc;

	json_text = yyjson_mut_write(c->args, 0, &n);
	if (v == NULL || json_text == NULL ||
	    !yyjson_mut_obj_add_strcpy(r->doc, v, "name", c->name) ||
	    !yyjson_mut_obj_add_val(r->doc, v, "arguments",
	    yyjson_mut_val_mut_copy(r->doc,
	    yyjson_mut_doc_get_root(c->args)))) {
		free(json_text);
		return qwen_oom(r->err);
	}
	rc = qwen_chat_give(r, QWEN_REPLY_CALL, json_text, n, c->name);
	free(json_text);
	yyjson_mut_doc_free(c->args);
	c->args = NULL;
	return rc;
}

/* It is given out at once; then the end tag, which may be missing or cut. */
static int
whole(struct qwen_reply *r, int final)
{
	struct chat_call *c = &r->call;
	int is;

	if (c->args != NULL && give_call(r) < 0)
		return -1;
	skip(r);
	is = at_tag(r, end_tag);
	if (is < 0 && !final)
		return 0;
	if (is > 0)
		c->at += sizeof end_tag - 1;
	else if (is < 0)
		c->at = r->text.n;
	else
		c->at = c->begin;
	return GO_ON;
}

static int
give_bad(struct qwen_reply *r, size_t end)
{
	if (!yyjson_mut_arr_add_strncpy(r->doc, r->unparsed, r->text.s, end))
		return qwen_oom(r->err);
	r->call.at = end;
	return qwen_chat_give(r, QWEN_REPLY_UNPARSED, r->text.s, end, NULL);
}

int
qwen_chat_call(struct qwen_reply *r, int final)
{
	struct chat_call *c = &r->call;
	const char *s;
	int rc = GO_ON;

	while (rc == GO_ON) {
		switch (c->state) {
		case CHAT_CALL_OPEN: rc = opened(r); break;
		case CHAT_CALL_JSON: rc = json(r); break;
		case CHAT_CALL_BETWEEN: rc = between(r); break;
		case CHAT_CALL_LINES: rc = lines(r, final); break;
		case CHAT_CALL_INLINE: rc = in_line(r); break;
		case CHAT_CALL_WHOLE: return whole(r, final);
		case CHAT_CALL_BAD:
			s = find(r, end_tag);
			if (s == NULL) {
				rc = 0;
				break;
			}
			return give_bad(r, (size_t)(s - r->text.s) +
			    sizeof end_tag - 1) < 0 ? -1 : 1;
		}
	}
	if (rc < 0 || !final)
		return rc;
	return give_bad(r, r->text.n) < 0 ? -1 : 1;
}
