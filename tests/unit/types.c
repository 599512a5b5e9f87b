/* SPDX-License-Identifier: ISC */
/*
 * types.c - every format number of ggml up to 42: a model with a matrix in this
 * format runs, or is refused by a message that names the format.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "gguf/gguf.h"
#include "../ref/tiny.h"
#include "../tap.h"

static const struct type {
	const char	*name;
	int		 runs;
} types[] = {
	[0] = { "F32", 1 },
	[1] = { "F16", 1 },
	[2] = { "Q4_0", 1 },
	[3] = { "Q4_1", 1 },
	[4] = { "Q4_2", 0 },		/* retired */
	[5] = { "Q4_3", 0 },		/* retired */
	[6] = { "Q5_0", 1 },
	[7] = { "Q5_1", 1 },
	[8] = { "Q8_0", 1 },
	[9] = { "Q8_1", 0 },		/* of activations */
	[10] = { "Q2_K", 1 },
	[11] = { "Q3_K", 1 },
	[12] = { "Q4_K", 1 },
	[13] = { "Q5_K", 1 },
	[14] = { "Q6_K", 1 },
	[15] = { "Q8_K", 0 },		/* of activations */
	[16] = { "IQ2_XXS", 1 },
	[17] = { "IQ2_XS", 1 },
	[18] = { "IQ3_XXS", 1 },
	[19] = { "IQ1_S", 1 },
	[20] = { "IQ4_NL", 1 },
	[21] = { "IQ3_S", 1 },
	[22] = { "IQ2_S", 1 },
	[23] = { "IQ4_XS", 1 },
	[24] = { "I8", 0 },
	[25] = { "I16", 0 },
	[26] = { "I32", 0 },
	[27] = { "I64", 0 },
	[28] = { "F64", 0 },
	[29] = { "IQ1_M", 1 },
	[30] = { "BF16", 1 },
	[31] = { "Q4_0_4_4", 0 },	/* retired, as the next two */
	[32] = { "Q4_0_4_8", 0 },
	[33] = { "Q4_0_8_8", 0 },
	[34] = { "TQ1_0", 1 },
	[35] = { "TQ2_0", 1 },
	[36] = { "IQ4_NL_4_4", 0 },	/* retired, as the next two */
	[37] = { "IQ4_NL_4_8", 0 },
	[38] = { "IQ4_NL_8_8", 0 },
	[39] = { "MXFP4", 1 },
	[40] = { "NVFP4", 1 },
	[41] = { "Q1_0", 1 },
	[42] = { "Q2_0", 1 },
};

enum { N_TYPES = sizeof types / sizeof types[0] };

static const struct tiny_shape shape = {
	.arch = "qwen3", .n_layer = 1, .n_embd = 256, .n_vocab = 19,
	.n_head = 2, .n_head_kv = 1, .n_embd_head = 32, .n_ff = 256,
};

#define NAME "blk.0.ffn_down.weight"

static char path[1024];

static struct tiny *
model_with(uint32_t type)
{
	struct tiny *t = tiny_new(&shape);
	struct tiny_tensor *x;

	if (types[type].runs) {
		tiny_drop(t, NAME);
		tiny_add(t, NAME, type, 256, 256, 0, 0, 1.0 / 16);
		return t;
	}
	x = tiny_tensor(t, NAME);	/* of a size to be refused later */
	if (qwen_ggml_block_len(type) != 0)
		x->bytes = 256 / qwen_ggml_block_len(type) *
		    qwen_ggml_block_bytes(type) * 256;
	x->type = type;
	free(x->data);
	x->data = NULL;
	return t;
}

/* After two tokens, logits that are finite and not all one. */
static int
computes(struct qwen_model *m, struct qwen_err *err)
{
	const int32_t ids[2] = { 3, 5 };
	struct qwen_session *s = NULL;
	const float *logits = NULL;
	size_t i, n = shape.n_vocab;
	int good;

	good = qwen_session_new(&s, m, err) == 0 &&
	    qwen_session_eval(s, ids, 2, NULL, err) == 0;
	if (good) {
		logits = qwen_session_logits(s);
		for (i = 0; i < n; i++)
			good &= isfinite(logits[i]) != 0;
		good &= logits[0] != logits[1];
	}
	qwen_session_free(s);
	return good;
}

static void
try(uint32_t type)
{
	struct qwen_model_opts opts = { .n_threads = 1 };
	struct tiny *t = model_with(type);
	struct qwen_model *m = NULL;
	struct qwen_err err = { 0 };

	tiny_write(t, path);
	tiny_free(t);
	if (qwen_model_open(&m, path, &opts, &err) == 0)
		ok(types[type].runs && computes(m, &err), "%u %s runs%s%s",
		    type, types[type].name, err.msg[0] ? ": " : "", err.msg);
	else
		ok(!types[type].runs && err.code == QWEN_EUNSUP &&
		    strstr(err.msg, types[type].name) != NULL &&
		    strstr(err.msg, NAME) != NULL, "%u %s is refused: %s",
		    type, types[type].name, err.msg);
	qwen_model_close(m);
	unlink(path);
}

int
main(void)
{
	const char *dir = getenv("TMPDIR");
	uint32_t type;

	snprintf(path, sizeof path, "%s/types-%ld.gguf",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	for (type = 0; type < N_TYPES; type++)
		try(type);
	ok(N_TYPES == 43 && qwen_ggml_name(N_TYPES) == NULL,
	    "none is known that is not in this list");
	return done_testing();
}
