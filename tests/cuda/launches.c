/* SPDX-License-Identifier: ISC */
/*
 * launches.c - how many kernels a token costs: a launch takes about 2 us on a card,
 * whatever it computes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "engine/timeline/timeline.h"
#include "small.h"

enum { LAYERS = 4, HEAD = 2 };	/* a pass begins with a norm, and ends with
				   another one and the head */

static char log_path[] = "/tmp/launches-XXXXXX";

/* Returns how many kernels the log has, and empties it. */
static int
take_log(void)
{
	FILE *f = fopen(log_path, "r+");
	int n = 0, c;

	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	fclose(fopen(log_path, "w"));
	return n;
}

/* The launches of one token: the first one, one that is recorded, one replayed. */
static void
test(const struct tiny_shape *shape, int most, const char *what)
{
	struct qwen_model *m = open_shape(shape, 100);
	struct qwen_session *s;
	int32_t id = 3;
	int i, n;

	if (qwen_place(m, "cuda:0", &err) < 0 ||
	    qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, (const int32_t[]){ 1, 2, 3, 4 }, 4, NULL,
	    &err) < 0)
		exit(1);
	for (i = 0; i < 3; i++) {
		take_log();
		if (qwen_session_eval(s, &id, 1, NULL, &err) < 0)
			exit(1);
		n = take_log();
		ok(n > LAYERS && n <= 1 + LAYERS * most + HEAD,
		    "%s: %d launches for %d layers", what, n, LAYERS);
	}
	qwen_session_free(s);
	qwen_model_close(m);
}

int
main(void)
{
	static const uint32_t mixed[] = { QT_Q4_K, QT_Q6_K };
	static const uint32_t floats[] = { QT_F32, QT_F16 };
	struct tiny_shape dense = { .arch = "qwen3", .n_layer = LAYERS,
	    .n_embd = 256, .n_vocab = N_VOCAB, .n_head = 4, .n_head_kv = 2,
	    .n_embd_head = 128, .n_rot = 128, .n_ff = 512 };
	struct tiny_shape experts = { .arch = "qwen35moe", .n_layer = LAYERS,
	    .n_embd = 256, .n_vocab = N_VOCAB, .n_head = 4, .n_head_kv = 2,
	    .n_embd_head = 128, .n_rot = 32, .n_expert = 8,
	    .n_expert_used = 2, .n_ff_exp = 256, .n_ff_shexp = 256,
	    .conv_kernel = 4, .dk = 128, .dv = 128, .n_head_k = 2,
	    .n_head_v = 4, .interval = 2 };

	if (getenv("CARD") != NULL && *getenv("CARD") != '\0') {
		printf("1..0 # SKIP launches are counted by the fake driver\n");
		return 0;
	}
	close(mkstemp(log_path));
	setenv("QWEN_FAKE_LOG", log_path, 1);
	test(&dense, 5, "dense, floats");
	test(&experts, 6, "experts, floats");
	dense.types = experts.types = mixed;
	dense.n_types = experts.n_types = 2;
	test(&dense, 5, "dense, Q4_K and Q6_K");
	test(&experts, 6, "experts, Q4_K and Q6_K");
	dense.types = experts.types = floats;
	test(&dense, 5, "dense, F32 and F16");
	test(&experts, 6, "experts, F32 and F16");
	unlink(log_path);
	return done_testing();
}
