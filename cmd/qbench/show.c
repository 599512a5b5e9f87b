/* SPDX-License-Identifier: ISC */
/* show.c - print the results of prefill and decode as text, JSON and CSV. */
#include <math.h>
#include <string.h>

#include "text/json/json.h"
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

/* Return a value without a minimum and a maximum. */
static struct qbench_spread
one(double v)
{
	return (struct qbench_spread){ v, NAN, NAN };
}

/* ------------------------------------------------- of kernels and purposes */

enum { N_CELLS = 15 };

/*
 * Set the cells of a kernel, or of a purpose, which has no variant and no peak.
 */
static void
set_cells(struct qbench_cell to[N_CELLS], const struct qbench_result *r,
    const struct qbench_phase *p, const struct qwen_kernel_stat *k, int kernel)
{
	struct rates x = rates_of(r, p, k);
	int total = strcmp(k->name, "total") == 0;
	const struct qbench_cell all[N_CELLS] = {
		QBENCH_TEXT("phase", "part", -8, p->name),
		QBENCH_TEXT("name", kernel ? "kernel" : "purpose", -17,
		    k->name),
		QBENCH_TEXT(kernel ? "variant" : NULL, kernel ? "variant" :
		    NULL, -10, k->variant),
		QBENCH_REAL("calls", "calls", 8, 0, (double)k->calls),
		QBENCH_REAL("ms", "ms", 10, 2, k->ms),
		QBENCH_REAL("share_percent", "share%", 6, 1, x.share),
		QBENCH_REAL("ms_token", "ms/token", 9, 4, x.ms_token),
		QBENCH_REAL("bytes", NULL, 0, 0, (double)k->bytes),
		QBENCH_REAL("macs", NULL, 0, 0, (double)k->macs),
		QBENCH_REAL(NULL, "MB", 10, 2, (double)k->bytes * 1e-6),
		QBENCH_REAL("gb_s", "GB/s", 8, 2, x.gb),
		QBENCH_REAL("read_percent", "%read", 6, 1, x.read),
		QBENCH_REAL("gmac_s", "GMAC/s", 9, 2, x.gmac),
		QBENCH_REAL(kernel ? "peak_percent" : NULL, kernel ? "%peak" :
		    NULL, 6, 1, total ? NAN : x.peak),
		QBENCH_TEXT(kernel ? "peak" : NULL, kernel ? "peak" : NULL, 0,
		    total ? "-" : x.unit),
	};

	memcpy(to, all, sizeof all);
}

/* Append a row of the table; *n counts them. */
static void
text_row(struct qwen_text *t, const struct qbench_result *r,
    const struct qbench_phase *p, const struct qwen_kernel_stat *k, size_t *n)
{
	struct qbench_cell cell[N_CELLS];

	set_cells(cell, r, p, k, qbench_opt.by_kernel);
	qbench_row(t, cell, N_CELLS, (*n)++ == 0);
}

/* Append the rows of both phases, each with its total, and the total of all. */
static void
text_rows(struct qwen_text *t, const struct qbench_result *r)
{
	struct qbench_phase all = { .name = "all", .sequences = 1 };
	struct qwen_kernel_stat sum[2];
	const struct qbench_phase *p;
	size_t i, k, n = 0;

	for (k = 0; k < 2; k++) {
		p = r->phase[k];
		all.n += p->n * p->sequences;
		for (i = 0; i < (qbench_opt.by_kernel ? p->n_stat :
		    p->n_purpose); i++)
			text_row(t, r, p, qbench_opt.by_kernel ? &p->stat[i] :
			    &p->purpose[i], &n);
		if (p->n_stat == 0)
			continue;
		sum[all.n_stat] = sum_of(p);
		text_row(t, r, p, &sum[all.n_stat++], &n);
	}
	if (all.n_stat < 2)
		return;
	all.stat = sum;
	sum[0] = sum_of(&all);
	all.n_stat = 1;
	text_row(t, r, &all, &sum[0], &n);
}

static void
json_rows(struct qwen_text *t, const char *name, const struct qbench_result *r,
    int kernel)
{
	struct qbench_cell cell[N_CELLS];
	const struct qbench_phase *p;
	size_t i, k;

	qwen_json_put(t, ",'%s':[", name);
	for (k = 0; k < 2; k++) {
		p = r->phase[k];
		for (i = 0; i < (kernel ? p->n_stat : p->n_purpose); i++) {
			set_cells(cell, r, p, kernel ? &p->stat[i] :
			    &p->purpose[i], kernel);
			qwen_json_put(t, ",{");
			qbench_json_cells(t, cell, N_CELLS);
			qwen_json_put(t, "}");
		}
	}
	qwen_json_put(t, "]");
}

/* -------------------------------------------------------------------- text */

static void
text_line(struct qwen_text *t, const char *part, const char *what,
    struct qbench_spread s, const char *unit)
{
	int digits = unit[0] == 's' || unit[0] == 'm' ? 4 : 2;
	const struct qbench_cell cell[] = {
		QBENCH_TEXT(NULL, "", -8, part),
		QBENCH_TEXT(NULL, "", -14, what),
		QBENCH_RANGE(NULL, "", 12, digits, s),
		QBENCH_TEXT(NULL, "", 0, unit),
	};

	qbench_row(t, cell, 4, 0);
}

static void
text_phase(struct qwen_text *t, const struct qbench_phase *p)
{
	struct totals sum = totals_of(p);

	if (p->n == 0)
		return;
	text_line(t, p->name, "speed", p->tok_s, "tok/s");
	text_line(t, p->name, "time", seconds_of(p), "s");
	text_line(t, p->name, "per_token", time_of(p, 1e3), "ms");
	text_line(t, p->name, "moved", one(sum.gb), "GB/s");
	text_line(t, p->name, "of_read", p->of_read, "%");
	text_line(t, p->name, "multiplied", one(sum.gmac), "GMAC/s");
	text_line(t, p->name, "of_int8", p->of_int8, "%");
	text_line(t, p->name, "minor_faults", p->minor, "pages");
	text_line(t, p->name, "major_faults", p->major, "pages");
	text_line(t, p->name, "steal", p->steal, "%");
	text_line(t, p->name, "marked", one(p->n_marked), "rounds");
}

static void
text_result(struct qwen_text *t, const struct qbench_result *r)
{
	const struct qbench_memory mem = memory_of(r);
	const struct qwen_machine *m = &r->machine;

	qbench_text_model(t, r->m);
	qwen_text_fmt(t, ", %s (%s)\n", m->variant, m->int8_op);
	qwen_text_fmt(t, "setting  prefill of %zu tokens, batch %zu; decode of "
	    "%zu at depth %zu, sequences %zu; %s; numerics %u\n\n",
	    r->phase[0]->n, r->batch, r->phase[1]->n, r->phase[1]->depth,
	    r->phase[1]->sequences, cli_count(qbench_opt.rounds, "round"),
	    qwen_model_numerics(r->m));
	qwen_text_fmt(t, "%-8s %-14s %12s %12s %12s %s\n", "part", "what",
	    "median", "min", "max", "unit");
	text_phase(t, r->phase[0]);
	text_phase(t, r->phase[1]);
	text_line(t, "start", "load", one(1e3 * qbench_load_s), "ms");
	text_line(t, "start", "first_kernel", r->start.kernel, "ms");
	text_line(t, "start", "first_token", r->start.token, "ms");
	text_line(t, "memory", "peak", one(mem.peak), "MiB");
	text_line(t, "memory", "mapped", one(mem.mapped), "MiB");
	text_line(t, "memory", "private", one(mem.private), "MiB");
	text_line(t, "machine", "read", one(m->read * 1e-9), "GB/s");
	text_line(t, "machine", "copy", one(m->copy * 1e-9), "GB/s");
	text_line(t, "machine", "int8", one(m->int8 * 1e-9), "GMAC/s");
	text_line(t, "machine", "f32", one(m->f32 * 1e-9), "GMAC/s");
	qwen_text_str(t, "\n");
	text_rows(t, r);
}

/* -------------------------------------------------------------------- JSON */

static void
json_phase(struct qwen_text *t, const struct qbench_phase *p)
{
	if (p->n == 0) {
		qwen_json_put(t, ",'%s':null", p->name);
		return;
	}
	qwen_json_put(t, ",'%s':{'n':%zu", p->name, p->n);
	qbench_json_spread(t, "tok_s", p->tok_s);
	qbench_json_spread(t, "seconds", seconds_of(p));
	qbench_json_spread(t, "ms_token", time_of(p, 1e3));
	qwen_json_put(t, "}");
}

static void
json_rounds(struct qwen_text *t, const struct qbench_phase *p)
{
	const struct qbench_round *r;
	size_t i;

	for (i = 0; p->n > 0 && i < qbench_opt.rounds; i++) {
		r = &p->round[i];
		qwen_json_put(t, ",{'phase':'%s','tok_s':%.9g,'minor':%ld,"
		    "'major':%ld,'steal_percent':%.3g,'marked':%s}", p->name,
		    r->tok_s, r->minor, r->major, r->steal, r->marked ?
		    "true" : "false");
	}
}

static void
json_totals(struct qwen_text *t, const struct qbench_phase *p)
{
	struct totals sum = totals_of(p);

	qwen_json_put(t, "'tokens':%zu", p->n * p->sequences);
	qbench_json_number(t, "gb_s", sum.gb);
	qbench_json_number(t, "read_percent", p->of_read.median);
	qbench_json_number(t, "gmac_s", sum.gmac);
	qbench_json_number(t, "int8_percent", p->of_int8.median);
}

static void
json_faults(struct qwen_text *t, const struct qbench_phase *p)
{
	qbench_json_spread(t, "minor", p->minor);
	qbench_json_spread(t, "major", p->major);
}

/* Append an object with one field per measured phase. */
static void
json_phases(struct qwen_text *t, const char *name,
    const struct qbench_result *r,
    void (*put)(struct qwen_text *t, const struct qbench_phase *p))
{
	int i;

	qwen_json_put(t, ",'%s':{", name);
	for (i = 0; i < 2; i++) {
		if (r->phase[i]->n == 0)
			continue;
		qwen_json_put(t, ",'%s':{", r->phase[i]->name);
		put(t, r->phase[i]);
		qwen_json_put(t, "}");
	}
	qwen_json_put(t, "}");
}

static void
json_result(struct qwen_text *t, const struct qbench_result *r)
{
	const struct qbench_memory mem = memory_of(r);

	qwen_json_put(t, "{");
	json_phase(t, r->phase[0]);
	json_phase(t, r->phase[1]);
	qbench_json_machine(t, &r->machine);
	json_rows(t, "kernels", r, 1);
	json_rows(t, "purposes", r, 0);
	json_phases(t, "totals", r, json_totals);
	qwen_json_put(t, ",'start':{'load_ms':%.9g", 1e3 * qbench_load_s);
	qbench_json_spread(t, "first_kernel_ms", r->start.kernel);
	qbench_json_spread(t, "first_token_ms", r->start.token);
	qwen_json_put(t, "},'memory':{'unit':'MiB'");
	qbench_json_number(t, "peak", mem.peak);
	qbench_json_number(t, "mapped", mem.mapped);
	qbench_json_number(t, "private", mem.private);
	qwen_json_put(t, "}");
	json_phases(t, "faults", r, json_faults);
	qwen_json_put(t, ",'rounds':[");
	json_rounds(t, r->phase[0]);
	json_rounds(t, r->phase[1]);
	qwen_json_put(t, "]");
	qbench_json_model(t, r->m);
	qwen_json_put(t, ",'setting':{'threads':%d,'batch':%zu,'depth':%zu,"
	    "'sequences':%zu,'numerics':%u}}", r->machine.n_threads, r->batch,
	    r->phase[1]->depth, r->phase[1]->sequences,
	    qwen_model_numerics(r->m));
	qwen_text_str(t, "\n");
}

/* --------------------------------------------------------------------- CSV */

static void
csv_result(struct qwen_text *t, const struct qbench_result *r)
{
	const struct qbench_memory mem = memory_of(r);
	const struct qwen_machine *m = &r->machine;
	const struct qbench_phase *p = r->phase[0], *d = r->phase[1];
	const struct qbench_cell cell[] = {
		QBENCH_TEXT("model", NULL, 0, qbench_model_name),
		QBENCH_VALUE("threads", m->n_threads),
		QBENCH_VALUE("batch", (double)r->batch),
		QBENCH_VALUE("prompt", (double)p->n),
		QBENCH_VALUE("depth", (double)d->depth),
		QBENCH_VALUE("n", (double)d->n),
		QBENCH_VALUES("prefill", p->tok_s),
		QBENCH_VALUE("prefill_marked", p->n_marked),
		QBENCH_VALUES("decode", d->tok_s),
		QBENCH_VALUE("decode_marked", d->n_marked),
		QBENCH_VALUE("first_kernel_ms", r->start.kernel.median),
		QBENCH_VALUE("first_token_ms", r->start.token.median),
		QBENCH_VALUE("peak_mib", mem.peak),
		QBENCH_VALUE("mapped_mib", mem.mapped),
		QBENCH_VALUE("private_mib", mem.private),
		QBENCH_VALUE("prefill_minor", p->minor.median),
		QBENCH_VALUE("prefill_major", p->major.median),
		QBENCH_VALUE("decode_minor", d->minor.median),
		QBENCH_VALUE("decode_major", d->major.median),
		QBENCH_VALUE("read_gb_s", m->read * 1e-9),
		QBENCH_VALUE("copy_gb_s", m->copy * 1e-9),
		QBENCH_VALUE("int8_gmac_s", m->int8 * 1e-9),
		QBENCH_VALUE("f32_gmac_s", m->f32 * 1e-9),
		QBENCH_VALUE("sequences", (double)d->sequences),
		QBENCH_VALUE("load_ms", 1e3 * qbench_load_s),
		QBENCH_VALUE("prefill_s", seconds_of(p).median),
		QBENCH_VALUE("prefill_ms_token", time_of(p, 1e3).median),
		QBENCH_VALUE("decode_s", seconds_of(d).median),
		QBENCH_VALUE("decode_ms_token", time_of(d, 1e3).median),
	};

	qbench_row(t, cell, sizeof cell / sizeof cell[0], 0);
}

void
qbench_show(const struct qbench_result *r)
{
	struct qwen_text t = { 0 };

	qbench_begin(&t);
	(qbench_opt.csv ? csv_result : qbench_opt.json ? json_result :
	    text_result)(&t, r);
	qbench_write(&t);
}
