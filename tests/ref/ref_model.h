/* SPDX-License-Identifier: ISC */
/* ref_model.h - keys and weights of a file, for the reference pass. */
#ifndef REF_MODEL_H
#define REF_MODEL_H

#include "qwen.h"
#include "qwentext.h"
#include "ref.h"

struct ref_tensor {
	size_t	 n_in, n_out, n_matrix;	/* ne[0], ne[1], ne[2] */
	float	*v;
};

struct ref_model {
	struct qwen_gguf	*g;
	struct ref_tensor	*tensor;	/* in the order of the file */
	struct ref_tensor	 embd;		/* embeddings; adapters may
						   change them */
	int			 own_embd;
	char			 arch[32];
	size_t			 n_layer;	/* without MTP layers */
	size_t			 n_embd;
	double			 eps;
	int			 round_kv;
	struct ref_look		*look;		/* or NULL */
};

/* Print an error message and exit. */
void ref_die(const char *what, const char *name);

/* Return n zeroed numbers. */
double *ref_new(size_t n);

/*
 * Return the value of "<architecture>.<key>", or def; i: its element if the key
 * has one per layer.
 */
size_t ref_key(const struct ref_model *m, const char *key, size_t i,
    size_t def);
double ref_key_real(const struct ref_model *m, const char *key, double def);
int ref_has_key(const struct ref_model *m, const char *key);

/*
 * ref_tensor returns tensor blk.<block>.<name>, or <name> if block is -1.
 * ref_has returns 1 if it exists.
 */
const struct ref_tensor *ref_tensor(const struct ref_model *m, long block,
    const char *name);
int ref_has(const struct ref_model *m, long block, const char *name);

#endif
