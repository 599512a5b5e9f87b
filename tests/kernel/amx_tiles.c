/* SPDX-License-Identifier: ISC */
/*
 * amx_tiles.c - the software model of AMX tiles computes what the instruction
 * set reference says and refuses what the hardware refuses; the library never
 * chooses kernels compiled for it.
 */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include "random.h"
#include "variants.h"

#if defined(__x86_64__)
#include "base/half.h"
#include "engine/cpu/kernel/x86/amx.h"

/* Sums of up to 16 x 16 over 64: rows of a, columns of sums, bytes of a. */
static void
shapes(struct amx_config *c, size_t m, size_t n, size_t k)
{
	memset(c, 0, sizeof *c);
	c->palette = 1;
	c->rows[0] = c->rows[1] = (uint8_t)m;
	c->colsb[0] = c->colsb[2] = (uint16_t)(4 * n);
	c->colsb[1] = (uint16_t)k;
	c->rows[2] = (uint8_t)(k / 4);
}

/* The products of bytes: signed or not is the first operand, the second. */
enum { UU, US, SU, SS };

static void
multiply(int kind)
{
	switch (kind) {
	case UU:
		amx_dpbuud(0, 1, 2);
		break;
	case US:
		amx_dpbusd(0, 1, 2);
		break;
	case SU:
		amx_dpbsud(0, 1, 2);
		break;
	default:
		amx_dpbssd(0, 1, 2);
	}
}

static int
product_is_right(int kind, size_t m, size_t n, size_t k)
{
	uint8_t a[16][64], b[16][64];
	int32_t sum[16][20], want;
	struct amx_config c;
	size_t i, j, l;
	int good = 1;

	for (i = 0; i < 16; i++) {
		for (j = 0; j < 64; j++) {
			a[i][j] = (uint8_t)random_u32();
			b[i][j] = (uint8_t)(j % 3 ? random_u32() : 0x80);
		}
	}
	for (i = 0; i < 16; i++)
		for (j = 0; j < 20; j++)
			sum[i][j] = 0x7ffffff0;
	shapes(&c, m, n, k);
	amx_config(&c);
	amx_load(0, sum, sizeof sum[0]);
	amx_load(1, a, 64);
	amx_load(2, b, 64);
	multiply(kind);
	amx_store(0, sum, sizeof sum[0]);
	amx_release();
	for (i = 0; i < 16; i++) {
		for (j = 0; j < 20; j++) {
			want = 0;
			for (l = 0; i < m && j < n && l < k; l++) {
				int x = a[i][l], y = b[l / 4][4 * j + l % 4];

				want += (kind >= SU ? (int8_t)x : x) *
				    (kind % 2 == 1 ? (int8_t)y : y);
			}
			good &= (uint32_t)sum[i][j] ==
			    0x7ffffff0u + (uint32_t)want;
		}
	}
	return good;
}

/* One sum over 32 columns of bf16: rows of a and columns of b are alike. */
static float
bf16_sum(float sum, const float a[32], const float b[32])
{
	uint16_t x[16][32], w[16][32];
	float c[16][16];
	struct amx_config config;
	size_t i, k;

	for (i = 0; i < 16; i++) {
		for (k = 0; k < 32; k++) {
			x[i][k] = (uint16_t)(qwen_f32_bits(a[k]) >> 16);
			w[k / 2][2 * i + k % 2] =
			    (uint16_t)(qwen_f32_bits(b[k]) >> 16);
		}
	}
	for (i = 0; i < 256; i++)
		c[i / 16][i % 16] = sum;
	shapes(&config, 16, 16, 64);
	amx_config(&config);
	amx_load(0, c, 64);
	amx_load(1, x, 64);
	amx_load(2, w, 64);
	amx_dpbf16(0, 1, 2);
	amx_store(0, c, 64);
	amx_release();
	for (i = 1; i < 256; i++) {
		if (memcmp(&c[i / 16][i % 16], &c[0][0], 4) != 0)
			return NAN;
	}
	return c[0][0];
}

/*
 * Sums whose value tells in what order, and how, they were added: the rules of
 * the instruction set reference.
 */
static void
check_bf16(void)
{
	float a[32] = { 0 }, b[32], none[32] = { 0 };
	size_t i;

	for (i = 0; i < 32; i++)
		b[i] = 1.0f;
	/* in one chain, a small number after 2^24 would be lost */
	a[0] = 0x1p24f;
	a[2] = -0x1p24f;
	a[1] = a[3] = 1.0f;
	ok(bf16_sum(0.0f, a, b) == 2.0f, "bf16: even and odd columns apart");
	a[2] = 1.0f;
	a[4] = -0x1p24f;
	ok(bf16_sum(0.0f, a, b) == 2.0f, "bf16: ascending, each rounded");
	a[0] = 1.0f;
	a[1] = a[2] = a[3] = a[4] = 0.0f;
	ok(bf16_sum(0x1p24f, a, b) == 0x1p24f &&
	    (a[1] = 1.0f, bf16_sum(0x1p24f, a, b)) == 0x1p24f + 2.0f,
	    "bf16: columns first, then the sum before");
	a[0] = 0x1.02p0f;
	a[1] = 0.0f;
	a[2] = -1.0f;
	b[0] = 0x1.02p0f;
	b[2] = 0x1.04p0f;
	ok(bf16_sum(0.0f, a, b) == 0x1p-14f, "bf16: products are not rounded");
	a[0] = 0x1p-120f;
	b[0] = 0x1p-10f;
	a[2] = 0.0f;
	ok(bf16_sum(0.0f, a, b) == 0.0f, "bf16: no subnormal comes out");
	a[0] = 0x1p-127f;
	b[0] = 0x1p10f;
	ok(bf16_sum(0.0f, a, b) == 0.0f &&
	    bf16_sum(0x1p-130f, none, b) == 0.0f, "bf16: nor does one go in");
}

/* ---- what must end the process */

static void
wrong_palette(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	c.palette = 2;
	amx_config(&c);
}

static void
too_many_rows(void)
{
	struct amx_config c;

	shapes(&c, 17, 16, 64);
	amx_config(&c);
}

static void
too_many_bytes(void)
{
	struct amx_config c;

	shapes(&c, 16, 17, 64);
	amx_config(&c);
}

static void
ninth_tile(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	c.rows[8] = c.colsb[8] = 4;
	amx_config(&c);
}

static void
rows_without_bytes(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	c.rows[3] = 1;
	amx_config(&c);
}

static void
reserved_bytes(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	c.reserved[5] = 1;
	amx_config(&c);
}

static void
not_configured(void)
{
	amx_zero(0);
}

static void
after_release(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	amx_config(&c);
	amx_release();
	amx_zero(0);
}

static void
tile_without_shape(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	amx_config(&c);
	amx_zero(3);
}

/* A product of the shapes with one of them spoilt. */
static void
product_with(int tile, size_t rows, size_t colsb)
{
	struct amx_config c;

	shapes(&c, 8, 16, 32);
	c.rows[tile] = (uint8_t)rows;
	c.colsb[tile] = (uint16_t)colsb;
	amx_config(&c);
	amx_dpbssd(0, 1, 2);
}

static void
depth_differs(void)
{
	product_with(2, 16, 64);
}

static void
rows_differ(void)
{
	product_with(1, 9, 32);
}

static void
columns_differ(void)
{
	product_with(2, 8, 32);
}

static void
half_dwords(void)
{
	product_with(1, 8, 34);
}

static void
tile_twice(void)
{
	struct amx_config c;

	shapes(&c, 16, 16, 64);
	amx_config(&c);
	amx_dpbssd(0, 1, 1);
}

static const struct {
	void		(*run)(void);
	const char	*what;
} faults[] = {
	{ wrong_palette, "another palette" },
	{ too_many_rows, "17 rows" },
	{ too_many_bytes, "68 bytes in a row" },
	{ ninth_tile, "a ninth tile" },
	{ rows_without_bytes, "rows without bytes" },
	{ reserved_bytes, "reserved bytes that are set" },
	{ not_configured, "a tile without a config" },
	{ after_release, "a tile after release" },
	{ tile_without_shape, "a tile without a shape" },
	{ depth_differs, "depths that differ" },
	{ rows_differ, "rows that differ" },
	{ columns_differ, "columns that differ" },
	{ half_dwords, "rows of half dwords" },
	{ tile_twice, "a product of a tile with itself" },
};

/* 1 if it aborts. */
static int
aborts(void (*run)(void))
{
	struct rlimit none = { 0, 0 };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		if (freopen("/dev/null", "w", stderr) == NULL)
			_exit(2);
		run();
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid &&
	    WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* ---- the kernels on it */

static int
is_modelled(const struct qwen_kernel *k)
{
	return strstr(k->name, "model") != NULL;
}

/* The library's table and choice, whatever the CPU has. */
static void
check_table(void)
{
	struct qwen_kernels k;
	size_t i, c, n = 0;

	for (i = 0; i < qwen_kernel_count(); i++)
		n += (size_t)is_modelled(qwen_kernel_get(i));
	ok(n == 0, "the library has no modelled kernel");
	ok(modelled_count() > 0, "the tests have %zu", modelled_count());
	for (i = 0; i < modelled_count(); i++)
		n += (size_t)!is_modelled(modelled_get(i));
	ok(n == 0, "which say so by their name");
	qwen_kernels_init(&k, ~0u, 1);
	for (n = i = 0; i < QT_N; i++)
		for (c = 0; c < QWEN_TOKEN_CLASSES; c++)
			n += k.gemm[i].by[c] != NULL &&
			    is_modelled(k.gemm[i].by[c]);
	ok(n == 0, "none is chosen for a CPU that has everything");
}

/* A product of zeros with zeros: does it use tiles, and give them back? */
static void
check_tiles_given_back(const struct qwen_kernel *k)
{
	const struct qwen_quant *q = qwen_quant_find(k->type);
	size_t row = qwen_quant_row_bytes(q->type, 512), t;
	size_t before = amx_model_products();
	unsigned char *w = calloc(32, row);
	/* a token: two groups of q8, or 512 numbers in bf16 */
	enum { TOKEN = 1024 };
	_Static_assert(2 * sizeof(struct qwen_q8) <= TOKEN, "room for both");
	unsigned char *x = aligned_alloc(64, 17 * TOKEN);
	float y[17][32];
	const void *xp[17];
	float *yp[17];
	void *packed;
	struct qwen_matmul m = { .w = w, .row_bytes = row, .n_in = 512,
	    .quant = q, .x = xp, .y = yp, .n_tok = 17, .r1 = 32 };

	memset(x, 0, 17 * TOKEN);
	for (t = 0; t < 17; t++) {
		xp[t] = x + t * TOKEN;
		yp[t] = y[t];
	}
	packed = variant_pack(k, &m);
	k->run.matmul(&m);
	free(packed);
	ok(amx_model_products() > before && !amx_model_in_use(),
	    "%s %s %s: tiles are used, and given back", variant_op(k),
	    qwen_ggml_name(q->type), k->name);
	free(w);
	free(x);
}

/* Does the probe multiply as much as it says? */
static void
check_probe(const struct qwen_kernel *k)
{
	size_t before = amx_model_products();

	k->run.probe->int8(3);
	ok((amx_model_products() - before) * 16 * 16 * 64 ==
	    3 * k->run.probe->int8_macs && !amx_model_in_use(),
	    "probe %s: a step is %zu multiply-adds", k->name,
	    k->run.probe->int8_macs);
}

int
main(void)
{
	static const size_t sizes[][3] = { { 16, 16, 64 }, { 9, 16, 32 },
	    { 1, 1, 4 }, { 16, 5, 12 } };
	const struct qwen_kernel *k;
	size_t i;

	for (i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++) {
		const size_t *n = sizes[i / 4];

		ok(product_is_right((int)(i % 4), n[0], n[1], n[2]),
		    "%zu x %zu sums over %zu of bytes, %s", n[0], n[1], n[2],
		    (const char *const[]){ "unsigned", "the second signed",
		    "the first signed", "signed" }[i % 4]);
	}
	check_bf16();
	for (i = 0; i < sizeof faults / sizeof faults[0]; i++)
		ok(aborts(faults[i].run), "%s: ends the process",
		    faults[i].what);
	check_table();
	for (i = 0; (k = modelled_get(i)) != NULL; i++) {
		if ((k->need & ~qwen_cpu_detect()) != 0)
			skip(k->name, "this CPU lacks AVX-512");
		else if (variant_is_gemm(k))
			check_tiles_given_back(k);
		else
			check_probe(k);
	}
	return done_testing();
}

#else

int
main(void)
{
	skip("AMX", "another kind of processor");
	return done_testing();
}

#endif
