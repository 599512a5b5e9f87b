/* SPDX-License-Identifier: ISC */
/*
 * content.c - messages of APIs that have parts of content with types of their
 * own, as messages of OpenAI's chats.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/request/parser.h"

int
qwen_refuse_item(struct qwen_parser *r, const char *fmt, ...)
{
	const struct qwen_parts *p = r->parts;
	char where[32], what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	snprintf(where, sizeof where, "%s %zu", p->item, r->at);
	return r->at > 0 ? qwen_invalid(r, p->param, "%s: %s", where, what) :
	    qwen_invalid(r, p->param0, "%s: %s", p->item0, what);
}

int
qwen_refuse_type(struct qwen_parser *r, const char *what, yyjson_val *part)
{
	yyjson_val *type = yyjson_obj_get(part, "type");

	return yyjson_is_str(type) ? qwen_refuse_item(r, "%ss of type %.40s "
	    "are not supported%s%s", what, yyjson_get_str(type), r->parts->only,
	    qwen_parse_part_hint(part)) : qwen_refuse_item(r, "the %s has no "
	    "type", what);
}

yyjson_val *
qwen_parse_part_text(struct qwen_parser *r, yyjson_val *part)
{
	const char *const *row = r->parts->texts;
	yyjson_val *text;

	while (row[0] != NULL && !qwen_parse_has_type(part, row[0]))
		row += 2;
	if (row[0] == NULL) {
		qwen_refuse_type(r, r->parts->part, part);
		return NULL;
	}
	if ((text = qwen_parse_get_text(part, row[1])) == NULL)
		qwen_refuse_item(r, "a %s has no text", r->parts->part);
	return text;
}

int
qwen_parse_add_part(struct qwen_parser *r, yyjson_val *part)
{
	yyjson_val *text;

	if (r->s->reads_images && qwen_parse_is_image(part)) {
		qwen_json_put(&r->out, ",%p", part);
		return 0;
	}
	if ((text = qwen_parse_part_text(r, part)) == NULL)
		return -1;
	qwen_json_put(&r->out, ",{'type':'text','text':%p}", text);
	return 0;
}

static int
add_content(struct qwen_parser *r, yyjson_val *content)
{
	if (yyjson_is_str(content)) {
		qwen_json_put(&r->out, ",'content':%p", content);
		return 0;
	}
	if (!yyjson_is_arr(content))
		return qwen_refuse_item(r, "the content is neither a string "
		    "nor a list of %ss", r->parts->part);
	return qwen_parse_each(r, ",'content':[", content, qwen_parse_add_part,
	    "]");
}

int
qwen_parse_add_message(struct qwen_parser *r, const char *role,
    yyjson_val *content)
{
	qwen_json_put(&r->out, ",{'role':'%s'", role);
	if (add_content(r, content) < 0)
		return -1;
	qwen_text_str(&r->out, "}");
	return 0;
}

int
qwen_parse_add_result(struct qwen_parser *r, yyjson_val *id,
    yyjson_val *content)
{
	qwen_json_put(&r->out, ",{'role':'tool','tool_call_id':%p", id);
	if (content == NULL)
		qwen_json_put(&r->out, ",'content':''");
	else if (add_content(r, content) < 0)
		return -1;
	qwen_text_str(&r->out, "}");
	return 0;
}

void
qwen_parse_begin_call(struct qwen_text *t, yyjson_val *id, struct qwen_str name)
{
	qwen_json_put(t, ",{");
	if (id != NULL)
		qwen_json_put(t, "'id':%p,", id);
	qwen_json_put(t, "'type':'function','function':{'name':%pS,"
	    "'arguments':", &name);
}

int
qwen_parse_is_hosted(const struct qwen_parser *r, yyjson_val *part)
{
	const struct qwen_parts *p = r->parts;
	const char *const *row = p->hosted;
	struct qwen_str type = qwen_parse_str(yyjson_obj_get(part, "type"));
	size_t n = strlen(p->hosted_end);

	while (*row != NULL && !qwen_parse_has_type(part, *row))
		row++;
	return *row != NULL || (type.len > n &&
	    memcmp(type.s + type.len - n, p->hosted_end, n) == 0);
}

void
qwen_parse_add_schema(struct qwen_parser *r, yyjson_val *schema)
{
	qwen_json_put(&r->out, ",'response_format':{'type':'json_schema',"
	    "'json_schema':{'schema':%p}}", schema);
}
