/* SPDX-License-Identifier: ISC */
/* machine.c - --machine: what the machine can do, without a model. */
#include <stdio.h>
#include <unistd.h>

#include "qbench.h"

static void
machine_line(const struct qwen_machine *m)
{
	const char *form = qbench_opt.csv ? "%d,%s,%.4g,%.4g,%.4g,%.4g,%s\n" :
	    "%7d %-10s %10.2f %10.2f %11.2f %11.2f  %s\n";

	if (qbench_opt.json) {
		printf("{");
		qbench_json_machine(m);
		printf("}\n");
	} else {
		printf(form, m->n_threads, m->variant, m->read * 1e-9,
		    m->copy * 1e-9, m->int8 * 1e-9, m->f32 * 1e-9, m->int8_op);
	}
	fflush(stdout);
}

/* 1 .. t threads, for the largest t of the list; above 4, doubling. */
void
qbench_show_machine(void)
{
	struct qwen_machine m;
	int i, n;

	n = (int)qbench_longest(&qbench_opt.threads);
	if (n == 0)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (qbench_opt.csv)
		printf("threads,variant,read_gb_s,copy_gb_s,int8_gmac_s,"
		    "f32_gmac_s,int8_op\n");
	else if (!qbench_opt.json)
		printf("%7s %-10s %10s %10s %11s %11s  %s\n", "threads",
		    "variant", "read GB/s", "copy GB/s", "int8 GMAC/s",
		    "f32 GMAC/s", "int8 by");
	for (i = 1; i <= n;
	    i = i < 4 ? i + 1 : i < n && 2 * i > n ? n : 2 * i) {
		qbench_measure_machine(&m, i, 0);
		machine_line(&m);
	}
}
