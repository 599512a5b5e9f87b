/* SPDX-License-Identifier: ISC */
/* page.h - the chat page. */
#ifndef QSERVE_PAGE_H
#define QSERVE_PAGE_H

#include "base/text.h"

/*
 * Add the page to *html, and the value of its Content-Security-Policy header to
 * *policy.  It allows only the page's own script and style, by a nonce that is
 * random in each call, and requests to the page's origin.  -1 if there is no
 * memory, or the system has no random bytes.
 */
int qserve_page(struct qwen_text *html, struct qwen_text *policy,
    struct qwen_err *err);

#endif
