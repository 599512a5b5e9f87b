/* SPDX-License-Identifier: ISC */
/* small.h - a small model for tests of what a device does with a session. */
#ifndef CUDA_SMALL_H
#define CUDA_SMALL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../ref/tiny.h"
#include "engine/pass/open.h"

enum { N_VOCAB = 19 };

static struct qwen_err err;

/* Opens a model of random weights, with a context of n_ctx tokens; its file is gone
   again. */
static inline struct qwen_model *
open_shape(const struct tiny_shape *shape, uint32_t n_ctx)
{
	struct qwen_model_opts opts = { .n_threads = 1 };
	struct tiny *t = tiny_new(shape);
	struct qwen_model *m;
	char path[] = "/tmp/small-XXXXXX";
	int fd = mkstemp(path);

	tiny_u32(t, "context_length", n_ctx);
	tiny_write(t, path);
	tiny_free(t);
	if (fd < 0 || qwen_model_open(&m, path, &opts, &err) < 0) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	close(fd);
	unlink(path);
	return m;
}

static inline struct qwen_model * __attribute__((unused))
open_small(uint32_t n_ctx)
{
	static const struct tiny_shape dense = {
		.arch = "qwen3", .n_layer = 2, .n_embd = 32,
		.n_vocab = N_VOCAB, .n_head = 4, .n_head_kv = 2,
		.n_embd_head = 32, .n_rot = 32, .n_ff = 48,
	};

	return open_shape(&dense, n_ctx);
}

#endif
