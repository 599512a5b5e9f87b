/* SPDX-License-Identifier: ISC */
/* show.c - print the results as text, JSON and CSV. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "qbench.h"

/* ----------------------------------------------------------------- figures */

/* The bytes moved and multiply-adds of a phase per second. */
struct totals {
	double	gb, gmac;
};

/* Speeds of a kernel or purpose, over all threads. */
struct rates {
	double		 share;		/* percent of the phase */
	double		 ms_token;	/* elapsed time per token */
	double		 gb, gmac;	/* per second */
	double		 read, peak;	/* percent of the machine's speed */
	const char	*unit;		/* the peak's kind: "int8" or "f32" */
};

static struct totals
totals_of(const struct qbench_phase *p)
{
	struct totals t;

	qbench_work_of(p, &t.gb, &t.gmac);
	t.gb *= p->tok_s.median * 1e-9;
	t.gmac *= p->tok_s.median * 1e-9;
	return t;
}

/* Return the sum of all kernels of a phase. */
static struct qwen_kernel_stat
sum_of(const struct qbench_phase *p)
{
	struct qwen_kernel_stat sum = { .name = "total", .variant = "-" };
	size_t i;

	for (i = 0; i < p->n_stat; i++) {
		sum.calls += p->stat[i].calls;
		sum.ms += p->stat[i].ms;
		sum.bytes += p->stat[i].bytes;
		sum.macs += p->stat[i].macs;
	}
	return sum;
}

/*
 * Return 1 for matrix products, which use integers unless the weights are F32,
 * F16 or BF16.
 */
static int
is_int8(const char *kernel)
{
	const char *type = strchr(kernel, '.');

	return (strncmp(kernel, "matmul.", 7) == 0 ||
	    strncmp(kernel, "gemm.", 5) == 0) && strcmp(type, ".F32") != 0 &&
	    strcmp(type, ".F16") != 0 && strcmp(type, ".BF16") != 0;
}

static struct rates
rates_of(const struct qbench_result *r, const struct qbench_phase *p,
    const struct qwen_kernel_stat *k)
{
	double s = k->ms * 1e-3 / r->machine.n_threads;
	struct rates x = { .unit = is_int8(k->name) ? "int8" : "f32" };

	if (s <= 0)
		return x;
	x.share = 100 * k->ms / sum_of(p).ms;
	x.ms_token = 1e3 * s / (double)(p->n * p->sequences);
	x.gb = (double)k->bytes / s * 1e-9;
	x.gmac = (double)k->macs / s * 1e-9;
	x.read = 100e9 * x.gb / r->machine.read;
	x.peak = 100e9 * x.gmac / (x.unit[0] == 'i' ? r->machine.int8 :
	    r->machine.f32);
	return x;
}

/* Return the time of n units of work at the speeds of the rounds. */
static struct qbench_spread
time_of(const struct qbench_phase *p, double n)
{
	return (struct qbench_spread){ n / p->tok_s.median, n / p->tok_s.max,
	    n / p->tok_s.min };
}

static struct qbench_spread
seconds_of(const struct qbench_phase *p)
{
	return time_of(p, (double)(p->n * p->sequences));
}

static struct qbench_memory
memory_of(const struct qbench_result *r)
{
	const struct qbench_memory *a = &r->phase[0]->mem,
	    *b = &r->phase[1]->mem;
	struct qbench_memory m = { fmax(a->peak, b->peak),
	    fmax(a->mapped, b->mapped), fmax(a->private, b->private) };

	return m;
}

/* -------------------------------------------------------------------- text */

static void
text_line(const char *phase, const char *what, const struct qbench_spread *s,
    const char *unit)
{
	int digits = unit[0] == 's' || unit[0] == 'm' ? 4 : 2;

	printf("%-8s %-14s %12.*f %12.*f %12.*f  %s\n", phase, what, digits,
	    s->median, digits, s->min, digits, s->max, unit);
}

static void
text_one(const char *what, const char *name, double v, const char *unit)
{
	char text[32] = "-";

	if (!(v < 0))
		snprintf(text, sizeof text, "%.2f", v);
	printf("%-8s %-14s %12s %12s %12s  %s\n", what, name, text, "-", "-",
	    unit);
}

static void
text_phase(const struct qbench_phase *p)
{
	struct totals t = totals_of(p);
	struct qbench_spread s, ms;

	if (p->n == 0)
		return;
	s = seconds_of(p);
	ms = time_of(p, 1e3);
	text_line(p->name, "speed", &p->tok_s, "tok/s");
	text_line(p->name, "time", &s, "s");
	text_line(p->name, "per_token", &ms, "ms");
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
text_row(const struct qbench_result *r, const struct qbench_phase *p,
    const struct qwen_kernel_stat *k)
{
	struct rates x = rates_of(r, p, k);
	int total = strcmp(k->name, "total") == 0;

	printf("%-8s %-17s ", p->name, k->name);
	if (qbench_opt.by_kernel)
		printf("%-10s ", k->variant);
	printf("%8" PRIu64 " %10.2f %6.1f ", k->calls, k->ms, x.share);
	printf("%9.4f %10.2f %8.2f %6.1f %9.2f", x.ms_token,
	    (double)k->bytes * 1e-6, x.gb, x.read, x.gmac);
	if (qbench_opt.by_kernel && total)
		printf(" %6s %s", "-", "-");
	else if (qbench_opt.by_kernel)
		printf(" %6.1f %s", x.peak, x.unit);
	putchar('\n');
}

static void
text_rows(const struct qbench_result *r, const struct qbench_phase *p)
{
	const struct qwen_kernel_stat *row = qbench_opt.by_kernel ? p->stat :
	    p->purpose, sum = sum_of(p);
	size_t i, n = qbench_opt.by_kernel ? p->n_stat : p->n_purpose;

	for (i = 0; i < n; i++)
		text_row(r, p, &row[i]);
	if (n > 0)
		text_row(r, p, &sum);
}

/* Print the sum of both phases. */
static void
text_all(const struct qbench_result *r)
{
	struct qbench_phase all = { .name = "all", .sequences = 1, .n =
	    r->phase[0]->n * r->phase[0]->sequences + r->phase[1]->n *
	    r->phase[1]->sequences };
	struct qwen_kernel_stat sum[2];

	if (r->phase[0]->n_stat == 0 || r->phase[1]->n_stat == 0)
		return;
	sum[0] = sum_of(r->phase[0]);
	sum[1] = sum_of(r->phase[1]);
	all.stat = sum;
	all.n_stat = 2;
	sum[0] = sum_of(&all);
	all.n_stat = 1;
	text_row(r, &all, &sum[0]);
}

static void
text_table(const struct qbench_result *r)
{
	int by_kernel = qbench_opt.by_kernel;

	printf("\n%-8s %-17s ", "part", by_kernel ? "kernel" : "purpose");
	if (by_kernel)
		printf("%-10s ", "variant");
	printf("%8s %10s %6s %9s %10s %8s %6s %9s", "calls", "ms", "share%",
	    "ms/token", "MB", "GB/s", "%read", "GMAC/s");
	printf("%s\n", by_kernel ? "  %peak peak" : "");
	text_rows(r, r->phase[0]);
	text_rows(r, r->phase[1]);
	text_all(r);
}

static void
text_result(const struct qbench_result *r)
{
	const struct qbench_memory mem = memory_of(r);

	printf("model    %s: %s, %s\n", qbench_model_name,
	    qwen_model_arch(r->m), cli_count(qwen_model_n_layer(r->m), "layer"));
	printf("cpu      %s, %s, %s (%s)\n", qbench_cpu_name(),
	    cli_count((uint64_t)r->machine.n_threads, "thread"), r->machine.variant, r->machine.int8_op);
	printf("setting  prefill of %zu tokens, batch %zu; decode of %zu at "
	    "depth %zu, sequences %zu; %s; numerics %u\n\n",
	    r->phase[0]->n, r->batch, r->phase[1]->n, r->phase[1]->depth,
	    r->phase[1]->sequences, cli_count(qbench_opt.rounds, "round"),
	    qwen_model_numerics(r->m));
	printf("%-8s %-14s %12s %12s %12s  %s\n", "part", "what", "median",
	    "min", "max", "unit");
	text_phase(r->phase[0]);
	text_phase(r->phase[1]);
	text_one("start", "load", 1e3 * qbench_load_s, "ms");
	text_line("start", "first_kernel", &r->start.kernel, "ms");
	text_line("start", "first_token", &r->start.token, "ms");
	text_one("memory", "peak", mem.peak, "MiB");
	text_one("memory", "mapped", mem.mapped, "MiB");
	text_one("memory", "private", mem.private, "MiB");
	text_machine(&r->machine);
	text_table(r);
}

/* -------------------------------------------------------------------- JSON */

/* Print , "name": v; null if v is unknown. */
static void
json_num(const char *name, double v)
{
	printf(isfinite(v) && v >= 0 ? ", \"%s\": %.9g" :
	    ", \"%s\": null", name, v);
}

void
qbench_json_spread(const char *name, const struct qbench_spread *s)
{
	printf("\"%s\": {\"median\": %.9g, \"min\": %.9g, \"max\": %.9g}",
	    name, s->median, s->min, s->max);
}

static void
json_phase(const struct qbench_phase *p)
{
	struct qbench_spread s, ms;

	printf("\"%s\": ", p->name);
	if (p->n == 0) {
		printf("null");
		return;
	}
	printf("{\"n\": %zu, ", p->n);
	qbench_json_spread("tok_s", &p->tok_s);
	printf(", ");
	s = seconds_of(p);
	qbench_json_spread("seconds", &s);
	printf(", ");
	ms = time_of(p, 1e3);
	qbench_json_spread("ms_token", &ms);
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

/* Print an element for a kernel or purpose. */
static void
json_row(const struct qbench_result *r, const struct qbench_phase *p,
    const struct qwen_kernel_stat *k, int kernel)
{
	struct rates x = rates_of(r, p, k);

	printf("{\"phase\": \"%s\", \"name\": ", p->name);
	cli_json_string(k->name);
	if (kernel) {
		printf(", \"variant\": ");
		cli_json_string(k->variant);
	}
	printf(", \"calls\": %" PRIu64, k->calls);
	json_num("ms", k->ms);
	json_num("share_percent", x.share);
	json_num("ms_token", x.ms_token);
	printf(", \"bytes\": %" PRIu64 ", \"macs\": %" PRIu64, k->bytes,
	    k->macs);
	json_num("gb_s", x.gb);
	json_num("read_percent", x.read);
	json_num("gmac_s", x.gmac);
	if (kernel) {
		json_num("peak_percent", x.peak);
		printf(", \"peak\": \"%s\"", x.unit);
	}
	printf("}");
}

static void
json_rows(const char *name, const struct qbench_result *r, int kernel)
{
	const struct qbench_phase *p;
	size_t i, k, n = 0;

	printf(", \"%s\": [", name);
	for (k = 0; k < 2; k++) {
		p = r->phase[k];
		for (i = 0; i < (kernel ? p->n_stat : p->n_purpose); i++) {
			printf("%s", n++ > 0 ? ", " : "");
			json_row(r, p, kernel ? &p->stat[i] : &p->purpose[i],
			    kernel);
		}
	}
	printf("]");
}

static int
json_rounds(const struct qbench_phase *p, int n)
{
	const struct qbench_round *r;
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
json_totals(const struct qbench_phase *p)
{
	struct totals t = totals_of(p);

	printf("\"tokens\": %zu", p->n * p->sequences);
	json_num("gb_s", t.gb);
	json_num("read_percent", p->of_read.median);
	json_num("gmac_s", t.gmac);
	json_num("int8_percent", p->of_int8.median);
}

static void
json_faults(const struct qbench_phase *p)
{
	qbench_json_spread("minor", &p->minor);
	printf(", ");
	qbench_json_spread("major", &p->major);
}

/* Print an object with one field per measured phase. */
static void
json_phases(const char *name, const struct qbench_result *r,
    void (*members)(const struct qbench_phase *p))
{
	int i, n = 0;

	printf("\"%s\": {", name);
	for (i = 0; i < 2; i++) {
		if (r->phase[i]->n == 0)
			continue;
		printf("%s\"%s\": {", n++ ? ", " : "", r->phase[i]->name);
		members(r->phase[i]);
		printf("}");
	}
	printf("}");
}

static void
json_result(const struct qbench_result *r)
{
	const struct qbench_memory mem = memory_of(r);

	printf("{");
	json_phase(r->phase[0]);
	printf(", ");
	json_phase(r->phase[1]);
	printf(", ");
	qbench_json_machine(&r->machine);
	json_rows("kernels", r, 1);
	json_rows("purposes", r, 0);
	printf(", ");
	json_phases("totals", r, json_totals);
	printf(", \"start\": {\"load_ms\": %.9g, ", 1e3 * qbench_load_s);
	qbench_json_spread("first_kernel_ms", &r->start.kernel);
	printf(", ");
	qbench_json_spread("first_token_ms", &r->start.token);
	printf("}, \"memory\": {\"unit\": \"MiB\"");
	json_num("peak", mem.peak);
	json_num("mapped", mem.mapped);
	json_num("private", mem.private);
	printf("}, ");
	json_phases("faults", r, json_faults);
	printf(", \"rounds\": [");
	json_rounds(r->phase[1], json_rounds(r->phase[0], 0));
	printf("], \"model\": {\"name\": ");
	cli_json_string(qbench_model_name);
	printf(", \"arch\": ");
	cli_json_string(qwen_model_arch(r->m));
	printf(", \"n_layer\": %zu}, \"setting\": {\"threads\": %d, "
	    "\"batch\": %zu, \"depth\": %zu, \"sequences\": %zu, "
	    "\"numerics\": %u}}\n",
	    qwen_model_n_layer(r->m), r->machine.n_threads, r->batch,
	    r->phase[1]->depth, r->phase[1]->sequences,
	    qwen_model_numerics(r->m));
}

/* --------------------------------------------------------------------- CSV */

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

static void
csv_head(void)
{
	printf("model,threads,batch,prompt,depth,n,"
	    "prefill_median,prefill_min,prefill_max,prefill_marked,"
	    "decode_median,decode_min,decode_max,decode_marked,"
	    "first_kernel_ms,first_token_ms,"
	    "peak_mib,mapped_mib,private_mib,prefill_minor,prefill_major,"
	    "decode_minor,decode_major,"
	    "read_gb_s,copy_gb_s,int8_gmac_s,f32_gmac_s,sequences,"
	    "load_ms,prefill_s,prefill_ms_token,decode_s,decode_ms_token\n");
}

static void
csv_phase(const struct qbench_phase *p)
{
	if (p->n == 0)
		printf(",,,,");
	else
		printf(",%.6g,%.6g,%.6g,%zu", p->tok_s.median, p->tok_s.min,
		    p->tok_s.max, p->n_marked);
}

static void
csv_faults(const struct qbench_phase *p)
{
	if (p->n == 0)
		printf(",,");
	else
		printf(",%.0f,%.0f", p->minor.median, p->major.median);
}

/* Print the medians over the rounds. */
static void
csv_times(const struct qbench_phase *p)
{
	if (p->n == 0)
		printf(",,");
	else
		printf(",%.6g,%.6g", seconds_of(p).median,
		    time_of(p, 1e3).median);
}

static void
csv_mib(double v)
{
	printf(v < 0 ? "," : ",%.2f", v);
}

static void
csv_result(const struct qbench_result *r)
{
	const struct qbench_memory mem = memory_of(r);
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
	printf(",%.4g,%.4g,%.4g,%.4g,%zu,%.3f", m->read * 1e-9, m->copy * 1e-9,
	    m->int8 * 1e-9, m->f32 * 1e-9, r->phase[1]->sequences,
	    1e3 * qbench_load_s);
	csv_times(r->phase[0]);
	csv_times(r->phase[1]);
	putchar('\n');
}

void
qbench_show(const struct qbench_result *r)
{
	static int shown;

	if (qbench_opt.csv) {
		if (!shown)
			csv_head();
		csv_result(r);
	} else if (qbench_opt.json)
		json_result(r);
	else {
		printf("%s", shown ? "\n" : "");
		text_result(r);
	}
	shown = 1;
	if (fflush(stdout) == EOF)
		die("stdout: %s", strerror(errno));
}
