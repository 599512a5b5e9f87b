/* SPDX-License-Identifier: ISC */
/*
 * model.h - a model: what its file is, and the kernels and threads that compute
 * with it.
 */
#ifndef QWEN_MODEL_MODEL_H
#define QWEN_MODEL_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "engine/cpu/kernel/kernel.h"
#include "engine/model/profile.h"
#include "engine/model/timeline.h"
#include "engine/net/net.h"
#include "qwen.h"

struct qwen_model {
	struct qwen_net		 net;
	struct qwen_kernels	 kernels;
	unsigned		 features;
	/*
	 * bytes of a group of 256 activations in all quantized forms; offset of
	 * each form's part in a group's share
	 */
	size_t			 x_bytes, x_at[QWEN_OPERANDS];
	struct qwen_pool	*pool;
	struct qwen_profile	 profile;
	struct qwen_input_sums	*inputs;	/* NULL: inputs are not
						   measured */
};

/* Return the kernels that multiply by a weight. */
static inline const struct qwen_kernel *
qwen_matmul_of(const struct qwen_model *m, const struct qwen_weight *w)
{
	return w->operand == QWEN_AS_F32 ? m->kernels.matmul_f32[w->quant->type] :
	    m->kernels.matmul[w->quant->type];
}

static inline const struct qwen_gemms *
qwen_gemms_of(const struct qwen_model *m, const struct qwen_weight *w)
{
	return w->operand == QWEN_AS_F32 ? NULL : &m->kernels.gemm[w->quant->type];
}

/*
 * Returns the number of layers with state in a session: the trunk's and the MTP
 * block's.
 */
static inline size_t
qwen_model_n_state(const struct qwen_model *m)
{
	return m->net.hp.n_layer + (m->net.mtp.on != 0);
}

/* A block reads b->xn and b->xq and writes its result to b->out. */
struct qwen_batch;
typedef void qwen_block_fn(struct qwen_batch *b, const struct qwen_layer *l);
qwen_block_fn qwen_attention_forward;
qwen_block_fn qwen_deltanet_forward;
qwen_block_fn qwen_mlp_forward;
qwen_block_fn qwen_moe_forward;

#endif
