/* SPDX-License-Identifier: ISC */
/* call.c - a call: one HTTP request, until it is answered. */
#include <sys/random.h>
#include <sys/socket.h>

#include <assert.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "qserve.h"

/* Set path, and host of a proxy's "http://host/path": 0, or -1. */
static int
take_target(struct qserve_call *c, const char *target)
{
	static const char scheme[] = "http://";
	size_t n;

	if (strncasecmp(target, scheme, sizeof scheme - 1) != 0)
		return (c->path = strdup(target)) != NULL ? 0 : -1;
	target += sizeof scheme - 1;
	n = strcspn(target, "/?");
	c->host = strndup(target, n);
	c->path = strdup(target[n] == '/' ? target + n : "/");
	return c->host != NULL && c->path != NULL ? 0 : -1;
}

struct qserve_call *
qserve_call_new(struct qserve *s, struct qserve_conn *conn, const char *method,
    const char *target)
{
	struct qserve_call *c = calloc(1, sizeof *c);

	if (c == NULL || take_target(c, target) < 0 ||
	    getentropy(&c->number, sizeof c->number) < 0) {
		if (c != NULL) {
			free(c->path);
			free(c->host);
		}
		free(c);
		return NULL;
	}
	c->server = s;
	c->conn = conn;
	c->method = method;
	c->since = cli_now();
	c->next = s->calls;
	if (c->next != NULL)
		c->next->prev = c;
	s->calls = c;
	s->n_calls++;
	conn->call = c;
	return c;
}

const char *
qserve_header(const struct qserve_call *c, const char *name)
{
	return MHD_lookup_connection_value(c->conn->mhd, MHD_HEADER_KIND, name);
}

void
qserve_body_free(struct qserve_call *c)
{
	c->server->n_body_bytes -= c->body.n;
	qwen_text_fini(&c->body);
}

void
qserve_call_begin(struct qserve_call *c)
{
	const struct qserve_kind *k = c->route->kind;

	if (k->size > 0 && (c->state = calloc(1, k->size)) == NULL)
		qserve_error(c, 500, "out_of_memory", "out of memory");
	else
		k->begin(c);
}

static void
free_state(struct qserve_call *c)
{
	if (c->state != NULL && c->route->kind->end != NULL)
		c->route->kind->end(c);
	free(c->state);
	c->state = NULL;
	free(c->choice);
	c->choice = NULL;
}

const double qserve_bounds[QSERVE_BOUNDS] = { 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120 };

static void
add_time(struct qserve_times *t, double s)
{
	size_t i;

	for (i = 0; i < QSERVE_BOUNDS; i++)
		t->at_most[i] += s <= qserve_bounds[i];
	t->n++;
	t->sum += s;
}

/* Count a call that has ended. */
static void
count(struct qserve_call *c)
{
	struct qserve_totals *all = &c->server->totals;
	const struct qserve_use *u = &c->use;
	double now = cli_now();

	all->status[c->status < 600 ? c->status : 0]++;
	/* only jobs that an engine has begun */
	all->prompt += u->n_prompt;
	all->cached += u->n_cached;
	all->chosen += u->n_chosen;
	if (c->first_at <= 0)
		return;
	add_time(&all->ttft, c->first_at - c->since);
	add_time(&all->e2e, now - c->since);
	if (u->n_answers == 1 && u->n_chosen > 1)
		add_time(&all->tpot, (now - c->first_at) /
		    (double)(u->n_chosen - 1));
}

void
qserve_call_free(struct qserve_call *c)
{
	struct qserve *s = c->server;

	qserve_jobs_cancel(c);
	count(c);
	qserve_images_drop(c);
	free_state(c);
	*(c->prev != NULL ? &c->prev->next : &s->calls) = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	s->n_calls--;
	c->conn->call = NULL;
	c->conn->since = cli_now();
	qserve_body_free(c);
	qwen_text_fini(&c->out);
	qwen_text_fini(&c->policy);
	free(c->path);
	free(c->host);
	free(c);
}

void
qserve_call_restart(struct qserve_call *c)
{
	assert(!c->queued && !c->client_left && c->n_left == 0);
	qserve_images_drop(c);
	free_state(c);
	qwen_text_fini(&c->out);
	c->at = 0;
	c->status = 0;
	c->type = NULL;
	c->retry_s = 0;
	c->is_stream = c->ended = c->has_news = 0;
	c->sent_at = c->began_at = c->first_at = 0;
	c->use = (struct qserve_use){ 0 };
	c->seed[0] = '\0';
	c->preferred = NULL;
	qserve_call_begin(c);
}

void
qserve_call_resume(struct qserve_call *c)
{
	if (!c->suspended)
		return;
	c->suspended = 0;
	c->server->resumed = 1;
	MHD_resume_connection(c->conn->mhd);
}

/* The client has left: drop its output.  The status stays if it is an error. */
void
qserve_call_left(struct qserve_call *c)
{
	if (c->client_left)
		return;
	c->client_left = 1;
	c->server->totals.left++;
	if (c->status < 400)
		c->status = QSERVE_LEFT;
	qserve_images_drop(c);
	qserve_jobs_cancel(c);
}

void
qserve_call_drop(struct qserve_call *c)
{
	if (c->client_left)
		return;
	qserve_call_left(c);
	/* ends any wait of the connection */
	shutdown(c->conn->fd, SHUT_RDWR);
	qserve_call_resume(c);
}

void
qserve_done(struct qserve_call *c, int status)
{
	qserve_jobs_cancel(c);
	/* Anthropic's clients know this status as overloaded */
	if (status == 503 && c->form == QWEN_FORM_MESSAGES)
		status = 529;
	if (c->retry_s == 0 && (status == 429 || status == 503 ||
	    status == 529))
		c->retry_s = 1;
	c->status = status;
	if (c->out.failed) {
		c->status = 500;
		c->type = NULL;
		qwen_text_fini(&c->out);
		qwen_error_body(c->form, 500, "out_of_memory", NULL,
		    "out of memory", &c->out);
	}
	qserve_call_resume(c);
}

void
qserve_error(struct qserve_call *c, int status, const char *code,
    const char *fmt, ...)
{
	char message[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	qwen_text_fini(&c->out);
	qwen_error_body(c->form, status, code, NULL, message, &c->out);
	qserve_done(c, status);
}
