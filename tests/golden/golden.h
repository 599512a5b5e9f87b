/* SPDX-License-Identifier: ISC */
/*
 * golden.h - models with known logits: their files, and the expected rows.
 *
 * tests/golden/models/NAME/ holds the models that come with the source
 * (compressed); ../shared/fixtures/models, if it exists, has more.
 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stddef.h>
#include <stdint.h>

struct golden_case {
	char	 name[32];
	size_t	 n_tokens;
	int32_t	*tokens;
	size_t	 n_rows;
	size_t	*rows;
	float	*logits;	/* [n_rows][n_vocab] */
	/* mean_kl median_kl max_abs median_abs p90_abs top1; -1: none */
	double	 limit[6];
	double	 peer_kl;	/* llama.cpp's mean_kl, or -1 */
};

struct golden_model {
	char	 name[64];
	char	 path[1200];	/* of the GGUF, decompressed */
	size_t	 n_vocab;
	size_t	 n_case;
	struct golden_case *cases;
	size_t	 n_prompt, n_greedy;
	int32_t	*prompt, *greedy;
	double	*margin;
};

/*
 * Load all models that are found; return their number.  Exit if one cannot be
 * read.
 */
size_t golden_load(struct golden_model **out);
void golden_free(struct golden_model *g, size_t n);

/*
 * Set d to the distances of the logits got from the case's rows, in the order
 * of limit[].
 */
void golden_distance(const struct golden_model *m, const struct golden_case *c,
    const float *got, double d[6]);

#endif
