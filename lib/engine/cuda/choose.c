/* SPDX-License-Identifier: ISC */
/* choose.c - which halves of layers a card takes, by its free memory. */
#include "engine/cuda/load.h"
#include "engine/cuda/work.h"

/*
 * Memory stays free for a session of TOKENS, and for a pass of the default
 * number of rows, with drafts.
 */
enum { TOKENS = 8192, ROWS = 512, ROWS_MOE = 1024 };

static size_t
tokens_of(const struct qwen_hparams *h)
{
	return h->n_ctx < TOKENS ? h->n_ctx : TOKENS;
}

/* Returns the bytes of a pass, and of the recurrent state with its journal. */
static uint64_t
work_memory(const struct qwen_net *net)
{
	const struct qwen_hparams *h = &net->hp;
	uint64_t state = (h->n_head_v * h->dk * h->dv + (h->conv_kernel - 1) *
	    (2 * h->n_head_k * h->dk + h->n_head_v * h->dv)) * sizeof(float);
	uint64_t journal = QWEN_GUESS_MAX * sizeof(float) *
	    qwen_journal_row_of(h).width, sum;
	size_t i;

	sum = qwen_cuda_work_bytes(net, QWEN_GUESS_MAX + (h->n_expert > 0 ?
	    ROWS_MOE : ROWS), 1, tokens_of(h));
	for (i = 0; i < h->n_layer; i++)
		sum += net->layer[i].mixer == QWEN_DELTANET ? state + journal :
		    0;
	return sum;
}

/* Returns the bytes that the card may use for weights, keys and values. */
static uint64_t
memory_for(const struct qwen_cuda *c, const struct qwen_wish *wish)
{
	uint64_t work = work_memory(c->r.net), limit = wish->bytes;

	if (c->card != NULL) {		/* else the wish is a plan */
		limit = qwen_cuda_memory_left(c->card);
		limit -= limit / 16;	/* for the driver */
	}
	if (wish->bytes > 0 && wish->bytes < limit)
		limit = wish->bytes;
	return work < limit ? limit - work : 0;
}

/* Returns the bytes that half a layer takes: weights, keys and values. */
static uint64_t
half_memory(const struct qwen_net *net, size_t half)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&net->hp);
	uint64_t bytes = qwen_cuda_half_bytes(net, half);
	size_t blocks = (tokens_of(&net->hp) + QWEN_KV_BLOCK - 1) /
	    QWEN_KV_BLOCK;

	return half % 2 != 0 || half == QWEN_HEAD(net->hp.n_layer) ||
	    qwen_net_layer(net, half / 2)->mixer != QWEN_ATTENTION ? bytes :
	    bytes +
	    blocks * qwen_kv_block_bytes(&s);
}

/* Leaves half a layer to the CPU unless *left bytes suffice for it. */
static void
choose_half(const struct qwen_cuda *c, unsigned char *home, size_t half,
    uint64_t *left)
{
	const struct qwen_net *net = c->r.net;
	uint64_t bytes;

	if (home[half] != c->r.index)
		return;
	bytes = qwen_cuda_can(net, half) ? half_memory(net, half) : UINT64_MAX;
	if (bytes > *left)
		home[half] = 0;
	else
		*left -= bytes;
}

/* The same with the MTP block, whose halves and head have one home. */
static void
choose_mtp(const struct qwen_cuda *c, unsigned char *home, uint64_t *left)
{
	const struct qwen_net *net = c->r.net;
	size_t n = net->hp.n_layer, half;
	uint64_t bytes = 0;

	if (home[QWEN_MIXER(n)] != c->r.index)
		return;
	for (half = QWEN_MIXER(n); half <= QWEN_FFN(n); half++)
		bytes = net->mtp.on && bytes < UINT64_MAX &&
		    qwen_cuda_can(net, half) ? bytes + half_memory(net, half) :
		    UINT64_MAX;
	if (!qwen_cuda_shares_head(&c->r) && bytes < UINT64_MAX)
		bytes += qwen_cuda_weight_bytes(&net->mtp.head, 1);
	if (bytes > *left)
		home[QWEN_MIXER(n)] = home[QWEN_FFN(n)] = 0;
	else
		*left -= bytes;
}

/*
 * The CPU keeps what the card has no kernels or no memory for.  The card takes
 * the head first, and begins with the last layer, so that runs are few.  Of a
 * mixture of experts, a token reads few of the experts' bytes, so the card takes
 * all mixers and the MTP block before them; of other models it takes the MTP block
 * and then whole layers.
 */
void
qwen_cuda_choose(const struct qwen_cuda *c, unsigned char *home,
    const struct qwen_wish *wish)
{
	size_t n = c->r.net->hp.n_layer, i;
	int experts = c->r.net->hp.n_expert > 0;
	uint64_t left = memory_for(c, wish);

	choose_half(c, home, QWEN_HEAD(n), &left);
	for (i = n; i-- > 0 && experts;)
		choose_half(c, home, QWEN_MIXER(i), &left);
	choose_mtp(c, home, &left);
	for (i = n; i-- > 0;) {
		if (!experts)
			choose_half(c, home, QWEN_MIXER(i), &left);
		choose_half(c, home, QWEN_FFN(i), &left);
	}
}
