/* SPDX-License-Identifier: ISC */
/* page.h - the chat page, and the header that says what it may do. */
#ifndef QSERVE_PAGE_H
#define QSERVE_PAGE_H

#include "base/text.h"

/*
 * Add the page to *html, and to *policy what its Content-Security-Policy header
 * says: its own script and style by a nonce, which is drawn for each call, and
 * requests to where it came from; nothing else.  -1: no memory, or the system
 * has no random bytes.
 */
int qserve_page(struct qwen_text *html, struct qwen_text *policy,
    struct qwen_err *err);

#endif
