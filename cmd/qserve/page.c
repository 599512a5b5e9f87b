/* SPDX-License-Identifier: ISC */
/* page.c - the chat page, page/page.html, with a new nonce for each call. */
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "page.h"

/* generated from the page, with a NUL at the end */
static const unsigned char page[] = {
#include "page.inc"
};

/* placeholder of the nonce */
#define MARK "@NONCE@"

int
qserve_page(struct qwen_text *html, struct qwen_text *policy,
    struct qwen_err *err)
{
	unsigned char bytes[16];
	char nonce[2 * sizeof bytes + 1];
	const char *at = (const char *)page, *mark;
	size_t i;

	if (getentropy(bytes, sizeof bytes) < 0)
		return qwen_fail_errno(err, "no random bytes");
	for (i = 0; i < sizeof bytes; i++) {
		nonce[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		nonce[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	nonce[2 * i] = '\0';
	for (; (mark = strstr(at, MARK)) != NULL; at = mark + strlen(MARK)) {
		qwen_text_add(html, at, (size_t)(mark - at));
		qwen_text_str(html, nonce);
	}
	qwen_text_str(html, at);
	qwen_text_fmt(policy, "default-src 'none'; script-src 'nonce-%s'; "
	    "style-src 'nonce-%s'; img-src data:; connect-src 'self'; "
	    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	    "require-trusted-types-for 'script'", nonce, nonce);
	return html->failed || policy->failed ? qwen_oom(err) : 0;
}
