/* SPDX-License-Identifier: ISC */
/*
 * document.c - documents.  Each is put before the user's next message.  They
 * are kept after that, so that the message can be taken back without its
 * document.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/what.h"
#include "qchat.h"

/* Message number of a document that waits for the next message. */
#define WAITS SIZE_MAX

static void
drop_last(struct qchat *c)
{
	struct qchat_document *d = &c->documents[--c->n_documents];

	free(d->name);
	free(d->text);
}

/* Waiting documents are the last ones of the array. */
size_t
qchat_n_waiting(const struct qchat *c)
{
	size_t i = c->n_documents;

	while (i > 0 && c->documents[i - 1].message == WAITS)
		i--;
	return c->n_documents - i;
}

int
qchat_drop_document(struct qchat *c)
{
	if (qchat_n_waiting(c) == 0)
		return 0;
	cli_note("%s is dropped", c->documents[c->n_documents - 1].name);
	drop_last(c);
	return 1;
}

void
qchat_drop_documents(struct qchat *c)
{
	while (qchat_n_waiting(c) > 0)
		drop_last(c);
}

void
qchat_free_documents(struct qchat *c)
{
	while (c->n_documents > 0)
		drop_last(c);
}

struct qchat_document *
qchat_append_document(struct qchat *c, const char *name, char *text, size_t n)
{
	struct qchat_document *d;

	cli_grow(&c->documents, &c->cap_documents, c->n_documents + 1,
	    sizeof *c->documents);
	d = &c->documents[c->n_documents++];
	*d = (struct qchat_document){ .name = cli_format("%s", name),
	    .text = text, .n = n, .message = WAITS };
	return d;
}

/* Let document i, which has a message, wait as the last one. */
static void
let_wait(struct qchat *c, size_t i)
{
	struct qchat_document d = c->documents[i];

	d.message = WAITS;
	memmove(c->documents + i, c->documents + i + 1,
	    (c->n_documents - i - 1) * sizeof d);
	c->documents[c->n_documents - 1] = d;
}

void
qchat_unanswered_to_document(struct qchat *c)
{
	const char *role = qwen_messages_last_role(c->messages);
	size_t i, first = 0, last;
	struct qwen_str s;
	char *text;

	if (role == NULL || strcmp(role, "user") != 0)
		return;
	last = qwen_messages_n(c->messages) - 1;
	while (first < c->n_documents && c->documents[first].message < last)
		first++;
	for (i = 0; qwen_messages_last_part(c->messages, i, &s); i++) {
		if (s.s != NULL) {
			text = cli_check_alloc(malloc(s.len + 1));
			memcpy(text, s.s, s.len);
			qchat_append_document(c, "the previous message", text,
			    s.len);
		} else if (first < c->n_documents)
			let_wait(c, first);
	}
	qwen_messages_drop_last(c->messages);
}

/* On a terminal, print how many tokens the document has. */
static void
note_length(struct qchat *c, const struct qchat_document *d)
{
	int32_t *ids;
	size_t n;

	if (cli_quiet || !isatty(STDIN_FILENO))
		return;
	cli_must(d->name, qwen_tok_encode(c->tok, d->text, d->n, 0, &ids, &n,
	    &cli_err));
	free(ids);
	cli_note("%s: %s, put before your next message; /data alone drops "
	    "it", d->name, cli_count(n, "token"));
}

int
qchat_add_document(struct qchat *c, const char *name, char *text, size_t n)
{
	size_t good = qwen_utf8_check(text, n);

	if (qwen_what(text, n) == QWEN_IS_IMAGE)
		return qchat_add_image(c, name, text, n);
	if (good < n) {
		warn("%s: not UTF-8 at byte %zu", name, good);
		free(text);
		return -1;
	}
	qchat_unanswered_to_document(c);
	note_length(c, qchat_append_document(c, name, text, n));
	return 0;
}

size_t
qchat_say_documents(struct qchat *c)
{
	size_t n = qchat_n_waiting(c), i;
	const struct qchat_document *d = c->documents + c->n_documents - n;

	for (i = 0; i < n; i++) {
		if (d[i].is_image)
			cli_must(NULL, qwen_messages_add_image(c->messages,
			    &cli_err));
		else
			qchat_say(c, "user", d[i].text, d[i].n, i > 0);
	}
	return n;
}

static void
say_with_documents(struct qchat *c, const char *text, size_t n)
{
	qchat_say(c, "user", text, n, qchat_say_documents(c) > 0);
}

/*
 * Return the ids of the prompt if a text were the next message, to be freed;
 * NULL if the template refuses it, of which qchat_reply() warns.
 */
static int32_t *
ids_with(struct qchat *c, const char *text, size_t n, size_t *n_ids)
{
	struct qwen_prompt *p;
	int32_t *ids = NULL;

	*n_ids = 0;
	say_with_documents(c, text, n);
	if (qchat_render(c, &p) == 0) {
		ids = qchat_encode(c, p, n_ids, NULL);
		qwen_prompt_free(p);
		*n_ids = ids == NULL ? 0 : *n_ids;
	} else if (cli_err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &cli_err);
	qwen_messages_drop_last(c->messages);
	return ids;
}

/*
 * Return the number of prompt tokens up to the end of the documents: those that
 * the prompt shares with the prompt of a message with another first byte.
 */
static size_t
find_documents_end(struct qchat *c, const char *text, size_t n)
{
	size_t n_a, n_b, i;
	int32_t *a = ids_with(c, n > 0 && text[0] == 'a' ? "0" : "a", 1, &n_a);
	int32_t *b = ids_with(c, text, n, &n_b);

	for (i = 0; i < n_a && i < n_b && a[i] == b[i]; i++)
		;
	free(a);
	free(b);
	return i;
}

void
qchat_say_with_documents(struct qchat *c, const char *text, size_t n)
{
	size_t i, k, at;

	qchat_unanswered_to_document(c);
	k = qchat_n_waiting(c);
	c->n_document_tokens = k > 0 ? find_documents_end(c, text, n) : 0;
	at = qwen_messages_n(c->messages);
	say_with_documents(c, text, n);
	for (i = c->n_documents - k; i < c->n_documents; i++)
		c->documents[i].message = at;
}

void
qchat_take_back(struct qchat *c)
{
	size_t n, i;

	qwen_messages_drop_last(c->messages);
	n = qwen_messages_n(c->messages);
	for (i = 0; i < c->n_documents; i++) {
		if (c->documents[i].message >= n)
			c->documents[i].message = WAITS;
	}
}

void
qchat_forget_documents(struct qchat *c, size_t k)
{
	size_t i, n = 0;

	for (i = 0; i < c->n_documents; i++) {
		struct qchat_document *d = &c->documents[i];

		if (d->message < k) {
			free(d->name);
			free(d->text);
			continue;
		}
		d->message -= d->message != WAITS ? k : 0;
		c->documents[n++] = *d;
	}
	c->n_documents = n;
}

void
qchat_reset(struct qchat *c, const char *system)
{
	struct qwen_messages *old = c->messages;

	cli_must(NULL, qwen_messages_new(&c->messages, &cli_err));
	qchat_think(c);
	if (system != NULL)
		qchat_say(c, "system", system, strlen(system), 0);
	qwen_messages_free(old);
	qchat_free_documents(c);
}
