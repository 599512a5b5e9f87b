/* SPDX-License-Identifier: ISC */
/* place.c - which device is the home of each layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pass/open.h"
#include "engine/timeline/timeline.h"

static const struct qwen_device *const remotes[] = { &qwen_plain_device };

/*
 * Reads a layer's number at *s and sets *s to its end. Returns -1 if there is
 * no number, or no such layer.
 */
static int
read_layer(const char **s, size_t n_block, size_t *layer)
{
	char *end;
	unsigned long n;

	if (**s < '0' || **s > '9')
		return -1;
	n = strtoul(*s, &end, 10);
	*s = end;
	*layer = (size_t)n;
	return n < n_block ? 0 : -1;
}

/* Reads FIRST or FIRST-LAST at s; -1 if there is something else. */
static int
read_range(const char *s, size_t n_block, size_t *first, size_t *last)
{
	if (read_layer(&s, n_block, first) < 0)
		return -1;
	*last = *first;
	if (*s == '-' && (s++, read_layer(&s, n_block, last) < 0))
		return -1;
	return (*s == '\0' || *s == ',') && *first <= *last ? 0 : -1;
}

/*
 * Opens the device that the item from s to `end' names, as the home of its
 * layers.
 */
static int
add_device(struct qwen_model *m, const char *s, const char *end,
    struct qwen_err *err)
{
	struct qwen_placement *p = &m->place;
	size_t i, n = strcspn(s, ":,"), first = 0, last = m->net.hp.n_layer;
	const struct qwen_device *dev = NULL;

	for (i = 0; i < sizeof remotes / sizeof remotes[0]; i++) {
		if (strlen(remotes[i]->name) == n &&
		    memcmp(remotes[i]->name, s, n) == 0)
			dev = remotes[i];
	}
	if (dev == NULL && (n != 3 || memcmp(s, "cpu", n) != 0))
		return qwen_fail(err, QWEN_ERANGE, "there is no device "
		    "'%.*s'; give cpu or plain", (int)n, s);
	if (s[n] == ':' && read_range(s + n + 1, last + 1, &first, &last) < 0)
		return qwen_fail(err, QWEN_ERANGE, "device '%.*s': after the "
		    "colon comes a layer, or a first and a last one, from 0 "
		    "to %zu", (int)(end - s), s, m->net.hp.n_layer);
	if (dev != NULL && p->n > QWEN_REMOTE_MAX)
		return qwen_fail(err, QWEN_ERANGE, "more than %d devices",
		    QWEN_REMOTE_MAX);
	memset(p->home + first, dev != NULL ? (int)p->n : 0, last - first + 1);
	if (dev == NULL)
		return 0;
	if (dev->open(&p->on[p->n], m->engine, &m->net, p->home, p->n, err) < 0)
		return -1;
	p->n++;
	return 0;
}

/* Brings what sessions have on remote devices to the host, and closes these. */
static void
leave_remotes(struct qwen_model *m)
{
	struct qwen_placement *p = &m->place;
	struct qwen_session *s;
	struct qwen_cache *c;

	for (c = m->caches; c != NULL; c = c->next) {
		for (s = c->sessions; s != NULL; s = s->next)
			qwen_memory_return(s);
		qwen_cache_leave(c);
	}
	while (p->n > 1) {
		p->n--;
		p->on[p->n]->dev->close(p->on[p->n]);
	}
	memset(p->home, 0, m->net.hp.n_layer + 1);
}

int
qwen_place(struct qwen_model *m, const char *device, struct qwen_err *err)
{
	struct qwen_placement *p = &m->place;
	const char *s, *end;

	if (p->n == 0) {
		p->net = &m->net;
		p->pool = m->engine->pool;
		if ((p->home = qwen_alloc(m->net.hp.n_layer + 1, 1)) == NULL)
			return qwen_oom(err);
		if (qwen_cpu_device.open(&p->on[0], m->engine, &m->net,
		    p->home, 0, err) < 0)
			return -1;
		p->n = 1;
	}
	leave_remotes(m);
	for (s = device; s != NULL; s = *end == ',' ? end + 1 : NULL) {
		end = s + strcspn(s, ",");
		if (add_device(m, s, end, err) < 0) {
			leave_remotes(m);
			return -1;
		}
	}
	return 0;
}

void
qwen_unplace(struct qwen_model *m)
{
	struct qwen_placement *p = &m->place;

	if (p->n > 0) {
		leave_remotes(m);
		p->on[0]->dev->close(p->on[0]);
	}
	free(p->home);
	memset(p, 0, sizeof *p);
}
