/* SPDX-License-Identifier: ISC */
/* imatrix_dat.h - importance matrices in the older format, imatrix.dat. */
#ifndef QWEN_QUANTIZE_IMATRIX_DAT_H
#define QWEN_QUANTIZE_IMATRIX_DAT_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

/* The values of one tensor: f32, little-endian, at any address. */
struct imatrix_dat_entry {
	struct qwen_str		 name;
	const unsigned char	*v;
	uint32_t		 n;
};

struct imatrix_dat {
	struct imatrix_dat_entry *v;		/* sorted by name */
	size_t			 n, cap;
	uint32_t		 n_chunk;	/* 0: not in the file */
	struct qwen_str		 dataset;	/* .s NULL: not in the file */
};

/*
 * Reads a file that is in memory.  Names and values point into it, so it must
 * outlive *d.
 */
int qwen_imatrix_dat_read(struct imatrix_dat *d, const void *buf, size_t n,
    struct qwen_err *err);
void qwen_imatrix_dat_fini(struct imatrix_dat *d);

/* Returns the entry of this name, or NULL. */
const struct imatrix_dat_entry *qwen_imatrix_dat_find(
    const struct imatrix_dat *d, const char *name);

#endif
