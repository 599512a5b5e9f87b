/* SPDX-License-Identifier: ISC */
/* hub.h - a model, or an adapter, as hubs have it, a folder, and as GGUF. */
#ifndef QWEN_HUB_HUB_H
#define QWEN_HUB_HUB_H

#include <stdint.h>

#include "qwen/gguf.h"

/*
 * The folder: config.json, weights in safetensors files, and, where they are
 * there, tokenizer.json, tokenizer_config.json, generation_config.json and
 * chat_template.jinja.
 */
struct qwen_hub;

/*
 * Read the folder: config and headers of the weights, which are mapped.  Errors
 * say which file.
 */
int qwen_hub_open(struct qwen_hub **out, const char *folder,
    struct qwen_err *err);
void qwen_hub_close(struct qwen_hub *h);

/*
 * Likewise the folder of an adapter, as peft writes it (LoRA):
 * adapter_config.json and adapter_model.safetensors.  Which matrices it is for
 * says the config.json of its model, in the folder base; NULL: the one that
 * adapter_config.json names, if it is one.
 */
int qwen_hub_open_adapter(struct qwen_hub **out, const char *folder,
    const char *base, struct qwen_err *err);

/* Whether a folder is that of an adapter: it has its config, and no other. */
int qwen_hub_is_adapter(const char *folder);

/* How weights are stored. */
enum qwen_hub_type {
	QWEN_HUB_AUTO,		/* as they are; without a scale as BF16 */
	QWEN_HUB_F32, QWEN_HUB_F16, QWEN_HUB_BF16, QWEN_HUB_Q8_0
};

struct qwen_hub_opts {
	int	 type;		/* enum qwen_hub_type */
	int	 no_mtp;	/* leave the MTP block out */
	int	 mtp_only;	/* or the others: a side file */
	int	 no_vocab;	/* leave the tokenizer out */
	int	 threads;	/* 0: one a processor */
};

/* A GGUF file of it, planned. */
struct qwen_hub_gguf;

/* h must outlive it. */
int qwen_hub_gguf_new(struct qwen_hub_gguf **out, const struct qwen_hub *h,
    const struct qwen_hub_opts *opts, struct qwen_err *err);
void qwen_hub_gguf_free(struct qwen_hub_gguf *g);

/* What was not as it should be, but is no error: lines; NULL after the last. */
const char *qwen_hub_gguf_note(const struct qwen_hub_gguf *g, size_t i);

size_t qwen_hub_gguf_n_tensors(const struct qwen_hub_gguf *g);
uint64_t qwen_hub_gguf_bytes(const struct qwen_hub_gguf *g);	/* after writing */

/*
 * The head alone, and a hole where the weights would be, to an empty file: for
 * who asks whether the file can be used before it is written.
 */
int qwen_hub_gguf_outline(struct qwen_hub_gguf *g, int fd,
    struct qwen_err *err);

struct qwen_hub_progress {
	void	(*fn)(void *arg, uint64_t done, uint64_t total);	/* bytes */
	void	 *arg;
};

/*
 * Write it, once, from its beginning to its end; progress may be NULL.  Memory
 * is a few rows of weights for each thread.
 */
int qwen_hub_gguf_write(struct qwen_hub_gguf *g, int fd,
    const struct qwen_hub_progress *progress, struct qwen_err *err);

/*
 * The file that it would be, without writing it: weights stay where the folder
 * has them, mapped, as long as *out is open; norms and biases, which are few,
 * are made in memory, *made bytes.  QWEN_EUNSUP where weights would have to be
 * put in order, or into another format, and says what does that; but with a type
 * (QWEN_HUB_Q8_0) matrices are made in memory too, of any architecture, by so
 * many threads (0: one a processor).  No more than most bytes are made.
 */
int qwen_hub_load(struct qwen_gguf **out, const char *folder, int type,
    int threads, uint64_t most, uint64_t *made, struct qwen_err *err);

#endif
