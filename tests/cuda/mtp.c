/* SPDX-License-Identifier: ISC */
/*
 * mtp.c - the MTP block on a card: chains of drafts, their probabilities, and
 * what the session keeps of the block have the bits of the CPU.
 */
#include "whole.h"

enum { N = 59, DRAFTS = 5 };

static int32_t ids[N];

/* Makes up to n drafts after token i on both; are they the same? */
static int
same_drafts(struct whole *w, size_t i, size_t n)
{
	int32_t id[2][DRAFTS];
	float prob[2][DRAFTS];
	size_t got[2];
	int k;

	for (k = CPU; k <= CARD; k++)
		need(qwen_session_draft(w->s[k], ids[i], n, id[k], prob[k],
		    &got[k], &err));
	return got[CPU] == n && got[CARD] == n &&
	    memcmp(id[CPU], id[CARD], n * sizeof id[0][0]) == 0 &&
	    memcmp(prob[CPU], prob[CARD], n * sizeof prob[0][0]) == 0;
}

/* Reads some tokens at once, then others one by one, with drafts. */
static void
test(const char *path, const char *what, struct qwen_model_opts opts,
    const char *device)
{
	size_t i, n, bad = 0, chains = 0;
	struct whole w;
	char full[100];

	snprintf(full, sizeof full, "%s%s%s", what, device != NULL ? ", " : "",
	    device != NULL ? device : "");
	opts.draft = 1;
	whole_open(&w, path, opts);
	if (device != NULL)
		need(qwen_place(w.m[CARD], device, &err));
	else
		ok(all_on_card(&w), "%s: all is on the card", full);
	/* drafts are chosen from two parts of the head's rows */
	for (i = CPU; i <= CARD; i++)
		w.m[i]->net.mtp.n_first = 40;
	for (i = 0; i < N; i += n) {
		n = i == 0 ? 37 : i < 44 ? 1 : i < 52 ? 4 : 1;
		bad += !whole_eval(&w, ids + i, n, NULL, 0);
		if (i + n < N && (i < 44 || i > 51))
			bad += !same_drafts(&w, i + n, 1 + chains++ % DRAFTS);
	}
	ok(bad == 0 && chains > 8, "%s: %zu chains of drafts, %zu differ", full,
	    chains, bad);
	for (i = CPU; i <= CARD; i++)
		need(qwen_session_mtp_ready(w.s[i]));
	ok(whole_same(&w), "%s: state", full);
	whole_close(&w);
}

int
main(void)
{
	static const uint32_t types[] = { 12, 14, 0, 0 };	/* Q4_K, Q6_K */
	struct tiny_shape s = hybrid_moe;
	const char *path;
	struct tiny *t;
	size_t i;

	for (i = 0; i < N; i++)
		ids[i] = (int32_t)(3 + i * i % 61);
	path = write_tiny(tiny_new(&hybrid));
	test(path, "qwen35", (struct qwen_model_opts){ 0 }, NULL);
	test(path, "qwen35, f32 keys", (struct qwen_model_opts){
	    .k = QWEN_KV_F32, .v = QWEN_KV_F32 }, NULL);
	test(path, "qwen35", (struct qwen_model_opts){ 0 }, "cuda:0@0-3");
	test(path, "qwen35", (struct qwen_model_opts){ 0 }, "cuda:0@4");
	test(path, "qwen35", (struct qwen_model_opts){ 0 },
	    "cuda:0@0-2,plain:4");
	s.n_embd = 256;
	s.types = types;
	s.n_types = 4;
	path = write_tiny(tiny_new(&s));
	test(path, "qwen35moe, quantised", (struct qwen_model_opts){ 0 }, NULL);
	test(path, "qwen35moe, version 4", (struct qwen_model_opts){
	    .numerics = 4, .k = QWEN_KV_Q8_0, .v = QWEN_KV_Q8_0 }, NULL);
	/* ends of its own */
	t = tiny_new(&hybrid);
	tiny_add(t, "blk.4.nextn.embed_tokens.weight", 0, 48, 71, 0, 0, 1);
	tiny_add(t, "blk.4.nextn.shared_head_head.weight", 0, 48, 71, 0, 0, 1);
	tiny_add(t, "blk.4.nextn.shared_head_norm.weight", 0, 48, 0, 0, 1, 0.1);
	path = write_tiny(t);
	test(path, "qwen35, ends of its own", (struct qwen_model_opts){ 0 },
	    NULL);
	unlink(whole_path);
	return done_testing();
}
