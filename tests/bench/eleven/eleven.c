/* SPDX-License-Identifier: ISC */
/*
 * eleven.c - would activations of 11 bits, and sums of whole numbers as in
 * version 1, be a better version 2?
 *	eleven accuracy		KL divergence over llama.cpp's, by the bits
 *	eleven speed		products in cache, many tokens; x86 with
 *				AVX-512 VNNI
 *	eleven memory		products from memory, one token, two threads
 *	eleven model FILE	prefill and decode of a model of which all
 *				quantised weights are in formats that have
 *				prototypes
 * Bits of the prototypes are compared with plain C first.  The library knows
 * nothing of this: a model of version 1 gets other functions.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/model/model.h"
#include "synth/synth.h"
#include "eleven.h"
#include "../../golden/golden.h"

static void
fail(const char *what)
{
	fprintf(stderr, "eleven: %s\n", what);
	exit(1);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the arithmetic, in plain C */

static int most = ELEVEN_MOST;

static const int turned[4] = { 0, 2, 1, 3 };

static void
round_group(struct eleven_act *g, const float *x)
{
	int32_t q[QWEN_GROUP];
	uint32_t bits, max = 0;
	float d;
	int i;

	memset(g, 0, sizeof *g);
	for (i = 0; i < QWEN_GROUP; i++) {
		bits = qwen_f32_bits(x[i]) & 0x7fffffff;
		max = bits > max ? bits : max;
	}
	d = qwen_bits_f32(max);
	if (d < 0x1p-100f)
		return;
	g->d = d / (float)most;
	d = (float)most / d;
	for (i = 0; i < QWEN_GROUP; i++) {	/* rounds to a whole number */
		float t = x[i] * d + 0x1.8p23f;

		q[i] = (int32_t)(qwen_f32_bits(t) - 0x4b400000);
		g->hi[i] = (int8_t)((q[i] + 16) >> 5);
		g->lo[i] = (int8_t)(q[i] - 32 * ((q[i] + 16) >> 5));
	}
	for (i = 0; i < QWEN_GROUP; i += 4) {
		g->pair[i] = (int16_t)q[i];
		g->pair[i + 1] = (int16_t)q[i + 2];
		g->pair[i + 2] = (int16_t)q[i + 1];
		g->pair[i + 3] = (int16_t)q[i + 3];
	}
	for (i = 0; i < QWEN_GROUP; i++)
		g->sum16[i / 16] += q[i];
	for (i = 0; i < 8; i++) {
		g->sum32[i] = g->sum16[2 * i] + g->sum16[2 * i + 1];
		g->half32[i] = (int16_t)g->sum32[i];
	}
}

static void
round_row(struct qwen_q8 *to, const float *x, size_t n)
{
	struct eleven_act *g = (void *)to;
	float rest[QWEN_GROUP] = { 0 };

	for (; n >= QWEN_GROUP; n -= QWEN_GROUP, x += QWEN_GROUP)
		round_group(g++, x);
	if (n > 0) {
		memcpy(rest, x, n * sizeof *x);
		round_group(g, rest);
	}
}

/* n weights of a row and their activations: added to y. */
static float
add_group(const struct qwen_quant *q, const struct qwen_unpacked *u,
    const struct eleven_act *x, size_t n, float y)
{
	const int super = q->kind == QWEN_QUANT_SUPER;
	float part = 0.0f, part_min = 0.0f;
	int32_t sum = 0, min = 0, s;
	size_t b, i;

	for (b = 0; b < n / 16; b++) {
		for (s = 0, i = 16 * b; i < 16 * b + 16; i++)
			s += u->w[i] * x->pair[i / 4 * 4 + (size_t)turned[
			    i % 4]];
		sum += super ? u->scale[b] * s : s;
		min += super ? u->min[b] * x->sum16[b] : x->sum16[b];
		if (super || (b + 1) * 16 % q->span != 0)
			continue;
		i = b * 16 / q->span;
		part = fmaf(u->d[i], (float)sum, part);
		part_min = fmaf(u->m[i], (float)min, part_min);
		sum = min = 0;
	}
	if (super) {
		y = fmaf(u->d[0] * x->d, (float)sum, y);
		return q->has_min ? fmaf(-u->m[0] * x->d, (float)min, y) : y;
	}
	y = fmaf(x->d, part, y);
	return q->has_min ? fmaf(x->d, part_min, y) : y;
}

static void
plain(const struct qwen_matmul *m)
{
	const struct qwen_quant *q = m->quant;
	struct qwen_unpacked u;
	size_t r, t, i, n;

	for (r = m->r0; r < m->r1; r++) {
		const unsigned char *w = m->w + r * m->row_bytes;

		for (t = 0; t < m->n_tok; t++)
			m->y[t][r] = 0.0f;
		for (i = 0; i < m->n_in; i += n) {
			n = m->n_in - i < QWEN_GROUP ? m->n_in - i :
			    QWEN_GROUP;
			qwen_quant_unpack(q, w, n, &u);
			w += n / q->block_len * q->block_bytes;
			for (t = 0; t < m->n_tok; t++)
				m->y[t][r] = add_group(q, &u,
				    (const struct eleven_act *)m->x[t] +
				    i / QWEN_GROUP, n, m->y[t][r]);
		}
	}
}

/* ---- models */

static const struct format {
	const char	*name;
	uint32_t	 type;
	eleven_product	*few, *many;
} formats[] = {
#define FORMAT(name, type, ...)						\
	{ #type, type, eleven_few_##name, eleven_many_##name },
#if defined(__x86_64__)
	QWEN_FORMATS(FORMAT)
#endif
	{ NULL, 0, NULL, NULL }
};

#define N_FORMATS (sizeof formats / sizeof *formats)

/* What models opened from now on compute with. */
static enum { LIBRARY, PLAIN, PROTOTYPES } with = LIBRARY;

void __real_qwen_kernels_init(struct qwen_kernels *k, unsigned features,
    unsigned numerics);
void __wrap_qwen_kernels_init(struct qwen_kernels *k, unsigned features,
    unsigned numerics);

/* In place of the library's, for its callers. */
void
__wrap_qwen_kernels_init(struct qwen_kernels *k, unsigned features,
    unsigned numerics)
{
	static const struct qwen_kernel product = { .op = QWEN_OP_MATMUL,
	    .type = QWEN_ANY_TYPE, QWEN_SCALAR, .run.matmul = plain };
	static struct qwen_kernel few[N_FORMATS], many[N_FORMATS], vec;
	static struct qwen_vec functions;
	const struct format *f;
	uint32_t t;
	size_t c;

	__real_qwen_kernels_init(k, features, numerics);
	if (with == LIBRARY)
		return;
	functions = *k->vec->run.vec;
	functions.quantize = round_row;
	vec = *k->vec;
	vec.run.vec = &functions;
	k->vec = &vec;
	for (t = 0; t < QT_N; t++) {
		if (qwen_quant_find(t) == NULL ||
		    qwen_quant_find(t)->kind == QWEN_QUANT_FLOAT)
			continue;
		k->matmul[t] = &product;
		k->gemm[t] = (struct qwen_gemms){ { NULL } };
	}
	for (f = formats; with == PROTOTYPES && f->name != NULL; f++) {
		few[f - formats] = many[f - formats] = (struct qwen_kernel){
		    .type = f->type, QWEN_AVX512VNNI, .min_tok = 4 };
		few[f - formats].min_tok = 0;
		few[f - formats].run.matmul = f->few;
		many[f - formats].run.matmul = f->many;
		k->matmul[f->type] = &few[f - formats];
		for (c = qwen_token_class(4); c < QWEN_TOKEN_CLASSES; c++)
			k->gemm[f->type].by[c] = &many[f - formats];
	}
}

static struct qwen_model *
open_model(const char *path, const struct qwen_model_opts *opts)
{
	struct qwen_model *m;
	struct qwen_err err;

	if (qwen_model_open(&m, path, opts, &err) < 0)
		fail(err.msg);
	if (with != LIBRARY)
		m->x_bytes = sizeof(struct eleven_act);
	return m;
}

/* ---- accuracy */

struct take {
	const struct golden_case	*c;
	size_t				 next, n_vocab;
	float				*got;
};

static int
keep_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct take *t = arg;

	(void)err;
	if (t->next < t->c->n_rows && t->c->rows[t->next] == pos)
		memcpy(t->got + t->next++ * t->n_vocab, logits,
		    t->n_vocab * sizeof *logits);
	return 0;
}

/* The mean KL divergence of a case. */
static double
divergence(struct qwen_model *m, const struct golden_model *g,
    const struct golden_case *c)
{
	struct take t = { .c = c, .n_vocab = g->n_vocab };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep_row,
	    .arg = &t };
	struct qwen_session *s;
	struct qwen_err err;
	double d[6];

	t.got = calloc(c->n_rows, g->n_vocab * sizeof *t.got);
	if (t.got == NULL || qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, c->tokens, c->n_tokens, &how, &err) < 0)
		fail(t.got == NULL ? "no memory" : err.msg);
	golden_distance(g, c, t.got, d);
	qwen_session_free(s);
	free(t.got);
	return d[0];
}

/* Over the cases that have a peer's, a numerics version or, 0, ours. */
static void
accuracy_of(const struct golden_model *g, size_t n, unsigned numerics)
{
	struct qwen_model_opts opts = { .numerics = numerics ? numerics : 1,
	    .cpu = numerics ? NULL : "scalar" };
	struct qwen_model *m;
	double sum = 0, kl;
	size_t i, j, n_case = 0;

	with = numerics == 0 ? PLAIN : LIBRARY;
	for (i = 0; i < n; i++) {
		m = open_model(g[i].path, &opts);
		for (j = 0; j < g[i].n_case; j++) {
			const struct golden_case *c = &g[i].cases[j];

			if (c->n_rows == 0 || c->peer_kl <= 1e-6)
				continue;
			kl = divergence(m, &g[i], c);
			sum += log(kl / c->peer_kl);
			n_case++;
		}
		qwen_model_close(m);
	}
	if (numerics != 0)
		printf("version %u", numerics);
	else
		printf("1 to %d", most);
	printf(": KL / llama.cpp's KL, geometric mean of %zu cases: %.4f\n",
	    n_case, exp(sum / (double)n_case));
	fflush(stdout);
}

static int
accuracy(void)
{
	struct golden_model *g;
	size_t n = golden_load(&g);

	accuracy_of(g, n, 1);
	accuracy_of(g, n, 2);
	for (most = 255; most <= 2047; most = 2 * most + 1)
		accuracy_of(g, n, 0);
	golden_free(g, n);
	return 0;
}

/* ---- speed */

enum { TOKENS = 128, CHUNK = 1024, THREADS = 2 };
enum way { V1_FEW, V1_MANY, ELEVEN_FEW, ELEVEN_MANY, V2, WAYS };

static struct {
	size_t	 n_in, rows;
	int	 n_thread;
	const void *x[WAYS][TOKENS];
	float	*y[TOKENS];
} b;

static void *
take(size_t n)
{
	void *p = aligned_alloc(4096, (n + 8191) / 4096 * 4096);

	if (p == NULL)
		fail("no memory");
	return p;
}

static void
make_tokens(const struct qwen_vec *v)
{
	size_t g = QWEN_Q8_GROUPS(b.n_in), i, t;
	float *f = take(b.n_in * sizeof *f);

	srand(1);
	for (t = 0; t < TOKENS; t++) {
		struct qwen_q8 *x1 = take(g * sizeof *x1);
		struct eleven_act *x3 = take(g * sizeof *x3);
		uint16_t *x2 = take(b.n_in * sizeof *x2);

		for (i = 0; i < b.n_in; i++)
			f[i] = (float)rand() / (float)RAND_MAX - 0.5f;
		v->quantize(x1, f, b.n_in);
		v->to_bf16(x2, f, b.n_in, QWEN_BF16_LEAST(2));
		round_row((void *)x3, f, b.n_in);
		b.x[V1_FEW][t] = b.x[V1_MANY][t] = x1;
		b.x[ELEVEN_FEW][t] = b.x[ELEVEN_MANY][t] = x3;
		b.x[V2][t] = x2;
		b.y[t] = take(b.rows * sizeof *b.y[t]);
	}
	free(f);
}

struct share {
	eleven_product		*run;
	struct qwen_matmul	 m;
};

static void *
work(void *arg)
{
	struct share *s = arg;
	struct qwen_matmul m = s->m;

	for (; m.r0 < s->m.r1; m.r0 = m.r1) {
		m.r1 = s->m.r1 - m.r0 < CHUNK ? s->m.r1 : m.r0 + CHUNK;
		m.next = m.r1 < s->m.r1 ? m.w + m.r1 * m.row_bytes : NULL;
		s->run(&m);
	}
	return NULL;
}

/* Seconds for all rows. */
static double
once(eleven_product *run, struct qwen_matmul m)
{
	struct share s[THREADS];
	pthread_t id[THREADS];
	double t = now();
	int i;

	for (i = b.n_thread - 1; i >= 0; i--) {
		s[i].run = run;
		s[i].m = m;
		s[i].m.r0 = b.rows * (size_t)i / (size_t)b.n_thread;
		s[i].m.r1 = b.rows * (size_t)(i + 1) / (size_t)b.n_thread;
		if (i == 0)
			work(&s[0]);
		else if (pthread_create(&id[i], NULL, work, &s[i]) != 0)
			fail("no thread");
	}
	for (i = 1; i < b.n_thread; i++)
		pthread_join(id[i], NULL);
	return now() - t;
}

static void
compare_bits(const struct format *f, struct qwen_matmul m)
{
	eleven_product *ways[2] = { f->few, f->many };
	float *y[9], want[9][32];
	size_t i, t;

	m.r1 = 32;
	for (m.n_tok = 1; m.n_tok <= 9; m.n_tok++) {
		for (t = 0; t < 9; t++)
			y[t] = want[t];
		m.y = y;
		m.x = b.x[ELEVEN_FEW];
		plain(&m);
		m.y = b.y;
		for (i = 0; i < 2; i++) {
			ways[i](&m);
			for (t = 0; t < m.n_tok; t++) {
				if (memcmp(b.y[t], want[t], sizeof want[t]))
					fail("bits differ");
			}
		}
	}
}

/* n tokens by all ways in turn; the best times. */
static void
time_ways(eleven_product *const *ways, struct qwen_matmul m, double seconds,
    double *best)
{
	double end = now() + seconds, t;
	int i;

	for (i = 0; i < WAYS; i++)
		best[i] = INFINITY;
	do {
		for (i = 0; i < WAYS; i++) {
			m.x = b.x[i];
			if ((t = once(ways[i], m)) < best[i])
				best[i] = t;
		}
	} while (now() < end);
}

static void
bench_format(const struct format *f, const size_t *tokens,
    const struct qwen_kernels *v1, const struct qwen_kernels *v2)
{
	const struct qwen_quant *q = qwen_quant_find(f->type);
	struct qwen_matmul m = { .quant = q, .n_in = b.n_in, .y = b.y };
	eleven_product *ways[WAYS] = { v1->matmul[f->type]->run.matmul,
	    v1->gemm[f->type].by[QWEN_TOKEN_CLASSES - 1]->run.matmul, f->few, f->many,
	    v2->matmul[f->type]->run.matmul };
	double best[WAYS], t1, t3, mac;
	unsigned char *w;
	struct qwen_err err;
	uint64_t rng = 7;

	m.row_bytes = b.n_in / q->block_len * q->block_bytes;
	m.w = w = take(m.row_bytes * b.rows);
	if (qwen_gguf_random(f->type, w, b.rows * b.n_in, 0.02, &rng,
	    &err) < 0)
		fail(err.msg);
	compare_bits(f, m);
	for (; *tokens != 0; tokens++) {
		m.n_tok = *tokens;
		time_ways(ways, m, 1.0, best);
		t1 = fmin(best[V1_FEW], best[V1_MANY]);
		t3 = fmin(best[ELEVEN_FEW], best[ELEVEN_MANY]);
		mac = 1e-9 * (double)(b.rows * b.n_in * m.n_tok);
		printf("%-6s %3zu tokens: version 1 %5.1f GMAC/s, 3 %5.1f "
		    "(%.2f), 2 %5.1f (%.2f); version 1 %.1f GB/s, 3 %.1f\n",
		    f->name + 3, m.n_tok, mac / t1, mac / t3, t1 / t3,
		    mac / best[V2], t1 / best[V2],
		    1e-9 * (double)(m.row_bytes * b.rows) / t1,
		    1e-9 * (double)(m.row_bytes * b.rows) / t3);
		fflush(stdout);
	}
	free(w);
}

static int
speed(size_t n_in, size_t rows, int n_thread, const size_t *tokens)
{
	struct qwen_kernels v1, v2;
	unsigned features = 0;
	const struct format *f;

	if (qwen_cpu_level("avx512", &features) < 0 ||
	    (features & ~qwen_cpu_detect()) != 0)
		fail("no AVX-512 VNNI here");
	qwen_kernels_init(&v1, features, 1);
	qwen_kernels_init(&v2, features, 2);
	b.n_in = n_in;
	b.rows = rows;
	b.n_thread = n_thread;
	make_tokens(v1.vec->run.vec);
	for (f = formats; f->name != NULL; f++)
		bench_format(f, tokens, &v1, &v2);
	return 0;
}

/* ---- a model */

enum { PROMPT = 512, STEPS = 16, ROUNDS = 3 };

/* Tokens a second: of a prompt, and one by one after it. */
static void
run_model(struct qwen_model *m, double best[2])
{
	struct qwen_session *s;
	struct qwen_err err;
	int32_t id[PROMPT];
	double t;
	int i;

	for (i = 0; i < PROMPT; i++)
		id[i] = 100 + 7 * i;
	if (qwen_session_new(&s, m, &err) < 0)
		fail(err.msg);
	t = now();
	if (qwen_session_eval(s, id, PROMPT, NULL, &err) < 0)
		fail(err.msg);
	best[0] = fmax(best[0], PROMPT / (now() - t));
	t = now();
	for (i = 0; i < STEPS; i++) {
		if (qwen_session_eval(s, id + i, 1, NULL, &err) < 0)
			fail(err.msg);
	}
	best[1] = fmax(best[1], STEPS / (now() - t));
	qwen_session_free(s);
}

static int
model(const char *path)
{
	static const char *const names[] = { "version 1", "version 2",
	    "11 bits" };
	struct qwen_model_opts opts = { .n_threads = THREADS,
	    .cpu = "avx512" };
	struct qwen_model *m[3];
	double best[3][2] = { { 0 } };
	int i, k;

	for (i = 0; i < 3; i++) {
		opts.numerics = i == 1 ? 2 : 1;
		with = i == 2 ? PROTOTYPES : LIBRARY;
		m[i] = open_model(path, &opts);
	}
	for (k = 0; k < ROUNDS; k++) {
		for (i = 0; i < 3; i++)
			run_model(m[i], best[i]);
	}
	for (i = 0; i < 3; i++) {
		printf("%s: prefill %d %.1f tok/s (%.2f), decode %.2f "
		    "(%.2f)\n", names[i], PROMPT, best[i][0], best[i][0] /
		    best[0][0], best[i][1], best[i][1] / best[0][1]);
		qwen_model_close(m[i]);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	static const size_t many[] = { 1, 4, 16, 128, 0 }, one[] = { 1, 0 };
	const char *what = argc >= 2 ? argv[1] : "";

	if (argc == 3 && strcmp(what, "model") == 0)
		return model(argv[2]);
	if (argc == 2 && strcmp(what, "accuracy") == 0)
		return accuracy();
	if (argc == 2 && strcmp(what, "speed") == 0)
		return speed(2048, 256, 1, many);
	if (argc == 2 && strcmp(what, "memory") == 0)
		return speed(2048, 65536, THREADS, one);
	fprintf(stderr, "usage: eleven accuracy | speed | memory | model FILE\n");
	return 2;
}
