/* SPDX-License-Identifier: ISC */
/* figures.c - what follows from the rounds and counts of a phase. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qbench.h"

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct spread
qbench_spread_of(double *v, size_t n)
{
	struct spread s;

	qsort(v, n, sizeof *v, by_value);
	s.median = (v[(n - 1) / 2] + v[n / 2]) / 2;
	s.min = v[0];
	s.max = v[n - 1];
	return s;
}

void
qbench_work_of(const struct phase *p, double *bytes, double *macs)
{
	double n = (double)(p->n * p->sequences);
	size_t i;

	*bytes = *macs = 0;
	for (i = 0; i < p->n_stat; i++) {
		*bytes += (double)p->stat[i].bytes / n;
		*macs += (double)p->stat[i].macs / n;
	}
}

struct totals
qbench_totals_of(const struct phase *p)
{
	struct totals t;

	qbench_work_of(p, &t.gb, &t.gmac);
	t.gb *= p->tok_s.median * 1e-9;
	t.gmac *= p->tok_s.median * 1e-9;
	return t;
}

struct rates
qbench_rates_of(const struct result *r, const struct phase *p,
    const struct qwen_kernel_stat *k)
{
	double total = 0, s = k->ms * 1e-3 / r->machine.n_threads;
	const char *type = strchr(k->name, '.');
	struct rates x = { 0 };
	size_t i;

	for (i = 0; i < p->n_stat; i++)
		total += p->stat[i].ms;
	x.unit = "f32";
	if ((strncmp(k->name, "matmul.", 7) == 0 ||
	    strncmp(k->name, "gemm.", 5) == 0) && strcmp(type, ".F32") != 0 &&
	    strcmp(type, ".F16") != 0 && strcmp(type, ".BF16") != 0 &&
	    (qbench_opt.numerics != 2 || strcmp(k->variant, "amx") == 0))
		x.unit = "int8";
	if (s <= 0)
		return x;
	x.share = 100 * k->ms / total;
	x.gb = (double)k->bytes / s * 1e-9;
	x.gmac = (double)k->macs / s * 1e-9;
	x.read = 100e9 * x.gb / r->machine.read;
	x.peak = 100e9 * x.gmac / (x.unit[0] == 'i' ? r->machine.int8 :
	    r->machine.f32);
	return x;
}

struct memory
qbench_memory_of(const struct result *r)
{
	const struct memory *a = &r->phase[0]->mem, *b = &r->phase[1]->mem;
	struct memory m = { fmax(a->peak, b->peak),
	    fmax(a->mapped, b->mapped), fmax(a->private, b->private) };

	return m;
}
