/* SPDX-License-Identifier: ISC */
/*
 * bits.c - logits and states have exactly the bits listed in bits.tsv, on every
 * processor: a state saved on one machine can be continued on another.  For a
 * new numerics version run `bits -w >tests/golden/bits.tsv'.  Its columns are
 * the model (and the KV cache type, unless f16), numerics version, hash of
 * logits, and hash of state.
 *	bits [LEVEL...]		all levels, or these
 *	mpirun -n 3 bits mpi:1:1:1	or moving-mpi: layers on other ranks of MPI
 *
 * With AVX-512 there is one more level, "tiles": GEMMs by AMX on its software
 * model, even for the fewest tokens, packed like those of models.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "engine/cpu/cpu.h"
#include "engine/model.h"
#include "engine/pass/open.h"
#include "engine/plain/plain.h"
#include "engine/timeline/timeline.h"
#include "qwen.h"
#include "qwentext.h"
#include "../kernel/variants.h"
#include "../levels.h"
#include "../tap.h"

static const size_t first = 50;		/* tokens at once, others one by one */

struct hashes {
	uint64_t	logits, state;
};

/* In this order; of 3 where it differs from 1. */
static const unsigned versions[] = { 1, 4, 3 };

/* Keys and values; so many of the versions are written down. */
static const struct kind {
	const char	*suffix;
	enum qwen_kv	 k, v;
	size_t		 n_version;
} kinds[] = {
	{ "", QWEN_KV_F16, QWEN_KV_F16, 3 },
	{ ":q8_0", QWEN_KV_Q8_0, QWEN_KV_Q8_0, 2 },
	{ ":q4_0", QWEN_KV_Q4_0, QWEN_KV_Q4_0, 1 },
	{ ":f32", QWEN_KV_F32, QWEN_KV_F32, 1 },
};

/* FNV-1a over the bytes, as they lie in a little-endian machine. */
static void
hash(uint64_t *h, const void *p, size_t n)
{
	const unsigned char *b = p;

	while (n-- > 0)
		*h = (*h ^ *b++) * 0x100000001b3;
}

struct row {
	size_t		 n_vocab;
	uint64_t	*h;
};

static int
take(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct row *r = arg;

	(void)pos;
	(void)err;
	hash(r->h, logits, r->n_vocab * sizeof *logits);
	return 0;
}

static void
hash_state(uint64_t *h, const struct qwen_session *s)
{
	size_t i, j;

	for (i = 0; i < s->mem.n_layer; i++) {
		const struct qwen_layer_state *l = &s->mem.layer[i];

		for (j = 0; j < l->n_block; j++)
			hash(h, l->block[j], l->kv_block_bytes);
		hash(h, l->s, l->n_s * sizeof *l->s);
		hash(h, l->conv, l->n_conv * sizeof *l->conv);
	}
}

/* All products of many tokens by modelled tiles, where there is one. */
static void
use_tiles(struct qwen_model *m)
{
	struct qwen_cpu *cpu = (struct qwen_cpu *)(void *)m->place.on[0];
	size_t bytes[QWEN_PACK_KINDS] = { 0 }, i, c;
	const struct qwen_kernel *k;
	uint32_t type;

	for (i = 0; (k = modelled_get(i)) != NULL; i++) {
		for (type = 0; type < QT_N; type++) {
			const struct qwen_quant *q = qwen_quant_find(type);

			if (q == NULL || !variant_is_gemm(k) ||
			    variant_is_bf16(k) != (qwen_operand_of(q, 32,
			    m->net.numerics) == QWEN_AS_BF16) ||
			    !qwen_kernel_fits(k, q) || (k->type != type &&
			    cpu->kernels.gemm[type].by[0] != NULL))
				continue;
			for (c = 0; c < QWEN_TOKEN_CLASSES; c++)
				cpu->kernels.gemm[type].by[c] = k;
		}
		if (k->packing != NULL)
			bytes[k->packing->kind] = k->packing->bytes;
	}
	for (i = 0; i < QWEN_PACK_KINDS; i++)
		cpu->kernels.pack_bytes += bytes[i];
}

/*
 * Homes of layers on another device, besides the levels of the CPU; "moving" is a
 * new home for each pass.  The memory of the device ends the process if anybody
 * else touches it.
 */
static const char *const devices[] = { "plain", "plain:1", "moving" };
#define N_DEVICES (sizeof devices / sizeof devices[0])

static size_t n_checked;	/* lines of bits.tsv so far */

/* The same for a card, or the fake driver of tests/cuda: only if asked for. */
static const char *const cards[] = { "cuda:0", "cuda:0@1", "moving-cuda" };
#define N_CARDS (sizeof cards / sizeof cards[0])

/* The same for ranks of MPI. */
static const char *const ranks[] = { "mpi:1:1:1", "moving-mpi" };
#define N_RANKS (sizeof ranks / sizeof ranks[0])

/* Returns 1 if this process is not rank 0, and has served it until it moved on. */
static int
go_to(struct qwen_model *m, const char *device)
{
	size_t i;
	int rc;

	if (qwen_place(m, device, NULL) < 0)
		return -1;
	if ((rc = qwen_model_serve(m, NULL)) != 0)
		return rc > 0 ? 1 : -1;
	for (i = 1; i < m->place.n; i++) {
		if (m->place.on[i]->dev == &qwen_plain_device)
			qwen_plain_guard(m->place.on[i], 1);
	}
	return 0;
}

static int
is_device(const char *level)
{
	size_t i;

	for (i = 0; i < N_DEVICES; i++) {
		if (strcmp(devices[i], level) == 0)
			return 1;
	}
	for (i = 0; i < N_CARDS; i++) {
		if (strcmp(cards[i], level) == 0)
			return 1;
	}
	for (i = 0; i < N_RANKS; i++) {
		if (strcmp(ranks[i], level) == 0)
			return 1;
	}
	return 0;
}

static int
evaluate(const struct golden_model *g, const struct golden_case *c,
    const struct kind *kv, const char *level, unsigned numerics,
    struct hashes *out)
{
	static const char *const plain[] = { "plain", NULL, "plain:1" };
	static const char *const card[] = { "cuda:0", NULL, "cuda:0@1,plain:0" };
	static const char *const mpi[] = { "mpi:1:2:1", NULL, "mpi:3:0:1" };
	const char *const *moves = strcmp(level, "moving") == 0 ? plain :
	    strcmp(level, "moving-mpi") == 0 ? mpi : card;
	int tiles = strcmp(level, "tiles") == 0;
	int moving = strncmp(level, "moving", 6) == 0;
	int device = is_device(level);
	struct qwen_model_opts opts = { .n_threads = 2, .cpu = tiles ?
	    "avx512" : device ? NULL : level, .numerics = numerics,
	    .k = kv->k, .v = kv->v };
	struct row row = { g->n_vocab, &out->logits };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = take,
	    .arg = &row };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	size_t i, n;
	int rc, other = 0;

	out->logits = out->state = 0xcbf29ce484222325;
	if (qwen_model_open(&m, g->path, &opts, NULL) < 0)
		return -1;
	if (tiles)
		use_tiles(m);
	rc = device && !moving ? go_to(m, level) : 0;
	rc = rc == 0 ? qwen_session_new(&s, m, NULL) : rc;
	for (i = 0; (rc == 0 || other) && i < c->n_tokens; i += n) {
		n = i == 0 ? first : 1;
		if (moving)
			rc = go_to(m, moves[i % 3]);
		other |= rc == 1;
		rc = rc == 0 && !other ? qwen_session_eval(s, c->tokens + i, n, &how,
		    NULL) : rc;
	}
	if (rc == 0) {
		qwen_memory_return(s);
		hash_state(&out->state, s);
	}
	qwen_session_free(s);
	qwen_model_close(m);
	return other ? 1 : rc;
}

/* What is written down for the model; 0 if nothing is. */
static int
look_up(const char *name, const struct kind *kv, unsigned numerics,
    struct hashes *want)
{
	FILE *f = fopen("tests/golden/bits.tsv", "r");
	char word[64], full[64];
	unsigned version;
	int found = 0;

	snprintf(full, sizeof full, "%s%s", name, kv->suffix);
	while (f != NULL && !found && fscanf(f, "%63s %u %" SCNx64 " %" SCNx64,
	    word, &version, &want->logits, &want->state) == 4)
		found = strcmp(word, full) == 0 && version == numerics;
	if (f != NULL)
		fclose(f);
	return found;
}

/* Does the model come with the source, so that it must be written down? */
static int
is_ours(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "tests/golden/models/%s", name);
	return access(path, F_OK) == 0;
}

/* Whole numbers come in 32s. */
static int
has_kind(const struct golden_model *g, const struct kind *kv)
{
	struct qwen_model_opts opts = { .n_threads = 1, .k = kv->k,
	    .v = kv->v };
	struct qwen_model *m;
	struct qwen_err err;

	if (qwen_model_open(&m, g->path, &opts, &err) < 0)
		return strstr(err.msg, "head size 16") == NULL;
	qwen_model_close(m);
	return 1;
}

static int
wanted(const char *level, char **list)
{
	int any = *list != NULL;

	for (; *list != NULL; list++) {
		if (strcmp(*list, level) == 0)
			return 1;
	}
	return !any;
}

static void
check_level(const struct golden_model *g, const struct golden_case *c,
    const struct kind *kv, unsigned numerics, const char *level,
    const struct hashes *want)
{
	struct hashes got;
	int rc = evaluate(g, c, kv, level, numerics, &got);

	if (rc == 1)		/* rank 0 reports it */
		return;
	ok(rc == 0 && got.logits == want->logits, "%s%s, version %u: logits, %s",
	    g->name, kv->suffix, numerics, level);
	ok(got.state == want->state, "%s%s, version %u: state, %s", g->name,
	    kv->suffix, numerics, level);
}

/*
 * Returns 1 if all homes on cards are checked.  The emulated card is slow: make
 * check takes every fourth line of bits.tsv, and one home for it.
 */
static int
every_card(void)
{
	return getenv("QPIPE_LONG") != NULL || getenv("CARD") != NULL;
}

static int
check(const struct golden_model *g, const struct golden_case *c,
    const struct kind *kv, unsigned numerics, char **list)
{
	struct hashes want;
	size_t l;

	if (!look_up(g->name, kv, numerics, &want)) {
		if (numerics != 3 && is_ours(g->name) && has_kind(g, kv))
			ok(0, "%s%s, version %u: no line in bits.tsv", g->name,
			    kv->suffix, numerics);
		return 0;
	}
	for (l = 0; l < N_LEVELS; l++) {
		if (qwen_cpu_check(levels[l]) != 1 ||
		    !wanted(levels[l], list) || !level_differs(l, numerics))
			continue;
		check_level(g, c, kv, numerics, levels[l], &want);
	}
	for (l = 0; l < N_DEVICES; l++) {
		if (wanted(devices[l], list))
			check_level(g, c, kv, numerics, devices[l], &want);
	}
	for (l = 0; l < N_RANKS; l++) {
		if (*list != NULL && wanted(ranks[l], list))
			check_level(g, c, kv, numerics, ranks[l], &want);
	}
	for (l = 0; l < N_CARDS; l++) {
		if (*list != NULL && wanted(cards[l], list) &&
		    (every_card() || n_checked % (4 * N_CARDS) == 4 * l))
			check_level(g, c, kv, numerics, cards[l], &want);
	}
	n_checked++;
	/* products have nothing to do with how keys and values are kept */
	if ((qwen_cpu_detect() & QWEN_CPU_AVX512VNNI) != 0 &&
	    wanted("tiles", list) && (kv == kinds ||
	    getenv("QPIPE_LONG") != NULL))
		check_level(g, c, kv, numerics, "tiles", &want);
	return 1;
}

static void
write_down(const struct golden_model *g, const struct golden_case *c,
    const struct kind *kv, unsigned numerics)
{
	struct hashes h, one;

	if (evaluate(g, c, kv, "scalar", numerics, &h) == 0 &&
	    (numerics != 3 || (evaluate(g, c, kv, "scalar", 1, &one) == 0 &&
	    h.logits != one.logits)))
		printf("%s%s\t%u\t%016" PRIx64 "\t%016" PRIx64 "\n", g->name,
		    kv->suffix, numerics, h.logits, h.state);
}

static int
each_kind(const struct golden_model *g, const struct golden_case *c, int put,
    char **list)
{
	size_t i, v;
	int seen = 0;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		for (v = 0; v < kinds[i].n_version; v++) {
			if (put)
				write_down(g, c, &kinds[i], versions[v]);
			else
				seen += check(g, c, &kinds[i], versions[v],
				    list);
		}
	}
	return seen;
}

int
main(int argc, char *argv[])
{
	int put = argc > 1 && strcmp(argv[1], "-w") == 0, seen = 0;
	struct golden_model *g;
	size_t i, j, n = golden_load(&g);

	for (i = 0; i < n; i++) {
		for (j = 0; j < g[i].n_case; j++) {
			const struct golden_case *c = &g[i].cases[j];

			if (c->n_rows > 0 && strcmp(c->name, "n65") == 0)
				seen += each_kind(&g[i], c, put, argv + 1);
		}
	}
	golden_free(g, n);
	if (put)
		return 0;
	ok(seen >= 10, "%d models in two versions", seen);
	return done_testing();
}
