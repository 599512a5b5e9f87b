/* SPDX-License-Identifier: ISC */
/*
 * tool_list.c - lists of tools as lists of functions, the only tools that
 * templates know.  The name of a function in a namespace becomes
 * namespace__name.  A custom tool, whose input is a string, becomes a function
 * with one parameter.  Tools that only the provider of an API can run are left
 * out, with a note.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/chat/tools.h"
#include "text/request/parser.h"

enum {
	TOOLS_MAX = 8192,
	CHOSEN_MAX = 1024,	/* each is compared with all tools */
};

struct entry {
	yyjson_val	*tool;		/* NULL: a duplicate */
	yyjson_val	*about;		/* object with its name and
					   description */
	yyjson_val	*space;		/* its namespace, or NULL */
	char		*called;	/* its name for the model */
	const char	*name;		/* its name for the client */
	enum qwen_tool_kind kind;
	size_t		 at;
};

struct list {
	struct qwen_parser	*r;
	int		 chat;		/* of /v1/chat/completions */
	struct entry	*v;
	size_t		 n, cap;
};

void
qwen_parse_join_name(struct qwen_text *t, yyjson_val *space, yyjson_val *name)
{
	const char *s = yyjson_get_str(space);
	size_t n = yyjson_get_len(space);

	/* the default namespace */
	if (n > 0 && !yyjson_equals_str(space, "functions")) {
		qwen_text_add(t, s, n);
		if (n < 2 || memcmp(s + n - 2, "__", 2) != 0)
			qwen_text_str(t, "__");
	}
	qwen_text_add(t, yyjson_get_str(name), yyjson_get_len(name));
}

/* ------------------------------------------------------------------ entries */

static int
add_entry(struct list *l, yyjson_val *tool, yyjson_val *about,
    yyjson_val *space, enum qwen_tool_kind kind, size_t i)
{
	yyjson_val *name = qwen_parse_get_text(about, "name");
	struct qwen_text called = { 0 };
	struct entry *e;

	if (l->n == TOOLS_MAX)
		return qwen_wrong(l->r, "tools", "more than %d", TOOLS_MAX);
	if (kind == QWEN_TOOL_SEARCH)
		qwen_text_str(&called, "tool_search");
	else if (name == NULL || yyjson_get_len(name) == 0 ||
	    strlen(yyjson_get_str(name)) != yyjson_get_len(name))
		return qwen_wrong(l->r, "tools", "tool %zu has no name", i + 1);
	else
		qwen_parse_join_name(&called, space, name);
	if (called.failed || qwen_grow(&l->v, &l->cap, l->n + 1,
	    sizeof *l->v) < 0) {
		qwen_text_fini(&called);
		return qwen_oom(&l->r->refusal->err);
	}
	e = &l->v[l->n];
	*e = (struct entry){ .tool = tool, .about = about, .kind = kind,
	    .called = called.s, .at = l->n++ };
	e->name = kind == QWEN_TOOL_SEARCH ? called.s : yyjson_get_str(name);
	if (yyjson_get_len(space) > 0 &&
	    !yyjson_equals_str(space, "functions"))
		e->space = space;
	return 0;
}

static int gather(struct list *l, yyjson_val *tools, yyjson_val *space);

/* Adds a tool, or the tools of a namespace; space is the namespace, or NULL. */
static int
add_tool(struct list *l, yyjson_val *tool, yyjson_val *space, size_t i)
{
	yyjson_val *type = yyjson_obj_get(tool, "type");
	yyjson_val *custom = qwen_parse_get(tool, "custom");

	if (!l->chat && !yyjson_is_str(type))
		return qwen_wrong(l->r, "tools", "tool %zu has no type", i + 1);
	if (qwen_parse_has_type(tool, "function") || (l->chat &&
	    !yyjson_is_str(type)))
		return add_entry(l, tool, l->chat ?
		    qwen_chat_tool_function(tool) : tool, space,
		    QWEN_TOOL_FUNCTION, i);
	if (qwen_parse_has_type(tool, "custom"))
		return add_entry(l, tool, custom != NULL ? custom : tool, space,
		    QWEN_TOOL_CUSTOM, i);
	if (l->chat || space != NULL)
		return qwen_parse_skip_type(l->r, "tools", "tools", type);
	if (qwen_parse_has_type(tool, "namespace") && qwen_parse_get_text(tool,
	    "name") != NULL)
		return gather(l, qwen_parse_get(tool, "tools"),
		    qwen_parse_get_text(tool, "name"));
	if (qwen_parse_has_type(tool, "tool_search") &&
	    yyjson_equals_str(yyjson_obj_get(tool, "execution"), "client"))
		return add_entry(l, tool, tool, NULL, QWEN_TOOL_SEARCH, i);
	return qwen_parse_skip_type(l->r, "tools", "tools", type);
}

static int
gather(struct list *l, yyjson_val *tools, yyjson_val *space)
{
	yyjson_val *tool;
	size_t i, n;

	if (tools != NULL && !yyjson_is_arr(tools))
		return qwen_wrong(l->r, "tools", "is not a list");
	yyjson_arr_foreach(tools, i, n, tool) {
		if (add_tool(l, tool, space, i) < 0)
			return -1;
	}
	return 0;
}

static int
by_called(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int d = strcmp(x->called, y->called);

	return d != 0 ? d : x->at < y->at ? -1 : x->at > y->at;
}

static int
by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static int
is_same(const struct entry *a, const struct entry *b)
{
	return a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
	    (a->space == NULL) == (b->space == NULL) &&
	    (a->space == NULL || yyjson_equals(a->space, b->space));
}

/* A name must belong to one tool; drops duplicates of the same tool. */
static int
check_names(struct list *l)
{
	struct entry *first = l->v, *e;
	int rc = 0;

	if (l->n == 0)
		return 0;
	qsort(l->v, l->n, sizeof *l->v, by_called);
	for (e = l->v + 1; rc == 0 && e < l->v + l->n; e++) {
		if (strcmp(e->called, first->called) != 0) {
			first = e;
			continue;
		}
		if (!is_same(first, e))
			rc = qwen_wrong(l->r, "tools", "two tools would have "
			    "the name %.60s", e->called);
		else if (!l->chat || e->kind != QWEN_TOOL_FUNCTION)
			e->tool = NULL;
	}
	qsort(l->v, l->n, sizeof *l->v, by_place);
	return rc;
}

static void
free_list(struct list *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		free(l->v[i].called);
	free(l->v);
}

/* Notes the client's names of a tool, for its calls in answers. */
static int
note_alias(struct qwen_parser *r, const struct entry *e)
{
	struct qwen_request *q = r->q;
	struct qwen_tool_alias *a;

	if (e->kind == QWEN_TOOL_FUNCTION && e->space == NULL)
		return 0;
	if (qwen_grow(&q->alias, &q->cap_alias, q->n_alias + 1,
	    sizeof *q->alias) < 0)
		return qwen_oom(&r->refusal->err);
	a = &q->alias[q->n_alias++];
	*a = (struct qwen_tool_alias){ .kind = e->kind };
	a->called = strdup(e->called);
	a->name = strdup(e->name);
	if (e->space != NULL)
		a->space = strdup(yyjson_get_str(e->space));
	return a->called != NULL && a->name != NULL && (e->space == NULL ||
	    a->space != NULL) ? 0 : qwen_oom(&r->refusal->err);
}

/* ------------------------------------------------------------------ writing */

/* Adds the description of a custom tool and the grammar of its input. */
static void
add_custom_about(struct qwen_text *t, yyjson_val *about)
{
	yyjson_val *format = qwen_parse_get(about, "format"), *text;
	yyjson_val *own = qwen_parse_get(format, "grammar");
	struct qwen_text all = { 0 };

	if ((text = qwen_parse_get_text(about, "description")) != NULL) {
		qwen_text_add(&all, yyjson_get_str(text), yyjson_get_len(text));
		qwen_text_str(&all, "\n\n");
	}
	qwen_json_put(&all, "The parameter 'input' is the raw input of the "
	    "tool, with nothing around it.");
	own = own != NULL ? own : format;
	if ((text = qwen_parse_get_text(own, "definition")) != NULL) {
		qwen_text_str(&all, yyjson_equals_str(yyjson_obj_get(own,
		    "syntax"), "regex") ? " It matches this regular "
		    "expression:\n" : " It follows this Lark grammar:\n");
		qwen_text_add(&all, yyjson_get_str(text), yyjson_get_len(text));
	}
	qwen_json_put(t, ",'description':%pT", &all);
	t->failed |= all.failed;
	qwen_text_fini(&all);
}

static void
write_entry(const struct list *l, const struct entry *e, struct qwen_text *t)
{
	if (l->chat && e->kind == QWEN_TOOL_FUNCTION) {
		qwen_json_put(t, ",%p", e->tool);
		return;
	}
	qwen_json_put(t, ",{'type':'function','function':{'name':'%s'",
	    e->called);
	if (e->kind == QWEN_TOOL_CUSTOM) {
		add_custom_about(t, e->about);
		qwen_json_put(t, ",'parameters':{'type':'object','properties':"
		    "{'input':{'type':'string'}},'required':['input']}");
	} else {
		qwen_parse_copy(t, e->about, "description", "description");
		qwen_parse_copy(t, e->about, "parameters", "parameters");
	}
	qwen_text_str(t, "}}");
}

/* Writes the list as functions and notes their aliases. */
static int
write_list(struct list *l)
{
	struct qwen_text *t = &l->r->out;
	size_t i;

	qwen_text_str(t, "[");
	for (i = 0; i < l->n; i++) {
		if (l->v[i].tool == NULL)
			continue;
		write_entry(l, &l->v[i], t);
		if (note_alias(l->r, &l->v[i]) < 0)
			return -1;
	}
	qwen_text_str(t, "]");
	return 0;
}

/* ------------------------------------------------------------------ choices */

/* Returns the model's name of the tool that the client calls name; or name. */
static const char *
called(const struct list *l, yyjson_val *name)
{
	const char *s = yyjson_get_str(name), *found = NULL;
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].called, s) == 0)
			return s;
		if (found == NULL && strcmp(l->v[i].name, s) == 0)
			found = l->v[i].called;
	}
	return found != NULL ? found : s;
}

static yyjson_val *
name_of(yyjson_val *v)
{
	yyjson_val *custom = qwen_parse_get(v, "custom");

	return qwen_parse_get_text(custom != NULL ? custom :
	    qwen_chat_tool_function(v), "name");
}

static void
write_named(const struct list *l, yyjson_val *name)
{
	qwen_json_put(&l->r->out, ",{'type':'function','function':{'name':"
	    "'%s'}}", called(l, name));
}

static int
is_named(yyjson_val *v)
{
	return (qwen_parse_has_type(v, "function") || qwen_parse_has_type(v,
	    "custom")) && name_of(v) != NULL;
}

/* Writes the tools that may be called, without those left out. */
static int
write_allowed(const struct list *l, yyjson_val *choice)
{
	yyjson_val *in = yyjson_obj_get(choice, "allowed_tools"), *list, *v;
	struct qwen_text *t = &l->r->out;
	size_t i, n, k = 0;

	in = in != NULL ? in : choice;
	list = yyjson_obj_get(in, "tools");
	if (yyjson_arr_size(list) > CHOSEN_MAX)
		return qwen_wrong(l->r, "tool_choice", "allowed_tools has more "
		    "than %d tools", CHOSEN_MAX);
	qwen_json_put(t, "{'type':'allowed_tools','mode':%p,'tools':[",
	    yyjson_obj_get(in, "mode"));
	yyjson_arr_foreach(list, i, n, v) {
		if (!is_named(v))
			continue;
		write_named(l, name_of(v));
		k++;
	}
	qwen_text_str(t, "]}");
	return n == 0 || k > 0 ? 0 : qwen_wrong(l->r, "tool_choice",
	    "none of the allowed tools is available here");
}

static int
write_choice(const struct list *l, yyjson_val *choice)
{
	yyjson_val *type = yyjson_obj_get(choice, "type");

	if (qwen_parse_has_type(choice, "allowed_tools"))
		return write_allowed(l, choice);
	if (is_named(choice))
		write_named(l, name_of(choice));
	else if (yyjson_is_str(type) && !qwen_parse_has_type(choice,
	    "function"))
		return qwen_wrong(l->r, "tool_choice", "tools of type %.40s "
		    "are not available here", yyjson_get_str(type));
	else
		qwen_json_value(&l->r->out, choice);
	return 0;
}

int
qwen_parse_flatten_tools(struct qwen_parser *r, yyjson_val *more)
{
	yyjson_val *tools = qwen_parse_get(r->body, "tools");
	/* a summary calls no tools */
	yyjson_val *choice = r->q->form == QWEN_FORM_COMPACT ? NULL :
	    qwen_parse_get(r->body, "tool_choice");
	struct list l = { .r = r };
	int rc = gather(&l, tools, NULL) < 0 || gather(&l, more, NULL) < 0 ||
	    check_names(&l) < 0 ? -1 : 0;

	if (rc == 0 && (tools != NULL || l.n > 0)) {
		qwen_json_put(&r->out, ",'tools':");
		rc = write_list(&l);
	}
	if (rc == 0 && choice != NULL) {
		qwen_json_put(&r->out, ",'tool_choice':");
		rc = write_choice(&l, choice);
	}
	free_list(&l);
	return rc;
}

/* -------------------------------------------------------------------- chats */

static int
has_custom(yyjson_val *list)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, v) {
		if (qwen_parse_has_type(v, "custom"))
			return 1;
	}
	return 0;
}

/* Returns 1 if the body has a tool, choice or call that is not a function. */
static int
is_other(yyjson_val *body)
{
	yyjson_val *choice = qwen_parse_get(body, "tool_choice"), *v, *type;
	yyjson_val *allowed = yyjson_obj_get(choice, "allowed_tools");
	size_t i, n;

	yyjson_arr_foreach(qwen_parse_get(body, "tools"), i, n, v) {
		type = yyjson_obj_get(v, "type");
		if (yyjson_is_str(type) && !qwen_parse_has_type(v, "function"))
			return 1;
	}
	yyjson_arr_foreach(qwen_parse_get(body, "messages"), i, n, v) {
		if (has_custom(qwen_parse_get(v, "tool_calls")))
			return 1;
	}
	return qwen_parse_has_type(choice, "custom") ||
	    has_custom(yyjson_obj_get(allowed != NULL ? allowed : choice,
	    "tools"));
}

static int
write_calls(struct qwen_parser *r, yyjson_val *calls)
{
	yyjson_val *v, *custom, *input;
	struct qwen_str name;
	size_t i, n;

	qwen_text_str(&r->out, "[");
	yyjson_arr_foreach(calls, i, n, v) {
		if (!qwen_parse_has_type(v, "custom")) {
			qwen_json_put(&r->out, ",%p", v);
			continue;
		}
		custom = qwen_parse_get(v, "custom");
		name = qwen_parse_str(qwen_parse_get(custom, "name"));
		input = qwen_parse_get_text(custom, "input");
		if (name.s == NULL || input == NULL)
			return qwen_invalid(r, "messages", "messages: a custom "
			    "call has no name or no input");
		qwen_parse_begin_call(&r->out, qwen_parse_get(v, "id"), name);
		qwen_json_put(&r->out, "{'input':%p}}}", input);
	}
	qwen_text_str(&r->out, "]");
	return 0;
}

static int
write_message(struct qwen_parser *r, yyjson_val *m)
{
	yyjson_val *key, *v;
	size_t i, n;

	if (!has_custom(qwen_parse_get(m, "tool_calls"))) {
		qwen_json_put(&r->out, ",%p", m);
		return 0;
	}
	qwen_json_put(&r->out, ",{");
	yyjson_obj_foreach(m, i, n, key, v) {
		qwen_json_put(&r->out, ",%p:", key);
		if (!yyjson_equals_str(key, "tool_calls"))
			qwen_json_value(&r->out, v);
		else if (write_calls(r, v) < 0)
			return -1;
	}
	qwen_text_str(&r->out, "}");
	return 0;
}

static int
write_field(struct list *l, yyjson_val *key, yyjson_val *v)
{
	struct qwen_text *t = &l->r->out;

	qwen_json_put(t, ",%p:", key);
	if (yyjson_equals_str(key, "tools") && yyjson_is_arr(v))
		return write_list(l);
	if (yyjson_equals_str(key, "tool_choice") && yyjson_is_obj(v))
		return write_choice(l, v);
	if (yyjson_equals_str(key, "messages") && yyjson_is_arr(v))
		return qwen_parse_each(l->r, "[", v, write_message, "]");
	qwen_json_value(t, v);
	return 0;
}

int
qwen_parse_custom_tools(struct qwen_parser *r)
{
	struct list l = { .r = r, .chat = 1 };
	yyjson_val *key, *v;
	size_t i, n;
	int rc;

	if (!is_other(r->body))
		return 0;
	rc = gather(&l, qwen_parse_get(r->body, "tools"), NULL) < 0 ||
	    check_names(&l) < 0 ? -1 : 0;
	qwen_text_str(&r->out, "{");
	yyjson_obj_foreach(r->body, i, n, key, v) {
		if (rc == 0)
			rc = write_field(&l, key, v);
	}
	qwen_text_str(&r->out, "}");
	free_list(&l);
	return rc < 0 ? -1 : qwen_parse_replace_body(r);
}
