/* SPDX-License-Identifier: ISC */
/*
 * put.h - appends a record, key by key, to a growing string: in CBOR, or as a
 * line of JSON with the same keys.
 */
#ifndef QWEN_WIRE_PUT_H
#define QWEN_WIRE_PUT_H

#include "base/text.h"

/* The caller sets t and json; errors set t->failed. */
struct qwen_put {
	struct qwen_text *t;
	int		 json;
	size_t		 head;		/* offset of the map's head */
	unsigned	 n;		/* keys so far, at most 23 */
};

void qwen_put_begin(struct qwen_put *p);
void qwen_put_end(struct qwen_put *p);

void qwen_put_uint(struct qwen_put *p, const char *key, uint64_t v);
/* v must be finite. */
void qwen_put_real(struct qwen_put *p, const char *key, double v);
/* s must be UTF-8. */
void qwen_put_text(struct qwen_put *p, const char *key, const char *s,
    size_t n);
void qwen_put_fp(struct qwen_put *p, const char *key,
    const struct qwen_fp *fp);
void qwen_put_ids(struct qwen_put *p, const char *key, const int32_t *ids,
    size_t n);
void qwen_put_row(struct qwen_put *p, const char *key, const float *v,
    size_t n);
/* The same in parts, which have n numbers in all. */
void qwen_put_row_begin(struct qwen_put *p, const char *key, size_t n);
void qwen_put_row_part(struct qwen_put *p, const float *v, size_t n);
void qwen_put_row_end(struct qwen_put *p);
void qwen_put_reals(struct qwen_put *p, const char *key, const double *v,
    size_t n);

#endif
