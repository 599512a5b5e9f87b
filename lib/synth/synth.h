/* SPDX-License-Identifier: ISC */
/* synth.h - models with random weights. */
#ifndef QWEN_SYNTH_H
#define QWEN_SYNTH_H

#include "gguf/write.h"

/*
 * Generates random weights: n elements (whole blocks) of mean 0 and standard
 * deviation sd, in any supported format.  The blocks are like those of
 * encoders.  In NVFP4, whose scales are at least 2^-7, sd must be 0.1 to 1000;
 * files have a second scale beside it.  The same *rng (any number; it is
 * advanced) gives the same bytes everywhere.
 */
int qwen_gguf_random(uint32_t type, void *dst, size_t n, double sd,
    uint64_t *rng, struct qwen_err *err);
uint64_t qwen_gguf_random_u64(uint64_t *rng);
double qwen_gguf_random_uniform(uint64_t *rng);		/* 0 <= x < 1 */
double qwen_gguf_random_normal(uint64_t *rng);		/* mean 0, sd 1 */

/*
 * Models with the names, shapes, formats and metadata of a published file and
 * random weights, for measurements and tests.
 */
struct qwen_synth_info {
	const char	*name;		/* "Qwen3-8B-Q4_K_M" */
	const char	*recipe;	/* "Q4_K_M"; the default */
	const char	*arch;
	uint32_t	 n_layer, n_mtp;	/* layers; MTP layers after
						   them */
	uint32_t	 n_expert;	/* 0: none */
	uint32_t	 n_vocab;
	int		 images;	/* it has an image encoder */
};

/* Returns shape 0, 1, ...; NULL after the last. */
const struct qwen_synth_info *qwen_synth_info(size_t shape);

/* Finds the shape whose name begins with this, ignoring case. */
int qwen_synth_find(size_t *shape, const char *name, struct qwen_err *err);

struct qwen_synth_opts {
	uint64_t	 seed;
	const char	*recipe;	/* NULL: the shape's; ignoring case */
	uint32_t	 n_layer, n_expert, n_vocab;	/* 0: as published */
	int		 no_mtp;	/* leave out the MTP layers */
	int		 mtp_only;	/* only the MTP layers: a draft file */
	int		 mmproj;	/* the image encoder of the model; in
					   F16, if recipe is NULL */
	int		 sparse;	/* a hole in place of the weights */
	const struct qwen_gguf *vocab;	/* file whose tokenizer to copy; NULL:
					   none, which is enough to compute */
};

/* Writes n random numbers (whole blocks) as the next data of a file. */
int qwen_synth_put_random(struct qwen_gguf_writer *w, int fd, uint32_t type,
    uint64_t n, double sd, uint64_t *rng, struct qwen_err *err);

struct qwen_synth;

int qwen_synth_new(struct qwen_synth **out, size_t shape,
    const struct qwen_synth_opts *opts, struct qwen_err *err);
void qwen_synth_free(struct qwen_synth *p);
const char *qwen_synth_name(const struct qwen_synth *p);	/* with its recipe */

/* Returns the writer of the file. */
struct qwen_gguf_writer *qwen_synth_writer(const struct qwen_synth *p);

/* Writes the file, once. */
int qwen_synth_write(struct qwen_synth *p, int fd, struct qwen_err *err);

/*
 * A LoRA adapter with random changes to all matrices of a model, of about a
 * fifth of their weights; A and B in format `type', in whole blocks per row.
 */
struct qwen_synth_lora {
	uint64_t	 seed, rank;
	uint32_t	 type;
	double		 alpha;		/* equal to the rank: scale 1 */
};

int qwen_synth_write_lora(const struct qwen_gguf *model,
    const struct qwen_synth_lora *o, int fd, struct qwen_err *err);

#endif
