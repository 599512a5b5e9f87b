/* SPDX-License-Identifier: ISC */
/*
 * tiny.h - makes small models of any shape, correct or broken.
 *
 * Weights are random.  On purpose nothing is checked: keys and tensors go to
 * the file as given.  All functions exit if memory or disk space runs out, and
 * for an unknown name.
 */
#ifndef TINY_H
#define TINY_H

#include <stddef.h>
#include <stdint.h>

/* Sizes of a model; 0 means none, or as the comment says. */
struct tiny_shape {
	const char	*arch;
	size_t		 n_layer, n_nextn, n_embd, n_vocab;
	int		 tied;
	size_t		 n_head, n_head_kv, n_embd_head;
	size_t		 n_rot;			/* 0: the key is absent */
	size_t		 n_ff;			/* of dense layers */
	size_t		 n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
	int		 fused;			/* gate and up in one tensor */
	size_t		 conv_kernel, dk, dv, n_head_k, n_head_v;
	size_t		 interval;		/* every interval-th layer has
						   full attention; 0: 4 */
	const unsigned char *recurrent;		/* [n_layer], instead of
						   interval; or NULL */
	const uint32_t	*types;			/* types of matrices, used in
						   turn */
	size_t		 n_types;		/* 0: all F32 */
	uint64_t	 seed;
};

struct tiny_kv {
	char		 key[80];
	unsigned char	*value;			/* type and bytes, encoded */
	size_t		 n;
};

struct tiny_tensor {
	char		 name[64];
	uint32_t	 type;
	unsigned	 n_dims;
	uint64_t	 ne[4];
	unsigned char	*data;			/* NULL: a hole of zeros */
	size_t		 bytes;
};

struct tiny {
	struct tiny_shape	 shape;
	uint64_t		 rng;
	size_t			 n_matrix;	/* matrices so far, to choose
						   the type */
	struct tiny_kv		*kv;
	size_t			 n_kv;
	struct tiny_tensor	*tensor;
	size_t			 n_tensor;
};

/* Make a correct model. */
struct tiny *tiny_new(const struct tiny_shape *s);
void tiny_free(struct tiny *t);

/*
 * Set or replace a key.  The architecture is put before the name unless it
 * begins with "general." or "tokenizer.".
 */
void tiny_u32(struct tiny *t, const char *key, uint32_t v);
void tiny_u64(struct tiny *t, const char *key, uint64_t v);
void tiny_f32(struct tiny *t, const char *key, float v);
void tiny_f64(struct tiny *t, const char *key, double v);
void tiny_str(struct tiny *t, const char *key, const char *s);
void tiny_u32s(struct tiny *t, const char *key, const uint32_t *v, size_t n);
void tiny_i32s(struct tiny *t, const char *key, const int32_t *v, size_t n);
void tiny_bool(struct tiny *t, const char *key, int v);
void tiny_bools(struct tiny *t, const char *key, const unsigned char *v,
    size_t n);
void tiny_strs(struct tiny *t, const char *key, const char *s, size_t n);
void tiny_words(struct tiny *t, const char *key, const char *const *s,
    size_t n);
void tiny_drop_key(struct tiny *t, const char *key);

/* Add a tensor of random weights with mean m and standard deviation sd. */
void tiny_add(struct tiny *t, const char *name, uint32_t type, size_t ne0,
    size_t ne1, size_t ne2, double m, double sd);
struct tiny_tensor *tiny_tensor(struct tiny *t, const char *name);
void tiny_drop(struct tiny *t, const char *name);

/* Return the file in memory, for free(), or write it to disk, with holes. */
unsigned char *tiny_encode(const struct tiny *t, size_t *n);
void tiny_write(const struct tiny *t, const char *path);

#endif
