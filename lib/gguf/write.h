/* SPDX-License-Identifier: ISC */
/* write.h - write a GGUF file. */
#ifndef QWEN_GGUF_WRITE_H
#define QWEN_GGUF_WRITE_H

#include "qwen/gguf.h"

/*
 * Writes a GGUF file, version 3: put keys and tensors in any order; write the
 * head; write the data of all tensors in the order of the puts (in pieces of
 * any size; the writer adds padding); then write_end checks that everything was
 * written.  Errors of put functions and of qwen_gguf_note are kept and reported
 * by write_head, or by write_end if they come later: QWEN_ERANGE for data that
 * does not fit or comes out of order.  Numbers are stored little-endian; tensor
 * data must be so already.
 *
 * A key that begins with a dot gets the architecture before it: ".block_count"
 * becomes "qwen3.block_count", after general.architecture was put as "qwen3".
 */
struct qwen_gguf_writer;

int qwen_gguf_writer_new(struct qwen_gguf_writer **out, struct qwen_err *err);
void qwen_gguf_writer_free(struct qwen_gguf_writer *w);

void qwen_gguf_put_u32(struct qwen_gguf_writer *w, const char *key,
    uint32_t v);
void qwen_gguf_put_i32(struct qwen_gguf_writer *w, const char *key, int32_t v);
void qwen_gguf_put_f32(struct qwen_gguf_writer *w, const char *key, float v);
void qwen_gguf_put_bool(struct qwen_gguf_writer *w, const char *key, int v);
void qwen_gguf_put_str(struct qwen_gguf_writer *w, const char *key,
    const char *s);
void qwen_gguf_put_i32s(struct qwen_gguf_writer *w, const char *key,
    const int32_t *v, size_t n);
void qwen_gguf_put_f32s(struct qwen_gguf_writer *w, const char *key,
    const float *v, size_t n);
void qwen_gguf_put_bools(struct qwen_gguf_writer *w, const char *key,
    const unsigned char *v, size_t n);	/* each 0 or 1 */
void qwen_gguf_put_strs(struct qwen_gguf_writer *w, const char *key,
    const struct qwen_str *v, size_t n);
void qwen_gguf_put_tokens(struct qwen_gguf_writer *w, struct qwen_str *token,
    int32_t *type, size_t n);	/* NULL becomes "[PADn]", an unused token */
void qwen_gguf_put_kv(struct qwen_gguf_writer *w,
    const struct qwen_gguf_kv *kv);	/* copies a record of another file */
void qwen_gguf_put_tensor(struct qwen_gguf_writer *w, const char *name,
    uint32_t type, unsigned n_dims, const uint64_t *ne);

/*
 * Notes for the user about the file: qwen_gguf_note adds one, and
 * qwen_gguf_writer_note returns note i; NULL after the last.
 */
void qwen_gguf_note(struct qwen_gguf_writer *w, const char *fmt,
    ...) __attribute__((format(printf, 2, 3)));
const char *qwen_gguf_writer_note(const struct qwen_gguf_writer *w, size_t i);

/* Returns the number of tensors put so far. */
size_t qwen_gguf_writer_n_tensors(const struct qwen_gguf_writer *w);

/*
 * Makes write_data call fn with the bytes of data written so far, and those of
 * the whole file.
 */
typedef void qwen_gguf_progress(void *arg, uint64_t done, uint64_t total);
void qwen_gguf_writer_progress(struct qwen_gguf_writer *w,
    qwen_gguf_progress *fn, void *arg);

/*
 * Writes only the head, up to the start of the data, to an empty text.  Nothing
 * is written to a file.
 */
struct qwen_text;
int qwen_gguf_make_head(struct qwen_gguf_writer *w, struct qwen_text *out,
    struct qwen_err *err);

int qwen_gguf_write_head(struct qwen_gguf_writer *w, int fd,
    struct qwen_err *err);
int qwen_gguf_write_data(struct qwen_gguf_writer *w, int fd, const void *data,
    size_t n, struct qwen_err *err);
int qwen_gguf_write_end(const struct qwen_gguf_writer *w,
    struct qwen_err *err);

/*
 * Writes the head, and a hole in place of the data, to an empty file.  The
 * writer's state does not change.
 */
int qwen_gguf_write_outline(struct qwen_gguf_writer *w, int fd,
    struct qwen_err *err);

/* Returns the size of the whole file; known after any of these functions. */
uint64_t qwen_gguf_writer_bytes(const struct qwen_gguf_writer *w);

#endif
