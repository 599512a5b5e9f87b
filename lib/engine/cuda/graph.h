/* SPDX-License-Identifier: ISC */
/*
 * graph.h - the launches of a run of layers, recorded, so that a token costs the
 * host one launch.
 *
 * What changes from pass to pass is in memory that is sent before.  A run is
 * recorded when it comes for the second time: the first one loads kernels.
 */
#ifndef QWEN_CUDA_GRAPH_H
#define QWEN_CUDA_GRAPH_H

#include "engine/cuda/cuda.h"

/* Passes of more rows are not recorded. */
#define QWEN_CUDA_GRAPH_ROWS 16

/*
 * begin returns 1 if the run was recorded before and has been launched again.
 * Otherwise the caller launches its kernels, then calls end.
 */
int qwen_cuda_graph_begin(struct qwen_cuda_work *w, size_t first, size_t n);
void qwen_cuda_graph_end(struct qwen_cuda_work *w);

/* Forgets all: the memory of passes has moved. */
void qwen_cuda_graphs_free(struct qwen_cuda_work *w);

#endif
