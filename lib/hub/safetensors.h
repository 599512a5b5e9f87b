/* SPDX-License-Identifier: ISC */
/* safetensors.h - safetensors files. */
#ifndef QWEN_HUB_SAFETENSORS_H
#define QWEN_HUB_SAFETENSORS_H

#include <stdint.h>

#include "qwen/base.h"

/* Number formats, as safetensors names them. */
enum qwen_st_type {
	ST_F64, ST_F32, ST_F16, ST_BF16, ST_F8_E4M3, ST_F8_E5M2, ST_F8_E8M0,
	ST_U8, ST_I8, ST_BOOL, ST_U16, ST_I16, ST_U32, ST_I32, ST_U64, ST_I64,
	ST_N_TYPES
};

enum { ST_DIMS_MAX = 8, ST_NAME_MAX = 255 };

/* A tensor in its file: the last dimension is contiguous. */
struct qwen_st_tensor {
	const char		*name;
	enum qwen_st_type	 type;
	unsigned		 n_dims;	/* 0: a scalar */
	uint64_t		 shape[ST_DIMS_MAX];
	uint64_t		 n;		/* elements */
	const unsigned char	*data;		/* little-endian, unaligned */
	size_t			 bytes;
	int			 mapped;	/* from a file */
};

/* One file, or all files of a model; everything is valid until fini. */
struct qwen_st {
	struct qwen_st_file	*file;
	size_t			 n_files, cap_files;
	struct qwen_st_tensor	*v;	/* file after file, sorted by name in
					   each */
	size_t			 n, cap;
};

/* Name, such as "BF16", and bytes per element. */
const char *qwen_st_type_name(enum qwen_st_type type);
size_t qwen_st_type_bytes(enum qwen_st_type type);

/* Returns 1 for F64, F32, F16 and BF16. */
static inline int
qwen_st_is_float(enum qwen_st_type type)
{
	return type <= ST_BF16;
}

/*
 * Adds the tensors of a file to *st, which is initially zero.  Maps the file,
 * and checks its header against its length: names, types, shapes, and that the
 * data of all tensors fills the file without gap or overlap.
 * qwen_st_add_memory reads a file in memory, which must outlive *st.
 */
int qwen_st_add(struct qwen_st *st, const char *path, struct qwen_err *err);
int qwen_st_add_memory(struct qwen_st *st, const void *buf, size_t n,
    struct qwen_err *err);
void qwen_st_fini(struct qwen_st *st);

/*
 * Says that the tensor's data is no longer needed: the system may reclaim its
 * memory.
 */
void qwen_st_done(const struct qwen_st_tensor *t);

#endif
