/* SPDX-License-Identifier: ISC */
/*
 * lora.c - models with adapters on a card: all of their matrices, embeddings and
 * experts too, give the bits of the CPU.
 */
#include <fcntl.h>

#include "synth/synth.h"
#include "whole.h"

enum { N = 23, FIRST = 17, STEP = 1, ADAPTERS = 2 };

/* Type, rank and scale of an adapter; rank 0: none. */
struct lora {
	uint32_t	type;
	uint64_t	rank;
	double		scale;
};

static char adapter_path[ADAPTERS][1100];

/* Writes adapters for the model; returns how many there are. */
static size_t
write_adapters(const char *path, const struct lora *lora,
    struct qwen_adapter *out)
{
	struct qwen_gguf *g;
	size_t i;
	int fd;

	need(qwen_gguf_open(&g, path, &err));
	for (i = 0; i < ADAPTERS && lora[i].rank > 0; i++) {
		struct qwen_synth_lora o = { .seed = 7 + i,
		    .rank = lora[i].rank, .type = lora[i].type,
		    .alpha = (double)(2 * lora[i].rank) };

		snprintf(adapter_path[i], sizeof adapter_path[i], "%s.%zu",
		    path, i);
		fd = open(adapter_path[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
		need(fd < 0 ? -1 : qwen_synth_write_lora(g, &o, fd, &err));
		close(fd);
		out[i] = (struct qwen_adapter){ adapter_path[i],
		    lora[i].scale };
	}
	qwen_gguf_close(g);
	return i;
}

/* Are the last logits those of the model without adapters? */
static int
is_alone(const char *path, const int32_t *ids, const struct whole *with)
{
	struct whole w;
	int same;

	whole_open(&w, path, (struct qwen_model_opts){ .draft = 1 });
	whole_eval(&w, ids, N, NULL, 0);
	same = memcmp(qwen_session_logits(w.s[CPU]), qwen_session_logits(
	    with->s[CPU]), qwen_model_n_vocab(w.m[CPU]) * sizeof(float)) == 0;
	whole_close(&w);
	return same;
}

static void
test(struct tiny *t, const char *what, const struct lora *lora)
{
	const char *path = write_tiny(t);
	struct qwen_adapter adapter[ADAPTERS];
	struct qwen_model_opts opts = { .adapters = adapter, .draft = 1,
	    .n_adapters = write_adapters(path, lora, adapter) };
	int32_t ids[N];
	struct whole w;
	size_t i, n, same = 0;

	for (i = 0; i < N; i++)
		ids[i] = (int32_t)(3 + i * i % 61);
	whole_open(&w, path, opts);
	ok(all_on_card(&w), "%s: all is on the card", what);
	for (i = 0; i < N; i += n) {
		n = i == 0 ? FIRST : STEP;
		same += whole_eval(&w, ids + i, n, NULL, 0) ? n : 0;
	}
	ok(same == N && whole_same(&w), "%s: logits and state", what);
	ok(!is_alone(path, ids, &w), "%s: adapters matter", what);
	whole_close(&w);
	for (i = 0; i < opts.n_adapters; i++)
		unlink(adapter_path[i]);
	unlink(path);
}

/* With tied embeddings, odd widths and biases. */
static struct tiny *
odd(void)
{
	struct tiny_shape s = dense;
	struct tiny *t;

	s.n_embd = 53, s.n_ff = 67, s.tied = 1;
	t = tiny_new(&s);
	tiny_add(t, "blk.0.attn_q.bias", 0, 128, 1, 0, 0, 1);
	tiny_add(t, "blk.1.attn_output.bias", 0, 53, 1, 0, 0, 1);
	return t;
}

int
main(void)
{
	static const struct lora one[ADAPTERS] = { { 0, 4, 1 } },
	    two[ADAPTERS] = { { 1, 16, 0.5 }, { 30, 1, -0.75 } },
	    blocks[ADAPTERS] = { { 8, 32, 1 }, { 0, 40, 0.3 } };
	static const uint32_t types[] = { 12, 14, 8, 0 };	/* Q4_K, ... */
	struct tiny_shape s = hybrid_moe;

	test(tiny_new(&dense), "qwen3", one);
	test(odd(), "qwen3, tied, odd widths, biases", two);
	test(tiny_new(&hybrid), "qwen35", two);
	test(tiny_new(&hybrid_moe), "qwen35moe", two);
	s.fused = 1, s.n_ff_exp = 19;
	test(tiny_new(&s), "qwen35moe, gate and up in one", two);
	s = hybrid_moe;
	s.n_embd = s.n_ff_exp = s.n_ff_shexp = 256;
	s.types = types;
	s.n_types = 4;
	test(tiny_new(&s), "qwen35moe, quantised", blocks);
	return done_testing();
}
