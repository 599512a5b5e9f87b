/* SPDX-License-Identifier: ISC */
/*
 * qwen/model.h - a model that is ready to compute.
 *
 * Open one for each file and share it: a model is read by any number of
 * sessions (qwen/session.h), of which one at a time computes, on all of the
 * model's threads.
 */
#ifndef QWEN_QWEN_MODEL_H
#define QWEN_QWEN_MODEL_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An instruction-set level, "scalar", "avx2", "avxvnni", "avx512", "vbmi",
 * "bf16" or "amx", or "neon", "dotprod" or "i8mm": 1 if this CPU has it, 0 if
 * not (then the best below it is used), -1 if there is no such level.
 */
int qwen_cpu_check(const char *level);

/* A model ready to compute: the mapped weights, kernels and threads. */
struct qwen_model;

struct qwen_model_opts {
	int		 n_threads;	/* 0: one for each processor */
	const char	*cpu;		/* level not to exceed; NULL: what is
					   fastest */
	unsigned	 numerics;	/* 1, 3 or 4; 0: the usual one */
	enum qwen_kv	 k, v;		/* how sessions keep keys and values */
	struct qwen_rope rope;		/* positions scaled otherwise than the
					   file says: another context */
	/*
	 * The block that predicts tokens after the next one (nextn, MTP), for
	 * qwen_session_draft(): load it if the file has one.  draft_file: from
	 * this file, which may have nothing else; it must fit the model.
	 */
	int		 draft;
	const char	*draft_file;	/* or NULL */
	/*
	 * A file in which it is noted which of two levels is faster, for a
	 * format and a number of tokens, where that is not known beforehand: as
	 * with AMX and AVX-512; and, where processors share cores, how many
	 * threads.  It is made, and added to, as need be; a file that is no
	 * such one is replaced.  Not with cpu; or NULL.
	 */
	const char	*tuning;
	/*
	 * LoRA adapters, added to the weights in this order: GGUF files with
	 * general.type "adapter", for this architecture, of which each tensor
	 * has a matrix of the model that it fits.  With such of a scale that is
	 * not 0 it is another model: its headers tell.
	 */
	const struct qwen_adapter *adapters;
	size_t		 n_adapters;
};

/*
 * Open a GGUF file of an architecture that the library knows; opts may be NULL.
 * Builds no vocabulary; weights stay in the mapping, which the processes that
 * use a model share.  QWEN_EUNSUP names what is not known, QWEN_EFORMAT the
 * tensor or key that is not as it must be.  Close it after its sessions.
 */
int qwen_model_open_sized(size_t size, struct qwen_model **out,
    const char *path, const struct qwen_model_opts *opts,
    struct qwen_err *err);
#define qwen_model_open(...) \
	qwen_model_open_sized(sizeof(struct qwen_model_opts), __VA_ARGS__)
void qwen_model_close(struct qwen_model *m);

/* The same of an open file, which is the model's from now on, in any case. */
int qwen_model_open_gguf_sized(size_t size, struct qwen_model **out,
    struct qwen_gguf *g, const struct qwen_model_opts *opts,
    struct qwen_err *err);
#define qwen_model_open_gguf(...) \
	qwen_model_open_gguf_sized(sizeof(struct qwen_model_opts), __VA_ARGS__)

/*
 * The file, open as long as the model is; general.architecture; ids, and so
 * logits in a row; layers; the longest timeline; threads; the version of the
 * arithmetic.
 */
const struct qwen_gguf *qwen_model_gguf(const struct qwen_model *m);
const char *qwen_model_arch(const struct qwen_model *m);
size_t qwen_model_n_vocab(const struct qwen_model *m);
size_t qwen_model_n_layer(const struct qwen_model *m);	/* without MTP */
size_t qwen_model_n_ctx(const struct qwen_model *m);
size_t qwen_model_n_embd(const struct qwen_model *m);	/* of a hidden state */
int qwen_model_has_mtp(const struct qwen_model *m);	/* it can draft */
int qwen_model_n_threads(const struct qwen_model *m);
unsigned qwen_model_numerics(const struct qwen_model *m);
enum qwen_kv qwen_model_k(const struct qwen_model *m);
enum qwen_kv qwen_model_v(const struct qwen_model *m);

/*
 * What opts.rope has changed, with n_orig, the length of the training as far as
 * the file tells; QWEN_ROPE_FILE if it says what the file says, too.
 */
struct qwen_rope qwen_model_rope(const struct qwen_model *m);

/* What the file says: kind QWEN_ROPE_NONE, or another of that factor. */
struct qwen_rope qwen_model_rope_of_file(const struct qwen_model *m);

/*
 * What a hidden state after the output norm says, where not all logits are
 * needed: those of n tokens; or what the classifier makes of it that a model
 * for ranking has in place of a head (cls.output), n_classes numbers, 0 if it
 * has none.  Products of f32 in double, one after another: the same on every
 * machine.  QWEN_ERANGE for an id that is none, QWEN_EUNSUP for no classifier.
 */
int qwen_model_logits(const struct qwen_model *m, const float *hidden,
    const int32_t *ids, size_t n, float *out, struct qwen_err *err);
size_t qwen_model_n_classes(const struct qwen_model *m);
int qwen_model_classify(const struct qwen_model *m, const float *hidden,
    float *out, struct qwen_err *err);

/* The probability of number i of n logits; of one alone, against 0. */
double qwen_softmax_share(const float *logits, size_t n, size_t i);

/*
 * Which kernel variant serves each operation and format, and the adapters, one
 * a line, for -v.
 * Returns the text's length, like snprintf.
 */
size_t qwen_model_describe(const struct qwen_model *m, char *buf, size_t size);

/*
 * Where the time goes.  ms is summed over threads; bytes are those of weights
 * and states, macs multiply-adds.
 */
struct qwen_kernel_stat {
	char		name[24];	/* "gemm.Q4_K", "delta", ... */
	char		variant[16];	/* "avx512vnni" */
	uint64_t	calls;
	double		ms;
	uint64_t	bytes;
	uint64_t	macs;
};

/* Start counting from zero, or stop. */
int qwen_model_profile(struct qwen_model *m, int on, struct qwen_err *err);

/* Fill up to max entries of out; returns how many there are. */
size_t qwen_model_stats(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max);

/*
 * The same counts by the purpose of the work, in the order of a block.  The names
 * are listed in qbench(1): "attn_projections", "routed_experts" and so on.  variant
 * is empty.
 */
size_t qwen_model_stats_by_purpose(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max);

#ifdef __cplusplus
}
#endif

#endif
