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

enum { QWEN_CARDS_MAX = 64 };

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
read_item(const struct qwen_model *m, const char *s, const char *end,
    struct item *out, struct qwen_err *err)
{
	size_t n = strcspn(s, ":,=@/"), n_layer = m->net.hp.n_layer, number;
	const char *p = s + n;

	*out = (struct item){ .dev = find_device(s, n), .last = n_layer };
	if (out->dev == NULL && (n != 3 || memcmp(s, "cpu", n) != 0))
		return qwen_fail(err, QWEN_ERANGE, "there is no device "
		    "'%.*s'; give cpu, cuda, mpi or plain", (int)n, s);
	if (out->dev != NULL && out->dev->ranks) {
		out->wish.text = p;
		out->wish.n_text = (size_t)(end - p);
		return 0;
	}
	if (out->dev != NULL && out->dev->numbered) {
		if (*p == ':' && (p++, read_layer(&p, QWEN_CARDS_MAX,
		    &number) < 0))
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
	size_t n_layer = m->net.hp.n_layer, half;

	for (half = QWEN_MIXER(i->first); half <= QWEN_FFN(i->last); half++) {
		if (kept == 0 || home[half] != kept)
			home[half] = (unsigned char)at;
	}
	if (i->first < n_layer && i->last + 1 >= n_layer)
		home[QWEN_HEAD(n_layer)] = (unsigned char)at;
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
add_device(struct qwen_model *m, const struct item *i, struct qwen_err *err)
{
	struct qwen_placement *p = &m->place;

	settle(m, p->home, i, i->dev != NULL ? p->n : 0,
	    p->n > 1 && p->on[1]->dev->ranks);
	if (i->dev == NULL)
		return 0;
	if (i->dev->open(&p->on[p->n], m->engine, &m->net, p->home, p->n,
	    &i->wish, err) < 0)
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
	memset(p->home, 0, QWEN_HOMES(m->net.hp.n_layer));
}

int
qwen_place(struct qwen_model *m, const char *device, struct qwen_err *err)
{
	struct qwen_placement *p = &m->place;
	struct item any = { 0 }, item;
	const char *s, *end;

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
	for (s = device; s != NULL; s = *end == ',' ? end + 1 : NULL) {
		end = s + strcspn(s, ",");
		if (read_item(m, s, end, &item, err) < 0 ||
		    check_item(&item, p->n, s == device, err) < 0 ||
		    add_device(m, &item, err) < 0) {
			leave_remotes(m);
			return -1;
		}
	}
	return 0;
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

int
qwen_place_plan(const struct qwen_model *m, const char *device,
    unsigned char *home, char (*name)[QWEN_DEVICE_NAME], size_t *n,
    struct qwen_err *err)
{
	struct item i;
	const char *s, *end;
	unsigned char *rank = NULL;
	size_t at, ranks = 0;
	int rc = 0;

	memset(home, 0, QWEN_HOMES(m->net.hp.n_layer));
	snprintf(name[0], QWEN_DEVICE_NAME, "cpu");
	*n = 1;
	for (s = device; s != NULL; s = *end == ',' ? end + 1 : NULL) {
		end = s + strcspn(s, ",");
		if (read_item(m, s, end, &i, err) < 0 ||
		    check_item(&i, *n, s == device, err) < 0)
			goto fail;
		at = i.dev != NULL ? (*n)++ : 0;
		settle(m, home, &i, at, rank != NULL);
		if (at > 0 && i.dev->numbered)
			snprintf(name[at], QWEN_DEVICE_NAME, "%s:%d",
			    i.dev->name, i.wish.number);
		else if (at > 0)
			snprintf(name[at], QWEN_DEVICE_NAME, "%s", i.dev->name);
		if (at > 0 && i.dev->ranks && plan_ranks(m, &i, home, &rank,
		    &ranks, err) < 0)
			goto fail;
		if (at > 0 && i.dev->plan != NULL && i.dev->plan(&m->net, home,
		    at, &i.wish, err) < 0)
			goto fail;
	}
	if (rank != NULL)
		rc = qwen_homes_spread(home, m->net.hp.n_layer, rank, ranks,
		    name, n, err);
	free(rank);
	return rc;
fail:
	free(rank);
	return -1;
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
