/* SPDX-License-Identifier: ISC */
/* call.c - parses one tool call in a reply, in either syntax. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/reply.h"

/* Result of a step that continues; 0: more text is needed; -1: error. */
enum { GO_ON = 1 };

static const char open_tag[] = "<tool_call>", end_tag[] = "</tool_call>";
static const char function_tag[] = "<function=", end_function[] = "</function>";
static const char parameter_tag[] = "<parameter=";

void
qwen_chat_call_reset(struct chat_call *c)
{
	free(c->name);
	free(c->param);
	yyjson_mut_doc_free(c->args);
	memset(c, 0, sizeof *c);
}

static int
bad(struct chat_call *c)
{
	c->state = CHAT_CALL_BAD;
	return GO_ON;
}

/* Skips white space. */
static void
skip(struct qwen_reply *r)
{
	r->call.at = chat_skip_blanks(r->text.s, r->text.len, r->call.at);
}

static int
at_tag(const struct qwen_reply *r, const char *tag)
{
	return chat_begins(r->text.s + r->call.at,
	    r->text.len - r->call.at, tag);
}

static int
at_char(const struct qwen_reply *r, char c)
{
	return r->call.at < r->text.len && r->text.s[r->call.at] == c;
}

/*
 * Compares the text at c->at with <function= of a given tool, like
 * qwen_chat_begins.
 */
static int
at_function(const struct qwen_reply *r)
{
	size_t at = r->call.at + sizeof function_tag - 1;
	int is = at_tag(r, function_tag);

	return is <= 0 ? is : qwen_chat_tool_begins(r, r->text.s + at,
	    r->text.len - at);
}

/*
 * Parses <tag=NAME> at c->at; the name goes to *name.  Returns GO_ON, with
 * state BAD if it is no tag; 0 if more text is needed; -1 if out of memory.
 */
static int
named_tag(struct qwen_reply *r, const char *tag, char **name)
{
	struct chat_call *c = &r->call;
	const char *s = r->text.s + c->at + strlen(tag);
	size_t n = r->text.len - c->at - strlen(tag), i;

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

static int
begin_json(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	int twice;

	if (c->at + 1 == r->text.len)
		return 0;	/* a second brace may follow */
	twice = !r->opts.strict && at_char(r, '{') &&
	    r->text.s[c->at + 1] == '{';
	/* of doubled braces, parse the inner one */
	c->at += (size_t)twice;
	c->begin = c->at;
	c->state = CHAT_CALL_JSON;
	return GO_ON;
}

/*
 * The object is no call.  Searches the end tag from its beginning, since its
 * strings may contain it.
 */
static int
bad_json(struct chat_call *c)
{
	c->at = c->begin;
	return bad(c);
}

static int
json(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	int rc = 0;

	while (rc == 0 && c->at < r->text.len)
		rc = qwen_chat_json_byte(&c->json,
		    (unsigned char)r->text.s[c->at++], r->opts.strict);
	if (rc <= 0)
		return rc < 0 ? bad_json(c) : 0;
	rc = qwen_chat_json_calls(r, r->text.s + c->begin, c->at - c->begin,
	    r->opts.strict ? CHAT_EXACT : r->xml ? CHAT_LOOSE :
	    CHAT_EXACT | CHAT_LOOSE);
	if (rc <= 0)
		return rc < 0 ? rc : bad_json(c);
	c->begin = c->at;
	c->state = CHAT_CALL_WHOLE;
	return GO_ON;
}

/* --------------------------------------------------------------------- tags */

static int
begin_function(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	int rc = named_tag(r, function_tag, &c->name);

	if (rc != GO_ON || c->state == CHAT_CALL_BAD)
		return rc;
	c->tool = qwen_chat_tool(r, c->name, strlen(c->name));
	if (c->tool == NULL && (!r->xml || !c->tagged))
		return bad(c);
	c->args = yyjson_mut_doc_new(NULL);
	if (c->args == NULL)
		return qwen_oom(r->err);
	yyjson_mut_doc_set_root(c->args, yyjson_mut_obj(c->args));
	c->state = CHAT_CALL_BETWEEN;
	return GO_ON;
}

/* Skips ``` and a word, if present.  Returns 1, or 0 if more text is needed. */
static int
skip_fence(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	size_t i = c->at + 3;
	int is = r->opts.strict || c->fenced ? 0 : at_tag(r, "```");

	if (is <= 0)
		return is == 0;
	while (i < r->text.len && ((r->text.s[i] >= 'a' &&
	    r->text.s[i] <= 'z') || r->text.s[i] == '_'))
		i++;
	if (i == r->text.len)
		return 0;
	c->at = i;
	c->fenced = 1;
	skip(r);
	return c->at < r->text.len;
}

/* Parses what follows <tool_call>: an object, or <function=NAME>. */
static int
opened(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	int is;

	if (c->at == 0 && at_tag(r, open_tag) == 1) {
		c->at = sizeof open_tag - 1;
		c->tagged = 1;
	}
	skip(r);
	if (c->at == r->text.len || !skip_fence(r))
		return 0;
	if ((at_char(r, '{') && (!r->xml || !r->opts.strict)) ||
	    (at_char(r, '[') && !r->opts.strict))
		return begin_json(r);
	is = r->xml || !r->opts.strict ? at_tag(r, function_tag) : 0;
	if (is <= 0)
		return is == 0 ? bad(c) : 0;
	return begin_function(r);
}

/*
 * Finds where a value begins: on the line of the tag or the next. 0: more is
 * needed.
 */
static int
begin_value(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	size_t i = c->at;

	/* white space after the tag is not part of the value */
	while (!r->opts.strict && i < r->text.len && i - c->at <
	    CHAT_SPACE_MAX && chat_is_blank(r->text.s[i]) &&
	    r->text.s[i] != '\n')
		i++;
	if (i == r->text.len)
		return 0;
	c->on_lines = 0;
	if (r->text.s[i] == '\n') {
		c->on_lines = i > c->at && r->text.s[i - 1] == '\r' ? 2 : 1;
		c->at = i + 1;
	}
	c->begin = c->at;
	c->n_open[0] = c->n_open[1] = c->n_open_parameters = 0;
	c->indent = 0;
	c->state = CHAT_CALL_VALUE;
	return GO_ON;
}

/* Returns 1 if the function ends here without an end tag, -1 if not known. */
static int
is_over(struct qwen_reply *r)
{
	int is, other;

	if (r->opts.strict || r->call.tool == NULL)
		return 0;
	is = at_tag(r, end_tag);
	if (is == 0)
		is = at_tag(r, open_tag);
	other = at_function(r);
	return is > 0 || other > 0 ? 1 : is < 0 || other < 0 ? -1 : 0;
}

/* Parses <parameter=NAME>, or </function>. */
static int
between(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	yyjson_mut_val *args;
	size_t before;
	int is, over, rc;

	skip(r);
	is = at_tag(r, end_function);
	over = is == 0 ? is_over(r) : 0;
	if (is == 1 || over == 1) {
		/*
		 * the missing parameter may be inside another value, or without
		 * an end tag this may be no call
		 */
		if ((c->has_end_tag || is != 1) &&
		    qwen_chat_lacks_required(c->tool,
		    yyjson_mut_doc_get_root(c->args)))
			return bad(c);
		c->at += is == 1 ? sizeof end_function - 1 : 0;
		c->begin = c->at;
		c->state = CHAT_CALL_WHOLE;
		return GO_ON;
	}
	if (is < 0 || over < 0 || (is = at_tag(r, parameter_tag)) < 0)
		return 0;
	if (is == 0)
		return bad(c);
	before = c->at;
	rc = named_tag(r, parameter_tag, &c->param);
	if (rc != GO_ON || c->state == CHAT_CALL_BAD)
		return rc;
	/* the same parameter twice is ambiguous */
	args = yyjson_mut_doc_get_root(c->args);
	if (yyjson_mut_obj_size(args) == CHAT_PARAMETERS_MAX ||
	    yyjson_mut_obj_get(args, c->param) != NULL)
		return bad(c);
	rc = begin_value(r);
	if (rc == 0)
		c->at = before;
	return rc;
}

/* Adds the value up to end as the argument. */
static int
add_value(struct qwen_reply *r, size_t end)
{
	struct chat_call *c = &r->call;
	struct qwen_text plain = { 0 };
	const char *s = r->text.s + c->begin;
	size_t n = end - c->begin;
	yyjson_mut_val *v, *key;

	if (qwen_chat_unindent(r, end, &plain)) {
		s = plain.n > 0 ? plain.s : "";
		n = plain.n;
	}
	v = plain.failed ? NULL : qwen_chat_argument(c->args, c->tool,
	    qwen_chat_parameter(c->tool, c->param, strlen(c->param)), s, n,
	    r->opts.strict);
	key = yyjson_mut_strcpy(c->args, c->param);
	qwen_text_fini(&plain);
	if (v == NULL || key == NULL || !yyjson_mut_obj_add(
	    yyjson_mut_doc_get_root(c->args), key, v))
		return qwen_oom(r->err);
	c->state = CHAT_CALL_BETWEEN;
	return GO_ON;
}

static int
value(struct qwen_reply *r, int final)
{
	size_t end;
	int rc = qwen_chat_value(r, final, &end);

	return rc == 1 ? add_value(r, end) : rc == 2 ? bad(&r->call) : 0;
}

/* ----------------------------------------------------------------- the call */

/*
 * Returns 1 if another call follows in the same tag or after a function, 0 if
 * not, -1 if not known.
 */
static int
is_another(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	const char *s = r->text.s;
	size_t at = c->at, end = at + CHAT_SPACE_MAX;

	if (r->opts.strict)
		return 0;
	if (c->name != NULL)
		return at_function(r);
	for (at += at_char(r, ','); at < r->text.len && at < end &&
	    at > c->at && chat_is_blank(s[at]); )
		at++;
	if (at == r->text.len)
		return -1;
	if (!c->tagged || (s[at] != '{' && s[at] != '['))
		return 0;
	c->at = at;
	return 1;
}

/*
 * Reports the call at once; then parses the end tag, which may be missing or
 * truncated.
 */
static int
whole(struct qwen_reply *r, int final)
{
	struct chat_call *c = &r->call;
	int is, more;

	if (c->args != NULL) {
		if (qwen_chat_report_call(r, c->name,
		    yyjson_mut_doc_get_root(c->args)) < 0)
			return -1;
		yyjson_mut_doc_free(c->args);
		c->args = NULL;
	}
	skip(r);
	/* an object may end with a superfluous brace */
	if (!r->opts.strict && c->name == NULL && !c->braced &&
	    at_char(r, '}')) {
		c->braced = 1;
		c->at++;
		skip(r);
	}
	is = c->fenced == 1 ? at_tag(r, "```") : 0;
	if (is < 0 && !final)
		return 0;
	if (is > 0) {
		c->fenced = 2;
		c->at += 3;
		skip(r);
	}
	is = at_tag(r, end_tag);
	more = is == 0 || !final ? is_another(r) : 0;
	if ((is < 0 || (is == 0 && more < 0)) && !final)
		return 0;
	if (is > 0)
		c->at += sizeof end_tag - 1;
	else if (is < 0)
		c->at = r->text.len;
	else if (more <= 0)
		c->at = c->begin;
	c->again = is == 0 && more > 0;
	return GO_ON;
}

static int
give_bad(struct qwen_reply *r, size_t end)
{
	if (!yyjson_mut_arr_add_strncpy(r->doc, r->unparsed, r->text.s, end))
		return qwen_oom(r->err);
	/* so that a caller who treats it as text gets all text in order */
	if (qwen_reply_flush(r, &r->content) < 0)
		return -1;
	r->call.at = end;
	return qwen_chat_report(r, QWEN_REPLY_UNPARSED, r->text.s, end, NULL);
}

/* --------------------------------------------------------------- truncation */

/* Writes the complete arguments, and the beginning of the last one. */
static int
cut_tags(struct qwen_reply *r, struct qwen_text *args)
{
	struct chat_call *c = &r->call;
	const char *s = r->text.s + c->begin;
	size_t n = r->text.len - c->begin;
	char *json_text;

	json_text = yyjson_mut_write(c->args, 0, NULL);
	if (json_text == NULL)
		return qwen_oom(r->err);
	qwen_text_add(args, json_text, strlen(json_text) - 1);
	free(json_text);
	if (c->state == CHAT_CALL_VALUE && qwen_chat_only_text(c->tool,
	    qwen_chat_parameter(c->tool, c->param, strlen(c->param)))) {
		n -= qwen_chat_half_end(s, n, c->on_lines);
		qwen_text_str(args, args->n > 1 ? "," : "");
		qwen_text_json(args, c->param, strlen(c->param));
		qwen_text_str(args, ":");
		qwen_text_json(args, s, n);
		args->n -= !args->failed;	/* drop the closing quote */
	}
	return args->failed ? qwen_oom(r->err) : 1;
}

/* Skips white space, and one sign after it. */
static size_t
skip_sign(const struct qwen_reply *r, size_t at, char sign)
{
	at = chat_skip_blanks(r->text.s, r->text.len, at);
	return at + (at < r->text.len && r->text.s[at] == sign);
}

/*
 * Returns 1 if a call is truncated before the end of its name: all of it is
 * markup.
 */
static int
is_nameless(const struct qwen_reply *r)
{
	const char *s = r->text.s;
	size_t at = sizeof open_tag - 1, n = r->text.len;
	int is;

	if (chat_begins(s, n, open_tag) != 1 || n < at)
		return 0;
	at = skip_sign(r, at, ' ');
	is = chat_begins(s + at, n - at, function_tag);
	if (is != 0)
		return is < 0 || memchr(s + at, '>', n - at) == NULL;
	if (s[at] != '{')
		return 0;
	at = skip_sign(r, skip_sign(r, at, '{'), '{');
	is = chat_begins(s + at, n - at, "\"name\"");
	if (is <= 0)
		return is < 0;
	at = skip_sign(r, skip_sign(r, at + 6, ':'), '"');
	return memchr(s + at, '"', n - at) == NULL;
}

/*
 * Reports a truncated call of a given tool.  Returns 1; 0 if its tool is not
 * known; -1.  A call truncated within its name is not reported.
 */
static int
give_cut(struct qwen_reply *r)
{
	struct chat_call *c = &r->call;
	struct qwen_reply_event e = { .kind = QWEN_REPLY_CALL, .cut = 1 };
	struct qwen_text args = { 0 };
	char *name = NULL;
	int rc = 0, named;

	if (c->state == CHAT_CALL_JSON)
		rc = qwen_chat_json_cut(r, r->text.s + c->begin,
		    r->text.len - c->begin, &name, &args);
	else if (c->tool != NULL && (c->state == CHAT_CALL_BETWEEN ||
	    c->state == CHAT_CALL_VALUE))
		rc = cut_tags(r, &args);
	named = rc > 0;
	if (rc == 0)
		rc = is_nameless(r);
	if (rc > 0 && !yyjson_mut_arr_add_strncpy(r->doc, r->unparsed,
	    r->text.s, r->text.len))
		rc = qwen_oom(r->err);
	if (named && rc > 0) {
		e.text = (struct qwen_str){ args.n > 0 ? args.s : "", args.n };
		e.name.s = name != NULL ? name : c->name;
		e.name.len = strlen(e.name.s);
		rc = qwen_chat_report_event(r, &e) < 0 ? -1 : 1;
	}
	c->at = r->text.len;
	free(name);
	qwen_text_fini(&args);
	return rc;
}

/* -------------------------------------------------------------------- steps */

/* Skips text that is no call up to the next end tag. */
static int
pass_bad(struct qwen_reply *r, int final)
{
	struct chat_call *c = &r->call;
	const char *s;
	int is = 0;

	while (is == 0 && (s = memchr(r->text.s + c->at, '<',
	    r->text.len - c->at)) != NULL) {
		c->at = (size_t)(s - r->text.s);
		is = at_tag(r, end_tag);
		if (is < 0 && !final)
			return 0;
		c->at += is > 0 ? sizeof end_tag - 1 : 1;
		is = is > 0;
	}
	if (is == 0)
		c->at = r->text.len;
	if (is == 0 && !final)
		return 0;
	return give_bad(r, c->at) < 0 ? -1 : 1;
}

static int
step(struct qwen_reply *r, int final)
{
	switch (r->call.state) {
	case CHAT_CALL_OPEN: return opened(r);
	case CHAT_CALL_JSON: return json(r);
	case CHAT_CALL_BETWEEN: return between(r);
	case CHAT_CALL_VALUE: return value(r, final);
	default: return 0;
	}
}

int
qwen_chat_call(struct qwen_reply *r, int final)
{
	struct chat_call *c = &r->call;
	int rc = GO_ON;

	while (rc == GO_ON && c->state != CHAT_CALL_WHOLE &&
	    c->state != CHAT_CALL_BAD)
		rc = step(r, final);
	if (rc < 0)
		return rc;
	if (c->state == CHAT_CALL_WHOLE)
		return whole(r, final);
	if (c->state == CHAT_CALL_BAD)
		return pass_bad(r, final);
	if (!final)
		return 0;
	rc = r->cut ? give_cut(r) : 0;
	if (rc != 0)
		return rc;
	c->at = c->state == CHAT_CALL_JSON ? c->begin : r->text.len;
	return pass_bad(r, final);
}
