/* SPDX-License-Identifier: ISC */
/* json.c - a result as JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "qbench.h"

/* , "name": v */
static void
json_num(const char *name, double v)
{
	if (!isfinite(v) || v < 0)
		printf(", \"%s\": null", name);
	else
		printf(", \"%s\": %.9g", name, v);
}

void
qbench_json_spread(const char *name, const struct spread *s)
{
	printf("\"%s\": {\"median\": %.9g, \"min\": %.9g, \"max\": %.9g}",
	    name, s->median, s->min, s->max);
}

static void
json_phase(const struct phase *p)
{
	printf("\"%s\": ", p->name);
	if (p->n == 0) {
		printf("null");
		return;
	}
	printf("{\"n\": %zu, ", p->n);
	qbench_json_spread("tok_s", &p->tok_s);
	printf("}");
}

void
qbench_json_machine(const struct qwen_machine *m)
{
	printf("\"machine\": {\"cpu\": ");
	cli_json_string(qbench_cpu_name());
	printf(", \"threads\": %d, \"variant\": ", m->n_threads);
	cli_json_string(m->variant);
	printf(", \"int8_op\": ");
	cli_json_string(m->int8_op);
	json_num("read_gb_s", m->read * 1e-9);
	json_num("copy_gb_s", m->copy * 1e-9);
	json_num("int8_gmac_s", m->int8 * 1e-9);
	json_num("f32_gmac_s", m->f32 * 1e-9);
	printf("}");
}

static int
json_kernels(const struct result *r, const struct phase *p, int n)
{
	const struct qwen_kernel_stat *k;
	struct rates x;
	size_t i;

	for (i = 0; i < p->n_stat; i++, n++) {
		k = &p->stat[i];
		x = qbench_rates_of(r, p, k);
		printf("%s{\"phase\": \"%s\", \"name\": ", n ? ", " : "",
		    p->name);
		cli_json_string(k->name);
		printf(", \"variant\": ");
		cli_json_string(k->variant);
		printf(", \"calls\": %" PRIu64, k->calls);
		json_num("ms", k->ms);
		json_num("share_percent", x.share);
		printf(", \"bytes\": %" PRIu64 ", \"macs\": %" PRIu64,
		    k->bytes, k->macs);
		json_num("gb_s", x.gb);
		json_num("read_percent", x.read);
		json_num("gmac_s", x.gmac);
		json_num("peak_percent", x.peak);
		printf(", \"peak\": \"%s\"}", x.unit);
	}
	return n;
}

static int
json_rounds(const struct phase *p, int n)
{
	const struct round *r;
	size_t i;

	for (i = 0; p->n > 0 && i < qbench_opt.rounds; i++, n++) {
		r = &p->round[i];
		printf("%s{\"phase\": \"%s\", \"tok_s\": %.9g, "
		    "\"minor\": %ld, \"major\": %ld, \"steal_percent\": %.3g, "
		    "\"marked\": %s}", n ? ", " : "", p->name, r->tok_s,
		    r->minor, r->major, r->steal, r->marked ? "true" :
		    "false");
	}
	return n;
}

static void
json_totals(const struct result *r)
{
	struct totals t;
	int i, n = 0;

	printf("\"totals\": {");
	for (i = 0; i < 2; i++) {
		if (r->phase[i]->n == 0)
			continue;
		t = qbench_totals_of(r->phase[i]);
		printf("%s\"%s\": {\"tokens\": %zu", n++ ? ", " : "",
		    r->phase[i]->name, r->phase[i]->n *
		    r->phase[i]->sequences);
		json_num("gb_s", t.gb);
		json_num("read_percent", r->phase[i]->of_read.median);
		json_num("gmac_s", t.gmac);
		json_num("int8_percent", r->phase[i]->of_int8.median);
		printf("}");
	}
	printf("}");
}

static void
json_faults(const struct result *r)
{
	const struct phase *p;
	int i, n = 0;

	printf("\"faults\": {");
	for (i = 0; i < 2; i++) {
		p = r->phase[i];
		if (p->n == 0)
			continue;
		printf("%s\"%s\": {", n++ ? ", " : "", p->name);
		qbench_json_spread("minor", &p->minor);
		printf(", ");
		qbench_json_spread("major", &p->major);
		printf("}");
	}
	printf("}");
}

void
qbench_json_result(const struct result *r)
{
	const struct memory mem = qbench_memory_of(r);

	printf("{");
	json_phase(r->phase[0]);
	printf(", ");
	json_phase(r->phase[1]);
	printf(", ");
	qbench_json_machine(&r->machine);
	printf(", \"kernels\": [");
	json_kernels(r, r->phase[1], json_kernels(r, r->phase[0], 0));
	printf("], ");
	json_totals(r);
	printf(", \"start\": {");
	qbench_json_spread("first_kernel_ms", &r->start.kernel);
	printf(", ");
	qbench_json_spread("first_token_ms", &r->start.token);
	printf("}, \"memory\": {\"unit\": \"MiB\"");
	json_num("peak", mem.peak);
	json_num("mapped", mem.mapped);
	json_num("private", mem.private);
	printf("}, ");
	json_faults(r);
	printf(", \"rounds\": [");
	json_rounds(r->phase[1], json_rounds(r->phase[0], 0));
	printf("], \"model\": {\"name\": ");
	cli_json_string(qbench_model_name);
	printf(", \"arch\": ");
	cli_json_string(qwen_model_arch(r->m));
	printf(", \"n_layer\": %zu}, \"setting\": {\"threads\": %d, "
	    "\"batch\": %zu, \"depth\": %zu, \"sequences\": %zu, "
	    "\"scattered\": %s, \"numerics\": %u}}\n",
	    qwen_model_n_layer(r->m), r->machine.n_threads, r->batch,
	    r->phase[1]->depth, r->phase[1]->sequences, qbench_opt.scattered ?
	    "true" : "false", qwen_model_numerics(r->m));
}
