/* SPDX-License-Identifier: ISC */
/* split.c - which rank computes which layers. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/mpi/mpi.h"

enum { SHARE_MAX = 1000000, SECONDS_MAX = 86400, DEADLINE_S = 60 };

/* Reads a number of 0 .. max at *s, before end; -1 if there is none. */
static int
read_number(const char **s, const char *end, unsigned max, unsigned *out)
{
	const char *p = *s;

	for (*out = 0; p < end && *p >= '0' && *p <= '9' && *out <= max; p++)
		*out = *out * 10 + (unsigned)(*p - '0');
	if (p == *s || *out > max)
		return -1;
	*s = p;
	return 0;
}

static int
read_wish(struct qwen_mpi_wish *out, const char *s, size_t n)
{
	const char *end = s + n;
	unsigned seconds, any = 0;

	out->n = 0;
	out->deadline_s = DEADLINE_S;
	while (s < end && *s == ':') {
		s++;
		if (out->n == QWEN_MPI_RANKS_MAX || read_number(&s, end,
		    SHARE_MAX, &out->share[out->n]) < 0)
			return -1;
		any |= out->share[out->n++];
	}
	if (out->n > 0 && !any)
		return -1;
	if (s < end && *s == '/') {
		s++;
		if (read_number(&s, end, SECONDS_MAX, &seconds) < 0 ||
		    seconds == 0)
			return -1;
		out->deadline_s = seconds;
	}
	return s == end ? 0 : -1;
}

int
qwen_mpi_wish_read(struct qwen_mpi_wish *out, const struct qwen_wish *wish,
    struct qwen_err *err)
{
	if (read_wish(out, wish->text, wish->n_text) == 0)
		return 0;
	return qwen_fail(err, QWEN_ERANGE, "device 'mpi%.*s': after mpi may "
	    "come a share for each rank, as in mpi:2:3:3, and after a slash, a "
	    "number of seconds", (int)wish->n_text, wish->text);
}

static double
weight_bytes(const struct qwen_weight *w, size_t n_matrix)
{
	return w->data == NULL && w->part == NULL ? 0 :
	    (double)w->row_bytes * (double)w->n_out * (double)n_matrix;
}

static double
mlp_bytes(const struct qwen_mlp *m, size_t n_matrix)
{
	return weight_bytes(&m->gate, n_matrix) + weight_bytes(&m->up,
	    n_matrix) + weight_bytes(&m->down, n_matrix);
}

static double
layer_bytes(const struct qwen_net *net, size_t layer)
{
	const struct qwen_layer *l = &net->layer[layer];
	double sum = weight_bytes(&l->attn.q, 1) + weight_bytes(&l->attn.k, 1) +
	    weight_bytes(&l->attn.v, 1) + weight_bytes(&l->attn.output, 1) +
	    weight_bytes(&l->delta.out, 1) + mlp_bytes(&l->mlp, 1) +
	    weight_bytes(&l->moe.router, 1) + mlp_bytes(&l->moe.routed,
	    net->hp.n_expert) + mlp_bytes(&l->moe.shared, 1);
	size_t i;

	for (i = 0; i < l->delta.n_in; i++)
		sum += weight_bytes(&l->delta.in[i].w, 1);
	return sum;
}

/* A layer goes to the rank whose share has the middle of its bytes. */
void
qwen_mpi_split(const struct qwen_net *net, const double *share, size_t n,
    unsigned char *rank)
{
	double all = 0, sum = 0, at = weight_bytes(&net->output, 1), end, size;
	size_t i, k = 0;

	for (i = 0; i < n; i++)
		sum += share[i];
	for (i = 0; i < net->hp.n_layer; i++)
		all += layer_bytes(net, i);
	all += at;
	end = all * share[0] / sum;
	for (i = 0; i < net->hp.n_layer; i++, at += size) {
		size = layer_bytes(net, i);
		while (k + 1 < n && at + size / 2 > end)
			end += all * share[++k] / sum;
		rank[i] = i < net->hp.n_deepstack ? 0 : (unsigned char)k;
	}
}

int
qwen_mpi_plan(const struct qwen_net *net, const struct qwen_wish *wish,
    unsigned char *rank, size_t *n, struct qwen_err *err)
{
	double share[QWEN_MPI_RANKS_MAX];
	struct qwen_mpi_wish w;
	size_t i;

	if (qwen_mpi_wish_read(&w, wish, err) < 0)
		return -1;
	if (w.n == 0)
		return qwen_fail(err, QWEN_ERANGE, "device 'mpi%.*s': to plan, "
		    "give a share for each rank, as in mpi:1:1:1",
		    (int)wish->n_text, wish->text);
	for (i = 0; i < w.n; i++)
		share[i] = w.share[i];
	qwen_mpi_split(net, share, w.n, rank);
	*n = w.n;
	return 0;
}
