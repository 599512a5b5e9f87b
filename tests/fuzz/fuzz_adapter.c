/* SPDX-License-Identifier: ISC */
/*
 * fuzz_adapter.c - any bytes as an adapter of a small model.  If both can be
 * opened, evaluates three tokens at once and one by one, in plain C and with
 * the best kernels; differing bits are a bug.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char adapter_path[1024], model_path[1024];
static int fd = -1;

static void
set_up(void)
{
	const char *tmp = getenv("TMPDIR"), *top = getenv("TOP");

	snprintf(model_path, sizeof model_path,
	    "%s/tests/fuzz/seeds/model/qwen35moe.gguf", top != NULL ? top :
	    ".");
	snprintf(adapter_path, sizeof adapter_path, "%s/adapter.XXXXXX",
	    tmp != NULL ? tmp : "/tmp");
	fd = mkstemp(adapter_path);
	if (fd < 0)
		abort();
}

static void
remove_file(void)
{
	unlink(adapter_path);
}

/* Logits after the last of the ids, step at a time; 0 if that fails. */
static int
evaluate(const char *cpu, size_t step, float *out, size_t n_out)
{
	static const int32_t ids[] = { 1, 2, 3 };
	/* all, so that one that is not finite is met in either way */
	static const struct qwen_eval how = { .logits = QWEN_LOGITS_ALL };
	const struct qwen_adapter a = { adapter_path, 0.5 };
	const struct qwen_model_opts opts = { .n_threads = 1, .cpu = cpu,
	    .adapters = &a, .n_adapters = 1 };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	struct qwen_err err = { 0 };
	size_t i;
	int rc;

	rc = qwen_model_open(&m, model_path, &opts, &err);
	if (rc == 0)
		rc = qwen_session_new(&s, m, &err);
	for (i = 0; rc == 0 && i < 3; i += step)
		rc = qwen_session_eval(s, ids + i, step, &how, &err);
	if (rc < 0 && (err.code == 0 || err.msg[0] == '\0'))
		abort();
	if (rc == 0) {
		if (qwen_model_n_vocab(m) > n_out)
			abort();
		memset(out, 0, n_out * sizeof *out);
		memcpy(out, qwen_session_logits(s), qwen_model_n_vocab(m) *
		    sizeof *out);
	}
	qwen_session_free(s);
	qwen_model_close(m);
	return rc == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static float a[4096], b[4096];
	int ok;

	if (fd < 0) {
		set_up();
		atexit(remove_file);
	}
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) !=
	    (ssize_t)size)
		abort();
	ok = evaluate("scalar", 1, a, 4096);
	if (ok != evaluate(NULL, 3, b, 4096) ||
	    (ok && memcmp(a, b, sizeof a) != 0))
		abort();
	return 0;
}
