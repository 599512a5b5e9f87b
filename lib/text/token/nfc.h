/* SPDX-License-Identifier: ISC */
/* nfc.h - text that comes in parts, normalised to NFC, by libunistring. */
#ifndef QWEN_TEXT_TOKEN_NFC_H
#define QWEN_TEXT_TOKEN_NFC_H

#include "base/text.h"

struct qwen_nfc;

/* QWEN_EUNSUP in a build without libunistring. */
int qwen_nfc_new(struct qwen_nfc **out, struct qwen_err *err);
void qwen_nfc_free(struct qwen_nfc *f);

/*
 * Appends to out what n bytes more make certain: the last character and the
 * marks after it are kept, until final ends the text.  Bytes that are not UTF-8
 * stay what they are.  The result does not depend on how the text is cut.
 */
int qwen_nfc_put(struct qwen_nfc *f, const unsigned char *s, size_t n,
    int final, struct qwen_text *out, struct qwen_err *err);

/* Forget what is kept. */
void qwen_nfc_reset(struct qwen_nfc *f);

#endif
