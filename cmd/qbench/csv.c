/* SPDX-License-Identifier: ISC */
/* csv.c - a result as a line of CSV. */
#include <stdio.h>

#include "qbench.h"

void
qbench_csv_str(const char *s)
{
	putchar('"');
	for (; *s != '\0'; s++) {
		if (*s == '"')
			putchar('"');
		putchar((unsigned char)*s < 0x20 ? ' ' : *s);
	}
	putchar('"');
}

void
qbench_csv_head(void)
{
	printf("model,threads,batch,prompt,depth,n,"
	    "prefill_median,prefill_min,prefill_max,prefill_marked,"
	    "decode_median,decode_min,decode_max,decode_marked,"
	    "first_kernel_ms,first_token_ms,"
	    "peak_mib,mapped_mib,private_mib,prefill_minor,prefill_major,"
	    "decode_minor,decode_major,"
	    "read_gb_s,copy_gb_s,int8_gmac_s,f32_gmac_s,sequences\n");
}

static void
csv_phase(const struct phase *p)
{
	if (p->n == 0)
		printf(",,,,");
	else
		printf(",%.6g,%.6g,%.6g,%zu", p->tok_s.median, p->tok_s.min,
		    p->tok_s.max, p->n_marked);
}

static void
csv_faults(const struct phase *p)
{
	if (p->n == 0)
		printf(",,");
	else
		printf(",%.0f,%.0f", p->minor.median, p->major.median);
}

static void
csv_mib(double v)
{
	if (v < 0)
		printf(",");
	else
		printf(",%.2f", v);
}

void
qbench_csv_result(const struct result *r)
{
	const struct memory mem = qbench_memory_of(r);
	const struct qwen_machine *m = &r->machine;

	qbench_csv_str(qbench_model_name);
	printf(",%d,%zu,%zu,%zu,%zu", m->n_threads, r->batch, r->phase[0]->n,
	    r->phase[1]->depth, r->phase[1]->n);
	csv_phase(r->phase[0]);
	csv_phase(r->phase[1]);
	printf(",%.3f,%.3f", r->start.kernel.median, r->start.token.median);
	csv_mib(mem.peak);
	csv_mib(mem.mapped);
	csv_mib(mem.private);
	csv_faults(r->phase[0]);
	csv_faults(r->phase[1]);
	printf(",%.4g,%.4g,%.4g,%.4g,%zu\n", m->read * 1e-9, m->copy * 1e-9,
	    m->int8 * 1e-9, m->f32 * 1e-9, r->phase[1]->sequences);
}
