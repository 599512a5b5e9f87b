/* SPDX-License-Identifier: ISC */
/*
 * plan.c - what a model needs on this machine: memory, bytes and multiply-adds
 * per token, and the speed that the machine's memory and arithmetic allow.
 */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gguf-inspect.h"

enum { DEFAULT_CONTEXT = 4096, HOMES_MAX = 2 * INSPECT_RANKS_MAX };

/* The devices of --device. */
struct inspect_homes {
	size_t			n;
	struct qwen_plan_home	home[HOMES_MAX];
	double			int8[HOMES_MAX];	/* multiply-adds a second;
							   0: unknown */
};

/* Return the seconds for macs multiply-adds, of which floats are in f32. */
static double
seconds(const struct qwen_machine *h, double macs, double floats)
{
	return (macs - floats) / h->int8 + floats / h->f32;
}

static double
decode_speed(const struct qwen_plan *p, const struct qwen_machine *h)
{
	double moved = (double)p->sum.read / h->read;
	double work = seconds(h, (double)p->sum.macs, (double)p->float_macs);

	return 1 / (moved > work ? moved : work);
}

/*
 * Return tokens per second.  The average token attends to half of the text,
 * only the last token needs the output head, and a pass reads the weights once.
 */
static double
prefill_speed(const struct qwen_plan *p, const struct qwen_machine *h)
{
	double half = (double)p->kv_macs / 2;
	double macs = (double)p->sum.macs - half -
	    (double)p->part[QWEN_PLAN_OUTPUT].macs;
	double moved = (double)(p->weights - p->part[QWEN_PLAN_OUTPUT].bytes -
	    p->part[QWEN_PLAN_EMBEDDING].bytes) / (double)p->batch / h->read;
	double work = seconds(h, macs, (double)p->float_macs - half);

	return 1 / (moved > work ? moved : work);
}

static void
put_text(const struct inspect_figure *f, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		/* no decimals for "tokens", two for "tok/s" */
		printf("%-7s %-13s %16.*f %s", f[i].kind, f[i].name,
		    islower((unsigned char)f[i].unit[0]) &&
		    strchr(f[i].unit, '/') == NULL ? 0 : 2, f[i].value,
		    f[i].unit);
		if (f[i].unit[0] == 'b')
			printf(" %10.2f MiB", f[i].value / 0x1p20);
		putchar('\n');
	}
}

static void
put_json(const struct inspect_figure *f, size_t n)
{
	const char *kind = NULL;
	size_t i;

	for (i = 0; i < n; kind = f[i++].kind) {
		if (i > 0 && kind == f[i].kind)
			printf(", ");
		else
			printf("%s\"%s\": {", i > 0 ? "},\n" : "", f[i].kind);
		printf("\"%s\": %.15g", f[i].name, f[i].value);
	}
	puts("}}");
}

void
inspect_put_figures(const struct inspect_figure *f, size_t n, int json)
{
	(json ? put_json : put_text)(f, n);
}

/*
 * Print the weights by purpose, and the share of each in the bytes read per
 * token.
 */
static void
put_parts(const struct qwen_plan *p, int json)
{
	const char *form = json ? "%s{\"part\": \"%s\", \"params\": %" PRIu64
	    ", \"bytes\": %" PRIu64 ", \"active\": %" PRIu64 ", \"read\": %"
	    PRIu64 ", \"macs\": %" PRIu64 ", \"share\": %.4f}" :
	    "%spart    %-13s %14" PRIu64 " %14" PRIu64 " %12" PRIu64 " %12"
	    PRIu64 " %12" PRIu64 " %7.4f\n";
	const struct qwen_plan_sum kv = { .read = p->kv_read,
	    .macs = p->kv_macs }, state = { .read = p->state_moved,
	    .macs = p->state_macs }, *s;
	const char *before = json ? "{\"parts\": [" : "", *name;
	int i;

	if (!json)
		printf("%-7s %-13s %14s %14s %12s %12s %12s %7s\n", "part",
		    "name", "params", "bytes", "active", "read", "macs",
		    "of_read");
	for (i = 0; i < QWEN_PLAN_N + 3; i++) {
		s = i < QWEN_PLAN_N ? &p->part[i] : i == QWEN_PLAN_N ? &kv :
		    i == QWEN_PLAN_N + 1 ? &state : &p->sum;
		name = i < QWEN_PLAN_N ? qwen_plan_part_name((enum
		    qwen_plan_part)i) : i == QWEN_PLAN_N ? "kv-cache" :
		    i == QWEN_PLAN_N + 1 ? "state" : "all";
		if (s->read == 0)
			continue;
		printf(form, before, name, s->params, s->bytes, s->active,
		    s->read, s->macs, (double)s->read / (double)p->sum.read);
		before = json ? ",\n  " : "";
	}
	printf("%s", json ? "],\n" : "");
}

/*
 * Return the seconds of a token on all devices, one after the other: of decoding, or
 * of a prompt (prompt), whose tokens share a reading of the weights.  Not finite if
 * the speed of one is unknown.
 */
static double
seconds_of_homes(const struct inspect_homes *d, const struct qwen_plan *p,
    const struct qwen_machine *h, int prompt)
{
	double all = 0, moved, work;
	size_t i;

	for (i = 0; i < d->n; i++) {
		const struct qwen_plan_home *o = &d->home[i];

		if (o->read == 0)
			continue;
		moved = (double)(prompt ? o->weights / p->batch : o->read) /
		    (i == 0 ? h->read : o->speed);
		work = i == 0 ? seconds(h, (double)o->macs,
		    (double)o->float_macs) : (double)o->macs / d->int8[i];
		all += moved > work ? moved : work;
	}
	return all;
}

static void
put_figures(const struct qwen_plan *p, const struct qwen_machine *h,
    const struct inspect_homes *d, int json)
{
	const double decode = d->n == 0 ? decode_speed(p, h) :
	    1 / seconds_of_homes(d, p, h, 0);
	const double prefill = d->n == 0 ? prefill_speed(p, h) :
	    1 / seconds_of_homes(d, p, h, 1);
	const struct inspect_figure f[] = {
		{ "plan", "context", (double)p->n_tokens, "tokens" },
		{ "plan", "sequences", (double)p->n_sequences, "timelines" },
		{ "plan", "batch", (double)p->batch, "tokens" },
		{ "memory", "weights", (double)p->weights, "bytes" },
		{ "memory", "kv-cache", (double)p->kv, "bytes" },
		{ "memory", "state", (double)p->state, "bytes" },
		{ "memory", "checkpoints", (double)p->checkpoints, "bytes" },
		{ "memory", "guesses", (double)p->guesses, "bytes" },
		{ "memory", "scratch", (double)p->scratch, "bytes" },
		{ "memory", "other", (double)p->other, "bytes" },
		{ "memory", "total", (double)p->weights + (double)p->own,
		    "bytes" },
		{ "model", "params", (double)p->sum.params / 1e9, "10^9" },
		{ "model", "active", (double)p->sum.active / 1e9, "10^9" },
		{ "token", "read", (double)p->sum.read / 1e9, "GB" },
		{ "token", "macs", (double)p->sum.macs / 1e9, "GMAC" },
		{ "machine", "threads", h->n_threads, "threads" },
		{ "machine", "read", h->read / 1e9, "GB/s" },
		{ "machine", "int8", h->int8 / 1e9, "GMAC/s" },
		{ "machine", "f32", h->f32 / 1e9, "GMAC/s" },
		{ "speed", "decode", decode, "tok/s" },
		{ "speed", "prefill", prefill, "tok/s" },
	};

	/* the speeds of a card that is not here are unknown */
	inspect_put_figures(f, sizeof f / sizeof f[0] - (isfinite(decode) &&
	    isfinite(prefill) ? 0 : 2), json);
}

/* Print what each device would have. */
static void
put_homes(const struct inspect_homes *d, int json)
{
	const char *form = json ? "%s{\"device\": \"%s\", \"weights\": %"
	    PRIu64 ", \"kv\": %" PRIu64 ", \"state\": %" PRIu64
	    ", \"scratch\": %" PRIu64 ", \"memory\": %" PRIu64
	    ", \"read\": %" PRIu64 ", \"read_gb_s\": %.9g, \"int8_gmac_s\": "
	    "%.9g, \"what\": \"%s\"}" : "%sdevice  %-13s %14" PRIu64 " %14"
	    PRIu64 " %12" PRIu64 " %12" PRIu64 " %14" PRIu64 " %12" PRIu64
	    " %9.1f %11.1f %s\n";
	size_t i;

	if (d->n > 0 && !json)
		printf("device  %-13s %14s %14s %12s %12s %14s %12s %9s %11s "
		    "%s\n", "name", "weights", "kv-cache", "state", "scratch",
		    "memory", "read", "GB/s", "GMAC/s", "what");
	for (i = 0; i < d->n; i++) {
		const struct qwen_plan_home *o = &d->home[i];

		printf(form, !json ? "" : i > 0 ? ",\n  " : "\"devices\": [",
		    o->device, o->weights, o->kv, o->state, o->scratch,
		    o->left, o->read, o->speed * 1e-9, d->int8[i] * 1e-9,
		    o->what);
	}
	printf("%s", json && d->n > 0 ? "],\n" : "");
}

/* Plan the devices of a list, and measure their cards if they are here. */
static void
plan_homes(struct inspect_homes *d, const struct qwen_model *m,
    const struct qwen_plan *p, const struct qwen_machine *h, const char *name,
    const char *list)
{
	struct qwen_card_speed card[16];
	char device[32];
	size_t i, k, n;

	cli_must(name, qwen_plan_homes(d->home, HOMES_MAX, &d->n, m, list,
	    p->n_tokens, p->n_sequences, p->batch, &cli_err));
	d->home[0].speed = h->read;
	d->home[0].left = tool_memory_free();
	d->int8[0] = h->int8;
	if (qwen_card_measure(card, 16, &n, list, NULL) < 0)
		return;
	for (k = 0; k < n; k++) {
		snprintf(device, sizeof device, "cuda:%d", card[k].number);
		for (i = 1; i < d->n; i++) {
			if (strcmp(d->home[i].device, device) == 0)
				d->int8[i] = card[k].int8;
		}
	}
}

/* Say what does not fit, and what helps. */
static void
note_missing(const struct inspect_homes *d)
{
	uint64_t need;
	size_t i;

	for (i = 1; i < d->n; i++) {
		const struct qwen_plan_home *o = &d->home[i];

		need = o->weights + o->kv + o->state + o->scratch;
		if (o->weights > 0 && o->left > 0 && need > o->left)
			cli_note("%s: %.2f GiB are needed, and %.2f are free: "
			    "a smaller -c, --kv q8_0, or %s=SIZE with a "
			    "smaller size, which leaves more layers to the "
			    "CPU", o->device, (double)need / 0x1p30,
			    (double)o->left / 0x1p30, o->device);
	}
}

/* Returns the list of devices for n ranks with equal shares. */
static const char *
list_of_ranks(size_t n)
{
	static char list[sizeof "mpi" + 2 * HOMES_MAX];
	size_t i;

	strcpy(list, "mpi");
	for (i = 0; i < n; i++)
		strcat(list, ":1");
	return list;
}

void
inspect_plan(const char *path, const struct inspect_plan_opts *o, int json)
{
	struct qwen_checkpoints keep = o->keep;
	const char *name = tool_device != NULL ? "--device" : "QWEN_DEVICE";
	const char *list = tool_device != NULL ? tool_device : cli_env(name);
	struct qwen_model *m;
	size_t n_ctx, n = o->context;
	static struct inspect_homes homes;
	struct qwen_machine h;
	struct qwen_plan p;

	if (o->ranks > 0) {
		name = "--ranks";
		list = list_of_ranks(o->ranks);
	}
	tool_device = "cpu";		/* a plan takes no memory of cards */
	m = tool_model_open(path, o->n_threads, o->numerics);
	n_ctx = qwen_model_n_ctx(m);
	n = n > 0 ? n : n_ctx < DEFAULT_CONTEXT ? n_ctx : DEFAULT_CONTEXT;
	if (n > n_ctx)
		cli_usage("-c: %zu is more than the model's %zu", n, n_ctx);
	/*
	 * the default of qprefill; with several sequences there are no
	 * checkpoints
	 */
	if (!cli_given(&o->keep.every) && o->sequences <= 1)
		keep.every = qwen_model_checkpoint_every(m);
	/* speculative decoding is on by default */
	qwen_plan_make(&p, m, n, o->sequences, o->batch, QWEN_GUESS_MAX, &keep);
	cli_must(NULL, qwen_machine_measure(&h, qwen_model_n_threads(m),
	    tool_cpu(), 0, &cli_err));
	if (list != NULL)
		plan_homes(&homes, m, &p, &h, name, list);
	put_parts(&p, json);
	put_homes(&homes, json);
	put_figures(&p, &h, &homes, json);
	note_missing(&homes);
	qwen_model_close(m);
}
