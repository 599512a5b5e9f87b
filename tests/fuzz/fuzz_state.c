/* SPDX-License-Identifier: ISC */
/*
 * fuzz_state.c - any bytes as a state: as they are, which checksums nearly
 * always refuse, and once more with all checksums made right.  What is accepted
 * must survive being saved and loaded again.
 */
#include <xxhash.h>

#include "../unit/state_util.h"

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

static void
canonical(unsigned char *out, XXH64_hash_t h)
{
	XXH64_canonical_t c;

	XXH64_canonicalFromHash(&c, h);
	memcpy(out, c.digest, sizeof c.digest);
}

/* Write the check of record number n where it belongs. */
static void
repair_check(unsigned char *p, size_t size, uint64_t n, const struct bytes *head)
{
	struct bytes all = { 0 };

	if (n == 0)
		bytes_add(&all, head->p, head->n);
	bytes_add(&all, p, size - 8);
	canonical(p + size - 8, XXH3_64bits(all.p, all.n));
	bytes_free(&all);
}

/* The end record's total and the counts that are easy to put right. */
static void
repair_end(unsigned char *p, size_t size, struct qwen_state_sum *sum)
{
	struct qwen_state_rec rec;
	struct qwen_state_sum before = *sum;
	struct qwen_fp total;

	qwen_state_sum_total(sum, &total);
	/* look only: the hash states are not to move */
	before.checks = XXH3_createState();
	XXH3_128bits_reset(before.checks);
	if (sum->n > 0 && qwen_state_rec_decode(&rec, &before, p, size,
	    NULL) == 0 && rec.e.kind == QWEN_K_END &&
	    (rec.f.there & 1u << QWEN_F_TOTAL) &&
	    rec.f.v[QWEN_F_TOTAL].n == sizeof total.b) {
		memcpy(p + (rec.f.v[QWEN_F_TOTAL].s - p), total.b,
		    sizeof total.b);
		canonical(p + size - 8, XXH3_64bits(p, size - 8));
	}
	XXH3_freeState(before.checks);
}

/* The input's records behind the model's own header, all checks right. */
static void
repair(struct bytes *out, const uint8_t *data, size_t size)
{
	struct qwen_header h;
	struct qwen_state_sum sum;
	struct qwen_state_rec rec;
	struct qwen_span sp;
	struct bytes head = { 0 };
	unsigned char buf[QWEN_HEADER_MAX];
	const char *why;
	size_t want, at = 0;

	if (qwen_header_init(&h, QWEN_STREAM_STATE, model->gguf, NULL) < 0)
		abort();
	bytes_add(&head, buf, qwen_header_encode(&h, buf));
	bytes_add(out, head.p, head.n);
	if (qwen_state_sum_init(&sum, head.p, head.n, NULL) < 0)
		abort();
	/* the input may begin with a header of its own */
	if (qwen_record_is_header(data, size)) {
		memset(&sp, 0, sizeof sp);
		if (qwen_span_step(&sp, data, size, size, &want, &why) == 1)
			at = sp.off;
	}
	while (at < size) {
		unsigned char *p;

		memset(&sp, 0, sizeof sp);
		if (qwen_span_step(&sp, data + at, size - at, size, &want,
		    &why) != 1)
			break;
		bytes_add(out, data + at, sp.off);
		p = out->p + out->n - sp.off;
		at += sp.off;
		if (sp.off > 8) {
			repair_check(p, sp.off, sum.n, &head);
			repair_end(p, sp.off, &sum);
		}
		if (qwen_state_rec_decode(&rec, &sum, p, sp.off, NULL) < 0)
			break;
	}
	bytes_add(out, data + at, size - at);
	qwen_state_sum_fini(&sum);
	bytes_free(&head);
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
