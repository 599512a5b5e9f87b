/* SPDX-License-Identifier: ISC */
/* fp.c - the identity of an mmproj file that is not opened. */
#include "gguf/gguf.h"
#include "vision/vision.h"
#include "wire/record.h"

int
qwen_vision_fingerprint(struct qwen_fp *out, const char *path,
    struct qwen_err *err)
{
	struct qwen_gguf *g;
	int rc;

	if (qwen_gguf_open(&g, path, err) < 0)
		return -1;
	rc = qwen_fingerprint(g, out, err);
	qwen_gguf_close(g);
	return rc;
}
