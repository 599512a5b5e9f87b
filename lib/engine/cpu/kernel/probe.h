/* SPDX-License-Identifier: ISC */
/*
 * probe.h - measures how fast registers are read and multiplied, with CHAINS
 * independent chains, more than the latency of any multiplier needs.
 *
 * The including file defines CHAINS; EACH_CHAIN as TWELVE or SIXTEEN; the
 * register types vec_i and vec_f; f32_step(), a fused multiply-add; and
 * UNKNOWN(), which hides a value from the compiler without an instruction.
 * INT8_OP is the name of the instruction in int8_step(), which adds INT8_MACS
 * products of bytes to s.  Without INT8_OP there are only read_all() and f32().
 */
enum { ROUNDS = 8 };

/* A register of any type, as memory. */
typedef uint64_t vec_u __attribute__((vector_size(sizeof(vec_f)), may_alias));

#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) \
	DO(9) DO(10) DO(11)
#define SIXTEEN(DO) TWELVE(DO) DO(12) DO(13) DO(14) DO(15)

static inline uint64_t
sum_lanes(vec_u v)
{
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < sizeof v / sizeof sum; i++)
		sum += v[i];
	return sum;
}

static uint64_t
read_all(const void *p, size_t n)
{
	const vec_u *w = p, *end = w + n / sizeof *w;
	vec_u s[4] = { { 0 } };

	for (; w < end; w += 4) {
		s[0] += w[0];
		s[1] += w[1];
		s[2] += w[2];
		s[3] += w[3];
	}
	return sum_lanes((s[0] + s[1]) + (s[2] + s[3]));
}

static uint64_t
f32(size_t n)
{
	vec_f s[CHAINS] = { { 0 } }, a = s[0] + 0.5f, b = a;
	int i, k;

	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) \
		UNKNOWN(a); \
		s[i] = f32_step(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			EACH_CHAIN(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] += s[i];
	return (uint64_t)s[0][0];
}

#ifdef INT8_OP
static uint64_t
int8(size_t n)
{
	const vec_u zero = { 0 };
	vec_i s[CHAINS] = { { 0 } };
	vec_i a = (vec_i)(zero + 0x0101010101010101), b = (vec_i)~zero;
	int i, k;

	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) \
		UNKNOWN(a); \
		s[i] = int8_step(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			EACH_CHAIN(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] += s[i];
	return sum_lanes((vec_u)s[0]);
}

static const struct qwen_probe probe = {
	.int8_op = INT8_OP, .read = read_all,
	.int8 = int8, .int8_macs = (size_t)INT8_MACS * CHAINS * ROUNDS,
	.f32 = f32, .f32_macs = sizeof(vec_f) / 4 * CHAINS * ROUNDS,
};
#endif
