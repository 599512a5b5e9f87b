/* SPDX-License-Identifier: ISC */
/*
 * graph.h - the launches of a run of layers, recorded, so that a token costs the
 * host one launch.
 *
 * The host sends what changes from pass to pass before the launch.  A run is
 * recorded the second time it comes, since the first time loads the kernels.
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

/* Frees all graphs: to be called before the memory of passes moves. */
void qwen_cuda_graphs_free(struct qwen_cuda_work *w);

#endif
