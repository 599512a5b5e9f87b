/* SPDX-License-Identifier: ISC */
/* graph.c - runs of layers for few rows, recorded. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/cuda/graph.h"

enum { GRAPHS = 16, RELAXED = 2 };

/* What decides which kernels a run launches, and with which grids. */
struct key {
	size_t	first, n_half, n, n_share;
	size_t	chunks;		/* of keys, rounded up to a power of two */
	size_t	alone;		/* is each row the only one of its session? */
};

struct qwen_cuda_graphs {
	struct qwen_cuda_graph {
		struct key	key;
		int		seen;
		cu_exec		exec;	/* NULL: not recorded so far */
	} graph[GRAPHS];
	size_t			 next;	/* the oldest */
	struct qwen_cuda_graph	*recording;
};

static void
drop(struct qwen_cuda_work *w, struct qwen_cuda_graph *g)
{
	struct qwen_cuda_card *c = w->c->card;

	if (g->exec != NULL)
		qwen_cuda_note(c, "exec_free", c->cu.exec_free(g->exec));
	memset(g, 0, sizeof *g);
}

void
qwen_cuda_graphs_free(struct qwen_cuda_work *w)
{
	size_t i;

	if (w->graphs == NULL)
		return;
	for (i = 0; i < GRAPHS; i++)
		drop(w, &w->graphs->graph[i]);
	free(w->graphs);
	w->graphs = NULL;
}

static struct key
key_of(const struct qwen_cuda_work *w, size_t first, size_t n)
{
	const struct qwen_pass *p = w->p;
	struct key k = { first, n, p->n, p->n_share, 1,
	    (size_t)qwen_cuda_are_alone(p) };
	size_t t, most = 0;

	for (t = 0; t < p->n; t++)
		most = p->row[t].slot > most ? p->row[t].slot : most;
	while (k.chunks * QWEN_CUDA_CHUNK <= most)
		k.chunks *= 2;
	return k;
}

/* Can the run be recorded?  Not if it drops rows, or has many. */
static int
is_regular(const struct qwen_pass *p, size_t first, size_t n)
{
	int last = p->last >= first / 2 && p->last <= (first + n) / 2;
	size_t i;

	for (i = 0; i < p->n_share && (!last || p->share[i].want == 0); i++)
		;
	return p->n <= QWEN_CUDA_GRAPH_ROWS && i == p->n_share;
}

static struct qwen_cuda_graph *
find(struct qwen_cuda_graphs *all, const struct key *k)
{
	size_t i;

	for (i = 0; i < GRAPHS; i++) {
		if (all->graph[i].seen && memcmp(&all->graph[i].key, k,
		    sizeof *k) == 0)
			return &all->graph[i];
	}
	return NULL;
}

int
qwen_cuda_graph_begin(struct qwen_cuda_work *w, size_t first, size_t n)
{
	struct qwen_cuda_card *c = w->c->card;
	struct key k = key_of(w, first, n);
	struct qwen_cuda_graph *g;

	qwen_cuda_settle(c);
	if (c->failed != NULL || c->timing != NULL || w->n_deep > 0 ||
	    !is_regular(w->p, first, n))
		return 0;
	if (w->graphs == NULL && (w->graphs = qwen_alloc(1,
	    sizeof *w->graphs)) == NULL)
		return 0;
	if ((g = find(w->graphs, &k)) == NULL) {
		g = &w->graphs->graph[w->graphs->next++ % GRAPHS];
		drop(w, g);
		*g = (struct qwen_cuda_graph){ .key = k, .seen = 1 };
		return 0;
	}
	if (g->exec != NULL)
		return qwen_cuda_note(c, "exec_run", c->cu.exec_run(g->exec,
		    c->stream)) == 0;
	if (qwen_cuda_note(c, "capture", c->cu.capture(c->stream,
	    RELAXED)) == 0)
		w->graphs->recording = g;
	return 0;
}

void
qwen_cuda_graph_end(struct qwen_cuda_work *w)
{
	struct qwen_cuda_card *c = w->c->card;
	struct qwen_cuda_graph *g;
	cu_graph graph = NULL;

	if (w->graphs == NULL || (g = w->graphs->recording) == NULL)
		return;
	qwen_cuda_settle(c);
	w->graphs->recording = NULL;
	if (qwen_cuda_note(c, "capture_end", c->cu.capture_end(c->stream,
	    &graph)) < 0)
		return;
	if (qwen_cuda_note(c, "exec_new", c->cu.exec_new(&g->exec, graph,
	    0)) == 0)
		qwen_cuda_note(c, "exec_run", c->cu.exec_run(g->exec,
		    c->stream));
	qwen_cuda_note(c, "graph_free", c->cu.graph_free(graph));
}
