/* SPDX-License-Identifier: ISC */
/* text.c - a result as tables. */
#include <inttypes.h>
#include <stdio.h>

#include "qbench.h"

static void
text_line(const char *phase, const char *what, const struct spread *s,
    const char *unit)
{
	printf("%-8s %-14s %12.2f %12.2f %12.2f  %s\n", phase, what, s->median,
	    s->min, s->max, unit);
}

static void
text_one(const char *what, const char *name, double v, const char *unit)
{
	if (v < 0)
		printf("%-8s %-14s %12s %12s %12s  %s\n", what, name, "-", "-",
		    "-", unit);
	else
		printf("%-8s %-14s %12.2f %12s %12s  %s\n", what, name, v, "-",
		    "-", unit);
}

static void
text_phase(const struct phase *p)
{
	struct totals t = qbench_totals_of(p);

	if (p->n == 0)
		return;
	text_line(p->name, "speed", &p->tok_s, "tok/s");
	text_one(p->name, "moved", t.gb, "GB/s");
	text_line(p->name, "of_read", &p->of_read, "%");
	text_one(p->name, "multiplied", t.gmac, "GMAC/s");
	text_line(p->name, "of_int8", &p->of_int8, "%");
	text_line(p->name, "minor_faults", &p->minor, "pages");
	text_line(p->name, "major_faults", &p->major, "pages");
	text_line(p->name, "steal", &p->steal, "%");
	text_one(p->name, "marked", (double)p->n_marked, "rounds");
}

static void
text_machine(const struct qwen_machine *m)
{
	text_one("machine", "read", m->read * 1e-9, "GB/s");
	text_one("machine", "copy", m->copy * 1e-9, "GB/s");
	text_one("machine", "int8", m->int8 * 1e-9, "GMAC/s");
	text_one("machine", "f32", m->f32 * 1e-9, "GMAC/s");
}

static void
text_kernels(const struct result *r, const struct phase *p)
{
	const struct qwen_kernel_stat *k;
	struct rates x;
	size_t i;

	for (i = 0; i < p->n_stat; i++) {
		k = &p->stat[i];
		x = qbench_rates_of(r, p, k);
		printf("%-8s %-14s %-10s %8" PRIu64 " %10.2f %6.1f %10.2f "
		    "%8.2f %6.1f %9.2f %6.1f %s\n", p->name, k->name,
		    k->variant, k->calls, k->ms, x.share,
		    (double)k->bytes * 1e-6, x.gb, x.read, x.gmac, x.peak,
		    x.unit);
	}
}

void
qbench_text_result(const struct result *r)
{
	const struct memory mem = qbench_memory_of(r);

	printf("model    %s: %s, %zu layers\n", qbench_model_name,
	    qwen_model_arch(r->m), qwen_model_n_layer(r->m));
	printf("cpu      %s, %d threads, %s (%s)\n", qbench_cpu_name(),
	    r->machine.n_threads, r->machine.variant, r->machine.int8_op);
	printf("setting  prefill of %zu tokens, batch %zu; decode of %zu at "
	    "depth %zu, sequences %zu; %zu rounds; numerics %u\n\n",
	    r->phase[0]->n, r->batch, r->phase[1]->n, r->phase[1]->depth,
	    r->phase[1]->sequences, qbench_opt.rounds,
	    qwen_model_numerics(r->m));
	printf("%-8s %-14s %12s %12s %12s  %s\n", "part", "what", "median",
	    "min", "max", "unit");
	text_phase(r->phase[0]);
	text_phase(r->phase[1]);
	text_line("start", "first_kernel", &r->start.kernel, "ms");
	text_line("start", "first_token", &r->start.token, "ms");
	text_one("memory", "peak", mem.peak, "MiB");
	text_one("memory", "mapped", mem.mapped, "MiB");
	text_one("memory", "private", mem.private, "MiB");
	text_machine(&r->machine);
	printf("\n%-8s %-14s %-10s %8s %10s %6s %10s %8s %6s %9s %6s %s\n",
	    "part", "kernel", "variant", "calls", "ms", "share%", "MB",
	    "GB/s", "%read", "GMAC/s", "%peak", "peak");
	text_kernels(r, r->phase[0]);
	text_kernels(r, r->phase[1]);
}
