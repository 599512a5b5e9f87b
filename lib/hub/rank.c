/* SPDX-License-Identifier: ISC */
/*
 * rank.c - rerankers: Qwen3-Reranker models, which answer yes or no and are
 * recognised by the name of the folder or its README.md, like in llama.cpp's
 * converter; and models whose config names a sequence classifier.
 */
#define _GNU_SOURCE	/* strcasestr */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hub/plan.h"
#include "qwen/embed.h"
#include "text/embed/rerank.h"

enum { LABELS_MAX = 1024 };

/* Returns 1 if s, which may be NULL, contains the word, ignoring case. */
static int
says(const char *s, const char *word)
{
	return s != NULL && strcasestr(s, word) != NULL;
}

/*
 * Returns 1 if the folder's name or the title of its README.md says
 * Qwen3-Reranker.
 */
static int
is_reranker(const struct qwen_hub *h)
{
	char *real = realpath(h->path, NULL), *card = NULL;
	const char *base = real != NULL ? strrchr(real, '/') + 1 : NULL;
	int rc = says(base, "qwen3-reranker") ||
	    says(base, "qwen3-vl-reranker");

	free(real);
	if (rc == 0 && (rc = qwen_hub_text(h, "README.md", &card)) > 0)
		rc = says(card, "# qwen3-reranker") ||
		    says(card, "# qwen3-vl-reranker");
	free(card);
	return rc;
}

static int
find_words(struct qwen_hub_gguf *g)
{
	static const char *const word[] = { "yes", "no" };
	int i, rc;

	g->tied = yyjson_is_true(qwen_hub_get(g->hub, "tie_word_embeddings"));
	for (i = 0; i < 2; i++) {
		if ((rc = qwen_hub_token_id(g->hub, word[i], &g->word[i])) < 0)
			return -1;
		if (rc == 0)
			return qwen_hub_fail(g->hub, NULL, "a reranker, but "
			    "tokenizer.json has no token \"%s\"", word[i]);
	}
	return 0;
}

int
qwen_hub_find_rank(struct qwen_hub_gguf *g)
{
	int rc;

	g->rank = HUB_NO_RANK;
	if (!g->hub->arch->ranks)
		return 0;
	if (says(qwen_hub_class(g->hub), "sequenceclassification")) {
		g->rank = HUB_RANK_SCORE;
		return 0;
	}
	if ((rc = is_reranker(g->hub)) <= 0)
		return rc;
	g->rank = HUB_RANK_WORDS;
	return find_words(g);
}

/*
 * Reads the names of the classes, in order; returns their number, 0 if unknown.
 */
static size_t
read_labels(const struct qwen_hub *h, struct qwen_str *label)
{
	yyjson_val *map = qwen_hub_get(h, "id2label"), *v;
	size_t n = yyjson_obj_size(map), i;
	char id[24];

	for (i = 0; i < n && i < LABELS_MAX; i++) {
		snprintf(id, sizeof id, "%zu", i);
		v = yyjson_obj_get(map, id);
		if (!yyjson_is_str(v))
			return 0;
		label[i].s = yyjson_get_str(v);
		label[i].len = yyjson_get_len(v);
	}
	return i;
}

/*
 * Sets the default labels of transformers, which omits them from the config if
 * there are two classes.  Returns 2, or 0 for any other number of classes.
 */
static size_t
usual_labels(const struct qwen_hub_gguf *g, struct qwen_str *label)
{
	size_t i;

	for (i = 0; i < g->n; i++) {
		if (strcmp(g->t[i].name, "cls.output.weight") == 0 &&
		    g->t[i].n_dims == 2 && g->t[i].ne[1] == 2) {
			label[0] = (struct qwen_str){ "LABEL_0", 7 };
			label[1] = (struct qwen_str){ "LABEL_1", 7 };
			return 2;
		}
	}
	return 0;
}

void
qwen_hub_put_rank(struct qwen_hub_gguf *g)
{
	static const struct qwen_str words[] = { { "yes", 3 }, { "no", 2 } };
	static const struct qwen_str name = { "rerank", 6 };
	struct qwen_str label[LABELS_MAX];
	size_t n = 2;

	memcpy(label, words, sizeof words);
	if (g->rank == HUB_RANK_SCORE)
		n = read_labels(g->hub, label);
	if (n == 0)
		n = usual_labels(g, label);
	qwen_gguf_put_u32(g->w, ".pooling_type", QWEN_POOLING_RANK);
	if (n > 1)		/* a single class means yes */
		qwen_gguf_put_strs(g->w, ".classifier.output_labels", label,
		    n);
	qwen_gguf_put_str(g->w, QWEN_RERANK_KEY, QWEN_RERANK_TEMPLATE);
	qwen_gguf_put_strs(g->w, "tokenizer.chat_templates", &name, 1);
}
