/* SPDX-License-Identifier: ISC */
/* open.h - the steps of opening a model. */
#ifndef QWEN_PASS_OPEN_H
#define QWEN_PASS_OPEN_H

#include "engine/model.h"

/* Sets what the options say of a model: numerics, keys and values, RoPE. */
int qwen_net_options(struct qwen_net *net, const struct qwen_model_opts *opts,
    struct qwen_err *err);

/* Frees what was loaded, but no files. */
void qwen_net_fini(struct qwen_net *net);

/* An engine as the options describe it (engine.c). */
int qwen_engine_new(struct qwen_engine **out,
    const struct qwen_model_opts *opts, struct qwen_err *err);
void qwen_engine_free(struct qwen_engine *e);

/*
 * Gives each layer of a loaded model its home, as qwen_model_opts.device says, also
 * in place of others: what sessions have on devices comes to the host first.  On
 * errors the CPU is the home of all layers (place.c).
 */
int qwen_place(struct qwen_model *m, const char *device, struct qwen_err *err);
void qwen_unplace(struct qwen_model *m);

/*
 * Says which homes a list of devices would give: home[QWEN_HOMES], each an index
 * of the *n devices, of which the first is the CPU.  Each rank of MPI is one.  pass
 * has the size of passes.
 */
enum { QWEN_PLAN_HOMES = 64 };
struct qwen_planned {
	char			name[128];	/* "cuda:0" */
	struct qwen_card	card;
};
int qwen_place_plan(const struct qwen_model *m, const char *device,
    const struct qwen_wish *pass, unsigned char *home, struct qwen_planned *out, size_t *n,
    struct qwen_err *err);

/*
 * Gives each rank of the device whose index is 1 a home and a name of its own:
 * rank k's is k, and other devices come after them.  QWEN_ERANGE: too many.
 */
int qwen_homes_spread(unsigned char *home, size_t n_layer,
    const unsigned char *rank, size_t n_ranks, struct qwen_planned *plan,
    size_t *n, struct qwen_err *err);

/*
 * Appends a line for each remote device of the model, with what is at home there
 * (homes.c).  buf has `at' bytes so far; returns how many it has or lacks room for.
 */
size_t qwen_home_lines(const struct qwen_model *m, char *buf, size_t size,
    size_t at);

#endif
