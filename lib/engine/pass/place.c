/* SPDX-License-Identifier: ISC */
/* place.c - which device is the home of each layer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/mpi/mpi.h"
#include "engine/pass/open.h"
#include "engine/timeline/timeline.h"

static const struct qwen_device *const remotes[] = { &qwen_plain_device,
    &qwen_cuda_device, &qwen_mpi_device };

enum { CARD_MAX = 9999 };	/* as a number */

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

/* An item of a list of devices. */
struct item {
	const struct qwen_device	*dev;	/* NULL: the CPU */
	struct qwen_wish		 wish;
	size_t				 first, last;	/* layers */
	int				 leads;	/* it is the list's first */
	int				 rest;	/* it takes only what the CPU has,
						   and need not open */
};

static const struct qwen_device *
find_device(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof remotes / sizeof remotes[0]; i++) {
		if (strlen(remotes[i]->name) == n &&
		    memcmp(remotes[i]->name, name, n) == 0)
			return remotes[i];
	}
	return NULL;
}

/*
 * Reads the number of bytes at *s, which may end in K, M or G.  Returns -1 if
 * there is none, or if it is zero or too large.
 */
static int
read_bytes(const char **s, uint64_t *bytes)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	int shift = 0;

	if (**s < '0' || **s > '9')
		return -1;
	*bytes = strtoull(*s, &end, 10);
	unit = *end != '\0' ? strchr(units, *end) : NULL;
	if (unit != NULL) {
		shift = 10 * (int)(unit - units + 1);
		end++;
	}
	if (*bytes == 0 || *bytes > UINT64_MAX >> 1 >> shift ||
	    (*end != '\0' && *end != '@' && *end != ','))
		return -1;
	*bytes <<= shift;
	*s = end;
	return 0;
}

/*
 * Reads NAME[:LAYERS], or NAME[:NUMBER][=BYTES][@LAYERS] of numbered devices.  A
 * device with ranks reads the rest of its item itself.
 */
static int
read_item(size_t n_layer, const char *s, const char *end, struct item *out,
    struct qwen_err *err)
{
	size_t n = strcspn(s, ":,=@/"), number;
	const char *p = s + n;

	*out = (struct item){ .dev = find_device(s, n), .last = n_layer };
	if (n == 4 && memcmp(s, "auto", n) == 0)
		return qwen_fail(err, QWEN_ERANGE, "device '%.*s': auto has no "
		    "number, size or layers, and is measured alone",
		    (int)(end - s), s);
	if (out->dev == NULL && (n != 3 || memcmp(s, "cpu", n) != 0))
		return qwen_fail(err, QWEN_ERANGE, "there is no device "
		    "'%.*s'; give auto, cpu, cuda, mpi or plain", (int)n, s);
	if (out->dev != NULL && out->dev->ranks) {
		out->wish.text = p;
		out->wish.n_text = (size_t)(end - p);
		return 0;
	}
	if (out->dev != NULL && out->dev->numbered) {
		if (*p == ':' && (p++, read_layer(&p, CARD_MAX, &number) < 0))
			return qwen_fail(err, QWEN_ERANGE, "device '%.*s': "
			    "after the colon comes the number of a card, from "
			    "0 on", (int)(end - s), s);
		out->wish.number = *(s + n) == ':' ? (int)number : 0;
		if (*p == '=' && (p++, read_bytes(&p, &out->wish.bytes) < 0))
			return qwen_fail(err, QWEN_ERANGE, "device '%.*s': "
			    "after = comes how much memory it may take, such "
			    "as 8G", (int)(end - s), s);
		if (*p != '@' && p == end)
			return 0;
	}
	if (p == end)
		return 0;
	if (*p != (out->dev != NULL && out->dev->numbered ? '@' : ':') ||
	    read_range(p + 1, n_layer + 1, &out->first, &out->last) < 0)
		return qwen_fail(err, QWEN_ERANGE, "device '%.*s': give the "
		    "layers as a number, or a first and a last one, from 0 "
		    "to %zu", (int)(end - s), s, n_layer);
	return 0;
}

/*
 * Makes device `at' the home of an item's layers, and of the head after them.
 * Layers of other ranks, which have the home `kept', stay there.
 */
static void
settle(const struct qwen_model *m, unsigned char *home, const struct item *i,
    size_t at, size_t kept)
{
	size_t n = m->net.hp.n_layer, half;
	int head = i->first < n && i->last + 1 >= n;

	for (half = QWEN_MIXER(i->first); half < QWEN_HOMES(n); half++) {
		if (i->rest && home[half] != 0)
			continue;
		if (kept != 0 && half < QWEN_HEAD(n) && home[half] == kept)
			continue;
		if (half == QWEN_HEAD(n) ? head : half <= QWEN_FFN(i->last))
			home[half] = (unsigned char)at;
	}
}

/* Calls fn for each item of the list. */
struct each {
	struct qwen_model	*m;
	int	(*fn)(const struct each *e, const struct item *i,
		    struct qwen_err *err);
	char			*why;		/* for struct qwen_placement */
	size_t			 why_bytes;
	unsigned char		*home;
	/* of a plan */
	unsigned char		**rank;
	size_t			*ranks;
	const struct qwen_wish	*pass;
	struct qwen_planned	*plan;
	size_t			*n;
};

/* Says why --device auto leaves out cards. */
static void
note_why(const struct each *e, const struct qwen_err *err)
{
	snprintf(e->why, e->why_bytes, "%s", err->msg);
}

/*
 * Items of `auto': each card takes what those before it have left to the CPU.  A
 * card that cannot be used, or a machine without one, is no error.
 */
static void
each_card(const struct each *e)
{
	struct item i = { .rest = 1, .last = e->m->net.hp.n_layer };
	int number[QWEN_REMOTE_MAX];
	struct qwen_err why;
	size_t d, k, n;

	for (d = 0; d < sizeof remotes / sizeof remotes[0]; d++) {
		i.dev = remotes[d];
		if (i.dev->list == NULL)
			continue;
		if (i.dev->list(number, QWEN_REMOTE_MAX, &n, &why) < 0) {
			note_why(e, &why);
			continue;
		}
		for (k = 0; k < n; k++) {
			i.wish.number = number[k];
			if (memchr(e->home, 0, QWEN_MIXER(i.last)) == NULL)
				break;
			if (e->fn(e, &i, &why) < 0)
				note_why(e, &why);
		}
	}
}

static int
each_item(const struct each *e, const char *list, struct qwen_err *err)
{
	struct item i;
	const char *s, *end;
	int rc = 0;

	for (s = list; s != NULL && rc == 0; s = *end == ',' ? end + 1 : NULL) {
		end = s + strcspn(s, ",");
		if (end - s == 4 && memcmp(s, "auto", 4) == 0)
			each_card(e);
		else if ((rc = read_item(e->m->net.hp.n_layer, s, end, &i,
		    err)) == 0) {
			i.leads = s == list;
			rc = e->fn(e, &i, err);
		}
	}
	return rc;
}

/* Returns 1 if some half of a layer, or the head, is at home in device `at'. */
static int
has_any(const struct qwen_model *m, const unsigned char *home, size_t at)
{
	return memchr(home, (int)at, QWEN_HOMES(m->net.hp.n_layer)) != NULL;
}

/* Makes the CPU the home of what device `at' has. */
static void
leave(const struct qwen_model *m, unsigned char *home, size_t at)
{
	size_t i;

	for (i = 0; i < QWEN_HOMES(m->net.hp.n_layer); i++) {
		if (home[i] == at)
			home[i] = 0;
	}
}

/*
 * Other ranks come first in a list: each rank gives its own layers to the other
 * devices.  n is the number of devices so far, with the CPU.
 */
static int
check_item(const struct item *i, size_t n, int first, struct qwen_err *err)
{
	if (i->dev == NULL)
		return 0;
	if (n > QWEN_REMOTE_MAX)
		return qwen_fail(err, QWEN_ERANGE, "more than %d devices",
		    QWEN_REMOTE_MAX);
	return !i->dev->ranks || first ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "device '%s' comes first in a list of devices", i->dev->name);
}

/* Opens the device of an item, as the home of its layers. */
static int
add_device(const struct each *e, const struct item *i, struct qwen_err *err)
{
	struct qwen_placement *p = &e->m->place;

	if (check_item(i, p->n, i->leads, err) < 0)
		return -1;
	settle(e->m, p->home, i, i->dev != NULL ? p->n : 0,
	    p->n > 1 && p->on[1]->dev->ranks);
	if (i->dev == NULL)
		return 0;
	if (i->dev->open(&p->on[p->n], e->m->engine, &e->m->net, p->home, p->n,
	    &i->wish, err) < 0) {
		leave(e->m, p->home, p->n);
		return -1;
	}
	if (i->rest && !has_any(e->m, p->home, p->n)) {
		i->dev->close(p->on[p->n]);
		return qwen_fail(err, QWEN_ENOMEM, "%s:%d has no memory left "
		    "for a layer", i->dev->name, i->wish.number);
	}
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
	memset(p->home, 0, QWEN_HOMES(m->net.hp.n_layer));
}

int
qwen_place(struct qwen_model *m, const char *device, struct qwen_err *err)
{
	struct qwen_placement *p = &m->place;
	struct item any = { 0 };
	struct each e = { .m = m, .fn = add_device, .why = p->why,
	    .why_bytes = sizeof p->why };

	if (p->n == 0) {
		p->net = &m->net;
		p->pool = m->engine->pool;
		if ((p->home = qwen_alloc(QWEN_HOMES(m->net.hp.n_layer),
		    1)) == NULL)
			return qwen_oom(err);
		if (qwen_cpu_device.open(&p->on[0], m->engine, &m->net,
		    p->home, 0, &any.wish, err) < 0)
			return -1;
		p->n = 1;
	}
	leave_remotes(m);
	p->why[0] = '\0';
	e.home = p->home;
	if (each_item(&e, device, err) == 0)
		return 0;
	leave_remotes(m);
	return -1;
}

/* Sets the rank of each layer, and leaves those of rank 0 to other devices. */
static int
plan_ranks(const struct qwen_model *m, const struct item *i,
    unsigned char *home, unsigned char **rank, size_t *n, struct qwen_err *err)
{
	size_t k, n_layer = m->net.hp.n_layer;

	if ((*rank = qwen_alloc(n_layer, 1)) == NULL)
		return qwen_oom(err);
	if (qwen_mpi_plan(&m->net, &i->wish, *rank, n, err) < 0)
		return -1;
	for (k = 0; k < n_layer; k++)
		home[QWEN_MIXER(k)] = home[QWEN_FFN(k)] = (*rank)[k] > 0;
	home[QWEN_HEAD(n_layer)] = home[QWEN_MIXER(n_layer)] =
	    home[QWEN_FFN(n_layer)] = 0;
	return 0;
}

/* Plans the device of an item, as the home of its layers. */
static int
plan_device(const struct each *e, const struct item *i, struct qwen_err *err)
{
	size_t at = i->dev != NULL ? *e->n : 0;
	struct qwen_planned *out = &e->plan[at];
	struct qwen_wish wish = *e->pass;

	wish.number = i->wish.number;
	wish.bytes = i->wish.bytes;
	if (check_item(i, *e->n, i->leads, err) < 0)
		return -1;
	settle(e->m, e->home, i, at, *e->rank != NULL);
	if (at == 0)
		return 0;
	memset(out, 0, sizeof *out);
	if (i->dev->ranks && plan_ranks(e->m, i, e->home, e->rank, e->ranks,
	    err) < 0)
		return -1;
	if (i->dev->plan != NULL && i->dev->plan(&e->m->net, e->home, at,
	    &wish, &out->card, err) < 0) {
		leave(e->m, e->home, at);
		return -1;
	}
	snprintf(out->name, sizeof out->name, i->dev->numbered ? "%s:%d" :
	    "%s", i->dev->name, i->wish.number);
	*e->n += !i->rest || has_any(e->m, e->home, at);
	return 0;
}

int
qwen_place_plan(const struct qwen_model *m, const char *device,
    const struct qwen_wish *pass, unsigned char *home,
    struct qwen_planned *out, size_t *n, struct qwen_err *err)
{
	unsigned char *rank = NULL;
	size_t ranks = 0;
	char why[256];
	/* a plan changes nothing of the model */
	struct each e = { .m = (struct qwen_model *)(uintptr_t)m,
	    .fn = plan_device, .why = why, .why_bytes = sizeof why,
	    .pass = pass, .home = home, .plan = out, .n = n,
	    .rank = &rank, .ranks = &ranks };
	int rc;

	memset(home, 0, QWEN_HOMES(m->net.hp.n_layer));
	out[0] = (struct qwen_planned){ .name = "cpu" };
	*n = 1;
	rc = each_item(&e, device, err);
	if (rc == 0 && rank != NULL)
		rc = qwen_homes_spread(home, m->net.hp.n_layer, rank, ranks,
		    out, n, err);
	free(rank);
	return rc;
}

/* Measures the card of an item. */
static int
measure_card(struct qwen_card_speed *out, size_t max, size_t *n,
    const struct item *i, struct qwen_err *err)
{
	if (i->dev == NULL || i->dev->measure == NULL || *n == max)
		return 0;
	return i->dev->measure(i->wish.number, &out[(*n)++], err);
}

int
qwen_card_measure(struct qwen_card_speed *out, size_t max, size_t *n,
    const char *device, struct qwen_err *err)
{
	int number[QWEN_REMOTE_MAX];
	struct item i = { .dev = &qwen_cuda_device };
	const char *s, *end;
	size_t k, n_card;

	*n = 0;
	if (strcmp(device, "auto") == 0) {
		if (i.dev->list(number, QWEN_REMOTE_MAX, &n_card, err) < 0)
			return -1;
		for (k = 0; k < n_card; k++) {
			i.wish.number = number[k];
			if (measure_card(out, max, n, &i, err) < 0)
				return -1;
		}
		return 0;
	}
	for (s = device; s != NULL; s = *end == ',' ? end + 1 : NULL) {
		end = s + strcspn(s, ",");
		if (read_item(CARD_MAX, s, end, &i, err) < 0 ||
		    measure_card(out, max, n, &i, err) < 0)
			return -1;
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
