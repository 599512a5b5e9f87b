/* SPDX-License-Identifier: ISC */
/* imatrix_dat.h - the older form of a file of importance, imatrix.dat. */
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
	const void		*map;		/* to unmap; or NULL */
	size_t			 bytes;
	struct imatrix_dat_entry *v;		/* sorted by name */
	size_t			 n, cap;
	uint32_t		 n_chunk;	/* 0: the file does not say */
	struct qwen_str		 dataset;	/* .s NULL: likewise */
};

/*
 * Names and values point into the file until fini; read has a file that is in
 * memory, which must outlive *d.
 */
int qwen_imatrix_dat_open(struct imatrix_dat *d, const char *path,
    struct qwen_err *err);
int qwen_imatrix_dat_read(struct imatrix_dat *d, const void *buf, size_t n,
    struct qwen_err *err);
void qwen_imatrix_dat_fini(struct imatrix_dat *d);

/* NULL if no entry has this name. */
const struct imatrix_dat_entry *qwen_imatrix_dat_find(
    const struct imatrix_dat *d, const char *name);

#endif
