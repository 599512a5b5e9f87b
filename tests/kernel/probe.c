/* SPDX-License-Identifier: ISC */
/*
 * probe.c - the probes load every byte, and all figures of the machine are
 * measured.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "variants.h"

enum { BYTES = 3 * 4096 };

static uint64_t
sum(const unsigned char *p)
{
	uint64_t s = 0, v;
	size_t i;

	for (i = 0; i < BYTES; i += sizeof v) {
		memcpy(&v, p + i, sizeof v);
		s += v;
	}
	return s;
}

static void
probe(const struct qwen_kernel *k, unsigned char *buf)
{
	const struct qwen_probe *p = k->run.probe;

	ok(p->read(buf, BYTES) == sum(buf), "%s: reads everything", k->name);
	buf[BYTES - 1]++;
	ok(p->read(buf, BYTES) == sum(buf), "%s: to the end", k->name);
	ok(p->int8_macs > 0 && p->f32_macs > 0 && p->int8_op[0] != '\0',
	    "%s: says what a step is", k->name);
	/* x = x / 2 + 1/2 converges to 1 in each of the lanes of a sum */
	ok(p->f32(100) > 0, "%s: multiplies f32", k->name);
	(void)p->int8(100);
}

int
main(void)
{
	unsigned char *buf = aligned_alloc(4096, BYTES);
	unsigned features = variant_cpu();
	struct qwen_machine m;
	struct qwen_err err;
	size_t i, n = 0;

	for (i = 0; i < BYTES; i++)
		buf[i] = (unsigned char)(i * 2654435761u >> 13);
	for (i = 0; i < qwen_kernel_count(); i++) {
		const struct qwen_kernel *k = qwen_kernel_get(i);

		if (k->op != QWEN_OP_PROBE || (k->need & ~features) != 0)
			continue;
		probe(k, buf);
		n++;
	}
	free(buf);
	ok(n > 0, "%zu probes", n);
	ok(qwen_machine_measure(&m, 2, "scalar", 0.01, &err) == 0 &&
	    m.n_threads == 2 && strcmp(m.variant, "scalar") == 0,
	    "a level is kept to");
	ok(m.read > 1e8 && m.copy > 1e8 && m.int8 > 1e7 && m.f32 > 1e7,
	    "figures: %.3g %.3g %.3g %.3g", m.read, m.copy, m.int8, m.f32);
	ok(m.bytes >= 32u << 20, "a buffer of %zu bytes", m.bytes);
	ok(qwen_machine_measure(&m, 1, "sse9", 0, &err) == -1 &&
	    err.code == QWEN_EUNSUP, "no such level: %s", err.msg);
	ok(qwen_machine_measure(&m, 1, "scalar", INFINITY, &err) == -1 &&
	    err.code == QWEN_ERANGE &&
	    qwen_machine_measure(&m, 1, "scalar", NAN, &err) == -1 &&
	    err.code == QWEN_ERANGE &&
	    qwen_machine_measure(&m, 1, "scalar", -1, &err) == -1 &&
	    err.code == QWEN_ERANGE, "not a time: %s", err.msg);
	return done_testing();
}
