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
	struct ref_tensor	*tensor;	/* as in the file's directory */
	struct ref_tensor	 embd;		/* what is looked up; adapters
						   may change it */
	int			 own_embd;
	char			 arch[32];
	size_t			 n_layer;	/* trunk */
	size_t			 n_embd;
	double			 eps;
	int			 round_kv;
	struct ref_look		*look;		/* or NULL */
};

/* Print what is wrong, and exit. */
void ref_die(const char *what, const char *name);

/* n zeroed numbers. */
double *ref_new(size_t n);

/* Key "<architecture>.<key>"; entry i where the key has one for each block. */
size_t ref_key(const struct ref_model *m, const char *key, size_t i,
    size_t def);
double ref_key_real(const struct ref_model *m, const char *key, double def);
int ref_has_key(const struct ref_model *m, const char *key);

/* Tensor blk.<block>.<name>, or <name> if block is -1; has: is it there? */
const struct ref_tensor *ref_tensor(const struct ref_model *m, long block,
    const char *name);
int ref_has(const struct ref_model *m, long block, const char *name);

#endif
