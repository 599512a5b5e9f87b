/* SPDX-License-Identifier: ISC */
/* place.c - which device is the home of each layer. */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/pass/open.h"

int
qwen_place(struct qwen_model *m, struct qwen_err *err)
{
	struct qwen_placement *p = &m->place;

	p->net = &m->net;
	p->pool = m->engine->pool;
	if ((p->home = qwen_alloc(m->net.hp.n_layer + 1, 1)) == NULL)
		return qwen_oom(err);
	if (qwen_cpu_device.open(&p->on[0], m->engine, &m->net, p->home, 0,
	    err) < 0)
		return -1;
	p->n = 1;
	return 0;
}

void
qwen_unplace(struct qwen_model *m)
{
	struct qwen_placement *p = &m->place;

	while (p->n > 0) {
		p->n--;
		p->on[p->n]->dev->close(p->on[p->n]);
	}
	free(p->home);
	p->home = NULL;
}
