/* SPDX-License-Identifier: ISC */
/*
 * hub.h - Hugging Face folders of models and adapters, and their conversion to
 * GGUF.
 */
#ifndef QWEN_HUB_HUB_H
#define QWEN_HUB_HUB_H

#include <stdint.h>

#include "qwen/gguf.h"

/*
 * An open folder: config.json, weights in safetensors files, and if present
 * tokenizer.json, tokenizer_config.json, generation_config.json and
 * chat_template.jinja.
 */
struct qwen_hub;

/*
 * Opens a folder: reads config.json and the headers of the weight files, and
 * maps them.  Errors name the file.
 */
int qwen_hub_open(struct qwen_hub **out, const char *folder,
    struct qwen_err *err);
void qwen_hub_close(struct qwen_hub *h);

/*
 * The same for the folder of a LoRA adapter in peft's format:
 * adapter_config.json and adapter_model.safetensors. config.json of the model
 * says which matrices there are; it is in the folder base, or if base is NULL
 * in the folder that adapter_config.json names.
 */
int qwen_hub_open_adapter(struct qwen_hub **out, const char *folder,
    const char *base, struct qwen_err *err);

/*
 * Returns 1 if the folder is an adapter's: it has adapter_config.json, but no
 * config.json.
 */
int qwen_hub_is_adapter(const char *folder);

/* Format of the written weights. */
enum qwen_hub_type {
	QWEN_HUB_AUTO,		/* unchanged; BF16 if quantised with scales */
	QWEN_HUB_F32, QWEN_HUB_F16, QWEN_HUB_BF16, QWEN_HUB_Q8_0
};

struct qwen_hub_opts {
	int	 type;		/* enum qwen_hub_type */
	int	 no_mtp;	/* leave out the MTP block */
	int	 mtp_only;	/* write only the MTP block: a draft file */
	int	 no_vocab;	/* leave out the tokenizer */
	int	 mmproj;	/* write only the image encoder: an mmproj file */
	int	 threads;	/* 0: one per processor */
};

/* A planned GGUF file. */
struct qwen_hub_gguf;

/* Plans the GGUF file of a folder. h must outlive it. */
int qwen_hub_gguf_new(struct qwen_hub_gguf **out, struct qwen_hub *h,
    const struct qwen_hub_opts *opts, struct qwen_err *err);
void qwen_hub_gguf_free(struct qwen_hub_gguf *g);

/*
 * Returns the writer of the file (gguf/write.h): it has notes for the user, and
 * can write an outline, to check whether the file is usable before writing it.
 */
struct qwen_gguf_writer *qwen_hub_gguf_writer(const struct qwen_hub_gguf *g);

/*
 * Writes the file, once, from beginning to end.  Memory: a few rows of weights
 * per thread.
 */
int qwen_hub_gguf_write(struct qwen_hub_gguf *g, int fd, struct qwen_err *err);

/*
 * Opens the folder as the GGUF file that it would be converted to, without
 * writing it.  Weights stay mapped in the folder's files while *out is open;
 * norms and biases, which are small, are made in memory, *made bytes.
 * QWEN_EUNSUP if weights would have to be reordered or converted; the message
 * says how to convert the folder.  With a type (QWEN_HUB_Q8_0) matrices of any
 * architecture are also made in memory, by `threads' threads (0: one per
 * processor).  Makes at most `most' bytes.
 */
int qwen_hub_load(struct qwen_gguf **out, const char *folder, int type,
    int threads, uint64_t most, uint64_t *made, struct qwen_err *err);

#endif
