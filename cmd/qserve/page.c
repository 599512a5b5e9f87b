/* SPDX-License-Identifier: ISC */
/* page.c - the chat page, page/page.html, with a new nonce for each call. */
#include <sys/random.h>

#include <errno.h>
#include <string.h>

#include "qserve.h"

/* generated from the page, with a NUL at the end */
static const unsigned char page[] = {
#include "page.inc"
};

/* placeholder of the nonce */
#define MARK "@NONCE@"

/*
 * The header Content-Security-Policy allows only the page's own script and
 * style, by the nonce, and requests to the page's origin.
 */
void
qserve_page(struct qserve_call *c)
{
	unsigned char bytes[16];
	char nonce[2 * sizeof bytes + 1];
	const char *at = (const char *)page, *mark;
	size_t i;

	if (getentropy(bytes, sizeof bytes) < 0) {
		qserve_error(c, 500, "failed", "no random bytes: %s",
		    strerror(errno));
		return;
	}
	for (i = 0; i < sizeof bytes; i++)
		snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
	for (; (mark = strstr(at, MARK)) != NULL; at = mark + strlen(MARK)) {
		qwen_text_add(&c->out, at, (size_t)(mark - at));
		qwen_text_str(&c->out, nonce);
	}
	qwen_text_str(&c->out, at);
	qwen_text_fmt(&c->policy, "default-src 'none'; script-src 'nonce-%s'; "
	    "style-src 'nonce-%s'; img-src data:; connect-src 'self'; "
	    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	    "require-trusted-types-for 'script'", nonce, nonce);
	c->out.failed |= c->policy.failed;
	c->type = "text/html; charset=utf-8";
	qserve_done(c, 200);
}
