/* SPDX-License-Identifier: ISC */
/*
 * qwen/model.h - models that are ready to compute.
 *
 * Open each file once and share the model: any number of sessions
 * (qwen/session.h) may use it, and one session at a time computes, on all of
 * the model's threads.
 */
#ifndef QWEN_QWEN_MODEL_H
#define QWEN_QWEN_MODEL_H

#include "qwen/gguf.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Returns 1 if this CPU has the instruction-set level, 0 if not (then the
 * library uses the best level below it), -1 for an unknown level.  Levels:
 * "scalar", "avx2", "avxvnni", "avx512", "vbmi", "bf16", "amx"; on arm64
 * "neon", "dotprod", "i8mm".
 */
int qwen_cpu_check(const char *level);

/* An opened model: the mapped weights, kernels and threads. */
struct qwen_model;

struct qwen_model_opts {
	int		 n_threads;	/* 0: one per processor */
	const char	*cpu;		/* highest level; NULL: the fastest */
	unsigned	 numerics;	/* 1, 3 or 4; 0: QWEN_NUMERICS */
	enum qwen_kv	 k, v;		/* KV cache types of sessions */
	struct qwen_rope rope;		/* RoPE scaling, in place of the file's;
					   changes the context length */
	/*
	 * Load the MTP block (multi-token prediction, "nextn"), if the file has
	 * one, for qwen_session_draft().  draft_file: take the block from this
	 * file, which need not contain anything else; it must fit the model.
	 */
	int		 draft;
	const char	*draft_file;	/* or NULL */
	/*
	 * Tuning file: records the faster of two instruction-set levels for
	 * each format and number of tokens where this is not known beforehand
	 * (AMX or AVX-512), and the number of threads where processors share
	 * cores.  The library creates it and adds to it.  A file that is not a
	 * tuning file is overwritten.  Ignored if cpu is set.  May be NULL.
	 */
	const char	*tuning;
	/*
	 * LoRA adapters, added to the weights in this order: GGUF files with
	 * general.type "adapter" for this architecture, whose tensors all fit
	 * matrices of the model.  Adapters with a nonzero scale make it another
	 * model, with another fingerprint in its headers.
	 */
	const struct qwen_adapter *adapters;
	size_t		 n_adapters;
	/*
	 * Devices that compute some layers in place of the CPU: NAME, or
	 * NAME:FIRST-LAST, several with commas; NULL: none.  "plain" is straight
	 * C on one thread, for tests.  Results have the same bits on every device.
	 * QWEN_ERANGE if the text names no device or layer.  "mpi" is the other
	 * processes that mpirun has started: see qwen_model_serve().
	 */
	const char	*device;
	/*
	 * Compute on the threads of this open model, with its instruction sets
	 * and tuning, instead of n_threads, cpu and tuning.  Only one of the
	 * models that share threads computes at a time; they may be closed in
	 * any order.  NULL: threads of its own.
	 */
	const struct qwen_model *share;
	/*
	 * Receives a line of text about what a user may want to know while the
	 * model computes: a card has failed, and the CPU continues.  NULL: nobody.
	 */
	void	(*note)(void *arg, const char *text);
	void		*note_arg;
};

/*
 * Opens a GGUF file of a supported architecture; opts may be NULL.  Builds no
 * vocabulary.  Weights stay in the mapping, which all processes that use the
 * file share.  QWEN_EUNSUP: the message names the unsupported feature.
 * QWEN_EFORMAT: it names the bad tensor or key.  Close the model after its
 * sessions.
 */
int qwen_model_open_sized(size_t size, struct qwen_model **out,
    const char *path, const struct qwen_model_opts *opts,
    struct qwen_err *err);
#define qwen_model_open(...) \
	qwen_model_open_sized(sizeof(struct qwen_model_opts), __VA_ARGS__)
void qwen_model_close(struct qwen_model *m);

/*
 * Computes for rank 0, if this process is another rank of MPI and the model was
 * opened with the device "mpi", as all ranks must at the same time.  Returns 0
 * at once in rank 0, or without that device; else 1 when rank 0's process ends; 2
 * when rank 0 has closed its model and opens one again, which this process has to
 * do, too, after it has closed its own; -1 on errors.
 */
int qwen_model_serve(struct qwen_model *m, struct qwen_err *err);

/*
 * The same for an open file g.  The model owns g from now on, even on failure.
 */
int qwen_model_open_gguf_sized(size_t size, struct qwen_model **out,
    struct qwen_gguf *g, const struct qwen_model_opts *opts,
    struct qwen_err *err);
#define qwen_model_open_gguf(...) \
	qwen_model_open_gguf_sized(sizeof(struct qwen_model_opts), __VA_ARGS__)

/*
 * Properties of the model: its file (open as long as the model is),
 * general.architecture, number of ids and so of logits per row, layers, context
 * length, hidden size, MTP block, threads, numerics version, KV cache types.
 * The row of a span (qwen/base.h) is a vector in the place of an embedding, then
 * those that the model adds after its first layers (deepstack), if it does.
 */
const struct qwen_gguf *qwen_model_gguf(const struct qwen_model *m);
const char *qwen_model_arch(const struct qwen_model *m);
size_t qwen_model_n_vocab(const struct qwen_model *m);
size_t qwen_model_n_layer(const struct qwen_model *m);	/* without MTP */
size_t qwen_model_n_ctx(const struct qwen_model *m);
size_t qwen_model_n_embd(const struct qwen_model *m);	/* of a hidden state */
size_t qwen_model_n_row(const struct qwen_model *m);	/* of a span's row */
int qwen_model_has_mtp(const struct qwen_model *m);	/* 1 if it can draft */
int qwen_model_n_threads(const struct qwen_model *m);
unsigned qwen_model_numerics(const struct qwen_model *m);
enum qwen_kv qwen_model_k(const struct qwen_model *m);
enum qwen_kv qwen_model_v(const struct qwen_model *m);

/*
 * Returns the RoPE scaling set by opts.rope; n_orig is the training context
 * length if the file has it.  Kind QWEN_ROPE_FILE if opts.rope equals the
 * file's own scaling.
 */
struct qwen_rope qwen_model_rope(const struct qwen_model *m);

/* Returns the file's own RoPE scaling; QWEN_ROPE_NONE if it has none. */
struct qwen_rope qwen_model_rope_of_file(const struct qwen_model *m);

/*
 * Outputs computed from one hidden state after the output norm, without a full
 * row of logits.  qwen_model_logits computes the logits of n ids.
 * qwen_model_classify computes the n_classes outputs of a reranker's classifier
 * (cls.output); n_classes is 0 without one.  Sums products of f32 in double in
 * a fixed order: the same bits on every machine.  QWEN_ERANGE for a bad id,
 * QWEN_EUNSUP without a classifier.
 */
int qwen_model_logits(const struct qwen_model *m, const float *hidden,
    const int32_t *ids, size_t n, float *out, struct qwen_err *err);
size_t qwen_model_n_classes(const struct qwen_model *m);
int qwen_model_classify(const struct qwen_model *m, const float *hidden,
    float *out, struct qwen_err *err);

/*
 * Returns the softmax share of logit i of n; if n is 1, against a logit of 0.
 */
double qwen_softmax_share(const float *logits, size_t n, size_t i);

/*
 * Writes the kernel variant of each operation and format, what is on other
 * devices, and the adapters, one per line, for -v.  Returns the length of the text, like snprintf.
 */
size_t qwen_model_describe(const struct qwen_model *m, char *buf, size_t size);

/*
 * Time, bytes and work of one kernel. ms is summed over threads; bytes counts
 * weights and states; macs counts multiply-adds.
 */
struct qwen_kernel_stat {
	char		name[24];	/* "gemm.Q4_K", "delta", ... */
	char		variant[16];	/* "avx512vnni" */
	uint64_t	calls;
	double		ms;
	uint64_t	bytes;
	uint64_t	macs;
};

/* Resets the counters and starts counting (on = 1), or stops (0). */
int qwen_model_profile(struct qwen_model *m, int on, struct qwen_err *err);

/* Fills at most max entries of out; returns the number of all entries. */
size_t qwen_model_stats(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max);

/*
 * The same counts grouped by the purpose of the work, in the order of a layer.
 * qbench(1) lists the names: "attn_projections", "routed_experts" and so on.
 * variant is empty.
 */
size_t qwen_model_stats_by_purpose(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max);

#ifdef __cplusplus
}
#endif

#endif
