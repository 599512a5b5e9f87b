/* SPDX-License-Identifier: ISC */
/*
 * graph.c - print the stages of a model's forward pass, one per line or for
 * dot(1).
 */
#include <stdio.h>
#include <string.h>

#include "gguf-inspect.h"

static void
put_shape(const struct qwen_trace_stage *st)
{
	if (st->n > 0)
		printf("%zu", st->n);
	else
		printf("position+1");
}

static const char *
type_of(const struct qwen_trace_stage *st)
{
	return st->choices ? "i32" : "f32";
}

/* Print "stage blk.0.ffn mlp f32 64 blk.0.mixer_residual". */
static int
put_line(void *arg, const struct qwen_trace_stage *st)
{
	size_t i;

	(void)arg;
	printf("stage %s %s %s ", st->name, st->what, type_of(st));
	put_shape(st);
	for (i = 0; i < 3 && st->from[i][0] != '\0'; i++)
		printf(" %s", st->from[i]);
	putchar('\n');
	cli_check_stdout();
	return 0;
}

/*
 * Set node to the name of a stage's node.  The stages of all heads share one:
 * "blk.0.attn.probs.h*".
 */
static void
node_of(char node[QWEN_TRACE_NAME], const char *name)
{
	const char *dot = strrchr(name, '.');

	if (dot != NULL && dot[1] == 'h' && dot[2] >= '0' && dot[2] <= '9')
		snprintf(node, QWEN_TRACE_NAME, "%.*s.h*",
		    (int)(dot - name), name);
	else
		snprintf(node, QWEN_TRACE_NAME, "%s", name);
}

/* Return the layer of a stage, 0 for "blk.0.ffn"; -1 outside of layers. */
static int
layer_of(const char *name)
{
	int layer;

	return sscanf(name, "blk.%d.", &layer) == 1 ? layer : -1;
}

struct dot {
	char	 last[QWEN_TRACE_NAME];	/* node printed last */
	int	 layer;			/* of the open subgraph, or -1 */
};

/*
 * Print the node of a stage.  Stages of one node follow each other, so a node
 * equal to the last one was printed.
 */
static int
put_node(void *arg, const struct qwen_trace_stage *st)
{
	struct dot *d = arg;
	char node[QWEN_TRACE_NAME];
	int layer = layer_of(st->name);

	node_of(node, st->name);
	if (strcmp(node, d->last) == 0)
		return 0;
	memcpy(d->last, node, sizeof node);
	if (layer != d->layer && d->layer >= 0)
		puts("\t}");
	if (layer != d->layer && layer >= 0)
		printf("\tsubgraph \"cluster_%d\" {\n\t\tlabel=\"blk.%d\"\n",
		    layer, layer);
	d->layer = layer;
	printf("%s\"%s\" [label=\"%s\\n%s %s ", layer >= 0 ? "\t\t" : "\t",
	    node, node, st->what, type_of(st));
	put_shape(st);
	puts("\"]");
	cli_check_stdout();
	return 0;
}

struct edges {
	const struct qwen_gguf	*g;
	const char		*path;
	char			 last[QWEN_TRACE_NAME];
	const char		*to, *pattern;	/* of the edges from a
						   pattern */
	char			 before[QWEN_TRACE_NAME];
};

static void
put_edge(const char *from, const char *to)
{
	printf("\t\"%s\" -> \"%s\"\n", from, to);
	cli_check_stdout();
}

/* Print an edge from a stage that matches the pattern, which ends in '*'. */
static int
put_member(void *arg, const struct qwen_trace_stage *st)
{
	struct edges *e = arg;
	char node[QWEN_TRACE_NAME];

	if (strncmp(st->name, e->pattern, strlen(e->pattern) - 1) != 0)
		return 0;
	node_of(node, st->name);
	if (strcmp(node, e->before) != 0)
		put_edge(node, e->to);
	memcpy(e->before, node, sizeof node);
	return 0;
}

static int
put_edges(void *arg, const struct qwen_trace_stage *st)
{
	struct edges *e = arg;
	char node[QWEN_TRACE_NAME];
	size_t i;

	node_of(node, st->name);
	if (strcmp(node, e->last) == 0)
		return 0;
	memcpy(e->last, node, sizeof node);
	for (i = 0; i < 3 && st->from[i][0] != '\0'; i++) {
		if (strchr(st->from[i], '*') == NULL) {
			put_edge(st->from[i], node);
			continue;
		}
		e->to = node;
		e->pattern = st->from[i];
		e->before[0] = '\0';
		cli_must(e->path, qwen_trace_stages(e->g, put_member, e,
		    &cli_err));
	}
	return 0;
}

void
inspect_graph(const struct qwen_gguf *g, const char *path, int dot)
{
	struct edges e = { .g = g, .path = path };
	struct dot d = { .layer = -1 };

	if (!dot) {
		cli_must(path, qwen_trace_stages(g, put_line, NULL, &cli_err));
		return;
	}
	printf("digraph model {\n\tnode [shape=box]\n");
	cli_must(path, qwen_trace_stages(g, put_node, &d, &cli_err));
	if (d.layer >= 0)
		puts("\t}");
	cli_must(path, qwen_trace_stages(g, put_edges, &e, &cli_err));
	puts("}");
}
