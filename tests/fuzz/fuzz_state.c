/* SPDX-License-Identifier: ISC */
/*
 * fuzz_state.c - any bytes as a state: unchanged, which checksums nearly always
 * refuse, and with all checksums corrected.  Accepted states can be saved and
 * loaded again.
 */
#include "../unit/state_util.h"
#include "mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct qwen_model *model;

static void
try(const void *p, size_t n)
{
	struct qwen_session *s, *t;
	struct qwen_state_extra x, y;
	struct qwen_err err = { 0 };
	struct bytes b = { 0 };

	if (load_bytes(&s, &x, model, p, n, NULL, &err) < 0) {
		if (s != NULL || err.msg[0] == '\0' || x.generated != NULL)
			abort();
		return;
	}
	save_bytes(&b, s, &x, 0, NULL);
	if (load_bytes(&t, &y, model, b.p, b.n, NULL, &err) < 0 ||
	    !same_session(s, t) || x.n_generated != y.n_generated)
		abort();
	bytes_free(&b);
	qwen_session_free(s);
	qwen_session_free(t);
	qwen_state_extra_fini(&x);
	qwen_state_extra_fini(&y);
}

/* The input's records after the model's own header, all checks right. */
static void
repair(struct bytes *out, const uint8_t *data, size_t size)
{
	struct qwen_header h;
	struct qwen_cbor_scan sp;
	unsigned char buf[QWEN_HEADER_MAX];
	const char *why;
	size_t want, head, at = 0;

	if (qwen_header_init(&h, QWEN_STREAM_STATE, model->net.gguf, NULL) < 0)
		abort();
	head = qwen_header_encode(&h, buf);
	bytes_add(out, buf, head);
	/* the input may begin with a header of its own */
	if (qwen_record_is_header(data, size)) {
		memset(&sp, 0, sizeof sp);
		if (qwen_cbor_scan_step(&sp, data, size, size, &want,
		    &why) == 1)
			at = sp.off;
	}
	bytes_add(out, data + at, size - at);
	mutate_repair(out->p, out->n, head);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = { 0 };

	if (model == NULL)
		model = fake_model(&small_shape, "a", "x");
	try(data, size);
	repair(&b, data, size);
	try(b.p, b.n);
	bytes_free(&b);
	return 0;
}
