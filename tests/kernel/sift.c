/* SPDX-License-Identifier: ISC */
/*
 * sift.c - the sampler's passes over a row on this CPU against the plain C
 * ones, bit by bit, and the plain C ones against their definitions.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/kernel/kernel.h"
#include "../tap.h"
#include "random.h"

enum { N = 1100, ROOM = 1280, KINDS = 6 };

/* Bells, ties, both zeros, numbers of all sizes, the widest ones. */
static void
make_row(float *x, size_t n, int kind)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint32_t r = random_u32();

		x[i] = kind == 0 ? random_float() * 20 :
		    kind == 1 ? (float)(r % 5) - 2 :
		    kind == 2 ? (r & 1 ? 0.0f : -0.0f) :
		    kind == 3 ? ldexpf(random_float(), (int)(r % 180) - 90) :
		    kind == 4 ? (r % 3 ? random_float() : -1e30f) :
		    r % 2 ? FLT_MAX : -FLT_MAX;
	}
}

/* All that the passes make of one row; what comes after it is left out. */
struct made {
	float		highest, range, max;
	int		finite;
	size_t		n_bits, n_squeezed;
	uint64_t	bits[ROOM / 64];
	uint32_t	squeezed[ROOM];
	float		span[ROOM / QWEN_SIFT_SPAN], weight[ROOM];
	float		tempered[ROOM], near[ROOM];
	double		block[ROOM / QWEN_SIFT_BLOCK], sum, mean, first, second;
	uint16_t	bin[ROOM];
};

static void
make(const struct qwen_sift *k, const float *row, size_t n, struct made *m)
{
	static float x[ROOM], room[ROOM];
	static uint16_t bin[ROOM];
	size_t i;

	memset(m, 0, sizeof *m);
	memcpy(x, row, n * sizeof *x);
	m->highest = k->highest(row, n, &m->finite);
	m->range = k->range(x, n, &m->max);
	k->spans(m->span, x, n);
	m->n_bits = k->at_least(m->bits, x, n, row[n / 2]);
	memcpy(room, x, sizeof room);
	m->n_squeezed = k->squeeze(room, m->bits, n);
	memcpy(m->squeezed, room, m->n_squeezed * sizeof *room);
	k->weigh(m->weight, x, n, m->highest);
	m->mean = k->mean(m->weight, x, n, (double)m->highest);
	m->sum = k->sum(m->block, m->weight, n);
	k->moments(x, n, (double)m->highest, &m->first, &m->second);
	memcpy(room, x, sizeof room);
	k->temper(room, n, m->highest, 0.7f);
	memcpy(m->tempered, room, n * sizeof *room);
	k->nearness(room, x, n, (double)m->highest, 1.25);
	memcpy(m->near, room, n * sizeof *room);
	k->bins(bin, x, n, m->highest, 7000);
	for (i = 0; i < n; i++)
		m->bin[i] = bin[i];
}

static int
same_sift(const struct qwen_sift *a, const struct qwen_sift *b)
{
	static float row[N];
	static struct made x, y;
	size_t n;
	int kind;

	random_state = 77;
	for (kind = 0; kind < KINDS; kind++) {
		for (n = 1; n <= N; n += n < 140 ? 1 : 61) {
			make_row(row, n, kind);
			make(a, row, n, &x);
			make(b, row, n, &y);
			if (memcmp(&x, &y, sizeof x) != 0) {
				printf("# kind %d, %zu numbers\n", kind, n);
				return 0;
			}
		}
	}
	return 1;
}

/* What is not finite is seen wherever it is. */
static int
sees_all(const struct qwen_sift *k)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	float row[50];
	size_t i, j, n;
	int finite, seen = 0, clean = 0;

	random_state = 5;
	for (n = 1; n <= 50; n++) {
		make_row(row, 50, 5);
		k->highest(row, n, &finite);
		clean += finite;
		for (i = 0; i < n; i++) {
			for (j = 0; j < 3; j++) {
				make_row(row, 50, 0);
				row[i] = bad[j];
				k->highest(row, n, &finite);
				seen += !finite;
			}
		}
	}
	return clean == 50 && seen == 3 * 50 * 51 / 2;
}

/* The plain ones against their words in kernel.h. */
static void
check_plain(const struct qwen_sift *k)
{
	static float row[N];
	static struct made m;
	size_t i, at, n_bits;
	double sum, worst;
	int kind, bad = 0;

	for (kind = 0; kind < KINDS; kind++) {
		make_row(row, N, kind);
		make(k, row, N, &m);
		for (i = at = n_bits = 0, sum = worst = 0; i < N; i++) {
			double w = exp(-(double)(m.highest - row[i]));
			int in = m.bits[i / 64] >> i % 64 & 1;

			bad += row[i] > m.highest || row[i] >
			    m.span[i / QWEN_SIFT_SPAN];
			bad += in != (row[i] >= row[N / 2]);
			bad += in && memcmp(&m.squeezed[at++], &row[i], 4) != 0;
			n_bits += (size_t)in;
			sum += (double)m.weight[i];
			bad += fabs(w - (double)m.weight[i]) > 3e-7 * w + 1e-37;
			bad += m.bin[i] != qwen_sift_bin(m.highest - row[i],
			    7000);
		}
		bad += n_bits != m.n_bits || at != m.n_squeezed;
		bad += fabs(sum - m.sum) > 1e-12 * sum;
	}
	ok(bad == 0, "plain C: bits, squeezing, weights, bins (%d wrong)", bad);
}

int
main(void)
{
	unsigned have = qwen_cpu_detect();
	const struct qwen_sift *plain = qwen_sift_choose(0);
	size_t i;

	check_plain(plain);
	for (i = 0; i < qwen_kernel_count(); i++) {
		const struct qwen_kernel *k = qwen_kernel_get(i);

		if (k->op != QWEN_OP_SIFT)
			continue;
		if ((k->need & ~have) != 0) {
			skip(k->name, "this CPU lacks it");
			continue;
		}
		ok(sees_all(k->run.sift), "sift %s sees what is not finite",
		    k->name);
		ok(same_sift(k->run.sift, plain), "sift %s equals plain C",
		    k->name);
	}
	return done_testing();
}
