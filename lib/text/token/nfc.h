/* SPDX-License-Identifier: ISC */
/* nfc.h - normalises text that comes in parts to NFC, with libunistring. */
#ifndef QWEN_TEXT_TOKEN_NFC_H
#define QWEN_TEXT_TOKEN_NFC_H

#include "base/text.h"

struct qwen_nfc;

/* QWEN_EUNSUP in a build without libunistring. */
int qwen_nfc_new(struct qwen_nfc **out, struct qwen_err *err);
void qwen_nfc_free(struct qwen_nfc *f);

/*
 * Normalises n more bytes and appends the text that is certain.  Keeps the last
 * character and the marks after it until more text comes, or final ends the
 * text.  Bytes that are not UTF-8 stay unchanged.  The result does not depend
 * on how the text is cut into parts.
 */
int qwen_nfc_put(struct qwen_nfc *f, const unsigned char *s, size_t n,
    int final, struct qwen_text *out, struct qwen_err *err);

/* Drops the text that is kept. */
void qwen_nfc_reset(struct qwen_nfc *f);

#endif
