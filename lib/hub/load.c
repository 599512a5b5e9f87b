/* SPDX-License-Identifier: ISC */
/*
 * load.c - opens a folder as a model file in memory; most weights stay in the
 * folder's files.
 */
#include "base/err.h"
#include "gguf/gguf.h"
#include "hub/arch.h"
#include "hub/plan.h"

static void
release(void *arg)
{
	qwen_hub_close(arg);
}

/*
 * Returns 0 if weights of this architecture can be used in the order of Hugging
 * Face folders, or if they will be converted.
 */
static int
check_arch(const struct qwen_hub *h, int type)
{
	if (type != QWEN_HUB_AUTO || !h->arch->hybrid)
		return 0;
	return qwen_fail(h->err, QWEN_EUNSUP, "weights of %s must be reordered "
	    "first: run \"gguf-convert %s\" to make a GGUF file", h->arch->name,
	    h->path);
}

int
qwen_hub_load(struct qwen_gguf **out, const char *folder, int type,
    int threads, uint64_t most, uint64_t *made, struct qwen_err *err)
{
	struct qwen_hub_opts o = { .type = type, .threads = threads };
	struct qwen_hub_gguf *g = NULL;
	struct qwen_hub *h;
	int rc;

	*out = NULL;
	*made = 0;
	if (qwen_hub_open(&h, folder, err) < 0)
		return -1;
	rc = check_arch(h, type);
	if (rc == 0)
		rc = qwen_hub_gguf_new(&g, h, &o, err);
	if (rc == 0)
		rc = qwen_hub_gguf_place(g, out, most, made);
	qwen_hub_gguf_free(g);
	if (rc < 0) {
		qwen_hub_close(h);
		return -1;
	}
	(*out)->release = release;
	(*out)->arg = h;
	return 0;
}
