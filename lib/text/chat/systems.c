/* SPDX-License-Identifier: ISC */
/*
 * systems.c - system messages in places where a template does not accept them.
 * Those at the start are joined into one.  A later one becomes a reminder in
 * the next user turn.  The result for a message depends only on the messages
 * before it and on the next turn.  So when a conversation grows, its prompt
 * begins with the earlier prompt.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "text/chat/request.h"

enum { LEAD_MAX = 8 };	/* longer starts are folded without a test */

static const char blank_line[] = "\n\n";

struct system_placer {
	struct chat_exec		*r;
	struct chat_list	 in, out;
	size_t			 n_lead;	/* system messages at the
						   start */
	int			 late[2];	/* has later ones: system,
						   developer */
	struct chat_buf		 reminders;	/* for the next turn */
	int			 alternate;	/* do not add a second user turn
						   in a row */
};

/* -------------------------------------------------------------- messages */

static int
has_role(struct system_placer *o, const struct chat_value *message,
    const char *role)
{
	return chat_is_text(qwen_chat_key(o->r, message->u.d, "role"), role);
}

static int
is_system(struct system_placer *o, const struct chat_value *message)
{
	return has_role(o, message, "system") ||
	    has_role(o, message, "developer");
}

/* Gets the content as a text; returns 0 if it has other parts. */
static int
get_content(struct system_placer *o, const struct chat_value *message,
    struct chat_text *text)
{
	const struct chat_value *v =
	    qwen_chat_key(o->r, message->u.d, "content");
	struct chat_value all;

	*text = chat_literal("");
	if (chat_missing(v))
		return 1;
	all = *v;
	if (all.type == CHAT_LIST)
		qwen_chat_join_parts(o->r, &all, "\n");
	if (all.type != CHAT_TEXT)
		return 0;
	*text = all.u.s;
	return 1;
}

/* Creates a message with a role and a content. */
static struct chat_value
new_message(struct system_placer *o, const char *role,
    struct chat_value content)
{
	struct chat_value m = qwen_chat_new_dict(o->r, CHAT_DICT);

	qwen_chat_put_key(o->r, m.u.d, "role", chat_cstr(role));
	qwen_chat_put_key(o->r, m.u.d, "content", content);
	return m;
}

static void
push(struct system_placer *o, struct chat_value message)
{
	if (!o->r->failed)
		o->out.v[o->out.n++] = message;
}

static void
push_all(struct system_placer *o, size_t from, size_t to)
{
	for (; from < to; from++)
		push(o, o->in.v[from]);
}

/* ------------------------------------------------ what the template accepts */

/*
 * Returns 1 if the template writes all messages of a chat with these roles: s
 * (system), d (developer), u (user), a (assistant).  Distinct contents identify
 * the messages.
 */
static int
takes(struct system_placer *o, const char *roles)
{
	struct chat_buf b = { 0 };
	struct qwen_text json = { 0 };
	struct qwen_err err;
	struct chat_text all, word;
	char content[32];
	size_t i, at = 0;
	int ok;

	for (i = 0; roles[i] != '\0'; i++)
		qwen_text_fmt(&json, "%s{\"role\":\"%s\",\"content\":"
		    "\"probe%zux\"}", i > 0 ? "," : "{\"messages\":[",
		    roles[i] == 's' ? "system" : roles[i] == 'd' ?
		    "developer" : roles[i] == 'u' ? "user" : "assistant", i);
	qwen_text_str(&json, "]}");
	ok = json.failed ? qwen_oom(&err) : qwen_chat_probe(o->r->t, json.s,
	    json.n, &b, &err);
	qwen_text_fini(&json);
	if (ok < 0 && err.code == QWEN_ENOMEM)
		qwen_chat_oom(o->r);
	all = (struct chat_text){ b.s, b.n, NULL };
	for (i = 0; ok == 0 && roles[i] != '\0' && at <= all.n; i++) {
		snprintf(content, sizeof content, "probe%zux", i);
		word = chat_literal(content);
		at = qwen_chat_search(o->r, &all, &word, at);
	}
	qwen_chat_buf_fini(&b);
	return ok == 0 && at <= all.n;
}

static int
takes_lead(struct system_placer *o)
{
	char roles[LEAD_MAX + 2];
	size_t i;

	if (o->n_lead > LEAD_MAX)
		return 0;
	for (i = 0; i < o->n_lead; i++)
		roles[i] = has_role(o, &o->in.v[i], "system") ? 's' : 'd';
	roles[i++] = 'u';
	roles[i] = '\0';
	return takes(o, roles);
}

/* Tests before the assistant, before the user, and at the end. */
static int
takes_late(struct system_placer *o)
{
	return (!o->late[0] || takes(o, "susasus")) &&
	    (!o->late[1] || takes(o, "sudadud"));
}

/* ----------------------------------------------------------------- folding */

/* Appends a text after an empty line. */
static void
join(struct system_placer *o, struct chat_buf *b, const struct chat_text *text)
{
	if (qwen_chat_strip(o->r, text, NULL, 3).n == 0)
		return;
	if (b->n > 0)
		qwen_chat_put_str(o->r, b, blank_line);
	qwen_chat_put(o->r, b, text);
}

/*
 * Joins the system messages at the start, with all set all of them, into one
 * message.  Those whose content is not text stay unchanged.
 */
static void
fold_lead(struct system_placer *o, int all)
{
	struct chat_buf b = { 0 };
	struct chat_text text;
	const char *role = o->n_lead > 0 ? "developer" : "system";
	size_t i, n = all ? o->in.n : o->n_lead;

	for (i = 0; i < n; i++) {
		if (is_system(o, &o->in.v[i]) && get_content(o, &o->in.v[i],
		    &text))
			join(o, &b, &text);
	}
	for (i = 0; i < o->n_lead; i++) {
		if (has_role(o, &o->in.v[i], "system"))
			role = "system";
	}
	push(o, new_message(o, role, qwen_chat_buf_value(o->r, &b)));
	for (i = 0; i < o->n_lead; i++) {
		if (!get_content(o, &o->in.v[i], &text))
			push(o, o->in.v[i]);
	}
}

/* Adds a system text to the reminders for the next turn. */
static void
remind(struct system_placer *o, const struct chat_text *system)
{
	struct chat_text text = qwen_chat_strip(o->r, system, NULL, 3);

	if (text.n == 0)
		return;
	if (o->reminders.n > 0)
		qwen_chat_put_str(o->r, &o->reminders, blank_line);
	qwen_chat_put_str(o->r, &o->reminders, "<system-reminder>\n");
	qwen_chat_put(o->r, &o->reminders, &text);
	qwen_chat_put_str(o->r, &o->reminders, "\n</system-reminder>");
}

/* Adds the reminders as a part before or after the other parts of a content. */
static struct chat_value
add_part(struct system_placer *o, const struct chat_list *parts,
    const struct chat_value *text, int after)
{
	struct chat_value part = qwen_chat_new_dict(o->r, CHAT_DICT);
	struct chat_list l = qwen_chat_new_list(o->r, parts->n + 1);

	if (o->r->failed)
		return chat_undefined("", 0);
	qwen_chat_put_key(o->r, part.u.d, "type", chat_cstr("text"));
	qwen_chat_put_key(o->r, part.u.d, "text", *text);
	if (parts->n > 0)
		memcpy(l.v + !after, parts->v, parts->n * sizeof *l.v);
	l.v[after ? parts->n : 0] = part;
	return chat_list(l);
}

/* Returns a message with the reminders before or after its content. */
static struct chat_value
add_reminders(struct system_placer *o, const struct chat_value *message,
    int after)
{
	const struct chat_value *old =
	    qwen_chat_key(o->r, message->u.d, "content");
	struct chat_text text = { o->reminders.s, o->reminders.n, NULL };
	struct chat_text had = chat_literal("");
	int is_list = old != NULL && old->type == CHAT_LIST;
	struct chat_buf b = { 0 };
	struct chat_value v, copy = qwen_chat_new_dict(o->r, CHAT_DICT);

	if (old != NULL && old->type == CHAT_TEXT)
		had = old->u.s;
	qwen_chat_put(o->r, &b, after ? &had : &text);
	if (had.n > 0 || is_list)
		qwen_chat_put_str(o->r, &b, blank_line);
	qwen_chat_put(o->r, &b, after ? &text : &had);
	qwen_chat_buf_fini(&o->reminders);
	v = qwen_chat_buf_value(o->r, &b);
	if (is_list && !o->r->failed)
		v = add_part(o, &old->u.l, &v, after);
	qwen_chat_put_all(o->r, copy.u.d, message->u.d);
	qwen_chat_put_key(o->r, copy.u.d, "content", v);
	return copy;
}

/*
 * Places reminders that no user turn follows.  After a tool's result they are
 * added to its end: a user turn would end the step, for which templates keep
 * thoughts.  Elsewhere they get a user turn of their own.
 */
static void
end_reminders(struct system_placer *o)
{
	struct chat_value *last = o->out.n > 0 ? &o->out.v[o->out.n - 1] :
	    NULL, user;

	if (o->reminders.n == 0 || o->r->failed)
		return;
	if (last != NULL && (has_role(o, last, "tool") ||
	    (o->alternate && has_role(o, last, "user")))) {
		user = add_reminders(o, last, 1);
		if (!o->r->failed)
			*last = user;
		return;
	}
	user = new_message(o, "user", chat_none());
	if (o->r->failed)
		return;
	push(o, add_reminders(o, &user, 0));
}

/* Adds all messages after the start, without system messages. */
static void
fold_late(struct system_placer *o, int dropped)
{
	const struct chat_value *m;
	struct chat_text text;
	size_t i;

	for (i = o->n_lead; i < o->in.n && !o->r->failed; i++) {
		m = &o->in.v[i];
		if (is_system(o, m) && get_content(o, m, &text)) {
			if (!dropped)
				remind(o, &text);
		} else if (o->reminders.n > 0 && has_role(o, m, "user"))
			push(o, add_reminders(o, m, 0));
		else {
			if (!has_role(o, m, "tool"))
				end_reminders(o);
			push(o, *m);
		}
	}
	end_reminders(o);
}

/* ------------------------------------------------------------- all messages */

/*
 * Developer messages become system messages if the template does not know the
 * role.
 */
static void
rename_developers(struct system_placer *o)
{
	struct chat_value *role;
	size_t i;

	if (qwen_template_names(o->r->t, "developer"))
		return;
	for (i = 0; i < o->in.n && !o->r->failed; i++) {
		role = qwen_chat_key(o->r, o->in.v[i].u.d, "role");
		if (chat_is_text(role, "developer"))
			*role = chat_cstr("system");
	}
}

static void
count(struct system_placer *o)
{
	size_t i;

	while (o->n_lead < o->in.n && is_system(o, &o->in.v[o->n_lead]))
		o->n_lead++;
	for (i = o->n_lead; i < o->in.n; i++) {
		o->late[0] |= has_role(o, &o->in.v[i], "system");
		o->late[1] |= has_role(o, &o->in.v[i], "developer");
	}
}

static void
fold(struct system_placer *o, int lead, int late, int first)
{
	/* two more: for reminders at the end, and a first message */
	o->out = qwen_chat_new_list(o->r, 2 * o->in.n + 2);
	o->out.n = 0;
	if (o->r->failed)
		return;
	if (lead || (late && first))
		fold_lead(o, late && first);
	else
		push_all(o, 0, o->n_lead);
	if (late)
		fold_late(o, first);
	else
		push_all(o, o->n_lead, o->in.n);
}

int
qwen_chat_place_systems(struct chat_exec *r, struct chat_value *messages,
    int force, int *folds)
{
	struct system_placer o = { .r = r, .in = messages->u.l,
	    .alternate = force > 1 };
	int first = r->t->systems == QWEN_SYSTEMS_FIRST, lead, late;

	*folds = 0;
	if (r->t->systems == QWEN_SYSTEMS_TEMPLATE)
		return 0;
	rename_developers(&o);
	count(&o);
	late = o.late[0] || o.late[1];
	*folds = o.n_lead > 0 || late;
	/* the template accepts no system message at all */
	if (force && o.n_lead > 0 && !first && !takes(&o, "su")) {
		o.n_lead = 0;
		late = 1;
	}
	lead = o.n_lead > 1 && (force || !takes_lead(&o));
	late = late && (force || !takes_late(&o));
	if (!r->failed && (lead || late)) {
		fold(&o, lead, late, first);
		messages->u.l = o.out;
	}
	qwen_chat_buf_fini(&o.reminders);
	return r->failed ? -1 : 0;
}

int
qwen_chat_add_user(struct chat_exec *r, struct chat_value *messages)
{
	struct system_placer o = { .r = r, .in = messages->u.l };

	o.out = qwen_chat_new_list(r, o.in.n + 1);
	o.out.n = 0;
	push_all(&o, 0, o.in.n);
	push(&o, new_message(&o, "user", chat_cstr("?")));
	messages->u.l = o.out;
	return r->failed ? -1 : 0;
}
